"""Text from outside, made safe to store and to show on a terminal.

A character that a terminal would obey, or would not show, is written as the escape that Python uses for it: `\\x1b`,
`\\u202e`, `\\U000e0041`. A text that holds the characters of such an escape itself looks the same; `--json` tells them
apart.
"""

import re
from collections.abc import Callable, Iterable
from unicodedata import category

_TAB = 8
"""Columns from one tab stop to the next."""
_MAX_MARKS = 8
"""Largest number of marks in a row that are drawn above and below one letter."""

_TOKEN = re.compile(r"\w{1,6}|[^\w\s]")

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
"""Control characters except tab and line feed, separators of lines, halves of characters, and no characters."""
_UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters without a picture: those that reorder text, have no width, or only tag others."""
_JOINED = "\u0600-\u07ff\u0840-\u0dff\u0f00-\u109f\u1780-\u18af\u1a20-\u1aad\u1b00-\u1c4f\ua800-\uabff"
"""Letters of scripts that are written with joiners: Arabic, those of India, and others."""
_PICTURES = "\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"
"""Symbols and emoji."""

_ESCAPED = re.compile(
    f"[{_CONTROLS}{_UNSEEN}]"
    # joiners are kept where emoji and some scripts need them
    f"|(?<![{_JOINED}{_PICTURES}\ufe0f])[\u200c\u200d]|[\u200c\u200d](?![{_JOINED}{_PICTURES}])"
    # so is the choice between the two pictures of a symbol
    f"|[\ufe00-\ufe0d]|(?<![{_PICTURES}#*0-9])[\ufe0e\ufe0f]"
)
_MAYBE_MARKS = re.compile(
    "[\u0300-\u1fff\u20d0-\u20ff\u302a-\u309a\ua66f-\uabff\ufb1e\ufe20-\ufe2f\U00010000-\U0001efff]"
    f"{{{_MAX_MARKS + 1},}}"
)


class Block(str):  # noqa: SLOT000  it has an attribute
    """Lines of text that are safe to print as they are. Made by `block`; joining one to other text makes a plain text.

    A plain text is printed as one line, so that a value inside it cannot begin a line of its own.
    """

    indent: str | None = None
    """What stands before each line that a terminal has no room for; None: the terminal breaks such lines itself."""


def storable(text: str) -> str:
    """The text with each lone surrogate replaced by its escape `\\udXXX`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text


def visible(text: str) -> str:
    """The text with an escape for each character that a terminal would obey or not show. Line breaks are kept.

    Tabs become spaces. Of many marks on one letter the first few are kept.
    """
    text = written_out(text.replace("\r\n", "\n"), _python_escape)
    return "\n".join(line.expandtabs(_TAB) for line in text.split("\n")) if "\t" in text else text


def visible_line(text: str, limit: int | None = None) -> str:
    """The text on one line, with an escape for line breaks and tabs too.

    limit: a longer text is cut there, and the number of characters that are left out is added.
    """
    line = written_out(text if limit is None else text[:limit], _python_escape)
    line = line.replace("\n", "\\n").replace("\t", "\\t")
    return line if limit is None or len(text) <= limit else f"{line}… ({len(text) - limit:,} characters more)"


def block(text: str, first: str = "", rest: str | None = None) -> Block:
    """The text as lines that can be printed, each visible, with `first` before the first and `rest` before the others.

    rest: as many spaces as `first` has characters, unless it is given.
    """
    first = visible_line(first)
    before = " " * len(first) if rest is None else visible_line(rest)
    lines = Block(first + visible(text).replace("\n", f"\n{before}"))
    lines.indent = before
    return lines


def visible_json(text: str) -> str:
    """JSON with JSON's own escape for each character that a terminal would obey or not show."""
    return written_out(text, _json_escape)


def written_out(text: str, escape: Callable[[str], str]) -> str:
    """The text with `escape(character)` for each character that is not seen or changes how others look.

    Tabs, line feeds, and the joiners that emoji and scripts need, are kept.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _MAYBE_MARKS.sub(lambda run: _few_marks(run[0], escape), text)
    return _ESCAPED.sub(lambda found: escape(found[0]), text)


def _few_marks(run: str, escape: Callable[[str], str]) -> str:
    """The characters of a run, with an escape for each mark that follows too many others."""
    written: list[str] = []
    marks = 0
    for one in run:
        marks = marks + 1 if category(one) in {"Mn", "Me"} else 0
        written.append(one if marks <= _MAX_MARKS else escape(one))
    return "".join(written)


def _python_escape(character: str) -> str:
    return ascii(character)[1:-1]


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def estimated_tokens(text: str) -> int:
    """Estimated tokens of a text: one per six letters of a word, rounded up, and one per other sign."""
    return len(_TOKEN.findall(text))


def number_text(value: float, places: int = 2, *, sign: bool = False) -> str:
    """A number with that many decimals; with more of them where it would look like 0 or 1 and is not: `0.996`."""
    text, most = "", places + 4
    while places <= most:
        text = f"{value:{'+' if sign else ''}.{places}f}"
        shown = float(text)
        if abs(shown) not in {0.0, 1.0} or abs(shown - value) < 1e-9:
            break
        places += 1
    return text


def nearest_name(name: str, known: Iterable[str], *, alike: float = 0.65) -> str | None:
    """The known name that was probably meant; None when none is as similar as `alike` (0..1)."""
    from difflib import get_close_matches

    by_form = {one.casefold().replace("-", "_"): one for one in known}
    found = get_close_matches(name.casefold().replace("-", "_"), by_form, n=1, cutoff=alike)
    return by_form[found[0]] if found else None


def meant_or_known(name: str, known: Iterable[str]) -> str:
    """What to say after an unknown name: `did you mean 'model'?`, or all known names."""
    names = sorted(known)
    meant = nearest_name(name, names)
    return f"did you mean {meant!r}?" if meant else f"known: {', '.join(names) or 'none'}"
