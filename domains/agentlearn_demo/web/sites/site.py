"""A generated site: its pages by target, its search, and the frame around every page."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl, urlencode

from agentlearn_demo.web.sites.markup import (
    SiteHtml,
    bullets,
    heading,
    html_element,
    html_lines,
    html_paragraph,
    link,
    search_form,
    teaser,
)

SiteKind = Literal["university", "company", "documentation", "shop"]
KINDS: tuple[SiteKind, ...] = ("university", "company", "documentation", "shop")
SEARCH = "/search"
SHOWN = 8
"""Number of results on one page of the search."""

_STYLE = "body{font:16px sans-serif;max-width:60em;margin:auto}td,th{padding:.2em .6em;text-align:left}"
_WORD = re.compile(r"\w+")
_NOTHING = SiteHtml("")
_NOTE = "All rights reserved; no promise is made that every page is up to date."


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


def respond(site: Site, path: str, query: str = "") -> SiteResponse:
    """Return the page at that path and query. The same request always gives the same page."""
    asked = sorted(parse_qsl(query, keep_blank_values=True))
    if path == SEARCH:
        return SiteResponse(200, _full_page(site, _search_page(site, dict(asked))))
    found = site.pages.get(target(path, asked)) or (site.pages.get(path) if dict(asked).get("page") == "1" else None)
    if found is None:
        return SiteResponse(
            404, _full_page(site, SitePage("Page not found", html_lines(heading("Page not found"), _UNKNOWN_ADDRESS)))
        )
    return SiteResponse(200, _full_page(site, found))


def target(path: str, query: Iterable[tuple[str, str]]) -> str:
    """Return path and query as one text, with the query sorted."""
    sent = urlencode(sorted(query))
    return f"{path}?{sent}" if sent else path


def slug(name: str) -> str:
    """Return the name as a part of a path."""
    return "-".join(_WORD.findall(name.casefold()))


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
            html_lines(heading(title), above, block, _page_links(path, number, last)),
            trail,
        )
        for number, block in enumerate(blocks, start=1)
    }


def chunks(items: Sequence[Sequence[str]], size: int) -> list[Sequence[Sequence[str]]]:
    """Return the items in groups of at most `size`."""
    return [items[at : at + size] for at in range(0, len(items), size)]


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
        html_lines(
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
    head = html_lines(
        SiteHtml('<meta charset="utf-8">'),
        html_element("title", f"{page.title} | {site.name}"),
        html_element("style", SiteHtml(_STYLE)),
    )
    body = html_lines(
        html_element(
            "header",
            html_paragraph(link(site.name, "/")),
            html_element("nav", bullets(link(*one) for one in site.menu), aria_label="Main"),
            search_form(),
        ),
        html_element("nav", crumbs, aria_label="Breadcrumb"),
        html_element("main", page.main),
        html_element("footer", bullets(link(*one) for one in site.footer), html_paragraph(f"© {site.name}. {_NOTE}")),
    )
    return f'<!doctype html>\n<html lang="en">\n{html_element("head", head)}\n{html_element("body", body)}\n</html>\n'
