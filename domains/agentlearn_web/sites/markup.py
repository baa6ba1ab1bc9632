"""HTML in small pieces: whatever is no `SiteHtml` yet is escaped on its way in."""

from collections.abc import Iterable, Sequence
from html import escape


class SiteHtml(str):
    """Text that is HTML already."""

    __slots__ = ()


def as_html(piece: str) -> SiteHtml:
    """The piece as HTML."""
    return piece if isinstance(piece, SiteHtml) else SiteHtml(escape(piece, quote=True))


def html_lines(*pieces: str) -> SiteHtml:
    """The pieces one after another, each on a line of its own."""
    return SiteHtml("\n".join(as_html(piece) for piece in pieces))


def html_element(name: str, /, *content: str, **attributes: str) -> SiteHtml:
    """One element; of an attribute's name underscores become hyphens."""
    marks = "".join(f' {_attribute(key)}="{escape(value, quote=True)}"' for key, value in attributes.items())
    return SiteHtml(f"<{name}{marks}>{''.join(as_html(piece) for piece in content)}</{name}>")


def link(text: str, target: str) -> SiteHtml:
    """A link to an address of the same site."""
    return html_element("a", text, href=target)


def heading(text: str, level: int = 1) -> SiteHtml:
    """A heading, 1 the highest."""
    return html_element(f"h{level}", text)


def html_paragraph(*content: str) -> SiteHtml:
    """A paragraph."""
    return html_element("p", *content)


def bullets(items: Iterable[str]) -> SiteHtml:
    """An unordered list."""
    return html_element("ul", *(html_element("li", item) for item in items))


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> SiteHtml:
    """A table under a row of column headers."""
    top = html_element("thead", html_element("tr", *(html_element("th", cell, scope="col") for cell in head)))
    body = html_element("tbody", *(html_element("tr", *(html_element("td", cell) for cell in row)) for row in rows))
    return html_element("table", top, body)


def fields(values: Iterable[tuple[str, str]]) -> SiteHtml:
    """A table of two columns: what, and its value."""
    rows = (
        html_element("tr", html_element("th", name, scope="row"), html_element("td", value)) for name, value in values
    )
    return html_element("table", *rows)


def teaser(title: str, target: str, text: str) -> SiteHtml:
    """A linked headline with a few words under it."""
    return html_element("article", heading(link(title, target), 3), html_paragraph(text))


def search_form(words: str = "") -> SiteHtml:
    """The search box of a site."""
    box = html_element(
        "label", "Search this site ", SiteHtml(f'<input type="search" name="q" value="{escape(words)}">')
    )
    return html_element("form", box, html_element("button", "Search"), action="/search", method="get", role="search")


def choice_form(action: str, choices: Iterable[tuple[str, str, Sequence[str]]], button: str) -> SiteHtml:
    """A form of drop-down lists. choices: name of the field, its label, its values, the first of them preset."""
    labels = (html_element("label", f"{label} ", _select(name, values)) for name, label, values in choices)
    return html_element("form", *labels, html_element("button", button), action=action, method="get")


def _select(name: str, values: Sequence[str]) -> SiteHtml:
    return html_element("select", *(html_element("option", value) for value in values), name=name)


def _attribute(key: str) -> str:
    return key.replace("_", "-")
