"""Serves all sites on one loopback port; the Host header selects the site."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache

from agentlearn.serving.http11 import HOST, HttpRequest, HttpResponse, listening
from agentlearn_demo.web.sites import all_sites
from agentlearn_demo.web.sites.site import respond
from agentlearn_web.boundary.access_policy import HostPort

CACHED_PAGES = 4_096
_HTML = "text/html; charset=utf-8"


@asynccontextmanager
async def serve_sites() -> AsyncGenerator[Mapping[str, HostPort]]:
    """Serve every site while the block runs. Yields host names with loopback addresses, for `AccessPolicy.served`."""
    sites = {one.host: one for one in all_sites()}

    @lru_cache(maxsize=CACHED_PAGES)
    def cached_response(host: str, path: str, query: str) -> HttpResponse:
        found = respond(sites[host], path, query)
        return HttpResponse(found.status, found.html.encode(), content_type=_HTML)

    async def app(request: HttpRequest) -> HttpResponse:
        host = request.headers.get("host", "").partition(":")[0].lower()
        if host not in sites:
            return HttpResponse(404, b"no site has this name\n", content_type="text/plain")
        if request.method not in {"GET", "HEAD"}:
            return HttpResponse(
                405, b"these sites are only read\n", headers={"allow": "GET"}, content_type="text/plain"
            )
        return cached_response(host, request.path, request.query)

    async with listening(app) as port:
        yield dict.fromkeys(sites, (HOST, port))
