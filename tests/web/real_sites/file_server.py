"""Serves the files of the real sites on one loopback port; the Host header selects the site."""

import mimetypes
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote

from agentlearn.serving.http11 import HOST, HttpRequest, HttpResponse, listening
from agentlearn_web.boundary.access_policy import AccessPolicy
from tests.web.real_sites.site_files import SITES, site_file, sites_root

_TYPES = mimetypes.MimeTypes()
_TYPES.add_type("text/javascript", ".js")
_TYPES.add_type("text/plain", ".txt")


def respond(root: Path, request: HttpRequest) -> HttpResponse:
    """Return the file that a request asks for, a redirect for a folder without its slash, or 404."""
    host, path = request.headers.get("host", "").partition(":")[0].lower(), unquote(request.path)
    found = site_file(root, host, path)
    if found.moved:
        return HttpResponse(301, headers={"location": f"{request.path}/"}, content_type="text/plain")
    if found.file is None:
        return HttpResponse(404, b"there is no such file\n", content_type="text/plain")
    kind = _TYPES.guess_type(found.file.name)[0] or "application/octet-stream"
    kind = f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
    return HttpResponse(200, found.file.read_bytes(), content_type=kind)


@asynccontextmanager
async def serve_real_sites() -> AsyncGenerator[AccessPolicy]:
    """Serve the sites while the block runs. Yields a policy that reaches them by name, and nothing else."""
    root = sites_root()

    async def app(request: HttpRequest) -> HttpResponse:
        return respond(root, request)

    async with listening(app) as port:
        yield AccessPolicy(public=False, served=dict.fromkeys(SITES, (HOST, port)))
