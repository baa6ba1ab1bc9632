"""Nothing that a page does makes a real Chromium reach a private service: each way is tried, seen refused, and real.

One run of the browser makes all the evidence, and each test looks at one piece of it. One page with most of the ways is
also opened in a browser without the boundary, where they do reach the service: a way that could not proves nothing.

Skipped where no Chromium is installed: `apt-get install --no-install-recommends chromium-headless-shell` brings one.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentlearn.errors import ConfigError
from agentlearn.serving.http11 import HttpRequest, HttpResponse, listening
from agentlearn_web.boundary.access_policy import (
    FLAGS,
    AccessPolicy,
    HostPort,
    RefusedConnection,
    read_allowed_host,
    scheme_allowed,
    walk_policy,
)
from agentlearn_web.boundary.proxy import ProxySession, open_proxy
from agentlearn_web.boundary.upstream import Streams
from agentlearn_web.browser.chromium import find_chromium
from tests.support.attacks import HAS_IPV6, PUBLISHED, Case, cases, respond
from tests.support.inside import SECRET, Inside, inside

pytestmark = pytest.mark.slow

pytest.importorskip("playwright")

try:
    PROGRAM = find_chromium().path
except ConfigError as error:
    pytest.skip(error.message, allow_module_level=True)

CASES = {case.name: case for case in cases()}
DIRECT = [case for case in CASES.values() if not case.redirected]
CONTROL = [case for case in DIRECT if not case.alone]
"""Those that share one page, which is also opened without the boundary. `tests/unit/web/test_proxy.py` has the proxy's
own refusals, and its limits of size."""
HOME, STUN, WORKER, OPEN = "127.0.0.1", "127.3.0.1", "127.3.0.2", "127.3.0.3"
ADDRESSES = dict.fromkeys(
    [HOME, STUN, WORKER, OPEN, *(case.address for case in CASES.values() if case.address != "::1")]
)
PATIENCE_S = 30.0
"""How long to wait for something that must happen."""
SETTLE_S = 0.4
"""How long to wait for something that must not happen, after all refusals have been seen."""
PUBLIC = "93.184.216.34"
FOREIGN = "rebind.foreign.org"
"""A public site, which the resolver knows."""
"""Private addresses of other machines, not tried without the proxy. By default browsers reach some of them directly."""
WEBRTC = """async (servers) => {
  const peer = new RTCPeerConnection({iceServers: servers});
  peer.createDataChannel("x");
  const done = new Promise((end) => { peer.onicegatheringstatechange = () =>
    peer.iceGatheringState === "complete" && end("complete"); setTimeout(() => end("still gathering"), 1500); });
  await peer.setLocalDescription(await peer.createOffer());
  return await done;
}"""
SERVICE_WORKER = """async (inside) => {
  if (!navigator.serviceWorker) return "none";
  try {
    const made = await Promise.race([navigator.serviceWorker.register("/worker.js"),
      new Promise((_, fail) => setTimeout(() => fail("late"), 15000))]);
    return made ? "registered" : "nothing";
  } catch (error) { return String(error); }
}"""
WORKER_SCRIPT = """
self.addEventListener("install", (event) => event.waitUntil(fetch("%s", {mode: "no-cors"}).catch(() => 0)));
"""
FILES = """async (url) => {
  const read = [];
  const frame = document.createElement("iframe");
  frame.src = url;
  document.body.append(frame);
  const popup = window.open(url);
  const image = new Image();
  image.src = url;
  const script = document.createElement("script");
  script.src = url;
  document.body.append(script);
  try { read.push(await (await fetch(url)).text()); } catch (error) { read.push(String(error)); }
  const request = new XMLHttpRequest();
  try { request.open("GET", url, false); request.send(); read.push(request.responseText); } catch (error) {}
  const link = document.createElement("a");
  link.href = url;
  document.body.append(link);
  link.click();
  location = url;
  await new Promise((end) => setTimeout(end, 100));
  return read.join(" ");
}"""


@dataclass
class Evidence:
    """The results of one run of the browsers."""

    guarded: Inside = field(default_factory=lambda: Inside(0))
    """What reached the private service from walks behind the proxy that do not name it."""
    refused: tuple[RefusedConnection, ...] = ()
    asked_names: tuple[str, ...] = ()
    """Names that the pages made the resolver look up."""
    bare: Inside = field(default_factory=lambda: Inside(0))
    """What reached the private service from a browser without the proxy."""
    named: Inside = field(default_factory=lambda: Inside(0))
    named_refused: tuple[RefusedConnection, ...] = ()
    said: dict[str, Any] = field(default_factory=dict)
    """Further observations, by name."""


def evil(port: int) -> Callable[[HttpRequest], Awaitable[HttpResponse]]:
    """The public site whose pages attack."""

    async def app(request: HttpRequest) -> HttpResponse:
        match request.path:
            case "/worker.js":
                text = WORKER_SCRIPT % f"http://{WORKER}:{port}/secret"
                return HttpResponse(200, text.encode(), content_type="text/javascript")
            case "/print":
                text = b"<title>before</title><script>print(); document.title = 'after'</script>"
                return HttpResponse(200, text, content_type="text/html")
            case "/download":
                headers = {"content-disposition": "attachment; filename=x.bin"}
                return HttpResponse(200, b"x" * 1000, headers=headers, content_type="application/octet-stream")
            case _:
                return respond(request, port, CASES)

    return app


async def wait_for(done: Callable[[], bool], *, at_most_s: float = PATIENCE_S) -> None:
    """Wait until the condition holds, or the time is over; the tests report what is missing."""
    end = time.monotonic() + at_most_s
    while not done() and time.monotonic() < end:
        await asyncio.sleep(0.02)


async def run_battery(
    context: Any, tried: Callable[[Case], bool], together: str = "all", cases: Sequence[Case] = tuple(CASES.values())
) -> None:
    """Run the cases: those that can share a page, then the others alone. tried: whether a case had its effect."""
    page = await context.new_page()
    await opened(page, f"http://evil.test/{together}")
    alone = await context.new_page()
    for case in cases:
        if case.alone:
            await left(alone, f"http://evil.test/case/{case.name.replace(' ', '-')}")
            await wait_for(lambda case=case: tried(case), at_most_s=15)
    await wait_for(lambda: all(tried(case) for case in cases if case.sure))


class Walks:
    """Walks of one browser behind the proxy, and the fake internet outside."""

    def __init__(self, browser: Any, port: int) -> None:
        self._browser = browser
        self._served = {"evil.test": (HOME, port), "evil.localhost": (HOME, port)}
        self.port = port
        self.requests: list[str] = []

    async def resolve(self, name: str, port: int) -> Sequence[str]:
        """A name server that first returns a public address, then loopback, and knows no other name."""
        self.requests.append(name)
        if not name.startswith("rebind"):
            raise OSError("no such name")
        return [PUBLIC] if self.requests.count(name) == 1 else [HOME]

    async def dial(self, address: str, port: int) -> Streams:
        """Connect the public address to the attacking site."""
        if address == PUBLIC:
            return await asyncio.open_connection(HOME, self.port)
        return await asyncio.open_connection(address, port)

    @asynccontextmanager
    async def walk(
        self,
        *,
        named: frozenset[HostPort] = frozenset(),
        policy: AccessPolicy | None = None,
        **more: Any,
    ) -> AsyncGenerator[tuple[Any, ProxySession]]:
        """A browser context with a separate proxy."""
        policy = policy or AccessPolicy(public=True, named=named, served=self._served)
        async with open_proxy(policy, resolve=self.resolve, dial=self.dial) as session:
            context = await self._browser.new_context(**{**session.context_options(), **more})
            try:
                yield context, session
            finally:
                await context.close()


async def guarded(walks: Walks, inner: Inside, found: Evidence, secret: Path) -> None:
    """Everything that is tried behind the proxy."""
    async with walks.walk() as (context, session):
        refused = list[RefusedConnection]()

        def was_refused(case: Case) -> bool:
            refused.extend(session.drain())
            return any(case.refused_as == one.host for one in refused)

        await run_battery(context, was_refused)
        await asyncio.sleep(SETTLE_S)
        found.refused = (*refused, *session.drain())
        found.asked_names = tuple(walks.requests)
    for attempt in (
        *(workers, webrtc, view_source, files, rebinding, odds),
        *(private_site, allowed_site),
    ):
        await attempt(walks, inner, found, secret)


async def private_site(walks: Walks, inner: Inside, found: Evidence, _: Path) -> None:
    """A page of a private start tries every way to other private services, and to a foreign site."""
    start = f"http://{HOME}:{walks.port}/direct"
    async with walks.walk(policy=walk_policy(start)) as (context, session):
        found.said["private site"] = await tried_abroad(context, session, start), FOREIGN in walks.requests


async def allowed_site(walks: Walks, inner: Inside, found: Evidence, _: Path) -> None:
    """A page of a public start does the same, in a walk for which the user allows one private host."""
    start = f"http://rebind.first.org:{walks.port}/direct"
    async with walks.walk(policy=walk_policy(start, read_allowed_host(f"{OPEN}:1"))) as (context, session):
        found.said["allowed site"] = await tried_abroad(context, session, start), FOREIGN in walks.requests


async def tried_abroad(context: Any, session: ProxySession, start: str) -> list[RefusedConnection]:
    """Open the attacking page, try a foreign site from it too, and return what was refused."""
    page = await context.new_page()
    await opened(page, start)
    refused = list[RefusedConnection]()
    acts = {**PUBLISHED, "websocket": "new WebSocket(u.replace('http', 'ws'))"}

    def tried() -> bool:
        refused.extend(session.drain())
        hosts = Counter(one.host for one in refused)
        return hosts[FOREIGN] >= len(acts) and all(hosts[case.refused_as] for case in CONTROL if case.sure)

    for number, act in enumerate(acts.values()):
        await page.evaluate(f"(u) => {{ {act} }}", f"http://{FOREIGN}/{number}")
    await wait_for(tried)
    await left(page, f"http://{FOREIGN}/")
    return [*refused, *session.drain()]


async def opened(page: Any, url: str) -> None:
    """Open a page that attacks. Its load event may never come: Chromium can lose the end of a refused frame."""
    await page.goto(url, timeout=150_000, wait_until="domcontentloaded")  # on a machine that may be busy


async def workers(walks: Walks, inner: Inside, found: Evidence, _: Path) -> None:
    for name, more in (("blocked", {}), ("allowed", {"service_workers": "allow"})):
        async with walks.walk(**more) as (context, session):
            page = await context.new_page()
            await page.goto("http://evil.localhost/")
            said = await page.evaluate(SERVICE_WORKER, inner.port)
            if name == "allowed":
                await wait_for(lambda session=session: bool(session.refusal_count))
            found.said[f"service worker {name}"] = (said, [one.host for one in session.drain()], session.requests)


async def webrtc(walks: Walks, inner: Inside, found: Evidence, _: Path) -> None:
    async with walks.walk() as (context, _session):
        page = await context.new_page()
        await page.goto("http://evil.test/")
        found.said["webrtc"] = await page.evaluate(WEBRTC, ice_servers(inner.port))


def ice_servers(port: int) -> list[dict[str, str]]:
    turn = {"urls": f"turn:{STUN}:{port}?transport=tcp", "username": "a", "credential": "b"}
    return [{"urls": f"stun:{STUN}:{port}"}, turn]


async def view_source(walks: Walks, inner: Inside, found: Evidence, _: Path) -> None:
    async with walks.walk() as (context, session):
        page = await context.new_page()
        await left(page, f"view-source:http://{HOME}:{inner.port}/secret")
        found.said["view source"] = (await page.content(), [one.host for one in session.drain()])


async def left(page: Any, url: str) -> None:
    from playwright.async_api import Error

    try:
        await page.goto(url, timeout=20_000, wait_until="commit")
    except Error:
        return


async def files(walks: Walks, inner: Inside, found: Evidence, secret: Path) -> None:
    from playwright.async_api import Error

    async with walks.walk() as (context, _session):
        page = await context.new_page()
        await page.goto("http://evil.test/")
        seen = [await page.evaluate(FILES, secret.as_uri())]
        for one in context.pages:
            for frame in one.frames:
                try:
                    async with asyncio.timeout(20 if frame.url else 1):  # a frame that was refused never answers
                        seen.append(await frame.content())
                except (Error, TimeoutError) as error:
                    seen.append(str(error))
        found.said["files"] = " ".join(seen)
        await left(page, secret.as_uri())
        found.said["file opened by hand"] = await page.content()


async def rebinding(walks: Walks, inner: Inside, found: Evidence, _: Path) -> None:
    async with walks.walk() as (context, session):
        page = await context.new_page()
        await page.goto(f"http://rebind.example.org:{inner.port}/")
        again = "async () => await (await fetch('/again', {cache: 'no-store'})).text()"
        found.said["rebinding"] = [await page.evaluate(again) for _ in range(3)]
    async with walks.walk() as (context, session):  # another walk looks the name up again, and gets loopback
        page = await context.new_page()
        await left(page, f"http://rebind.example.org:{inner.port}/")
        found.said["rebound"] = [(one.code, one.host) for one in session.drain()]


async def odds(walks: Walks, inner: Inside, found: Evidence, _: Path) -> None:
    from playwright.async_api import Error

    async with walks.walk() as (context, _session):
        page = await context.new_page()
        await page.goto("http://evil.test/print", timeout=20_000)
        found.said["print"] = await page.title()
        downloads: list[Any] = []
        page.on("download", lambda one: downloads.append(one))  # noqa: PLW0108  a method cannot be wrapped
        try:
            await page.goto("http://evil.test/download", timeout=20_000)
        except Error:
            await wait_for(lambda: bool(downloads))
        found.said["download"] = [await one.failure() for one in downloads]


async def named_control(walks: Walks, inner: Inside, found: Evidence) -> None:
    """The same kinds of requests, to an address that the walk names."""
    acts = {**PUBLISHED, "websocket": "new WebSocket(u.replace('http', 'ws'))"}
    async with walks.walk(named=frozenset({(OPEN, inner.port)})) as (context, session):
        page = await context.new_page()
        await opened(page, "http://evil.test/direct")
        for number, act in enumerate(acts.values(), start=1):
            await page.evaluate(f"(u) => {{ {act} }}", f"http://{OPEN}:{inner.port}/{number}")
        await wait_for(lambda: inner.requests[OPEN] >= len(acts))
        found.named_refused = tuple(one for one in session.drain() if one.host == OPEN)
    found.named = inner.taken()


async def bare(pw: Any, port: int, inner: Inside, found: Evidence, secret: Path) -> None:
    """The same in another browser without proxy and flags; names are mapped to the same site."""
    rules = f"MAP evil.test {HOME}:{port}, MAP evil.localhost {HOME}:{port}"
    options = {"executable_path": PROGRAM, "chromium_sandbox": False, "args": [f"--host-resolver-rules={rules}"]}
    browser = await pw.chromium.launch(**options)
    try:
        context = await browser.new_context()
        await run_battery(context, lambda case: case.refused_as in inner.requests, "direct", CONTROL)
        page = await context.new_page()
        await page.goto("http://evil.localhost/")
        found.said["bare service worker"] = await page.evaluate(SERVICE_WORKER, inner.port)
        await wait_for(lambda: WORKER in inner.requests)
        await page.evaluate(WEBRTC, ice_servers(inner.port))
        await wait_for(lambda: inner.packets > 0)
        await left(page, secret.as_uri())
        found.said["bare file opened by hand"] = await page.content()
        await left(page, f"view-source:http://{HOME}:{inner.port}/secret")
        found.said["bare view source"] = await page.content()
        found.bare = inner.taken()
    finally:
        await browser.close()


async def gather(secret: Path) -> Evidence:
    from playwright.async_api import async_playwright

    found = Evidence()
    addresses = [*ADDRESSES, *(["::1"] if HAS_IPV6 else [])]
    async with (
        inside(addresses) as inner,
        listening(evil(inner.port)) as port,
        async_playwright() as pw,
    ):
        options: dict[str, Any] = {"executable_path": PROGRAM, "chromium_sandbox": False, "args": list(FLAGS)}
        browser = await pw.chromium.launch(**options)
        try:
            walks = Walks(browser, port)
            await guarded(walks, inner, found, secret)
            found.guarded = inner.taken()
            await named_control(walks, inner, found)
        finally:
            await browser.close()
        await bare(pw, port, inner, found, secret)
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    secret = tmp_path_factory.mktemp("private") / "passwd"
    secret.write_text(SECRET)
    return asyncio.run(gather(secret))


def test_a_page_cannot_reach_a_private_service(found: Evidence, subtests: pytest.Subtests) -> None:
    for case in CASES.values():
        with subtests.test(case.name):
            assert not found.guarded.requests[case.refused_as], "reached the private service"
            refused = [one.code for one in found.refused if one.host == case.refused_as]
            assert refused or not case.sure, "was never tried, so nothing is shown"
            assert set(refused) <= {"private_address"}


def test_without_the_boundary_the_same_page_does_reach_it(found: Evidence) -> None:
    unreached = [case.name for case in CONTROL if case.sure and not found.bare.requests[case.refused_as]]
    assert not unreached, "these reach nothing even in a bare browser"


def test_not_one_connection_was_made_and_not_one_packet_sent(found: Evidence) -> None:
    assert (found.guarded.connections, dict(found.guarded.requests), found.guarded.packets) == (0, {}, 0)


def test_a_private_service_that_the_walk_names_is_reached(found: Evidence) -> None:
    assert found.named_refused == ()
    assert found.named.requests[OPEN] >= len(PUBLISHED) + 1
    assert set(found.named.requests) == {OPEN}


@pytest.mark.parametrize("walk", ["private site", "allowed site"])
def test_a_walk_with_a_named_host_reaches_no_other_host(walk: str, found: Evidence) -> None:
    refused, looked_up = found.said[walk]
    assert {one.code for one in refused} == {"not_served"}
    hosts = Counter(one.host for one in refused)
    assert hosts[FOREIGN] >= len(PUBLISHED)
    assert not looked_up
    missed = [case.name for case in DIRECT if case.sure and not case.alone and case.refused_as not in hosts]
    assert not missed


def test_the_browser_resolves_no_names_itself(found: Evidence) -> None:
    assert found.asked_names == ()
    foreign = [one for one in found.refused if one.host not in {case.refused_as for case in CASES.values()}]
    assert foreign == []


def test_service_workers_are_off_and_would_use_the_proxy(found: Evidence) -> None:
    said, refused, requests = found.said["service worker blocked"]
    assert (said, refused, requests) == ("nothing", [], 1), said
    said, refused, _ = found.said["service worker allowed"]
    assert (said, set(refused)) == ("registered", {WORKER})
    assert found.said["bare service worker"] == "registered"
    assert found.bare.requests[WORKER]


def test_webrtc_does_not_bypass_the_proxy(found: Evidence) -> None:
    assert found.guarded.packets == 0
    assert found.bare.packets > 0


def test_view_source_uses_the_proxy(found: Evidence) -> None:
    shown, refused = found.said["view source"]
    assert SECRET not in shown
    assert refused == [HOME]
    assert SECRET in found.said["bare view source"]


def test_no_page_reads_a_file(found: Evidence) -> None:
    assert SECRET not in found.said["files"]
    assert "a public page" in found.said["files"]
    assert SECRET in found.said["file opened by hand"]  # so the walk checks the scheme first:
    assert not scheme_allowed("file:///etc/passwd")


def test_dns_rebinding_has_no_effect(found: Evidence) -> None:
    assert [SECRET in one for one in found.said["rebinding"]] == [False] * 3
    assert ["a public page" in one for one in found.said["rebinding"]] == [True] * 3
    assert ("private_address", "rebind.example.org") in found.said["rebound"]


def test_a_print_dialog_holds_up_nothing_and_nothing_is_downloaded(found: Evidence) -> None:
    assert found.said["print"] == "after"
    (failure,) = found.said["download"]
    assert failure
