"""Safe HTML from a fixed list of tags, and what is made of it: numbers as text, tones, figures with captions, folds.

A text that people read as prose has its mathematics as one types it. What is shown as it was written, such as a reply
of a model, stands in `pre`, `code` or a field of a form.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal, get_args

from agentlearn.text import number_text, written_out

if TYPE_CHECKING:
    from agentlearn.measure.contrast import ContrastVerdict


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


def figure(kind: str, caption: str, content: Html, *, mark: str, note: str = "") -> Html:
    """A figure with a caption. kind: its CSS class. mark: label in the caption, such as `simulated`."""
    return element(
        "figure",
        element("figcaption", element("bdi", caption), marked(mark)),
        content,
        element("p", note, class_="quiet") if note else None,
        class_=kind,
    )


def marked(mark: str) -> Html | None:
    """The mark as a label after a heading; None when there is no mark."""
    return joined(" ", element("span", mark, class_="mark")) if mark else None


def named(caption: str, mark: str) -> str:
    """The caption and the mark, as the accessible name of a region or chart."""
    return f"{caption} ({mark})" if mark else caption


def scrolling(content: Html, name: str) -> Html:
    """A box that scrolls sideways, also by keyboard. name: its accessible name."""
    return element("div", content, class_="scroll", role="region", aria_label=name, tabindex=0)


def small(text: str) -> Html | None:
    """A second line in smaller type; None for an empty text."""
    return element("span", element("bdi", text), class_="sub") if text else None


def fold(summary: str, content: Html, *, aside: str = "", unfolded: bool = False) -> Html:
    """Content that unfolds under a summary line. aside: text at the end of that line."""
    line = element(
        "summary",
        element("bdi", summary),
        element("span", element("bdi", aside), class_="aside") if aside else None,
    )
    return element("details", line, element("div", content, class_="fold"), open=unfolded)


Tone = Literal["plain", "good", "bad", "held", "open"]
"""`good`: better, `bad`: worse, `held`: not worse than a margin, `open`: not decided, `plain`: no claim."""

TONES: "dict[ContrastVerdict, Tone]" = {"better": "good", "worse": "bad", "no_worse": "held", "cannot_tell": "open"}
"""Tones of verdicts."""

_SHAPES: dict[Tone, str] = {
    "plain": "M-4.5-4.5h9v9h-9z",
    "good": "M0-6L6 5H-6z",
    "bad": "M0 6L6-5H-6z",
    "held": "M0-6.5L6.5 0L0 6.5L-6.5 0z",
    "open": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
}


def shape(tone: Tone) -> Html:
    """The marker of a tone around (0, 0), about 12 pixels wide."""
    return element("path", class_="shape", d=_SHAPES[tone])


def glyph(tone: Tone) -> Html | None:
    """The marker of a tone for running text; None for `plain`."""
    if tone == "plain":
        return None
    return element("svg", shape(tone), class_="glyph", viewBox="-8 -8 16 16", aria_hidden="true")


DASH = "–"
MINUS = "\N{MINUS SIGN}"


def finite(value: float | None) -> float | None:
    """The value; None when it is missing, infinite or NaN."""
    return value if value is not None and math.isfinite(value) else None


def decimal(value: float | None, digits: int = 2) -> str:
    """A number with fixed decimals: `0.45`, `−1.20`; with more where it would look like 0 or 1 and is not: `0.996`."""
    if value is None or math.isnan(value):
        return DASH
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    text = number_text(value, digits) if digits > 1 else f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", MINUS)


def signed(value: float | None, digits: int = 2) -> str:
    """A number with its sign: `+0.45`, `−0.20`; `0.00` has none."""
    text = decimal(value, digits)
    plus = value is not None and value > 0 and text.strip("0.") != ""
    return f"+{text}" if plus else text


def interval(low: float | None, high: float | None, *, sign: bool = False, digits: int = 2) -> str:
    """An interval: `[0.37, 0.53]`; empty when an end is missing."""
    if low is None or high is None:
        return ""
    word = signed if sign else decimal
    return f"[{word(low, digits)}, {word(high, digits)}]"


def p_value(p: float | None) -> str:
    """A p-value with three decimals: `0.021`, `< 0.001`."""
    if p is None or math.isnan(p):
        return DASH
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def count(value: int | None) -> str:
    """A count with thousands separators: `12,345`."""
    return DASH if value is None else f"{value:,}".replace("-", MINUS)


def large(value: float | None) -> str:
    """A large number with about three digits: `950`, `12.3k`, `4.5M`."""
    if value is None or not math.isfinite(value):
        return DASH
    # a number that rounds up to the next unit uses that unit: 999,960 is 1.0M, not 1000.0k
    for unit, scale, almost in (("G", 1e9, 0.99995), ("M", 1e6, 0.99995), ("k", 1e3, 0.9995)):
        if abs(value) >= scale * almost:
            return f"{value / scale:.1f}{unit}".replace("-", MINUS)
    return f"{value:.0f}".replace("-", MINUS)


def money(usd: float | None) -> str:
    """Dollars: `$12.30`, `$0.0042`; `nothing` for 0 and `unknown` for a missing price."""
    if usd is None or not math.isfinite(usd):
        return "unknown"
    if usd == 0:
        return "nothing"
    digits = 2 if abs(usd) >= 0.995 else min(8, 1 - math.floor(math.log10(abs(usd))))
    return f"{'-' if usd < 0 else ''}${abs(usd):,.{digits}f}".replace("-", MINUS)


def duration(seconds: float | None) -> str:
    """A duration: `0.8 s`, `42 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds is None or not math.isfinite(seconds):
        return DASH
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def price_words(usd: float | None) -> str:
    """The same in a sentence: `nothing`, `$12.30`, `an unknown price`."""
    return "an unknown price" if usd is None else money(usd)


def score_words(value: float | None) -> str:
    """A score with two decimals, or more where it would look like 0 or 1 and is not; `-` when there is none."""
    return "-" if value is None else number_text(value)


def change_words(mean: float | None, ci: tuple[float, float] | None, p: float | None = None) -> str:
    """A difference with its interval and its p-value, as far as they are known."""
    interval = "" if ci is None else f" [{number_text(ci[0], sign=True)}, {number_text(ci[1], sign=True)}]"
    chance = "" if p is None else f"   p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}"
    return ("-" if mean is None else number_text(mean, sign=True)) + interval + chance


def count_words(number: int, noun: str) -> str:
    """A number with its noun in the singular or plural: `1 task`, `2 families`."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural}"


END_WORDS = {"folded": "merged", "dropped": "not used", "rejected": "refused"}
"""Ends of proposals that people read in other words."""


def proposal_words(applied: int, merged: int, unused: int, refused: int, waiting: int = 0) -> str:
    """How the proposals of a batch, an epoch or a run ended. waiting: those that wait for a person."""
    quarantined = f", {waiting} quarantined" if waiting else ""
    return f"proposals: {applied} applied, {merged} merged into them, {unused} not used, {refused} refused{quarantined}"


def clock_time(seconds: float) -> str:
    """A duration as minutes and seconds, with hours if there are any: `00:09`, `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
