r"""Reading the answer out of a reply: the last tags, label or box, or the letter of a choice. Thoughts do not count."""

import re
from itertools import takewhile

from agentlearn.answers.answer_text import BRACKETS, SYMMETRIC, end_of_braces, without_marks
from agentlearn.answers.thoughts import is_mentioned, split_thoughts
from agentlearn.text import ATTACHED, plain

MAX_BARE_CHARACTERS = 200
"""A text of at most this length without tag and label is an answer as a whole."""
MAX_EMPHASISED_CHARACTERS = 60
"""Longest text in bold at the end of a reply that is read as its answer."""

_TAG = re.compile(r"<(?P<ends>/?) ?answer ?/?>", re.IGNORECASE)
_NOTHING_MORE = re.compile(r"\s*\Z")
_BROKEN_TAG = re.compile(r"</[answer]{0,6}\Z", re.IGNORECASE)
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
_BOX_OR_BRACE = re.compile(r"\\(?:boxed|framebox)\s*\{|\\.|[{}]", re.DOTALL)
_BEHIND_BOX = re.compile(r"[\s.!。！$*_)\]\\]*")
_BOLD = re.compile(r"\*\*(?=\S)([^*\n]+)(?<=\S)\*\*|__(?=\S)([^_\n]+)(?<=\S)__")
_END_OF_SENTENCE = re.compile(r"[\s.!。！]*\Z")
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+\S")
_BLOCK_ENDS = {"$$": "$$", "\\[": "\\]"}

_ALONE = re.compile(r"[(\[{]?([A-J])[)\]}.:,;]*", re.IGNORECASE)
_LETTERS = (
    re.compile(
        r"\b(?:answer|option|choice|letter)(?: is| would be|:)?:? *[(\[]?([A-J])(?![\w'])(?! [a-z]{2})", re.IGNORECASE
    ),
    re.compile(r"[(\[]([A-Ja-j])[)\]]|(?<![\w'(\[])([A-Ja-j])[)\]]|(?<![\w'])([A-J])(?=[.:,;](?:\s|$))"),
    # Capital letters alone; A and I are words when another word follows.
    re.compile(r"(?<![\w'(\[])(?:([B-HJ])(?![\w'+#-])|([AI])(?![\w'+#-]| (?!and\b|or\b|is\b)[a-z]))"),
)
_LETTER = r"[(\[]?[A-J][)\]]?(?![\w'])"
_CALLED = r"(?:the )?(?:(?:answer|option|choice|letter)s? )?"
_LETTERS_AND = rf"{_CALLED}{_LETTER}(?:(?:, {_LETTER})*,? (?:or|nor|and) {_CALLED}{_LETTER})?"
_WRONG = r"(?i:wrong|incorrect|false|untrue|invalid|impossible|ruled out|eliminated|excluded|rejected)\b"
_RIGHT = r"(?:correct|right|true|valid|possible|it|(?:the|an?) (?:\w+ )?(?:answer|one|option|choice|solution))\b"
_DENYING = (
    r"\b(?i:not|neither|never|rather than|instead of)|n't(?: think)?(?: be| it is| it's)?"
    r"|\b(?:(?:I|we) (?:have |can )?)?(?i:rul(?:ed?|ing) out|eliminat(?:ed?|ing)|exclud(?:ed?|ing)|reject(?:ed|ing)?)"
    rf"|\b{_WRONG}(?: answers?| options?| choices?)?(?: is| are|:)"
)
_IS_WRONG = rf"(?: (?:is|are|was|were|must be|can be|seems?|looks?)(?: (?!not\b|never\b)[a-z]+){{0,2}}|:| \() ?{_WRONG}"
_IS_NOT = r"(?: (?:is|are|was|were|can|could|would)(?:n't| not)|(?: cannot| can't))(?: be)?"
_DENIED = re.compile(
    rf"(?:{_DENYING}) {_LETTERS_AND}(?! (?!so\b|but\b|nor\b|or\b|is\b|are\b|because\b|since\b)[a-z])"
    rf"|(?<![\w'])(?i:{_CALLED}){_LETTERS_AND}"
    rf"(?:{_IS_WRONG}|{_IS_NOT}(?: {_RIGHT}|(?=[.,;:]|$| but\b| so\b))|\? [Nn]o\b)|~~[^~]+~~"
)
"""Letters that the answer rules out: behind `not` and its like, or with `is wrong` or `is not` behind them."""
_FIRST_SENTENCE = re.compile(
    r"[(\[]?([A-J])([.:)\]]|[.:]?$)[)\].:]?\s+(?=[^\W\d_]{2}|[^\W\d_]\s?[=<>≈≤≥])(?![a-z])(.*)",
    re.DOTALL | re.MULTILINE,
)
"""A letter that is a sentence or a line of its own, and what follows it: words, or the start of a formula."""
_NEXT_OF_A_LIST = r"(?<![^\W_])[(\[]?[A-Ja-j]{mark}"
_DRESSING = re.compile(r"[*_`$]|\\(?:boxed|text|textbf|mathrm|mathbf)\b")


def final_answer_in(text: str, *, whole: bool = True) -> str | None:
    r"""Return the answer that a reply ends with; None when it has none.

    The first of these that the reply has: the last `<answer>…</answer>`, or what stands behind an `<answer>` that is
    never closed; the value of the last label such as `Answer:`, on its line or below; the box, the text behind `####`
    or the only text in bold that ends the last line; the whole of a short reply. A box in the last line comes before a
    label above it. Thoughts are left out. A reply that breaks off in a thought or right behind a tag in mid-sentence
    has no answer. whole: False for a reply that was cut off; what its last tag begins is then no answer.
    """
    spoken = split_thoughts(text)
    if spoken.unfinished:
        return None
    text = spoken.said
    lines = text.rstrip().split("\n")
    last = lines[-1]
    found, boxes, bold = _tagged(text, whole=whole), list(_BOX.finditer(last)), list(_BOLD.finditer(last))
    if found is None and len(boxes) == 1:
        start = boxes[0].end()
        end = end_of_braces(last, start)
        found = last[start:end] if end is not None and _BEHIND_BOX.fullmatch(last, end + 1) else None
    if found is None:
        found = _labelled(lines)
    if found is None and (marked := _MARKED_LINE.fullmatch(last.strip())):
        found = marked[1]
    elif found is None and len(bold) == 1 and _END_OF_SENTENCE.match(last, bold[0].end()):
        value = bold[0][1] or bold[0][2]
        found = value if len(value) <= MAX_EMPHASISED_CHARACTERS and not value.endswith((":", "：")) else None
    if found is None:
        found = text if len(text.strip()) <= MAX_BARE_CHARACTERS else ""
    return without_marks(found) or None


def boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{…}` or `\framebox{…}` with balanced braces; None when there is none.

    Boxes in thoughts do not count. A reply whose last thought never ends has no box.
    """
    spoken = split_thoughts(text)
    if spoken.unfinished:
        return None
    last: tuple[int, int] | None = None
    opened: list[int | None] = []
    for token in _BOX_OR_BRACE.finditer(spoken.said):
        word = token[0]
        if word == "{":
            opened.append(None)
        elif word.endswith("{") and len(word) > 2:
            opened.append(token.end())
        elif word == "}" and opened:
            start = opened.pop()
            if start is not None and (last is None or start > last[0]):
                last = (start, token.start())
    return None if last is None else spoken.said[last[0] : last[1]].strip()


def single_choice(text: str) -> str | None:
    """Return the letter of the one choice in an answer, in upper case: from `(b)`, `B.`, `B) Paris`, `答案是B`.

    None for no letter from A to J, or several. That a letter is ruled out is read in English only; in other languages
    such an answer has two letters.
    """
    text = _DRESSING.sub("", plain(text)).replace("’", "'").strip()
    if not text.isascii():  # a letter next to scripts without blanks stands apart
        text = re.sub(rf"(?<={ATTACHED})(?=[A-Z])|(?<=[A-Z])(?={ATTACHED})", " ", text)
        text = re.sub(rf"(?<={ATTACHED})[a-j](?={ATTACHED}|\W|\Z)", lambda one: f" {one[0].upper()} ", text)
    if first := _FIRST_SENTENCE.match(text):
        mark = re.escape(first[2]) if first[2] else "$"
        if not re.search(_NEXT_OF_A_LIST.format(mark=mark), first[3], re.MULTILINE):
            return first[1]
    text = " ".join(text.split())
    if alone := _ALONE.fullmatch(text):
        return alone[1].upper()
    text = _DENIED.sub(" ", text)
    found = [one for pattern in _LETTERS for found in pattern.finditer(text) for one in found.groups() if one]
    letters = {one.upper() for one in found}
    return letters.pop() if len(letters) == 1 else None


def _tagged(text: str, *, whole: bool) -> str | None:
    """Return what the last tag holds; None without a tag that holds anything, empty when the reply breaks off there."""
    pairs: list[str] = []
    opened, line, end = None, "", 0
    for tag in _TAG.finditer(text):
        if not tag["ends"] and (opened is None or not _NOTHING_MORE.match(text, tag.end())):
            opened = tag
        elif opened is not None:
            line = text[max(0, opened.start() - 200) : opened.start()].rpartition("\n")[2]
            pairs.append(text[opened.end() : tag.start()])
            opened, end = None, tag.end()
    if opened is not None and not is_mentioned(opened) and (rest := text[opened.end() :].strip()):
        rest = _BROKEN_TAG.sub("", rest) if whole else ""
        labelled = _labelled(rest.split("\n"))
        return rest if labelled is None else labelled
    if not pairs or not any(map(str.isalpha, line)):
        return pairs[-1] if pairs else None
    goes_on = _GOES_ON.match(text, end)
    return "" if goes_on and (goes_on[1] or len(set(pairs)) > 1) else pairs[-1]


def _labelled(lines: list[str]) -> str | None:
    """Return the value of the last label; empty when nothing follows it, None without a label."""
    for number in range(len(lines) - 1, -1, -1):
        if "answer" not in lines[number].casefold():
            continue
        label = _LABEL.fullmatch(lines[number].strip())
        if label and not (label["is"] and label["nothing"] is not None):
            value = label["value"] or _below(lines[number + 1 :])
            for mark in SYMMETRIC:
                if mark in label[0][: label.start("value")] and value.count(mark) % 2:
                    value = value.strip().removesuffix(".").removesuffix(mark)
            for opening, closing in BRACKETS:
                if opening in label["before"] and value.count(closing) > value.count(opening):
                    value = value.strip().removesuffix(".").removesuffix(closing)
            return value
    ends = _ENDS_IN_LABEL.fullmatch(lines[-1])
    return ends[1] if ends else None


def _below(lines: list[str]) -> str:
    """Return the first block of lines that are not empty: code, a formula, a list, or one line."""
    start = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    if not (lines := lines[start:]):
        return ""
    first = lines[0].strip()
    fence = re.match(r"`{3,}|~{3,}", first)
    if (closing := fence[0] if fence else _BLOCK_ENDS.get(first)) is not None:
        end = next((at for at, line in enumerate(lines[1:], 1) if line.strip() == closing), None)
        if end is None:
            return ""
        return "\n".join(line.strip() for line in lines[: end + 1]) if fence else "\n".join(lines[1:end])
    if _ITEM.match(lines[0]):
        return "\n".join(line.strip() for line in takewhile(_ITEM.match, lines))
    return first
