"""HTML as a value: elements come from a closed list of names, and every text that goes in is escaped."""

import re
from dataclasses import dataclass
from html import escape
from typing import Literal, get_args

Tag = Literal[
    "a", "b", "bdi", "body", "caption", "circle", "code", "dd", "details", "div", "dl", "dt", "figcaption", "figure",
    "footer", "g", "h1", "h2", "h3", "head", "header", "html", "li", "line", "link", "main", "meta", "nav", "p", "path",
    "pre", "script", "section", "span", "style", "summary", "svg", "table", "tbody", "td", "text", "tfoot", "th",
    "thead", "title", "tr", "ul",
]  # fmt: skip
TAGS: frozenset[str] = frozenset(get_args(Tag))
Attribute = str | int | float | bool | None

_VOID = frozenset({"link", "meta"})
_BARE = frozenset({"circle", "line", "path"})
"""Elements of SVG that hold nothing."""

_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls, without tab and line ends
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_LINE_END = re.compile("\r\n?")


@dataclass(frozen=True, slots=True)
class Html:
    """Markup that this package wrote: made by `element`, `joined` and `raw` only, never out of a text of others."""

    text: str


def shown(text: str) -> str:
    """The text with each character written out that nobody sees or that changes how others are seen.

    Controls, marks of direction, zero-width and tag characters, and lone surrogates become such as `⟨U+202E⟩`. Tabs and
    line ends stay, as do the joiners that emoji and scripts need.
    """
    return _UNSEEN.sub(_written_out, _LINE_END.sub("\n", text))


def clipped(text: str, most: int) -> str:
    """The text, of at most `most` characters; where some are cut off, the last one is `…`."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def element(tag: Tag, *children: Html | str | None, **attributes: Attribute) -> Html:
    """One element. Text children are escaped; None leaves a child out.

    Attributes: None and False leave one out, True is one without a value.

    Attribute names are written as Python allows: `class_` is `class`, `aria_label` is `aria-label`.
    """
    inside = "".join(_markup(child) for child in children)
    start = tag + "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Html(f"<{start}>")
    if tag in _BARE and not inside:
        return Html(f"<{start}/>")
    return Html(f"<{start}>{inside}</{tag}>")


def joined(*parts: Html | str | None) -> Html:
    """Parts one after the other, without an element around them."""
    return Html("".join(_markup(part) for part in parts))


def raw(tag: Literal["script", "style"], text: str) -> Html:
    """Our own script or style sheet, as it is. Raises ValueError when the text would end its element."""
    if "</" in text or "<!--" in text:
        raise ValueError(f"a {tag} that holds '</' or '<!--' cannot stand in a page; write it without")
    return Html(f"<{tag}>{text}</{tag}>")


def _markup(child: Html | str | None) -> str:
    match child:
        case None:
            return ""
        case Html():
            return child.text
        case str():
            return escape(shown(child), quote=False)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = name.removesuffix("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{escape(shown(str(value)))}"'


def _written_out(match: re.Match[str]) -> str:
    return f"⟨U+{ord(match.group()):04X}⟩"
