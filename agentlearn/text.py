"""Text from outside, made safe to store and to show on a terminal.

A character that a terminal would obey, or would not show, is written as the escape that Python uses for it: `\\x1b`,
`\\u202e`, `\\U000e0041`. A text that holds the characters of such an escape itself looks the same; `--json` tells them
apart.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from unicodedata import category, east_asian_width

_TAB = 8
"""Columns from one tab stop to the next."""
_MAX_MARKS = 8
"""Largest number of marks in a row that are drawn above and below one letter."""

_TOKEN = re.compile(r"\w{1,6}|[^\w\s]")

_NARROW = 20
"""Smallest number of columns after the indent for which lines are broken."""
_LABEL = re.compile(r"( {0,6})(?:\S+ )*?\S+ {2,}(?=\S)")
"""The label that a line begins with: what stands before the first gap of two spaces."""
_PARTS = re.compile(r"( {3,}|(?<=[:;]) (?=(?:agentlearn|just|pip) ))")
"""What parts of a line stand between: a gap of three spaces, or a space before a command."""
_COMMAND = re.compile(r"(?:agentlearn|just|pip) .* --?\w")
"""A part that is a command with options."""
_WORD = re.compile(r"(\s*)(\S+)")

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
    """What stands before each further line where a terminal has no room; None: the terminal breaks such lines."""


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


def wrapped(text: str, columns: int) -> str:
    """The text, broken between words so that no line is wider than `columns`.

    Lines after a break are indented: those of a `Block` by its own indent, others to where the words after the label
    begin. What stands between gaps of three spaces, such as a number with its interval, is broken last. A command that
    has to be broken gets a backslash, so that it can be copied. A word of a plain text that is wider than a line stays
    whole, such as a path; in a `Block` it is broken.
    """
    if not isinstance(text, Block):
        return "\n".join(_wrapped_line(text, columns, _indent(text, columns), chop=False))
    if text.indent is None or columns < len(text.indent) + _NARROW:
        return text
    indent = text.indent
    return "\n".join(part for line in text.split("\n") for part in _wrapped_line(line, columns, indent, chop=True))


def _indent(line: str, columns: int) -> str:
    label = _LABEL.match(line)
    if label is not None and label.end() <= columns // 2:
        return " " * label.end()
    spaces = len(line) - len(line.lstrip())
    return " " * (spaces if spaces > 6 else spaces + 2)


def _wrapped_line(line: str, columns: int, indent: str, *, chop: bool) -> Iterator[str]:
    if _columns(line) <= columns or columns < len(indent) + _NARROW:
        yield line
        return
    label = line[: len(indent)]
    label = label if _columns(label) == len(indent) else ""
    written, empty = label, True
    for gap, piece, end in _pieces(line[len(label) :], columns - len(indent), chop=chop):
        if not empty and _columns(written + gap + piece + end) > columns:
            yield written.rstrip() + end
            written = indent + piece
        else:
            written += gap + piece
        empty = False
    yield written.rstrip()


def _pieces(text: str, columns: int, *, chop: bool) -> Iterator[tuple[str, str, str]]:
    """What is not broken, each with the gap before it and with what ends the line if it begins the next."""
    first, *others = _PARTS.split(text)
    for gap, part in zip(("", *others[::2]), (first, *others[1::2]), strict=True):
        if _columns(part) <= columns:
            yield gap, part, ""
            continue
        end = " \\" if _COMMAND.match(part) else ""
        for number, found in enumerate(_WORD.finditer(part)):
            space, word = found.groups()
            halves = _chopped(word, columns) if chop or _columns(word) > len(word) else (word,)
            before = space if number else gap + space
            for place, half in enumerate(halves):
                yield "" if place else before, half, end if number and not place else ""


def _chopped(word: str, columns: int) -> Iterator[str]:
    """A word in pieces that are not wider than `columns`."""
    start = width = 0
    for place, one in enumerate(word):
        if (width := width + _columns(one)) > columns:
            yield word[start:place]
            start, width = place, _columns(one)
    yield word[start:]


def _columns(text: str) -> int:
    """Columns that a terminal needs for a text."""
    if text.isascii():
        return len(text)
    return sum(0 if category(one) in {"Mn", "Me"} else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def visible_json(text: str) -> str:
    """JSON with JSON's own escape for each character that a terminal would obey or not show."""

    def escape(character: str) -> str:
        units = character.encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))

    return written_out(text, escape)


def written_out(text: str, escape: Callable[[str], str]) -> str:
    """The text with `escape(character)` for each character that is not seen or changes how others look.

    Tabs, line feeds, and the joiners that emoji and scripts need, are kept.
    """
    if text.isascii() and text.isprintable():
        return text

    def few_marks(run: re.Match[str]) -> str:
        """The characters of a run, with an escape for each mark that follows too many others."""
        written: list[str] = []
        marks = 0
        for one in run[0]:
            marks = marks + 1 if category(one) in {"Mn", "Me"} else 0
            written.append(one if marks <= _MAX_MARKS else escape(one))
        return "".join(written)

    text = _MAYBE_MARKS.sub(few_marks, text)
    return _ESCAPED.sub(lambda found: escape(found[0]), text)


def _python_escape(character: str) -> str:
    return ascii(character)[1:-1]


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


def short_repr(value: object, most: int = 80) -> str:
    """Return a value as Python writes it, at most this many characters of it, for a message."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


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
