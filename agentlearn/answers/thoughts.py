"""What a model said, without what it thought aloud before.

Models mark their thoughts in many ways. Services take the marks out of some replies and leave them in others, and a
chat template may write the opening mark itself. Every reader of answers splits a reply here first, so that a draft
inside a thought is never read as an answer. Marks are form: a word such as "think" decides nothing, and a mark that
the text only mentions (in code, between quotation marks, or in mid-sentence) is left alone.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spoken:
    """A reply in two parts."""

    said: str
    """The reply without thoughts and without their marks; the reply itself when it holds no marks."""
    thoughts: str
    """The thoughts without their marks, in order, one after the other on new lines."""
    unfinished: bool
    """Whether the last thought never ends. Such a reply was broken off and has no answer."""


@dataclass(frozen=True, slots=True)
class _Marks:
    """How one family of models marks a thought, as regular expressions. None of them matches a line break."""

    opening: str
    closing: str
    in_prose: bool = False
    """Whether people write the marks in sentences too. Then a mark in mid-sentence is no mark."""
    only_first: bool = False
    """Whether the opening is made of usual words, so that it counts only where nothing was said before it."""
    endless: str = ""
    """With `only_first`: how a thought without an end begins; empty: such a thought is not recognised."""


_HEADER = r"(?:<\|start\|>[^<\n]{0,80}|assistant)?<\|channel\|>\s?"
_HEADER_END = r"\b[^<\n]{0,80}(?:<\|constrain\|>[^<\n]{0,40})?<\|message\|>"
_NAME = r"(?:\w{1,20}[:_])?think(?::\w{1,20})?|(?:\w{1,20}:)?thinking|thoughts?|reason(?:ing)?|scratchpad"
_FAMILIES = (
    # DeepSeek, Qwen, GLM, Nemotron and most others; also `<seed:think>`, `<mm:think>`, `<longcat_think>`
    _Marks(rf"<(?i:{_NAME})[ \t]?>", rf"</(?i:{_NAME})[ \t]?>", in_prose=True),
    # Mistral
    _Marks(r"\[THINK\]", r"\[/THINK\]", in_prose=True),
    # Kimi
    _Marks("◁think▷", "◁/think▷"),
    _Marks(r"<\|open\|>think<\|sep\|>", r"<\|close\|>think<\|sep\|>|<\|open\|>response<\|sep\|>"),
    # Cohere
    _Marks(r"<\|START_THINKING\|>", r"<\|END_THINKING\|>|<\|START_(?:RESPONSE|TEXT)\|>"),
    # OpenThinker, Sky-T1
    _Marks(r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>|<\|begin_of_solution\|>"),
    # Gemma
    _Marks(r"<\|channel>(?:thought\b)?", r"<channel\|>"),
    _Marks("<unused94>(?:thought\b)?", "<unused95>"),
    # Apertus, Pangu, Solar, PLaMo, Inkling
    _Marks(r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
    _Marks(r"\[unused16\]", r"\[unused17\]"),
    _Marks(r"<\|think:start\|>|<\|think\|>", r"<\|think:end\|>|<\|/think\|>"),
    _Marks(r"<\|plamo:begin_think:plamo\|>", r"<\|plamo:end_think:plamo\|>"),
    _Marks(r"<\|content_thinking\|>", r"<\|content_text\|>"),
    # gpt-oss: channels of the harmony format, with their tokens and without
    _Marks(rf"{_HEADER}(?:analysis|commentary){_HEADER_END}", rf"{_HEADER}final{_HEADER_END}"),
    _Marks(
        r"(?:assistant)?(?:analysis|commentary)(?=[^a-z])",
        r"assistantfinal",
        only_first=True,
        endless=r"analysis[A-Z]\S*\s",
    ),
    # Granite
    _Marks(r"Here(?:'s| is) my thought process:", r"Here(?:'s| is) my response:", only_first=True),
)
_FRAMES = (
    r"<\|(?:end|return|call|message_model|end_message|content_model_end_sampling|END_RESPONSE|END_TEXT"
    r"|end_of_solution|close\|>(?:response|message)<\|sep)\|>"
)
"""Marks around what is said. They end a part of it and say nothing more."""

_MARK = re.compile(
    r"(?=[<\[◁]|an|comm|ass|Here)(?:"
    + "|".join(f"(?P<o{at}>{one.opening})|(?P<c{at}>{one.closing})" for at, one in enumerate(_FAMILIES))
    + f"|(?P<frame>{_FRAMES}))"
)
_STOP = re.compile(rf"(?m:^)[ \t]*(?P<fence>`{{3,}}|~{{3,}})|(?P<code>`+)|{_MARK.pattern}")
_FENCE = re.compile(r"(?m)^[ \t]*(`{3,}|~{3,})[ \t]*$")
_WORD = re.compile(r"\S")
_QUOTES = {"`": "`", '"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "「": "」"}
_BEFORE_MENTION = re.compile(r"[\w,(][ \t]{1,8}\Z")
_BEHIND_MENTION = re.compile(r"[ \t]{1,8}[a-z(]|[ \t]{0,8}[,.;:!?)]")
_NEW_LINE = re.compile(r"(?:\A|\n)[ \t\r]*\Z")
_NEW_SENTENCE = re.compile(r"[.!?…。！？][ \t]*\Z")
_LOOK_BACK = 64
"""Characters before a mark that are read to tell where it stands."""


def split_thoughts(text: str) -> Spoken:
    """Return what a reply says, and its thoughts.

    A thought is what stands between two marks of one family. What comes before a closing mark without an opening one is
    a thought too: its opening mark was part of the prompt. An opening mark that is never closed begins an unfinished
    thought where a line or a sentence begins. Splitting `said` again changes nothing.
    """
    closings = _closings(text)
    if closings is None:
        return Spoken(text, "", unfinished=False)
    reply, code = _Reply(text), _Code(text)
    at = 0
    while stop := _STOP.search(text, at):
        kind, at = stop.lastgroup or "", stop.end()
        if kind in {"fence", "code"}:
            at = code.end(stop)
            continue
        if kind == "frame":
            reply.end_part(stop.start(), at)
            continue
        number = int(kind[1:])
        marks, first = _FAMILIES[number], reply.is_first(stop.start())
        if (marks.only_first and not first) or is_mentioned(stop, reply.start, in_prose=marks.in_prose):
            continue
        if kind == f"c{number}":
            reply.end_part(stop.start(), at)
            reply.forget()
            continue
        ends = closings[number]
        behind = bisect_left(ends, at, key=re.Match.start)
        end = ends[behind] if behind < len(ends) else None
        if end is None and not _never_ends(stop, marks, reply.start):
            continue
        reply.end_part(stop.start(), at)
        at = end.end() if end else len(text)
        reply.end_part(end.start() if end else at, at, thought=True)
        if end is None:
            return reply.spoken(unfinished=True)
    reply.end_part(len(text), len(text))
    return reply.spoken(unfinished=False)


class _Reply:
    """The parts of a reply that have been read, each with whether it is a thought."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts: list[tuple[str, bool]] = []
        self.start = 0
        """Where the part begins that is being read."""
        self._said_from = 0
        """Number of parts at the beginning that are thoughts, whatever they were taken for."""
        self._first = self._next_word()

    def is_first(self, at: int) -> bool:
        """Whether nothing was said before this position."""
        return at == self._first

    def end_part(self, end: int, next_start: int, *, thought: bool = False) -> None:
        """Take the part from `start` to `end`, and begin the next one behind the mark."""
        part = self.text[self.start : end].strip(" \t\r\n")
        self.parts.append((part, thought))
        self.start = next_start
        if self._first is not None:
            self._first = None if part.strip() and not thought else self._next_word()

    def forget(self) -> None:
        """Take all that was read for thoughts."""
        self._said_from, self._first = len(self.parts), self._next_word()

    def spoken(self, *, unfinished: bool) -> Spoken:
        """Return the reply; the text itself when it was not cut."""
        if len(self.parts) == 1:
            return Spoken(self.text, "", unfinished=False)
        said: list[str] = []
        thoughts: list[str] = []
        for number, (part, thought) in enumerate(self.parts):
            if part:
                (thoughts if thought or number < self._said_from else said).append(part)
        return Spoken("\n".join(said), "\n".join(thoughts), unfinished)

    def _next_word(self) -> int | None:
        found = _WORD.search(self.text, self.start)
        return found.start() if found else None


_MAX_TICKS = 8


class _Code:
    """Where code ends. Each line and each fence is looked at a fixed number of times, however the text is made."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._fences: list[re.Match[str]] | None = None
        self._never: dict[str, int] = {}
        """By character of a fence: a length of which no closing fence follows."""
        self._line_end = -1
        self._single: set[int] = set()
        """Lengths of runs of backticks that do not occur again on this line."""

    def end(self, begin: re.Match[str]) -> int:
        """Return where the code ends that begins here; the end of its mark when it does not end."""
        if begin.end() > self._line_end:
            end = self.text.find("\n", begin.end())
            self._line_end, self._single = len(self.text) if end < 0 else end, set()
        fence: str | None = begin["fence"]
        if fence and (fence[0] == "~" or "`" not in self.text[begin.end() : self._line_end]):
            return self._end_of_block(begin, fence)
        return self._end_in_line(begin, len(fence or begin["code"]))

    def _end_in_line(self, begin: re.Match[str], ticks: int) -> int:
        if ticks <= _MAX_TICKS and ticks not in self._single:
            again = re.compile(rf"(?<!`)`{{{ticks}}}(?!`)").search(self.text, begin.end(), self._line_end)
            if again:
                return again.end()
            self._single.add(ticks)
        return begin.end()

    def _end_of_block(self, begin: re.Match[str], fence: str) -> int:
        if self._fences is None:
            self._fences = list(_FENCE.finditer(self.text))
        if len(fence) >= self._never.get(fence[0], len(self.text)):
            return begin.end()
        for number in range(bisect_left(self._fences, begin.end(), key=re.Match.start), len(self._fences)):
            closing = self._fences[number]
            if closing[1].startswith(fence):
                # A draft may leave its fence open. Then the mark that ends the thought seems to stand in code.
                inside = _MARK.search(self.text, begin.end(), closing.start())
                ends_thought = inside and (inside.lastgroup or "").startswith("c") and _is_line(inside)
                return inside.start() if inside and ends_thought else closing.end()
        self._never[fence[0]] = len(fence)
        return begin.end()


def _closings(text: str) -> list[list[re.Match[str]]] | None:
    """Return the closing marks of each family, in order; None when the text has no marks at all."""
    found: list[list[re.Match[str]]] = [[] for _ in _FAMILIES]
    mark = None
    for mark in _MARK.finditer(text):
        kind = mark.lastgroup or ""
        if kind.startswith("c"):
            number = int(kind[1:])
            if not is_mentioned(mark, in_prose=_FAMILIES[number].in_prose):
                found[number].append(mark)
    return None if mark is None else found


def is_mentioned(mark: re.Match[str], start: int = 0, *, in_prose: bool = True) -> bool:
    """Whether a text only speaks of a mark. start: of its part. in_prose: whether people write it in sentences too."""
    text, begin, end = mark.string, mark.start(), mark.end()
    if begin > start and _QUOTES.get(text[begin - 1]) == text[end : end + 1]:
        return True
    before = text[max(start, begin - _LOOK_BACK) : begin]
    return bool(in_prose and _BEFORE_MENTION.search(before) and _BEHIND_MENTION.match(text, end))


def _never_ends(opening: re.Match[str], marks: _Marks, start: int) -> bool:
    """Whether an opening mark that is never closed begins a thought."""
    text, begin = opening.string, opening.start()
    if marks.only_first:
        return bool(marks.endless and re.compile(marks.endless).match(text, begin))
    if not marks.in_prose:
        return True
    before = text[max(start, begin - _LOOK_BACK) : begin]
    return bool(_NEW_LINE.search(before) or (_NEW_SENTENCE.search(before) and _WORD.search(text, opening.end())))


def _is_line(mark: re.Match[str]) -> bool:
    """Whether nothing else stands on the line of the mark."""
    before = mark.string[max(0, mark.start() - _LOOK_BACK) : mark.start()].rpartition("\n")
    behind = mark.string[mark.end() : mark.end() + _LOOK_BACK].partition("\n")
    return bool(before[1]) and not before[2].strip() and not behind[0].strip()
