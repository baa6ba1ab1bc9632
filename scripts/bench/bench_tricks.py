"""Tricks of pages to reach a service of this machine: those in `tricks.json`, each in a walk and in a bare browser.

The service counts connections and datagrams on 127.0.0.1 and ::1, and hears none from a walk. A trick that the service
does not hear from the bare browser either proves nothing; how many it hears is printed.

    just bench tricks [--only WebTransport]
"""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agentlearn.serving.http11 import HttpRequest, HttpResponse, listening
from agentlearn_web.boundary.access_policy import AccessPolicy
from agentlearn_web.browser.chromium import find_chromium
from agentlearn_web.browser.pool import BrowserOptions, open_browsers
from scripts.bench.found import Found, Row, Target
from tests.support.attacks import HAS_IPV6
from tests.support.inside import Inside, inside

TRICKS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "tricks.json").read_text("utf-8"))
MOST_ACTS = 6
SETTLE_S = 1.5
"""How long a page is given before the counts are read."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--only", nargs="*", help="the tricks to try")


def measure(chosen: argparse.Namespace) -> Found:
    """Try the tricks in a walk, then in a bare browser."""
    return asyncio.run(_measure(chosen.only or list(TRICKS)))


async def _measure(names: list[str]) -> Found:
    async with inside(["127.0.0.1", *(["::1"] if HAS_IPV6 else [])]) as inner, listening(_site(inner.port)) as port:
        walked = {name: await _walked(name, port, inner) for name in names}
        bare = await _bare(names, port, inner)
    rows = [Row(name=name, figures={"walk_contacts": walked[name], "bare_contacts": bare[name]}) for name in names]
    heard = sum(map(bool, bare.values()))
    targets = (
        Target(what="contacts of the service from walks", figure=float(sum(walked.values())), bound="at_most", limit=0),
    )
    return Found(rows=tuple(rows), targets=targets, notes=(f"{heard} of {len(names)} are heard from the bare browser",))


def _site(port: int) -> Callable[[HttpRequest], Awaitable[HttpResponse]]:
    async def app(request: HttpRequest) -> HttpResponse:
        number = request.path.strip("/")
        if request.path == "/to":
            return HttpResponse(302, b"", headers={"location": f"http://127.0.0.1:{port}/x"})
        if request.path == "/xml":
            text = f"<?xml-stylesheet type='text/xsl' href='http://127.0.0.1:{port}/x'?><a/>"
            return HttpResponse(200, text.encode(), content_type="text/xml")
        if request.path == "/sw.js":
            text = f"fetch('http://127.0.0.1:{port}/x',{{mode:'no-cors'}})"
            return HttpResponse(200, text.encode(), content_type="text/javascript")
        if not number.isdecimal():
            return HttpResponse(404, b"", content_type="text/plain")
        trick = list(TRICKS.values())[int(number)]
        headers = {name: value.replace("{port}", str(port)) for name, value in trick.get("headers", {}).items()}
        html = "<!doctype html><meta charset=utf-8><title>Page</title>" + trick["html"].replace("{port}", str(port))
        return HttpResponse(200, html.encode(), headers=headers, content_type="text/html; charset=utf-8")

    return app


def _contacts(inner: Inside) -> int:
    taken = inner.taken()
    return taken.connections + taken.packets


async def _walked(name: str, port: int, inner: Inside) -> int:
    """Return the contacts while a walk opens a trick, hovers, clicks and writes in all that it shows, and leaves."""
    policy = AccessPolicy(public=True, served={"evil.test": ("127.0.0.1", port)})
    async with open_browsers(BrowserOptions(walkers=1)) as browsers, browsers.walk(policy) as walk:
        url = f"http://evil.test/{list(TRICKS).index(name)}"
        seen = await walk.open(url)
        for at in range(MOST_ACTS):
            refs = [one.ref for one in seen.lines if one.ref]
            if at >= len(refs):
                break
            await walk.hover(refs[at])
            await walk.click(refs[at])
            await walk.press(text="x")
            seen = await walk.open(url)
        await walk.scroll("end")
        await asyncio.sleep(SETTLE_S)
        await walk.back()
    return _contacts(inner)


async def _bare(names: list[str], port: int, inner: Inside) -> dict[str, int]:
    from playwright.async_api import Error, async_playwright

    found = dict[str, int]()
    rules = f"--host-resolver-rules=MAP evil.test 127.0.0.1:{port}"
    async with async_playwright() as pw:
        for name in names:
            browser = await pw.chromium.launch(
                executable_path=find_chromium().path, chromium_sandbox=False, args=[rules]
            )
            try:
                page = await browser.new_page()
                await page.goto(f"http://evil.test/{list(TRICKS).index(name)}", wait_until="commit")
                await asyncio.sleep(0.5)
                for one in await page.query_selector_all("a,button"):
                    await one.click(timeout=1000, no_wait_after=True)
            except Error:
                pass
            await asyncio.sleep(SETTLE_S)
            await browser.close()
            found[name] = _contacts(inner)
    return found
