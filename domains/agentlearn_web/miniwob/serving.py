"""Serves the MiniWoB++ pages as a site on loopback."""

import mimetypes
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

from agentlearn.serving.http11 import HOST, HttpRequest, HttpResponse, listening
from agentlearn_web.boundary.access_policy import HostPort

SITE = "miniwob.test"
CACHED_FILES = 512


def page_url(page: str) -> str:
    """Return the address of a page."""
    return f"http://{SITE}/miniwob/{page}.html"


@asynccontextmanager
async def serve_miniwob(folder: Path) -> AsyncGenerator[Mapping[str, HostPort]]:
    """Serve the folder while the block runs. Yields the site's name and loopback address, for `AccessPolicy.served`."""
    files = _files(folder)

    @lru_cache(maxsize=CACHED_FILES)
    def respond(path: str) -> HttpResponse:
        file = files.get(path)
        if file is None:
            return HttpResponse(404, b"no such page\n", content_type="text/plain")
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        if kind.startswith("text/"):
            kind += "; charset=utf-8"
        return HttpResponse(200, file.read_bytes(), content_type=kind)

    async def app(request: HttpRequest) -> HttpResponse:
        return respond(unquote(request.path))

    async with listening(app) as port:
        yield {SITE: (HOST, port)}


def _files(folder: Path) -> Mapping[str, Path]:
    """Return every file by its request path."""
    return {f"/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.is_file()}
