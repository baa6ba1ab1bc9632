"""Time in milliseconds to open a page of 10 kB in the browser, with the access proxy and without it.

Pages are opened alternately with and without the proxy in one browser, so that load on the machine affects both
equally. The target limits the ratio of the two medians to 1.1.

    just bench guard --pages 200
"""

import argparse
import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

from agentlearn.serving.http11 import HttpRequest, HttpResponse, listening
from agentlearn_web.boundary.access_policy import FLAGS, AccessPolicy
from agentlearn_web.boundary.proxy import open_proxy
from agentlearn_web.browser.chromium import find_chromium
from scripts.bench.found import Found, Row, Target

LIMIT = 1.1
WARM = 5
"""Number of warm-up pages per way; these are not timed."""
BODY = b"<!doctype html><title>page</title>" + b"<p>ten kilobytes of a page</p>\n" * 330


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--pages", type=int, default=200, help="timed pages, with and without the proxy each")
    parser.add_argument("--browser", default="", help="path of the browser program (default: the same as for walks)")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure the time of `goto` in ms with and without the proxy, and the ratio."""
    return asyncio.run(guard_overhead(chosen.browser or find_chromium().path, chosen.pages))


async def guard_overhead(program: str | Path, pages: int) -> Found:
    """Return the p50 and p90 of `goto` with and without the proxy, measured alternately."""
    async with _two_ways(program) as ways:
        took: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(-WARM, pages):
            for name, (page, url) in ways.items():
                began = time.perf_counter()
                await page.goto(f"{url}{number}")
                if number >= 0:
                    took[name].append(time.perf_counter() - began)
    rows = tuple(Row(name=name, figures=_figures(times)) for name, times in took.items())
    ratio = median(took["with the proxy"]) / median(took["without"])
    target = Target(what="goto with the guard / without, p50", figure=ratio, bound="at_most", limit=LIMIT)
    return Found(rows=rows, targets=(target,))


@asynccontextmanager
async def _two_ways(program: str | Path) -> AsyncGenerator[dict[str, tuple[Any, str]]]:
    """Yield one page that uses the proxy and one that does not, each with its address of the same site."""
    from playwright.async_api import async_playwright

    async def site(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, BODY, content_type="text/html")

    async with listening(site) as port, async_playwright() as pw:
        browser = await pw.chromium.launch(executable_path=program, args=list(FLAGS), chromium_sandbox=False)
        try:
            async with open_proxy(AccessPolicy(public=False, served={"site.test": ("127.0.0.1", port)})) as session:
                guarded = await browser.new_context(**session.context_options())
                bare = await browser.new_context()
                yield {
                    "with the proxy": (await guarded.new_page(), "http://site.test/"),
                    "without": (await bare.new_page(), f"http://127.0.0.1:{port}/"),
                }
                await guarded.close()
        finally:
            await browser.close()


def _figures(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {"goto_p50_ms": 1000 * median(ordered), "goto_p90_ms": 1000 * ordered[int(0.9 * len(ordered))]}
