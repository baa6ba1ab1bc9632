"""Small sites on loopback, and walks over them in one browser for all tests of a module."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from agentlearn_web.boundary.access_policy import AccessPolicy
from agentlearn_web.browser.pool import BrowserOptions, Browsers, open_browsers
from agentlearn_web.browser.walk import Walk
from agentlearn_web.browser.walk_settings import TaskFile, WalkSettings
from agentlearn_web.observation import ElementLine, PageObservation

NONCE = "n0nce7"
BRISK = WalkSettings(act_s=30, action_s=2.5, load_s=4, hung_s=5, settle_s=1)
"""Time limits that are short, but long enough for a slow machine."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The response of a path."""

    body: str | bytes = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay_s: float = 0.0
    endless: bool = False
    """Whether the body continues until the other side disconnects."""


Pages = Mapping[str, str | Reply]


def doc(body: str, title: str = "Page") -> str:
    """Return a page with this body."""
    return f"<!doctype html><title>{title}</title>{body}"


@dataclass(slots=True)
class Site:
    """A running site."""

    port: int
    requests: list[str]
    """Requested paths, in order."""

    @property
    def policy(self) -> AccessPolicy:
        """A policy that reaches this site as `site.test` and `other.test`, and nothing else."""
        here = ("127.0.0.1", self.port)
        return AccessPolicy(public=False, served={"site.test": here, "other.test": here})


@contextmanager
def served(pages: Pages) -> Iterator[Site]:
    """Serve the pages on loopback; any other path gives 404."""
    requests: list[str] = []
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            requests.append(self.path)
            page = pages.get(path, Reply("<title>none</title><h1>Nothing here</h1>", 404))
            reply = Reply(page) if isinstance(page, str) else page
            over.wait(reply.delay_s)
            body = reply.body.encode() if isinstance(reply.body, str) else reply.body
            self.send_response(reply.status)
            headers = {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(body)), **reply.headers}
            if reply.endless:
                del headers["Content-Length"]
                headers["Connection"] = "close"
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            while reply.endless and not over.is_set():
                self.wfile.write(b"<p>and on</p>")
                self.wfile.flush()
                time.sleep(0.05)

        do_POST = do_GET

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            """Ignore a client that disconnected."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield Site(server.server_address[1], requests)
        finally:
            over.set()
            server.shutdown()
            thread.join()


@dataclass(slots=True)
class Walking:
    """A browser and the event loop that drives it."""

    runner: asyncio.Runner
    browsers: Browsers

    def over(
        self,
        pages: Pages,
        steps: Callable[[Walk, Site], Awaitable[None]],
        *,
        record: Path | None = None,
        files: Mapping[str, TaskFile] | None = None,
    ) -> None:
        """Serve the pages and run the steps in a fresh walk. files: what the walk may upload, by name."""

        async def one(site: Site) -> None:
            async with self.browsers.walk(site.policy, record=record, files=files) as walk:
                await steps(walk, site)

        with served(pages) as site:
            self.runner.run(one(site))


@contextmanager
def walking(settings: WalkSettings = BRISK) -> Iterator[Walking]:
    """A browser for the tests of one module."""
    with asyncio.Runner() as runner:
        opened = open_browsers(BrowserOptions(walkers=16, walk=settings))
        browsers = runner.run(opened.__aenter__())
        try:
            yield Walking(runner, browsers)
        finally:
            runner.run(opened.__aexit__(None, None, None))


def line(seen: PageObservation, name: str, role: str = "") -> ElementLine:
    """The only line with this name, and with this role if one is given."""
    found = [one for one in seen.lines if one.name == name and role in {"", one.role}]
    assert len(found) == 1, seen.lines
    return found[0]


def ref(seen: PageObservation, name: str, role: str = "") -> str:
    """The ref of the line with this name."""
    return line(seen, name, role).ref


def words(seen: PageObservation) -> str:
    """All words of the lines."""
    return " ".join(part for one in seen.lines for part in (one.name, one.text) if part)


def event_lines(seen: PageObservation) -> list[str]:
    """The events, each as its kind and the site's text."""
    return [f"{event.kind}: {event.site_text}" for event in seen.events]
