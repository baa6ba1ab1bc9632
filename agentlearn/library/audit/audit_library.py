"""The audit of a library: every lesson is judged by rules, alone, with the others, and with given tasks. Pure.

It finds lessons that are worded alike. What says the opposite in other words needs a model: `contradiction_check`.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Self

from agentlearn.library.audit.audit_result import (
    AuditCode,
    AuditedLesson,
    Finding,
    LessonAudit,
    LibraryAudit,
    with_findings,
)
from agentlearn.library.curate.codes import RejectionCode
from agentlearn.library.curate.hostile import screened
from agentlearn.library.curate.lesson_text import checked_lesson
from agentlearn.library.curate.library_draft import CheckContext
from agentlearn.library.curate.similarity import NearIndex, lower_case_words, refusal_key, shingles, words_line
from agentlearn.types.experience import MAX_LESSON_CHARACTERS, MAX_LESSON_WORDS, word_count
from agentlearn.types.operation import Rejected
from agentlearn.types.task import Task

_RUN = 3
_NEAR_COPY = 0.5
"""Share of a lesson's runs of three words that one task holds, from which it is a near-copy."""
_FEWEST_RUNS = 4
_KNOWN_TASKS_NUMBER = re.compile(r"\d+")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class KnownTasks:
    """Tasks that lessons must not repeat, prepared for the search."""

    context: CheckContext = field(default_factory=CheckContext)
    runs: dict[tuple[str, ...], tuple[int, ...]] = field(default_factory=dict[tuple[str, ...], tuple[int, ...]])
    """The tasks that hold each run of three words, numbers left out of account."""
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, tasks: Iterable[Task]) -> Self:
        """Prepare these tasks."""
        given = tuple(tasks)
        found: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, task in enumerate(given):
            for run in _runs(task.problem):
                found[run].append(number)
        runs = {run: tuple(numbers) for run, numbers in found.items()}
        return cls(CheckContext.of(given), runs, tuple(task.problem for task in given))

    @property
    def answers(self) -> frozenset[str]:
        """The expected answers."""
        return self.context.answers

    def holds_answer(self, lesson: str) -> bool:
        """Whether the lesson holds an expected answer that hardly occurs by chance."""
        return self.context.answer_search.found(lesson) == "distinctive"

    def copied_words(self, lesson: str) -> str:
        """Words in a row that a task holds too: eight, or a whole short problem. Empty when there are none."""
        if copied := shingles(lesson) & self.context.shingles:
            return " ".join(min(copied))
        line = words_line(lesson)
        return next((one.strip() for one in sorted(self.context.short_problems) if one in line), "")

    def near_copy(self, lesson: str) -> str:
        """The start of a problem that holds most of the lesson's wording; empty when there is none."""
        runs = _runs(lesson)
        if len(runs) < _FEWEST_RUNS:
            return ""
        shared: defaultdict[int, int] = defaultdict(int)
        for run in runs:
            for number in self.runs.get(run, ()):
                shared[number] += 1
        most = max(shared, key=lambda number: (shared[number], -number), default=None)
        if most is None or shared[most] < _NEAR_COPY * len(runs):
            return ""
        return self.problems[most][:_SHOWN]


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    """Every run of three words, with one sign for all numbers."""
    words = tuple("#" if _KNOWN_TASKS_NUMBER.fullmatch(word) else word for word in lower_case_words(text))
    return frozenset(words[start : start + _RUN] for start in range(len(words) - _RUN + 1))


_ALIKE = 0.6
_SAME_SITUATION = 0.7
_FEWEST_SHARED = 2
_COMPARED = 1_000
"""Characters of a text that are compared."""
_MOST_COMMON = 400
"""A word in more lessons than this does not decide which lessons are compared."""
_PAIRS = """
    always-never before-after first-last add-subtract multiply-divide increase-decrease maximum-minimum largest-smallest
    left-right more-fewer more-less include-exclude inclusive-exclusive included-excluded ascending-descending up-down
    early-late top-bottom accept-reject open-close enable-disable keep-remove keep-drop start-stop forward-backward
    maximize-minimize higher-lower above-below with-without trust-distrust exact-approximate row-column
    horizontal-vertical most-least odd-even
"""
_NEGATION = re.compile(
    r"^(?:please )?(?:do not|don[’']t|never|avoid|refrain from|skip|stop)\b(?! (?:forget|fail|omit|skip))"
)
_SITUATION = re.compile(r"^(?:when|whenever|if|for|in|on|while|once|unless|during|given|with)\b[^,:;]*[,:;]\s*")
_LABEL = re.compile(r"^[^,:;.]{1,40}:\s+")
_TRAILING = re.compile(r"\b(?:when|whenever|if|unless|while)\b.*$")
_ORDER = (
    re.compile(r"^before\b(?P<later>[^,]+),(?P<sooner>.+)$"),
    re.compile(r"^after\b(?P<sooner>[^,]+),(?P<later>.+)$"),
    re.compile(r"^(?P<sooner>.+?)\bbefore\b(?P<later>.+)$"),
    re.compile(r"^(?P<later>.+?)\bafter\b(?P<sooner>.+)$"),
    re.compile(r"^(?P<sooner>.+?),?\s*\b(?:and )?then\b(?P<later>.+)$"),
)
_STOP = frozenset(
    """
    a an the and or of to in on at by for from with it its is are be been this that these those your you as so than
    do does not don never always avoid please any all each every them they their there then also must should can will
    into about only just when whenever if unless while before after
    """.split()  # noqa: SIM905
)
_OPPOSITES_WORD = re.compile(r"[^\W_]+")
WordSet = frozenset[str]


@dataclass(frozen=True, slots=True)
class _Said:
    """What a lesson says, in the form in which two are compared."""

    situation: WordSet
    decision: WordSet
    plain: WordSet
    """The words of the decision with the opposites that are no content, such as before and always."""
    negated: bool
    order: tuple[WordSet, WordSet] | None
    """What is done sooner and what later."""

    @classmethod
    def of(cls, text: str) -> "_Said":
        lower = " ".join(text[:_COMPARED].lower().split()).strip(" .!")
        lower = _LABEL.sub("", lower) if not _SITUATION.match(lower) else lower
        leading = _SITUATION.match(lower)
        rest = lower[leading.end() :] if leading else lower
        trailing = None if leading else _TRAILING.search(rest)
        decision = rest[: trailing.start()] if trailing else rest
        situation = leading[0] if leading else trailing[0] if trailing else ""
        negated = _NEGATION.search(decision) is not None
        return cls(
            situation=_content(situation),
            decision=_content(_NEGATION.sub("", decision)),
            plain=frozenset(map(_stem, _OPPOSITES_WORD.findall(decision))),
            negated=negated,
            order=_order(rest),
        )


def opposite_pairs(texts: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield pairs of texts that say the opposite, each with why. The first number of a pair is the smaller one."""
    said = [_Said.of(text) for text in texts]
    by_word: defaultdict[str, list[int]] = defaultdict(list)
    for number, one in enumerate(said):
        shared = Counter(
            at for word in one.decision for at in by_word.get(word, ()) if len(by_word[word]) <= _MOST_COMMON
        )
        for at in sorted(other for other, count in shared.items() if count >= _FEWEST_SHARED):
            if why := _why(said[at], one):
                yield at, number, why
        for word in one.decision:
            by_word[word].append(number)


def _why(one: _Said, other: _Said) -> str:
    """Why two lessons say the opposite; empty when they do not."""

    def alike(first: WordSet, second: WordSet, share: float = _ALIKE) -> bool:
        return bool(first and second) and len(first & second) >= share * len(first | second)

    def held(first: WordSet, second: WordSet) -> bool:
        """Whether most of the smaller text stands in the other."""
        return len(first & second) >= _ALIKE * min(len(first), len(second))

    if one.situation != other.situation and not alike(one.situation, other.situation, _SAME_SITUATION):
        return ""
    if one.negated != other.negated and alike(one.decision, other.decision):
        return "one says to do it, the other not to"
    if one.order and other.order:
        (first, last), (theirs, their_last) = one.order, other.order
        if held(first, their_last) and held(last, theirs) and not (held(first, theirs) and held(last, their_last)):
            return "they say the opposite order"
    only, others = one.plain - other.plain, other.plain - one.plain
    if one.negated == other.negated and len(only) == len(others) == 1:
        pair = (next(iter(only)), next(iter(others)))
        if pair in _opposites() and len((one.plain & other.plain) - _STOP) >= _FEWEST_SHARED:
            return f"one says {pair[0]!r} where the other says {pair[1]!r}"
    return ""


def _order(text: str) -> tuple[WordSet, WordSet] | None:
    for pattern in _ORDER:
        if found := pattern.match(text):
            sooner, later = _content(found["sooner"]), _content(found["later"])
            return (sooner, later) if sooner and later else None
    return None


def _content(text: str) -> WordSet:
    return frozenset(_stem(word) for word in _OPPOSITES_WORD.findall(text) if word not in _STOP)


@cache
def _opposites() -> frozenset[tuple[str, str]]:
    pairs = [tuple(map(_stem, pair.split("-"))) for pair in _PAIRS.split()]
    return frozenset(both for one, other in pairs for both in ((one, other), (other, one)))


def _stem(word: str) -> str:
    """A word without its usual endings, so that `counting cells` and `count the cell` share their words."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


_SPECIFIC_NUMBERS_NUMBER = re.compile(r"(?<![\w.^/*+=:−-])(\d[\d,]*(?:\.\d+)?)(?![\w/*^=+]|[.:-]\d)")
_STATUS = re.compile(r"40[013459]|42[29]|50[0234]")
_SMALL = 12
_USUAL = frozenset({"24", "30", "45", "50", "60", "90", "100", "180", "270", "360", "365", "366", "0.5", "0.1", "0.01"})
_POWER = re.compile(r"10+|16|32|64|128|256|512|1024")
_ROLE = re.compile(
    r"(?:\b(?:mod|modulo|base|step|page|status|code|error|codes|top|first|last|least|most|about|around|approximately|"
    r"roughly|over|under|below|above|within|every|each|exceeds?|exceeding|between|port|version|chapter|rule|"
    r"level|max|min|maximum|minimum|limit|up to|than|python|type)\s*|[≤≥<>\[{~√]\s*)$",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"\s*[-–]?\s*(?:%|°|degrees?\b|percent\b|words?\b|digits?\b|characters?\b|items?\b|lines?\b|tokens?\b|bits?\b|"
    r"bytes?\b|seconds?\b|minutes?\b|hours?\b|days?\b|weeks?\b|months?\b|years?\b|times\b|pages?\b|steps?\b|"
    r"decimals?\b|decimal places?\b|results?\b|attempts?\b|columns?\b|rows?\b|k?m\b|cm\b|mm\b|kg\b|g\b|ms\b|s\b|th\b|"
    r"status\b|errors?\b|codes?\b|responses?\b)",
    re.IGNORECASE,
)


_WITH = re.compile(r"\bwith (\d+) and (\d+)\b")


def specific_numbers(text: str) -> tuple[str, ...]:
    """The numbers of a text that look as if they came from one problem, in order."""
    if named := _WITH.search(text):
        return named.groups()
    found: list[str] = []
    for one in _SPECIFIC_NUMBERS_NUMBER.finditer(text):
        plain = one[1].replace(",", "")
        usual = plain in _USUAL or _POWER.fullmatch(plain) or _STATUS.fullmatch(plain)
        small = "." not in plain and int(plain[:20]) <= _SMALL
        if not (usual or small or _UNIT.match(text, one.end()) or _ROLE.search(text[: one.start()])):
            found.append(one[1])
    return tuple(found)


_PLATITUDES = re.compile(
    r"\b(?:be (?:very |extra |more )?(?:careful|cautious|precise|accurate|thorough|systematic|methodical|attentive)"
    r"|(?:always )?(?:double|triple)[- ]?check(?: (?:your|the|all))?"
    r"(?: (?:\w+ )?(?:work|answers?|calculations?|results?))?"
    r"|(?:carefully )?(?:re-?)?read (?:the |each |every )?(?:entire |whole |full )?(?:question|problem|task|prompt)"
    r"(?: statement)?(?: (?:carefully|closely|twice|again))?"
    r"|think (?:carefully|step[- ]by[- ]step|clearly|logically|before (?:you )?answer\w*)|take your time"
    r"|pay (?:close |careful )?attention(?: to (?:the )?details?)?|(?:check|verify|review) (?:your|the|all) "
    r"(?:\w+ )?(?:work|answers?|calculations?|results?|solutions?)"
    r"|make sure (?:that )?(?:your|the) (?:\w+ )?(?:answer|solution|result) is (?:correct|right|accurate)"
    r"|(?:work|proceed|solve(?: \w+){0,4}) (?:carefully|systematically|step[- ]by[- ]step|slowly)"
    r"|avoid (?:\w+ )?(?:mistakes|errors)|understand (?:the|what the) (?:problem|question|task)(?: (?:asks|is asking))?"
    r"|(?:stay|remain|keep|be) (?:\w+ and )?(?:focused|calm|organi[sz]ed|attentive|patient|alert|concentrated)"
    r"|(?:mind|keep|maintain|watch) (?:your )?(?:concentration|focus|composure|discipline)|do your best"
    r"|break (?:\w+ ){0,4}problems? (?:down )?into (?:smaller |clear )?"
    r"(?:steps|parts|pieces)|use common sense|show your work)\b",
    re.IGNORECASE,
)
_FILLER = frozenset(
    """
    a along an and any all always answer answers answering are as at be before by calculation calculations careful
    carefully clear clearly complex correct do each ensure every final finally first for from give giving given have
    in into is it
    its key long make mistakes more of on or order problem problems proceed question questions required result results
    shown so solution solutions solve solving step steps submit submitting sure task tasks that the then this through
    to understand verify what when with work you your
    """.split()  # noqa: SIM905
)
_FEWEST_LEFT = 4
_FEWEST_LEFT_TO_DO = 2
_CONDITION = re.compile(r"^(?:when|whenever|if|while|before|after|once)\b[^,;:]*[,;:]\s*", re.IGNORECASE)
_WORDING_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")


def _platitude_in(text: str) -> str:
    """The platitude that is all that the text says, or all that it says to do; empty when it says more."""
    condition = _CONDITION.match(text)
    for part, fewest in ((text, _FEWEST_LEFT), (text[condition.end() :] if condition else "", _FEWEST_LEFT_TO_DO)):
        if found := _PLATITUDES.search(part):
            rest = _PLATITUDES.sub(" ", part)
            if sum(word not in _FILLER for word in _WORDING_WORD.findall(rest.lower())) < fewest:
                return found[0]
    return ""


_FEWEST_WORDS = 4

_JUDGED = 10 * MAX_LESSON_CHARACTERS
"""Characters whose wording is judged. A longer lesson is too long anyway."""
_NO_TASKS = KnownTasks()


def audit_lessons(lessons: Sequence[AuditedLesson], tasks: KnownTasks = _NO_TASKS) -> LibraryAudit:
    """Return the findings about each lesson. tasks: tasks that no lesson may repeat."""
    alone = tuple(LessonAudit(one, tuple(_alone(one.text, tasks))) for one in lessons)
    found: list[tuple[int, Finding]] = []
    index = NearIndex(lesson.text for lesson in lessons)
    for number, lesson in enumerate(lessons):
        if (at := index.near(lesson.text)) is not None:
            same = refusal_key(lessons[at].text) == refusal_key(lesson.text)
            code = AuditCode.DUPLICATE if same else AuditCode.NEAR_DUPLICATE
            says = "the same as" if same else "nearly the same as"
            found.append((number, Finding(code, f"it says {says} {_short(lessons[at])}")))
        index.add(lesson.text)
    for one, other, why in opposite_pairs([lesson.text for lesson in lessons]):
        found.append((one, contradiction(lessons[other], why)))
        found.append((other, contradiction(lessons[one], why)))
    return with_findings(LibraryAudit(alone), found)


def _alone(whole: str, tasks: KnownTasks) -> Iterator[Finding]:
    """Findings about one lesson, without the others."""
    text, words = whole[:_JUDGED], word_count(whole)
    if words > MAX_LESSON_WORDS or len(whole) > MAX_LESSON_CHARACTERS:
        limits = f"at most {MAX_LESSON_WORDS} and {MAX_LESSON_CHARACTERS} are allowed"
        yield Finding(AuditCode.TOO_LONG, f"it has {words} words and {len(whole)} characters; {limits}")
    elif words < _FEWEST_WORDS and whole.isascii():
        yield Finding(AuditCode.TOO_SHORT, f"it has {words} words")
    checked = checked_lesson(text)
    refused = checked if isinstance(checked, Rejected) and checked.code != RejectionCode.TOO_LONG else None
    if end := refused or screened(text, tasks.answers):
        yield Finding(AuditCode.HOSTILE, f"{end.code}: {end.reason}")
    if tasks.holds_answer(whole):
        yield Finding(AuditCode.HOLDS_ANSWER, "it holds the expected answer of a given task")
    if copied := tasks.copied_words(whole):
        yield Finding(AuditCode.COPIES_TASK, f"it copies {copied[:_SHOWN]!r} from a given task")
    elif near := tasks.near_copy(whole):
        yield Finding(AuditCode.NEAR_COPY, f"most of its words stand in the given task {near!r}")
    if numbers := specific_numbers(text):
        yield Finding(AuditCode.SPECIFIC_NUMBERS, f"it holds {', '.join(numbers[:5])}, as one problem has them")
    if platitude := _platitude_in(text):
        yield Finding(AuditCode.PLATITUDE, f"{platitude[:_SHOWN]!r} holds for any task")


def contradiction(other: AuditedLesson, why: str) -> Finding:
    """The finding that a lesson and another one contradict each other."""
    return Finding(AuditCode.CONTRADICTS, f"it contradicts {_short(other)}: {why}")


def _short(lesson: AuditedLesson) -> str:
    text = lesson.text if len(lesson.text) <= _SHOWN else lesson.text[:_SHOWN] + "…"
    return f"{lesson.name[:12]} {text!r}"
