"""Safe HTML: elements come from a fixed list of tags, and every text is escaped.

A text that people read as prose has its mathematics as one types it. What is shown as it was written, such as a reply
of a model, stands in `pre`, `code` or a field of a form.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, get_args

from agentlearn.text import written_out

Tag = Literal[
    "a", "article", "b", "bdi", "body", "button", "caption", "circle", "code", "dd", "details", "div", "dl", "dt",
    "figcaption", "figure", "footer", "form", "g", "h1", "h2", "h3", "head", "header", "html", "img", "input", "label",
    "li", "line", "link", "main", "meta", "nav", "ol", "option", "p", "path", "pre", "script", "section", "select",
    "span", "style", "summary", "svg", "table", "tbody", "td", "text", "textarea", "tfoot", "th", "thead", "title",
    "tr", "ul",
]  # fmt: skip
TAGS: frozenset[str] = frozenset(get_args(Tag))
Attribute = str | int | float | bool | None

_VOID = frozenset({"img", "input", "link", "meta"})
_BARE = frozenset({"circle", "line", "path"})
"""SVG elements without content."""

_AS_WRITTEN = frozenset({"pre", "code", "textarea", "option"})
"""Elements whose own text keeps its mathematics as it was written."""
_READ = frozenset({"title", "aria_label", "alt"})
"""Attributes that people read."""
_LINE_END = re.compile("\r\n?")


@dataclass(frozen=True, slots=True)
class Html:
    """Markup. Made only by `element`, `joined`, `raw` and `markdown`, so that no text from outside becomes markup."""

    text: str


def shown(text: str) -> str:
    """The text with invisible characters, and those that change how others look, written as `⟨U+202E⟩`.

    These are control, direction, zero-width and tag characters and lone surrogates. Tabs, line ends, and the joiners
    that emoji and scripts need, are kept.
    """
    return written_out(_LINE_END.sub("\n", text), lambda character: f"⟨U+{ord(character):04X}⟩")


def prose(text: str) -> str:
    """The text with its mathematics as one types it."""
    if "$" not in text and "\\" not in text:
        return text
    from agentlearn.answers.latex import plain_mathematics  # reads tables of units

    return plain_mathematics(text)


def clipped(text: str, most: int) -> str:
    """The text as prose, cut to at most `most` characters; a cut text ends in `…`."""
    if len(text) <= most:
        return text
    plain = prose(text[: 4 * most])
    return plain if len(plain) <= most and len(text) <= 4 * most else plain[: most - 1].rstrip() + "…"


def element(tag: Tag, *children: Html | str | None, **attributes: Attribute) -> Html:
    """An element. Text children are escaped; a child that is None is left out.

    An attribute that is None or False is left out; True writes it without a value. In attribute names `_` becomes `-`
    and a final `_` is dropped: `class_` is `class`, `aria_label` is `aria-label`.
    """
    plain = tag not in _AS_WRITTEN
    inside = "".join(_markup(prose(one) if plain and isinstance(one, str) else one) for one in children)
    start = tag + "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Html(f"<{start}>")
    if tag in _BARE and not inside:
        return Html(f"<{start}/>")
    return Html(f"<{start}>{inside}</{tag}>")


def joined(*parts: Html | str | None) -> Html:
    """The parts in sequence, without an element around them."""
    return Html("".join(_markup(part) for part in parts))


def raw(tag: Literal["script", "style"], text: str) -> Html:
    """A script or style sheet of this package, unescaped. Raises ValueError when the text would end the element."""
    if "</" in text or "<!--" in text:
        raise ValueError(f"the {tag} contains '</' or '<!--', which would end its element; remove it")
    return Html(f"<{tag}>{text}</{tag}>")


def markdown(text: str) -> Html:
    """A Markdown text with its headings, lists and tables. HTML, links and pictures in it stay text."""
    from markdown_it import MarkdownIt  # for one page only

    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["link", "image", "autolink"])

    def words(_: object, tokens: Sequence[Any], at: int, *__: object) -> str:
        return escape(prose(tokens[at].content))

    reader.add_render_rule("text", words)
    return Html(f'<div class="written" tabindex="0">{reader.render(shown(text))}</div>')


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
    text = prose(str(value)) if name in _READ else str(value)
    name = name.removesuffix("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(shown(text))}"'
