"""Finding the final answer in an agent's text, and normalising texts for comparison."""

import re
import unicodedata
from itertools import takewhile

from agentlearn.thoughts import split_thoughts

MAX_BARE_CHARACTERS = 200
"""A text of at most this length without tag and label is an answer as a whole."""

MAX_MARKS = 8
"""Largest number of marks inside one another that are taken off an answer."""
MAX_EMPHASISED_CHARACTERS = 60
"""Longest text in bold at the end of a reply that is read as its answer."""

_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_GOES_ON = re.compile(r"[ \t]*[,;–—-]?[ \t]*[^\W\d_]+([ \t,;])?[^\n]*[^\s.!?…。！？)\]}>*_`\"'”’»」]\s*\Z")
"""What follows the last tag of a reply that breaks off in mid-sentence. One word alone may be a unit."""
_LABEL = re.compile(
    r"(?P<before>(?:</?[a-z]\w{0,7}>|[^\w\n<\\])*)(?:\d{1,2}[.)][ \t]+)?[*_]*"
    r"(?:the |my )?[*_]*(?:final |correct )?answer(?P<is> is)?(?:</[a-z]\w{0,7}>|[*_\"”»])*"
    r"(?:\s*(?:[:：=→⇒]|[-=]>)|\s+[-–—](?=\s)|(?P<nothing>[.]?)(?=\s*\Z))(?:</[a-z]\w{0,7}>|[*_])*\s*(?P<value>.*)",
    re.IGNORECASE,
)
_ENDS_IN_LABEL = re.compile(r".*\banswer is[*_]*[ \t]*[:：](?:</[a-z]\w{0,7}>|[*_])*[ \t]*(\S.*)", re.IGNORECASE)
_MARKED_LINE = re.compile(r"#{4}[ \t]*(\S.*)")
"""The last line of an answer in the form of GSM8K."""
_BOX = re.compile(r"\\f?boxed\s?\{")
_BOLD = re.compile(r"\*\*(?=\S)([^*\n]+)(?<=\S)\*\*|__(?=\S)([^_\n]+)(?<=\S)__")
_END_OF_SENTENCE = re.compile(r"[\s.!。！]*\Z")
_FENCED = re.compile(r"(`{3,}|~{3,})[ \t]*[\w+#.-]*[ \t]*\n(.*?)\n?[ \t]*\1", re.DOTALL)
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+\S")
_BLOCK_ENDS = {"$$": "$$", "\\[": "\\]"}
_COMMAND = re.compile(r"\\(?:f?boxed|framebox|text(?:bf)?|math(?:rm|bf))\s?\{(.*)\}", re.DOTALL)
_PAIRS = (("(", ")"), ("[", "]"), ("【", "】"), ("「", "」"), ("“", "”"), ("«", "»"))
_QUOTES = (*_PAIRS[3:], ('"', '"'), ("'", "'"), ("‘", "’"), ("„", "“"), ("„", "”"))
_RAISED = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u207f]+")
_LOWERED = re.compile("[\u2080-\u208e]+")
_VULGAR = re.compile("(\\d?)[\u00bc-\u00be\u2150-\u215e\u2189]")
_SYMMETRIC = ("**", "__", "```", "`", "*", "$$", "$")
_DRESSING = (*((mark, mark) for mark in _SYMMETRIC), ("\\(", "\\)"), ("\\[", "\\]"))


def final_answer_in(text: str) -> str | None:
    r"""Return the answer that a reply ends with; None when it has none.

    The first of these that the reply has: the last `<answer>…</answer>`; the value of the last label such as `Answer:`,
    on its line or below; the box, the text behind `####` or the only text in bold that ends the last line; the
    whole of a short reply. A box in the last line comes before a label above it. Thoughts are left out. A reply that
    breaks off in a thought or right behind a tag in mid-sentence has no answer.
    """
    spoken = split_thoughts(text)
    if spoken.unfinished:
        return None
    text = spoken.said
    found = _tagged(text)
    if found is None:
        lines = text.rstrip().split("\n")
        found = _boxed(lines[-1])
        if found is None:
            found = _labelled(lines)
        if found is None:
            found = _emphasised(lines[-1])
        if found is None:
            found = text if len(text.strip()) <= MAX_BARE_CHARACTERS else ""
    return without_marks(found) or None


def without_marks(text: str) -> str:
    """Return the text without surrounding white space, Markdown and LaTeX marks. `__init__` keeps its lines."""
    text = text.strip()
    for _ in range(MAX_MARKS):
        inside = _inside(text)
        if inside is None:
            break
        text = inside.strip()
    return text


def _inside(text: str) -> str | None:
    """Return what one pair of marks around the whole text holds; None without such a pair."""
    if (fenced := _FENCED.fullmatch(text)) and fenced[1] not in fenced[2]:
        return fenced[2]
    for opening, closing in _DRESSING:
        inside = text[len(opening) : -len(closing)]
        name = opening == "__" and inside.isidentifier()
        if inside and text == f"{opening}{inside}{closing}" and opening not in inside and not name:
            return inside
    command = _COMMAND.fullmatch(text)
    return command[1] if command and _end_of_braces(command[1]) is None else None


def normalised(text: str) -> str:
    """Return the text without differences in case, compatible characters (NFKC), white space, quotation
    marks around it and final period.

    Raised and lowered characters and fractions keep their meaning: `10²` becomes `10^2`, and `2½` becomes `2 1/2`.
    """
    # Twice: casefolding can produce characters that NFKC changes again.
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", plainly_set(_unquoted(text))).casefold())
    text = " ".join(text.split())
    return text[:-1].rstrip() if text.endswith((".", "。")) and not text.endswith("..") else text


def plainly_set(text: str) -> str:
    """Return the text with raised and lowered characters behind `^` and `_`, and fractions with a slash."""
    if text.isascii():
        return text
    text = _VULGAR.sub(_fraction, text)
    text = _RAISED.sub(lambda found: f"^{unicodedata.normalize('NFKC', found.group())}", text)
    return _LOWERED.sub(lambda found: f"_{unicodedata.normalize('NFKC', found.group())}", text)


def _fraction(found: re.Match[str]) -> str:
    plain = unicodedata.normalize("NFKC", found[0][-1]).replace("\N{FRACTION SLASH}", "/")
    return f"{found[1]} {plain}" if found[1] else plain


def _tagged(text: str) -> str | None:
    """Return the content of the last pair of tags; None without a pair, empty when the reply breaks off behind it."""
    pairs: set[str] = set()
    found, start, line, end = None, None, "", 0
    for tag in _TAG.finditer(text):
        if not tag[1]:
            start = tag.end()
            line = text[max(0, tag.start() - 200) : tag.start()].rpartition("\n")[2]
        elif start is not None:
            found, start, end = text[start : tag.start()], None, tag.end()
            pairs.add(found)
    if found is None or not any(map(str.isalpha, line)):
        return found
    goes_on = _GOES_ON.match(text, end)
    return "" if goes_on and (goes_on[1] or len(pairs) > 1) else found


def _labelled(lines: list[str]) -> str | None:
    """Return the value of the last label; empty when nothing follows it, None without a label."""
    for number in range(len(lines) - 1, -1, -1):
        if "answer" not in lines[number].casefold():
            continue
        label = _LABEL.fullmatch(lines[number].strip())
        if label and not (label["is"] and label["nothing"] is not None):
            value = label["value"] or _below(lines[number + 1 :])
            for mark in _SYMMETRIC:
                if mark in label[0][: label.start("value")] and value.count(mark) % 2:
                    value = value.strip().removesuffix(".").removesuffix(mark)
            for opening, closing in _PAIRS:
                if opening in label["before"] and value.count(closing) > value.count(opening):
                    value = value.strip().removesuffix(".").removesuffix(closing)
            return value
    ends = _ENDS_IN_LABEL.fullmatch(lines[-1])
    return ends[1] if ends else None


def _below(lines: list[str]) -> str:
    """Return the first block of lines that are not empty: code, a formula, a list, or one line."""
    start = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    lines = lines[start:]
    if not lines:
        return ""
    first = lines[0].strip()
    if fence := re.match(r"`{3,}|~{3,}", first):
        end = next((at for at, line in enumerate(lines[1:], 1) if line.strip() == fence[0]), None)
        return "" if end is None else "\n".join(line.strip() for line in lines[: end + 1])
    if first in _BLOCK_ENDS:
        end = next((at for at, line in enumerate(lines[1:], 1) if line.strip() == _BLOCK_ENDS[first]), None)
        return "" if end is None else "\n".join(lines[1:end])
    if _ITEM.match(lines[0]):
        return "\n".join(line.strip() for line in takewhile(_ITEM.match, lines))
    return first


def _boxed(line: str) -> str | None:
    """Return the content of the only box in the line, if nothing but the end of the sentence follows."""
    boxes = list(_BOX.finditer(line))
    end = _end_of_braces(line, boxes[0].end()) if len(boxes) == 1 else None
    if end is None or not re.fullmatch(r"[\s.!。！$*_)\]\\]*", line[end + 1 :]):
        return None
    return line[boxes[0].end() : end]


def _emphasised(line: str) -> str | None:
    """Return what follows `####`, or the only text in bold if it ends the line; None otherwise."""
    if marked := _MARKED_LINE.fullmatch(line.strip()):
        return marked[1]
    bold = list(_BOLD.finditer(line))
    if len(bold) != 1 or not _END_OF_SENTENCE.match(line, bold[0].end()):
        return None
    value = bold[0][1] or bold[0][2]
    return value if len(value) <= MAX_EMPHASISED_CHARACTERS and not value.endswith((":", "：")) else None


def _end_of_braces(text: str, start: int = 0) -> int | None:
    """Return where a brace closes that was opened before `start`; None when it does not."""
    depth = 1
    for found in re.compile(r"\\.|[{}]", re.DOTALL).finditer(text, start):
        depth += (found[0] == "{") - (found[0] == "}")
        if not depth:
            return found.start()
    return None


def _unquoted(text: str) -> str:
    """Return the text without marks and without quotation marks around the whole of it."""
    text = without_marks(text)
    for opening, closing in _QUOTES:
        inside = text[len(opening) : -len(closing)]
        if inside.strip() and text == f"{opening}{inside}{closing}" and opening not in inside and closing not in inside:
            return _unquoted(inside)
    return text
