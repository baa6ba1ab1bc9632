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
CACHED_PAGES = 4_096
_STYLE = "body{font:16px sans-serif;max-width:60em;margin:auto}td,th{padding:.2em .6em;text-align:left}"
_WORD = re.compile(r"\w+")
_NOTE = "All rights reserved; no promise is made that every page is up to date."


class SiteHtml(str):
    """Text that is already HTML."""

    __slots__ = ()


def _lines(*pieces: str) -> SiteHtml:
    """Return the pieces as HTML, joined by line breaks."""
    return SiteHtml("\n".join(one if isinstance(one, SiteHtml) else escape(one) for one in pieces))


def _element(name: str, /, *content: str, **attributes: str) -> SiteHtml:
    """Return one element. Underscores in attribute names become hyphens."""
    marks = "".join(f' {key.replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return SiteHtml(f"<{name}{marks}>{''.join(map(_lines, content))}</{name}>")


def link(text: str, target: str) -> SiteHtml:
    """Return a link to a path of the same site."""
    return _element("a", text, href=target)


def html_paragraph(*content: str) -> SiteHtml:
    """Return a paragraph."""
    return _element("p", *content)


def bullets(items: Iterable[str]) -> SiteHtml:
    """Return an unordered list."""
    return _element("ul", *(_element("li", item) for item in items))


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> SiteHtml:
    """Return a table with a row of column headers."""
    top = _element("thead", _element("tr", *(_element("th", cell, scope="col") for cell in head)))
    body = _element("tbody", *(_element("tr", *(_element("td", cell) for cell in row)) for row in rows))
    return _element("table", top, body)


def fields(values: Iterable[tuple[str, str]]) -> SiteHtml:
    """Return a table with two columns: name and value."""
    rows = (_element("tr", _element("th", name, scope="row"), _element("td", value)) for name, value in values)
    return _element("table", *rows)


def teaser(title: str, target: str, text: str) -> SiteHtml:
    """Return a linked headline with a short text below it."""
    return _element("article", _element("h3", link(title, target)), html_paragraph(text))


def choice_form(action: str, choices: Iterable[tuple[str, str, Sequence[str]]], button: str) -> SiteHtml:
    """Return a form of drop-down lists. choices: field name, label, and values with the default first."""
    labels = (
        _element("label", f"{label} ", _element("select", *(_element("option", one) for one in values), name=name))
        for name, label, values in choices
    )
    return _element("form", *labels, _element("button", button), action=action, method="get")


_BOX = _element("label", "Search this site ", SiteHtml('<input type="search" name="q" value="">'))
_SEARCH_FORM = _element("form", _BOX, _element("button", "Search"), action=SEARCH, method="get", role="search")


@dataclass(frozen=True, slots=True)
class SitePage:
    """The content of a page. The frame is added when it is rendered."""

    title: str
    main: SiteHtml
    trail: tuple[tuple[str, str], ...] = ()
    """Title and target of each parent page, without the home page."""


def page(title: str, *main: SiteHtml, trail: tuple[tuple[str, str], ...] = (), heading: str = "") -> SitePage:
    """Return a page. heading: another one than the title."""
    return SitePage(title, _lines(_element("h1", heading or title), *main), trail)


_UNKNOWN = page("Page not found", html_paragraph("There is nothing at this address. The menu above leads on."))


def target(path: str, query: Iterable[tuple[str, str]]) -> str:
    """Return path and query as one text, with the query sorted."""
    sent = urlencode(sorted(query))
    return f"{path}?{sent}" if sent else path


def slug(name: str) -> str:
    """Return the name as a part of a path."""
    return "-".join(_WORD.findall(name.casefold()))


@dataclass(frozen=True, slots=True)
class SearchEntry:
    """A page in the search index."""

    title: str
    target: str
    teaser: str


@dataclass(frozen=True, slots=True)
class SiteProblem:
    """The parameters of a question, its exact answer, and a path to it."""

    params: Mapping[str, str]
    """Values of the placeholders in the family's question template."""
    answer: str
    targets: tuple[str, ...]
    """Pages to visit after the home page; the last one contains the answer."""


@dataclass(frozen=True, slots=True)
class GeneratedSite:
    """A whole site. Its pages are keyed by target: the path, with the query if there is one."""

    host: str
    name: str
    menu: tuple[tuple[str, str], ...]
    footer: tuple[tuple[str, str], ...]
    pages: Mapping[str, SitePage]
    entries: tuple[SearchEntry, ...]
    """The search index. Entries that match equally well are shown in this order."""
    problems: Mapping[str, Sequence[SiteProblem]]
    """All questions about the site, by family."""

    def url(self, target: str = "/") -> str:
        """Address of one of its pages."""
        return f"http://{self.host}{target}"

    def respond(self, path: str, query: str = "") -> tuple[int, str]:
        """Return status and page of that path and query. The same request always gives the same page."""
        asked = sorted(parse_qsl(query, keep_blank_values=True))
        if path == SEARCH:
            return 200, self._framed(self._results(dict(asked)))
        first = self.pages.get(path) if dict(asked).get("page") == "1" else None
        found = self.pages.get(target(path, asked)) or first
        return (404, self._framed(_UNKNOWN)) if found is None else (200, self._framed(found))

    def _results(self, query: Mapping[str, str]) -> SitePage:
        """The entries that contain more than half of the words, best match first."""
        words = query.get("q", "")
        asked = set(_WORD.findall(words.casefold()))
        texts = (set(_WORD.findall(f"{one.title} {one.teaser}".casefold())) for one in self.entries)
        hits = [(len(asked & text), one) for text, one in zip(texts, self.entries, strict=True)]
        found = [one for _, one in sorted((hit for hit in hits if 2 * hit[0] > len(asked)), key=lambda hit: -hit[0])]
        at = int(number) if re.fullmatch("[1-9][0-9]{0,3}", number := query.get("page", "1")) else 1
        next_part = {"q": words, "page": str(at + 1)}
        more = [html_paragraph(link("Next page", target(SEARCH, next_part.items())))] if len(found) > at * SHOWN else []
        return page(
            f"Search: {words}",
            html_paragraph(f"{len(found)} results for “{words}”"),
            *(teaser(one.title, one.target, one.teaser) for one in found[(at - 1) * SHOWN : at * SHOWN]),
            *more,
            heading="Search results",
        )

    def _framed(self, page: SitePage) -> str:
        trail = (_element("li", link(*one)) for one in (("Home", "/"), *page.trail))
        head = _lines(
            SiteHtml('<meta charset="utf-8">'),
            _element("title", f"{page.title} | {self.name}"),
            _element("style", SiteHtml(_STYLE)),
        )
        menu = _element("nav", bullets(link(*one) for one in self.menu), aria_label="Main")
        footer = bullets(link(*one) for one in self.footer)
        body = _lines(
            _element("header", html_paragraph(link(self.name, "/")), menu, _SEARCH_FORM),
            _element("nav", _element("ol", *trail, _element("li", page.title)), aria_label="Breadcrumb"),
            _element("main", page.main),
            _element("footer", footer, html_paragraph(f"© {self.name}. {_NOTE}")),
        )
        return f'<!doctype html>\n<html lang="en">\n{_element("head", head)}\n{_element("body", body)}\n</html>\n'


@asynccontextmanager
async def serve_sites(sites: Iterable[GeneratedSite]) -> AsyncGenerator[Mapping[str, tuple[str, int]]]:
    """Serve every site while the block runs. Yields host names with loopback addresses, for `AccessPolicy.served`."""
    by_host = {one.host: one for one in sites}

    @lru_cache(maxsize=CACHED_PAGES)
    def cached_response(host: str, path: str, query: str) -> HttpResponse:
        status, html = by_host[host].respond(path, query)
        return HttpResponse(status, html.encode(), content_type="text/html; charset=utf-8")

    async def app(request: HttpRequest) -> HttpResponse:
        host = request.headers.get("host", "").partition(":")[0].lower()
        if host not in by_host:
            return HttpResponse(404, b"no site has this name\n", content_type="text/plain")
        if request.method not in {"GET", "HEAD"}:
            refusal = b"these sites are only read\n"
            return HttpResponse(405, refusal, headers={"allow": "GET"}, content_type="text/plain")
        return cached_response(host, request.path, request.query)

    async with listening(app) as port:
        yield dict.fromkeys(by_host, (HOST, port))
