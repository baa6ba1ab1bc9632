"""A generated site: its pages by target, its search, the frame around every page, and the server of all sites.

Any text that is not `SiteHtml` is escaped. This builder of HTML is separate from `agentlearn.html`, because the pages
of the sites must never change by a byte: recorded tasks and walks depend on them.
"""

import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Literal
from urllib.parse import parse_qsl, urlencode

from agentlearn.serving.http11 import HOST, HttpRequest, HttpResponse, listening

SiteKind = Literal["documentation", "shop"]
KINDS: tuple[SiteKind, ...] = ("documentation", "shop")
SEARCH = "/search"
SHOWN = 8
"""Number of results on one page of the search."""

_STYLE = "body{font:16px sans-serif;max-width:60em;margin:auto}td,th{padding:.2em .6em;text-align:left}"
_WORD = re.compile(r"\w+")
_NOTE = "All rights reserved; no promise is made that every page is up to date."


CACHED_PAGES = 4_096
_HTML = "text/html; charset=utf-8"


class SiteHtml(str):
    """Text that is already HTML."""

    __slots__ = ()


def as_html(piece: str) -> SiteHtml:
    """Return the piece as HTML."""
    return piece if isinstance(piece, SiteHtml) else SiteHtml(escape(piece, quote=True))


def _html_lines(*pieces: str) -> SiteHtml:
    """Return the pieces joined by line breaks."""
    return SiteHtml("\n".join(as_html(piece) for piece in pieces))


def html_element(name: str, /, *content: str, **attributes: str) -> SiteHtml:
    """Return one element. Underscores in attribute names become hyphens."""
    marks = "".join(f' {key.replace("_", "-")}="{escape(value, quote=True)}"' for key, value in attributes.items())
    return SiteHtml(f"<{name}{marks}>{''.join(as_html(piece) for piece in content)}</{name}>")


def link(text: str, target: str) -> SiteHtml:
    """Return a link to a path of the same site."""
    return html_element("a", text, href=target)


def heading(text: str, level: int = 1) -> SiteHtml:
    """Return a heading; level 1 is the highest."""
    return html_element(f"h{level}", text)


def html_paragraph(*content: str) -> SiteHtml:
    """Return a paragraph."""
    return html_element("p", *content)


def bullets(items: Iterable[str]) -> SiteHtml:
    """Return an unordered list."""
    return html_element("ul", *(html_element("li", item) for item in items))


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> SiteHtml:
    """Return a table with a row of column headers."""
    top = html_element("thead", html_element("tr", *(html_element("th", cell, scope="col") for cell in head)))
    body = html_element("tbody", *(html_element("tr", *(html_element("td", cell) for cell in row)) for row in rows))
    return html_element("table", top, body)


def fields(values: Iterable[tuple[str, str]]) -> SiteHtml:
    """Return a table with two columns: name and value."""
    rows = (
        html_element("tr", html_element("th", name, scope="row"), html_element("td", value)) for name, value in values
    )
    return html_element("table", *rows)


def teaser(title: str, target: str, text: str) -> SiteHtml:
    """Return a linked headline with a short text below it."""
    return html_element("article", heading(link(title, target), 3), html_paragraph(text))


def _search_form(words: str = "") -> SiteHtml:
    """Return the search form of a site."""
    box = html_element(
        "label", "Search this site ", SiteHtml(f'<input type="search" name="q" value="{escape(words)}">')
    )
    return html_element("form", box, html_element("button", "Search"), action="/search", method="get", role="search")


def choice_form(action: str, choices: Iterable[tuple[str, str, Sequence[str]]], button: str) -> SiteHtml:
    """Return a form of drop-down lists. choices: field name, label, and values with the default first."""
    labels = (html_element("label", f"{label} ", _select(name, values)) for name, label, values in choices)
    return html_element("form", *labels, html_element("button", button), action=action, method="get")


def _select(name: str, values: Sequence[str]) -> SiteHtml:
    return html_element("select", *(html_element("option", value) for value in values), name=name)


_NOTHING = SiteHtml("")


@dataclass(frozen=True, slots=True)
class SiteResponse:
    """The response of a site."""

    status: int
    html: str


@dataclass(frozen=True, slots=True)
class SitePage:
    """The content of a page. The frame is added when it is rendered."""

    title: str
    main: SiteHtml
    trail: tuple[tuple[str, str], ...] = ()
    """Title and target of each parent page, without the home page."""


@dataclass(frozen=True, slots=True)
class SearchEntry:
    """A page in the search index."""

    title: str
    target: str
    teaser: str


@dataclass(frozen=True, slots=True)
class Site:
    """A whole site. Its pages are keyed by target: the path, with the query if there is one."""

    kind: SiteKind
    number: int
    host: str
    name: str
    menu: tuple[tuple[str, str], ...]
    footer: tuple[tuple[str, str], ...]
    pages: Mapping[str, SitePage]
    entries: tuple[SearchEntry, ...]
    """The search index. Entries that match equally well are shown in this order."""

    @property
    def start(self) -> str:
        """Address of the home page."""
        return self.url("/")

    def url(self, target: str) -> str:
        """Return the address of one of its pages."""
        return f"http://{self.host}{target}"


@dataclass(frozen=True, slots=True)
class SiteProblem:
    """The parameters of a question, its exact answer, and a path to it."""

    params: Mapping[str, str]
    """Values of the placeholders in the family's question template."""
    answer: str
    targets: tuple[str, ...]
    """Pages to visit after the home page; the last one contains the answer."""


def respond(site: Site, path: str, query: str = "") -> SiteResponse:
    """Return the page at that path and query. The same request always gives the same page."""
    asked = sorted(parse_qsl(query, keep_blank_values=True))
    if path == SEARCH:
        return SiteResponse(200, _full_page(site, _search_page(site, dict(asked))))
    found = site.pages.get(target(path, asked)) or (site.pages.get(path) if dict(asked).get("page") == "1" else None)
    if found is None:
        return SiteResponse(
            404, _full_page(site, SitePage("Page not found", _html_lines(heading("Page not found"), _UNKNOWN_ADDRESS)))
        )
    return SiteResponse(200, _full_page(site, found))


def target(path: str, query: Iterable[tuple[str, str]]) -> str:
    """Return path and query as one text, with the query sorted."""
    sent = urlencode(sorted(query))
    return f"{path}?{sent}" if sent else path


def slug(name: str) -> str:
    """Return the name as a part of a path."""
    return "-".join(_WORD.findall(name.casefold()))


def page(title: str, *main: SiteHtml, trail: tuple[tuple[str, str], ...] = ()) -> SitePage:
    """Return a page with its title as the heading."""
    return SitePage(title, _html_lines(heading(title), *main), trail)


def listing_pages(
    path: str,
    title: str,
    blocks: Sequence[SiteHtml],
    trail: tuple[tuple[str, str], ...] = (),
    above: SiteHtml = _NOTHING,
) -> dict[str, SitePage]:
    """Return a listing as several pages, each with links to the next and the previous one."""
    last = len(blocks)
    return {
        _page_target(path, number): SitePage(
            title if number == 1 else f"{title}, page {number}",
            _html_lines(heading(title), above, block, _page_links(path, number, last)),
            trail,
        )
        for number, block in enumerate(blocks, start=1)
    }


_UNKNOWN_ADDRESS = html_paragraph("There is nothing at this address. The menu above leads on.")


def _page_target(path: str, number: int) -> str:
    return path if number == 1 else f"{path}{'&' if '?' in path else '?'}page={number}"


def _page_links(path: str, number: int, last: int) -> SiteHtml:
    before = [link("Previous page", _page_target(path, number - 1))] if number > 1 else []
    after = [link("Next page", _page_target(path, number + 1))] if number < last else []
    return html_paragraph(f"Page {number} of {last} ", *before, SiteHtml(" "), *after)


def _search_page(site: Site, query: Mapping[str, str]) -> SitePage:
    words = query.get("q", "")
    found = _matching_entries(site.entries, words)
    at = int(number) if re.fullmatch("[1-9][0-9]{0,3}", number := query.get("page", "1")) else 1
    shown = found[(at - 1) * SHOWN : at * SHOWN]
    next_part = {"q": words, "page": str(at + 1)}
    more = [html_paragraph(link("Next page", target(SEARCH, next_part.items())))] if len(found) > at * SHOWN else []
    return SitePage(
        f"Search: {words}",
        _html_lines(
            heading("Search results"),
            html_paragraph(f"{len(found)} results for “{words}”"),
            *(teaser(one.title, one.target, one.teaser) for one in shown),
            *more,
        ),
    )


def _matching_entries(entries: Sequence[SearchEntry], words: str) -> list[SearchEntry]:
    """Return the entries that contain more than half of the words, best match first."""
    asked = set(_WORD.findall(words.casefold()))
    hits = [(len(asked & set(_WORD.findall(f"{one.title} {one.teaser}".casefold()))), one) for one in entries]
    enough = [hit for hit in hits if asked and 2 * hit[0] > len(asked)]
    return [one for _, one in sorted(enough, key=lambda hit: -hit[0])]


def _full_page(site: Site, page: SitePage) -> str:
    trail = [("Home", "/"), *page.trail]
    crumbs = html_element("ol", *(html_element("li", link(*one)) for one in trail), html_element("li", page.title))
    head = _html_lines(
        SiteHtml('<meta charset="utf-8">'),
        html_element("title", f"{page.title} | {site.name}"),
        html_element("style", SiteHtml(_STYLE)),
    )
    body = _html_lines(
        html_element(
            "header",
            html_paragraph(link(site.name, "/")),
            html_element("nav", bullets(link(*one) for one in site.menu), aria_label="Main"),
            _search_form(),
        ),
        html_element("nav", crumbs, aria_label="Breadcrumb"),
        html_element("main", page.main),
        html_element("footer", bullets(link(*one) for one in site.footer), html_paragraph(f"© {site.name}. {_NOTE}")),
    )
    return f'<!doctype html>\n<html lang="en">\n{html_element("head", head)}\n{html_element("body", body)}\n</html>\n'


@asynccontextmanager
async def serve_sites(sites: Iterable[Site]) -> AsyncGenerator[Mapping[str, tuple[str, int]]]:
    """Serve every site while the block runs. Yields host names with loopback addresses, for `AccessPolicy.served`."""
    by_host = {one.host: one for one in sites}

    @lru_cache(maxsize=CACHED_PAGES)
    def cached_response(host: str, path: str, query: str) -> HttpResponse:
        found = respond(by_host[host], path, query)
        return HttpResponse(found.status, found.html.encode(), content_type=_HTML)

    async def app(request: HttpRequest) -> HttpResponse:
        host = request.headers.get("host", "").partition(":")[0].lower()
        if host not in by_host:
            return HttpResponse(404, b"no site has this name\n", content_type="text/plain")
        if request.method not in {"GET", "HEAD"}:
            return HttpResponse(
                405, b"these sites are only read\n", headers={"allow": "GET"}, content_type="text/plain"
            )
        return cached_response(host, request.path, request.query)

    async with listening(app) as port:
        yield dict.fromkeys(by_host, (HOST, port))
