"""Texts of lessons: which can be one, judged by the text alone, and how alike two are.

A lesson is shown to agents inside a fenced block with labels. It must be one short line of visible text, and it must
not look like part of that block (labels, headings, tags), like another speaker, or like a tool call. The patterns look
at the text after Unicode compatibility normalisation, so full-width look-alikes match too.

Two sets of words of which most are shared also share two of their first words, in any fixed order of all words. So it
is enough to compare lessons that share such a pair (the prefix filter of set similarity joins).
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import ceil

from agentlearn.library.curate.codes import RejectionCode, reject
from agentlearn.text import seen
from agentlearn.types.experience import (
    MAX_LESSON_WORDS,
    MAX_SECTION_CHARACTERS,
    MAX_SECTION_WORDS,
    is_section_character,
    lesson_limits,
    word_count,
)
from agentlearn.types.operation import Rejected
from agentlearn.types.ranking import lower_case_words, single_spaced
from agentlearn.types.rendering import is_section

_LINE_END = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

_TOOL_SYNTAX = re.compile(
    r"""
      \{\s*["'](?:name|tool|tool_\w+|function|action|arguments?|args|parameters|role|content|op|type|recipient
      |call|command|input|lesson|messages?|answer|system|user|reward|score|query|url|code|final\w*)["']\s*:  # {"name":
    | <\s*/?\s*(?:tool|function)[\w.:=-]*                                    # <tool_call>, <function=…
    | \b(?:tool|function)_calls?\b
    | \bto=functions\b
    | \b(?:run|call|exec|execute|invoke|use|open|click|visit|fetch|submit|final)_\w+\s*\(   # run_python(…
    """,
    re.IGNORECASE | re.VERBOSE,
)
_ROLE_TAG = re.compile(
    r"""
      (?<!\bthe\s)(?<!\ba\s)(?<!linear\s)(?<!this\s)(?<!each\s)(?<!number\s)(?<!nate\s)(?<!metric\s)(?<!\btion\s)
      (?<!equation\s)(?<!given\s)(?<!management\s)\b(?:system|user|assistant|developer|human)\s*:
    | (?:^|[.!?;]\s+)(?:tool|function|model|ai|bot|admin|administrator|operator|root|instruction|instructions)\s*:
    | ^(?:[a-z]+\s){0,2}(?:bot|result|output|tree|supervisor|customer|client|observation|operator|thought)
      \s*(?:\([^)]*\)\s*)?(?:>+\s*\w+\s*)?:\s
    | \bQ\s?:\s.*\bA\s?:\s
    | (?:^|[.!?;]\s+)(?:system|assistant|developer)\s*(?:>|=>|->|\|)
    | [\[({]\s*(?:system|assistant|developer|user|admin)\s*[\])}]
    | <\|[\w\s]{1,40}\|>                                                     # <|im_start|>
    | \[/?\s*(?:INST|SYS|SYSTEM|USER|ASSISTANT)\s*\]
    | <</?\s*SYS\s*>>
    """,
    re.IGNORECASE | re.VERBOSE,
)
_FORGED_ID = re.compile(
    r"""
      \[\s*(?:[GP]\s*\d+|[a-z]{2,12}(?:[-\#:]\d+|_\d{2,}))\s*\]              # [G3], [P2], [str-99999]; not [Object_1]
    | \b[GP]\d+\s*:                                                          # G12:
    | ^[GP]\d+(?:\s*[.)\]]|\s+-\s)
    | \b(?:experience|lesson|proposal)s?\s+\#?[GP]\d+\b
    | \b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{12,}\b                           # an id, whole or cut
    """,
    re.IGNORECASE | re.VERBOSE,
)
_FORGED_HEADER = re.compile(
    r"""
      ^\#{1,6}(?:\s|$) | \#{2,}                                              # ## heading
    | ^(?:-{3,}|={3,}|\*{3,})
    | ```|~~~|"{3}|'{3}|-{4,}|={4,}
    | <\s*/\s*[a-z] | <[a-z][\w:-]*\s*/> | <[a-z][\w:-]*\s+[\w:-]+\s*=[^<>]*>    # </x>, <x/>, <x y="z">
    | <(?:[bipsu]|br|div|span|script|style|iframe|img|svg|html|body|head|meta|link|form|input|prompt|context|problem
      |task|answer|end|system\w*|user|rules?|message|result|admin|root|important|observation|thought|final\w*)>
    | <\s*(?:experiences?|lessons?|system|user|assistant|instructions?|advice|library)\b(?!\s\w+>)
    | <[!?]
    """,
    re.IGNORECASE | re.VERBOSE,
)
_FORGERIES = (
    (RejectionCode.TOOL_SYNTAX, _TOOL_SYNTAX, "reads as a call of a tool; say in plain words what to do"),
    (RejectionCode.ROLE_TAG, _ROLE_TAG, "reads as another speaker; a lesson is advice in plain words"),
    (
        RejectionCode.FORGED_ID,
        _FORGED_ID,
        "reads as a label or an id; labels mean nothing outside their prompt",
    ),
    (
        RejectionCode.FORGED_HEADER,
        _FORGED_HEADER,
        "reads as a heading, a tag or a fence; a lesson is one plain sentence",
    ),
)


def checked_lesson(lesson: object, *, sections: bool = False) -> str | Rejected:
    """Return the lesson, or why it cannot be one. Every text that passes is a valid `Lesson`.

    sections: whether it may be a section of Markdown. A section may hold code, commands and addresses: it comes from a
    document that a person chose, and what a run adds to it is checked line by line.
    """
    if lesson is None:
        return reject(RejectionCode.MISSING_FIELD, "the lesson is missing")
    if not isinstance(lesson, str):
        return reject(RejectionCode.WRONG_TYPE, f"the lesson is a {type(lesson).__name__}; it must be text")
    if sections and is_section(lesson):
        return _checked_section(lesson)
    categories = {unicodedata.category(character) for character in lesson}
    invisible = not lesson.isprintable() or seen(lesson) != lesson
    faults = (
        ("Cs" in categories, RejectionCode.SURROGATES, "holds a lone surrogate; send whole Unicode characters"),
        (_LINE_END.search(lesson), RejectionCode.MULTI_LINE, "has several lines; write it as one"),
        (
            "Cc" in categories,
            RejectionCode.CONTROL_CHARACTERS,
            "holds a control character, such as a tab; use plain spaces",
        ),
        (invisible, RejectionCode.INVISIBLE_CHARACTERS, "holds characters that cannot be seen; use plain text"),
        (not any(map(str.isalnum, lesson)), RejectionCode.EMPTY_LESSON, "has no words"),
        (lesson != lesson.strip(), RejectionCode.MALFORMED, "is surrounded by white space"),
    )
    fault = next((reject(code, f"the lesson {what}") for wrong, code, what in faults if wrong), None)
    return fault or too_long(lesson) or forgery(lesson) or lesson


_FENCE = re.compile(r"<\s*/?\s*experiences?\b|^\s*\[[GP]\d+\]", re.IGNORECASE | re.MULTILINE)


def _checked_section(section: str) -> str | Rejected:
    words = word_count(section)
    hidden = next((one for one in section if not is_section_character(one)), None)
    forged = _FENCE.search(section)
    if not any(map(str.isalnum, section)):
        return reject(RejectionCode.EMPTY_LESSON, "the section has no words")
    if hidden is not None:
        code = RejectionCode.CONTROL_CHARACTERS if ord(hidden) < 0xA0 else RejectionCode.INVISIBLE_CHARACTERS
        return reject(code, f"the section holds the character U+{ord(hidden):04X}, which cannot be seen")
    if forged is not None:
        return reject(RejectionCode.FORGED_ID, f"{forged[0]!r} in the section reads as part of the block of lessons")
    if words > MAX_SECTION_WORDS or len(section) > MAX_SECTION_CHARACTERS:
        most = f"at most {MAX_SECTION_WORDS} words and {MAX_SECTION_CHARACTERS} characters are allowed"
        return reject(RejectionCode.TOO_LONG, f"the section has {words} words and {len(section)} characters; {most}")
    return section


def too_long(lesson: str, words: int = MAX_LESSON_WORDS) -> Rejected | None:
    """Why a lesson is too long for a limit of this many words; None when it fits."""
    count, length, (most, longest) = word_count(lesson), len(lesson), lesson_limits(words)
    if count <= most and length <= longest:
        return None
    return reject(
        RejectionCode.TOO_LONG,
        f"the lesson has {count} words and {length} characters;"
        f" at most {most} words and {longest} characters are allowed",
    )


def forgery(lesson: str) -> Rejected | None:
    """Why a text looks like part of a prompt: a tool call, another speaker, a label, or a heading."""
    text = single_spaced(lesson)
    for code, pattern, sentence in _FORGERIES:
        if found := pattern.search(text):
            return reject(code, f"{found.group()[:40]!r} in the lesson {sentence}")
    return None


COPIED_WORDS = 8
"""A run of this many equal words is a copy."""
FEWEST_COPIED_WORDS = 5
"""A lesson of fewer words is not a copy of a reason: so short a hint has hardly another wording."""

SAME_LESSON = 0.6
"""Jaccard similarity of two lessons' words, 0..1, from which one of unknown origin counts as a copy of the other."""

Shingle = tuple[str, ...]
"""A run of `COPIED_WORDS` words."""


def words_line(text: str) -> str:
    """The words of a text with one space before, between and after them, so that any run of words is a substring."""
    return f" {' '.join(lower_case_words(text))} "


def refusal_key(text: str) -> str:
    """The words of a lesson, the same for texts that differ in case, spaces and punctuation only."""
    return words_line(text).strip()


def word_runs(text: str) -> tuple[str, ...]:
    """Every run of eight words in the form that `words_line` returns; all words as one run when there are fewer."""
    listed = lower_case_words(text)
    starts = range(max(len(listed) - COPIED_WORDS, 0) + 1)
    return tuple(f" {' '.join(listed[start : start + COPIED_WORDS])} " for start in starts)


def shingles(text: str) -> frozenset[Shingle]:
    """Every run of eight words; empty for a shorter text."""
    listed = lower_case_words(text)
    return frozenset(listed[start : start + COPIED_WORDS] for start in range(len(listed) - COPIED_WORDS + 1))


@dataclass(frozen=True, slots=True)
class LessonWords:
    """A lesson's text, prepared for comparisons."""

    text: str
    normal: str
    """The text as `single_spaced` returns it."""
    vocabulary: frozenset[str]
    """Its different words in lower case."""

    @classmethod
    @lru_cache(maxsize=16_384)  # the same library is compared with every group's proposals
    def of(cls, text: str) -> "LessonWords":
        """The prepared text; cached."""
        return cls(text=text, normal=single_spaced(text), vocabulary=frozenset(lower_case_words(text)))

    def is_near(self, other: "LessonWords", similarity: float) -> bool:
        """Whether the vocabularies' Jaccard similarity is at least `similarity`, or the texts are the same."""
        if self.normal == other.normal:
            return True
        fewer, more = sorted((len(self.vocabulary), len(other.vocabulary)))
        if fewer < similarity * more:  # decides most pairs without comparing words
            return False
        shared = len(self.vocabulary & other.vocabulary)
        return shared >= similarity * (fewer + more - shared)

    def similarity_to(self, other: "LessonWords") -> float:
        """The share of their words that two texts have in common; 1 for the same text."""
        either = self.vocabulary | other.vocabulary
        return (
            1.0 if self.normal == other.normal or not either else len(self.vocabulary & other.vocabulary) / len(either)
        )


NEAR = 0.85
"""Jaccard similarity of two lessons' words from which they say nearly the same, as in `CheckContext`."""
_ROUNDING, _HALF = 1e-9, 0.5


class NearIndex:
    """Lessons by the words that decide whether another lesson can be near."""

    def __init__(self, texts: Iterable[str] = (), similarity: float = NEAR) -> None:
        """texts: what will be added and looked up; knowing their words makes that fast, and changes no result."""
        self.similarity = similarity
        self._lessons_with = Counter(word for text in texts for word in LessonWords.of(text).vocabulary)
        self._lessons: list[LessonWords] = []
        self._by_words: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        self._by_text: dict[str, int] = {}

    def add(self, lesson: str) -> None:
        """Add a lesson."""
        words, number = LessonWords.of(lesson), len(self._lessons)
        self._lessons.append(words)
        self._by_text.setdefault(words.normal, number)
        for key in self._deciding(words):
            self._by_words[key].append(number)

    def near(self, lesson: str) -> int | None:
        """The number of the first added lesson that is near this one; None when there is none."""
        words = LessonWords.of(lesson)
        if (same := self._by_text.get(words.normal)) is not None:
            return same
        near = (at for at in sorted(self._candidates(words)) if words.is_near(self._lessons[at], self.similarity))
        return next(near, None)

    def all_near(self, lesson: str) -> list[int]:
        """The numbers of all added lessons that are near this one, sorted."""
        words = LessonWords.of(lesson)
        found = {at for at in self._candidates(words) if words.is_near(self._lessons[at], self.similarity)}
        same = self._by_text.get(words.normal)
        return sorted(found if same is None else found | {same})

    def _candidates(self, words: LessonWords) -> set[int]:
        return {at for key in self._deciding(words) for at in self._by_words.get(key, ())}

    def _deciding(self, words: LessonWords) -> Iterator[tuple[str, ...]]:
        """Pairs of the first words in order: those of few lessons first, then long words.

        Lessons that share one word alone can only be near when that is all that one of them has, or half is enough.
        """
        ordered = sorted(words.vocabulary, key=lambda word: (self._lessons_with[word], -len(word), word))
        kept = ceil(self.similarity * len(ordered) - _ROUNDING)
        size = 1 if len(ordered) == 1 or self.similarity <= _HALF else 2
        return combinations(ordered[: len(ordered) - kept + size], size)
