"""HTML builder of the generated sites. Any text that is not `SiteHtml` is escaped.

This builder is separate from `agentlearn.html`, because the site pages must never change by a byte: recorded tasks and
walks depend on them. `agentlearn.html` escapes texts differently, rewrites invisible characters, and has no form
elements.
"""

from collections.abc import Iterable, Sequence
from html import escape


class SiteHtml(str):
    """Text that is already HTML."""

    __slots__ = ()


def as_html(piece: str) -> SiteHtml:
    """Return the piece as HTML."""
    return piece if isinstance(piece, SiteHtml) else SiteHtml(escape(piece, quote=True))


def html_lines(*pieces: str) -> SiteHtml:
    """Return the pieces joined by line breaks."""
    return SiteHtml("\n".join(as_html(piece) for piece in pieces))


def html_element(name: str, /, *content: str, **attributes: str) -> SiteHtml:
    """Return one element. Underscores in attribute names become hyphens."""
    marks = "".join(f' {_attribute(key)}="{escape(value, quote=True)}"' for key, value in attributes.items())
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


def search_form(words: str = "") -> SiteHtml:
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


def _attribute(key: str) -> str:
    return key.replace("_", "-")
