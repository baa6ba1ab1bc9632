"""HTML in small pieces: whatever is no `SiteHtml` yet is escaped on its way in."""

from collections.abc import Iterable, Sequence
from html import escape


class SiteHtml(str):
    """Text that is HTML already."""

    __slots__ = ()


def html(piece: str) -> SiteHtml:
    """The piece as HTML."""
    return piece if isinstance(piece, SiteHtml) else SiteHtml(escape(piece, quote=True))


def joined(*pieces: str) -> SiteHtml:
    """The pieces one after another, each on a line of its own."""
    return SiteHtml("\n".join(html(piece) for piece in pieces))


def element(name: str, /, *content: str, **attributes: str) -> SiteHtml:
    """One element; of an attribute's name underscores become hyphens."""
    marks = "".join(f' {_attribute(key)}="{escape(value, quote=True)}"' for key, value in attributes.items())
    return SiteHtml(f"<{name}{marks}>{''.join(html(piece) for piece in content)}</{name}>")


def link(text: str, target: str) -> SiteHtml:
    """A link to an address of the same site."""
    return element("a", text, href=target)


def heading(text: str, level: int = 1) -> SiteHtml:
    """A heading, 1 the highest."""
    return element(f"h{level}", text)


def paragraph(*content: str) -> SiteHtml:
    """A paragraph."""
    return element("p", *content)


def bullets(items: Iterable[str]) -> SiteHtml:
    """An unordered list."""
    return element("ul", *(element("li", item) for item in items))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> SiteHtml:
    """A table under a row of column headers."""
    top = element("thead", element("tr", *(element("th", cell, scope="col") for cell in head)))
    body = element("tbody", *(element("tr", *(element("td", cell) for cell in row)) for row in rows))
    return element("table", top, body)


def fields(values: Iterable[tuple[str, str]]) -> SiteHtml:
    """A table of two columns: what, and its value."""
    rows = (element("tr", element("th", name, scope="row"), element("td", value)) for name, value in values)
    return element("table", *rows)


def teaser(title: str, target: str, text: str) -> SiteHtml:
    """A linked headline with a few words under it."""
    return element("article", heading(link(title, target), 3), paragraph(text))


def search_form(words: str = "") -> SiteHtml:
    """The search box of a site."""
    box = element("label", "Search this site ", SiteHtml(f'<input type="search" name="q" value="{escape(words)}">'))
    return element("form", box, element("button", "Search"), action="/search", method="get", role="search")


def choice_form(action: str, choices: Iterable[tuple[str, str, Sequence[str]]], button: str) -> SiteHtml:
    """A form of drop-down lists. choices: name of the field, its label, its values, the first of them preset."""
    labels = (element("label", f"{label} ", _select(name, values)) for name, label, values in choices)
    return element("form", *labels, element("button", button), action=action, method="get")


def _select(name: str, values: Sequence[str]) -> SiteHtml:
    return element("select", *(element("option", value) for value in values), name=name)


def _attribute(key: str) -> str:
    return key.replace("_", "-")
