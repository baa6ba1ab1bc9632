"""Text from outside: made safe to store and to show on a terminal, and made plain to compare.

A character that a terminal would obey, or would not show, is written as the escape that Python uses for it: `\\x1b`,
`\\u202e`, `\\U000e0041`. A text that holds the characters of such an escape itself looks the same; `--json` tells them
apart.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from unicodedata import category, decimal, east_asian_width, normalize

from agentlearn.text.secret_values import without_secrets

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
    "\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e001f\U000e0080-\U000e0fff"
)
"""Characters without a picture: those that reorder text or have no width."""
_TAGS = "\U000e0020-\U000e007f"
"""Characters without a picture that tag others. Behind a black flag they make the flag of a region."""
_JOINED = "\u0600-\u07ff\u0840-\u0dff\u0f00-\u109f\u1780-\u18af\u1a20-\u1aad\u1b00-\u1c4f\ua800-\uabff"
"""Letters of scripts that are written with joiners: Arabic, those of India, and others."""
_PICTURES = "\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"
"""Symbols and emoji."""

_ESCAPED = re.compile(
    f"[{_CONTROLS}{_UNSEEN}{_TAGS}]"
    # joiners are kept where emoji and some scripts need them
    f"|(?<![{_JOINED}{_PICTURES}\ufe0f])[\u200c\u200d]|[\u200c\u200d](?![{_JOINED}{_PICTURES}])"
    # so is the choice between the two pictures of a symbol
    f"|[\ufe00-\ufe0d]|(?<![{_PICTURES}#*0-9])[\ufe0e\ufe0f]"
)
UNSEEN = f"[{_UNSEEN}\u200c\u200d\ufe00-\ufe0f]|(?<![\U0001f3f4{_TAGS}])[{_TAGS}]+"
"""Characters that nobody sees, with the joiners and the choices of a picture that some scripts and emoji need, as a
regular expression. It is compiled where it is first used, as those of scripts, which saves time at the start."""
_MAYBE_MARKS = re.compile(
    "[\u0300-\u1fff\u20d0-\u20ff\u302a-\u309a\ua66f-\uabff\ufb1e\ufe20-\ufe2f\U00010000-\U0001efff]"
    f"{{{_MAX_MARKS + 1},}}"
)

IDEOGRAPHS = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\ua4cf"
    "\uf900-\ufaff\U00017000-\U00018cff\U0001aff0-\U0001b2ff\U00020000-\U0003fffd"
)
"""Characters of China and Japan, and others that each count as a word, for a character class."""
_UNSPACED = (
    f"{IDEOGRAPHS}\u0e01-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\ua840-\ua877\ua980-\uaadf"
    "\U00011700-\U0001174f"
)
"""Characters of scripts without blanks between words: also Thai, Lao, Tibetan, Burmese, Khmer, Javanese and others."""
_KOREAN = "[\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb]"
"""Korean letters. Blanks stand before words, but particles and endings stand right behind them."""
ATTACHED = f"[{_UNSPACED}{_KOREAN[1:]}"
"""A character class: what a word of another script may stand right next to."""
_OTHER_DIGITS = re.compile(r"[^\D0-9]")
_NUMBER_SIGNS = str.maketrans({"\u066a": "%", "\u066b": ".", "\u066c": ","})
"""Percent sign, decimal point and separator of thousands between Arabic digits."""


def seen(text: str) -> str:
    """The text without the characters that nobody sees."""
    return text if text.isascii() else re.sub(UNSEEN, "", text)


def plain(text: str) -> str:
    """The text as it is seen, in compatible characters (NFKC), with the digits 0 to 9 for those of other scripts."""
    if text.isascii():
        return text
    text = normalize("NFKC", seen(text)).translate(_NUMBER_SIGNS)
    return _OTHER_DIGITS.sub(lambda found: str(decimal(found[0])), text)


def word_places(text: str, words: str) -> Iterator[int]:
    """Yield where one or more words stand in a text, by the scripts of their ends and of what stands next to them.

    Where blanks part words, no letter or digit may continue them: `Bern` does not stand in `Bernau`. Scripts without
    blanks know no such bound, nor is there one between two scripts: `B` stands in `答案是B`. In Korean an ending may
    follow. A mark on the last letter makes it another one.
    """
    at = text.find(words)
    while at >= 0:
        if _is_bound(text, at, begins=True) and _is_bound(text, at + len(words), begins=False):
            yield at
        at = text.find(words, at + 1)


def _is_bound(text: str, at: int, *, begins: bool) -> bool:
    """Whether words begin at this place of a text, or end before it."""
    if not 0 < at < len(text):
        return True
    own, other = (text[at], text[at - 1]) if begins else (text[at - 1], text[at])
    if own.isascii() and other.isascii():
        return own in "([{}])" or not (other.isalnum() or other == "_")
    is_mark = category(other)[0] == "M"
    if re.match(ATTACHED, own) or re.match(ATTACHED, other):
        return not (re.match(_KOREAN, own) and re.match(_KOREAN, other)) if begins else not is_mark
    return not (is_mark or other.isalnum() or other == "_")


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
    label = label if _columns(label) == len(indent) and label.endswith(" ") else ""
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
            end = "" if word[-1] in ",;:" else end  # the command ends here, and words follow


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

    Tabs, line feeds, and the joiners that emoji and scripts need, are kept. Known secrets are left out: all that is
    printed comes through here.
    """
    text = without_secrets(text)
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
    """The known name that was probably meant: the only one that begins so, or one as similar as `alike` (0..1)."""
    from difflib import get_close_matches

    form, by_form = name.casefold().replace("-", "_"), {one.casefold().replace("-", "_"): one for one in known}
    begun = [one for one in by_form if one.startswith(form)] if form.strip("_") else []
    found = begun if len(begun) == 1 else get_close_matches(form, by_form, n=1, cutoff=alike)
    return by_form[found[0]] if found else None


def meant_or_known(name: str, known: Iterable[str]) -> str:
    """What to say after an unknown name: `did you mean 'model'?`, or all known names."""
    names = sorted(known)
    meant = nearest_name(name, names)
    return f"did you mean {meant!r}?" if meant else f"known: {', '.join(names) or 'none'}"
