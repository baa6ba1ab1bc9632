"""The audit of libraries: what is wrong with each lesson, as codes and sentences; the card, and what a model says."""

import re
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict, Field

from agentlearn.errors import LibraryError
from agentlearn.library.curate.answer_search import class_answers
from agentlearn.library.curate.codes import RejectionCode
from agentlearn.library.curate.hostile import screened
from agentlearn.library.curate.lesson_text import checked_lesson
from agentlearn.library.curate.library_draft import CheckContext
from agentlearn.library.curate.similarity import NearIndex, lower_case_words, refusal_key, shingles, words_line
from agentlearn.library.formats.markdown import AgentSkill, escaped
from agentlearn.prompts import Prompt, load_prompt
from agentlearn.text import visible_line
from agentlearn.types.experience import (
    MAX_LESSON_CHARACTERS,
    MAX_LESSON_WORDS,
    Library,
    counted_lessons,
    estimated_tokens,
    word_count,
)
from agentlearn.types.operation import Rejected
from agentlearn.types.rendering import TAG
from agentlearn.types.task import Task

if TYPE_CHECKING:
    from pydantic_ai.models import KnownModelName, Model


class AuditCode(StrEnum):
    """Why a lesson loses points. Programs and continuous integration rely on these codes."""

    HOSTILE = "hostile"
    """A screen refuses the lesson: it names an address, holds a command or imitates a part of the prompt."""
    HOLDS_ANSWER = "holds_answer"
    """The lesson holds the expected answer of a given task."""
    COPIES_TASK = "copies_task"
    """The lesson copies eight words in a row from a given task, or a short problem."""
    NEAR_COPY = "near_copy"
    """Most of the lesson is the wording of a given task, also with other numbers."""
    PLATITUDE = "platitude"
    """The lesson says what is true of any task: be careful, check your work."""
    DUPLICATE = "duplicate"
    """An earlier lesson says the same, word for word."""
    NEAR_DUPLICATE = "near_duplicate"
    """An earlier lesson says nearly the same."""
    CONTRADICTS = "contradicts"
    """Another lesson says the opposite."""
    TOO_LONG = "too_long"
    """The lesson is longer than lessons may be."""
    TOO_SHORT = "too_short"
    """The lesson has fewer than four words."""
    SPECIFIC_NUMBERS = "specific_numbers"
    """The lesson holds numbers that look as if they came from one problem."""


_MERITS: dict[AuditCode, tuple[int, str]] = {
    AuditCode.HOSTILE: (100, "remove it, or say it in plain words"),
    AuditCode.HOLDS_ANSWER: (100, "say how to find such answers"),
    AuditCode.COPIES_TASK: (100, "say what is general, without the words of the task"),
    AuditCode.NEAR_COPY: (60, "say what is general, without the words of the task"),
    AuditCode.PLATITUDE: (60, "name the situation and the one thing to do in it, or remove it"),
    AuditCode.DUPLICATE: (60, "remove one of them"),
    AuditCode.NEAR_DUPLICATE: (50, "merge them"),
    AuditCode.CONTRADICTS: (50, "keep one of them, or say when each holds"),
    AuditCode.TOO_LONG: (50, "shorten it, or make two lessons of it"),
    AuditCode.TOO_SHORT: (30, "say when, and what to do"),
    AuditCode.SPECIFIC_NUMBERS: (30, "replace the numbers by what they stand for"),
}
"""Points that a lesson loses for each finding, of 100, and what to do about it."""
DEFAULT_THRESHOLD = 60
"""Score below which a lesson fails."""


@dataclass(frozen=True, slots=True)
class AuditedLesson:
    """A lesson to be audited. It may have any text, also one that no library would take."""

    name: str
    """Its id, or its place in a file."""
    text: str
    tags: tuple[str, ...] = ()
    status: str = ""
    """`pending` or `parked` for a lesson that no agent sees; empty for the others."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that an audit found in a lesson."""

    code: AuditCode
    sentence: str
    """What was found, with the words that show it."""

    @property
    def weight(self) -> int:
        """Points that the lesson loses."""
        return _MERITS[self.code][0]

    @property
    def fix(self) -> str:
        """What to do about it."""
        return _MERITS[self.code][1]


@dataclass(frozen=True, slots=True)
class LessonAudit:
    """One lesson with its findings."""

    lesson: AuditedLesson
    findings: tuple[Finding, ...] = ()

    @property
    def score(self) -> int:
        """100 without findings; each finding takes its weight, and 0 is the least."""
        return max(0, 100 - sum(one.weight for one in self.findings))


@dataclass(frozen=True, slots=True)
class LibraryAudit:
    """All lessons with their findings, in order."""

    lessons: tuple[LessonAudit, ...]

    @property
    def score(self) -> int:
        """The mean score of the lessons that agents see, rounded down; 100 without any. If none is shown, of all."""
        shown = [one.score for one in self.lessons if not one.lesson.status] or [one.score for one in self.lessons]
        return sum(shown) // len(shown) if shown else 100

    def failing(self, threshold: int = DEFAULT_THRESHOLD) -> tuple[LessonAudit, ...]:
        """The lessons with a score below the threshold. Parked lessons are left out: no agent will see them."""
        return tuple(one for one in self.lessons if one.score < threshold and one.lesson.status != "parked")


def audited(library: Library) -> tuple[AuditedLesson, ...]:
    """The lessons of a library, those that are withheld last."""
    shown = (AuditedLesson(one.id, one.lesson, one.tags) for one in library.experiences)
    held = (
        AuditedLesson(one.experience.id, one.experience.lesson, one.experience.tags, one.status)
        for one in library.withheld
    )
    return (*shown, *held)


def with_findings(audit: LibraryAudit, found: Iterable[tuple[int, Finding]]) -> LibraryAudit:
    """The audit with further findings, each for the lesson of that number."""
    more: dict[int, list[Finding]] = {}
    for number, finding in found:
        more.setdefault(number, []).append(finding)
    lessons = (
        LessonAudit(one.lesson, (*one.findings, *more.get(number, ()))) for number, one in enumerate(audit.lessons)
    )
    return LibraryAudit(tuple(lessons))


_CARD_LESSONS = 500
"""Largest number of lessons in the table."""


@dataclass(frozen=True, slots=True)
class CardRun:
    """A run that made versions of the library."""

    run: str
    domain: str
    model: str
    reflector: str
    """The model that wrote the lessons."""
    simulated: bool
    tasks: int
    """Tasks that it learned from."""
    rollouts: int
    at: datetime
    made_this: bool
    """Whether it made this very version, so that its result is about it."""
    gain: str = ""
    """The result on held-out tasks with its interval, as words; empty when it was not measured."""
    command: str = ""
    """The command that starts it again."""


@dataclass(frozen=True, slots=True)
class CardFacts:
    """All that a card says."""

    name: str
    library: Library
    audit: LibraryAudit
    runs: tuple[CardRun, ...] = ()
    compare: str = ""
    """The command that compares this version with no library."""


def card_page(facts: CardFacts) -> str:
    """Return the card as Markdown."""
    library, audit = facts.library, facts.audit
    held = f", and keeps {len(library.withheld)} that no agent sees" if library.withheld else ""
    made = next((run for run in facts.runs if run.made_this and run.gain), None)  # no other run is about this version
    gain = "The gain of this version is not measured."
    if made is not None:
        gain = f"{'Simulated: ' if made.simulated else ''}{_safe(made.gain)} (run `{_code(made.run)}`)."
    failing = audit.failing()
    found = [
        f"- `{_code(one.lesson.name[:12])}` {one.score}: {_safe('; '.join(x.sentence for x in one.findings))}"
        for one in failing[:10]
    ]
    more = [f"- and {len(failing) - 10} more"] if len(failing) > 10 else []
    again = next((run.command for run in facts.runs if run.made_this and run.command), "")
    repeated = ("", "This repeats the run that made it, with its comparison:", "", "```", visible_line(again), "```")
    lines = [
        f"# Library {_safe(facts.name)}",
        "",
        f"Version `{library.version}` shows {counted_lessons(len(library))}{held}.",
        f"Each task costs about {library.tokens:,} tokens more with it.",
        *("", "## What it gains", "", gain),
        *("", "## What it was learned from", "", *_origins(facts)),
        *("", "## For which model", "", _models(facts)),
        *("", "## Audit", ""),
        f"Score {audit.score} of 100; {counted_lessons(len(failing))} below {DEFAULT_THRESHOLD}.",
        *(["", *found, *more] if failing else []),
        *("", "## Lessons", "", *_lessons(facts)),
        *("", "## Version", "", f"- version `{library.version}`"),
        f"- made from `{_code(library.parent)}`" if library.parent else "- made from no earlier version",
        *([f"- joined with `{_code(library.joined)}`"] if library.joined else []),
        *("", "## Compare it yourself", "", "This compares the version with no library:"),
        *("", "```", visible_line(facts.compare), "```"),
        *(repeated if again else ()),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _origins(facts: CardFacts) -> Iterator[str]:
    kinds = Counter[str](one.origin.kind for one in facts.library.experiences)
    words = {"person": "written by a person", "import": "imported from another program"}
    for kind, origin in words.items():
        if count := kinds[kind]:
            yield f"- {counted_lessons(count)} {origin}"
    if learned := sum(count for kind, count in kinds.items() if kind not in words):
        unknown = "" if facts.runs else "; this store does not hold the run"
        yield f"- {counted_lessons(learned)} learned from rollouts{unknown}"
    for run in facts.runs:
        kind = "simulated run" if run.simulated else "run"
        yield (
            f"- {kind} `{_code(run.run)}` of {run.at:%Y-%m-%d}: {run.tasks:,} tasks of {_safe(run.domain)},"
            f" {run.rollouts:,} rollouts"
        )
    if not kinds and not facts.runs:
        yield "It holds no lesson that agents see."


def _models(facts: CardFacts) -> str:
    if not facts.runs:
        return "Not known: this store does not hold the run that made it."
    pairs = dict.fromkeys((run.model, run.reflector, run.simulated) for run in facts.runs)
    said = [
        f"{'simulated ' if simulated else ''}agents ran on `{_code(model)}`, and `{_code(reflector)}` wrote the lessons"
        for model, reflector, simulated in pairs
    ]
    words = "; ".join(said)
    return f"{words[0].upper()}{words[1:]}. For other models, measure it first."


def _lessons(facts: CardFacts) -> Iterator[str]:
    scores = {one.lesson.name: one.score for one in facts.audit.lessons}
    if not facts.library.experiences:
        yield "None."
        return
    yield "| id | lesson | tags | origin | tokens | audit |"
    yield "|---|---|---|---|---|---|"
    for one in facts.library.experiences[:_CARD_LESSONS]:
        cells = [
            f"`{_code(one.id[:12])}`",
            _safe(one.lesson),
            _safe(", ".join(one.tags)),
            one.origin.kind,
            str(estimated_tokens(one.lesson)),
            str(scores.get(one.id, "-")),
        ]
        yield f"| {' | '.join(cells)} |"
    if (more := len(facts.library) - _CARD_LESSONS) > 0:
        yield ""
        yield f"{more:,} more lessons are not on this page."


def _safe(text: str) -> str:
    """A text on one line that Markdown and HTML show as it is."""
    return escaped(visible_line(text))


def _code(text: str) -> str:
    """A text for a code span."""
    return visible_line(text).replace("`", "'").replace("|", "/")


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
        return cls(CheckContext.of(given, classes=class_answers(given)), runs, tuple(task.problem for task in given))

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


MOST_LESSONS = 200
"""Largest number of lessons that one question holds. A pair in two questions is not compared."""
_REASON_CHARACTERS = 300


class LabelledPair(BaseModel):
    """Two lessons that an agent cannot both follow."""

    model_config = ConfigDict(frozen=True)

    first: str = Field(description="Label of a lesson, such as L3.")
    second: str = Field(description="Label of another lesson.")
    reason: str = Field(description="The situation in which both hold, and what each demands there.")


class _ContradictionsReply(BaseModel):
    """What the model submits."""

    model_config = ConfigDict(frozen=True)

    contradictions: list[LabelledPair] = Field(default_factory=list[LabelledPair])


@dataclass(frozen=True, slots=True)
class _FoundPair:
    """Two lessons, by number, that a model says contradict each other, and why."""

    first: int
    second: int
    reason: str


def _contradictions_prompt() -> Prompt:
    """The prompt of the check."""
    return load_prompt("contradictions", 1)


async def audit_contradictions(
    lessons: Sequence[AuditedLesson], model: "Model | KnownModelName | str"
) -> tuple[_FoundPair, ...]:
    """Return the pairs of lessons that the model says contradict each other, sorted, each once.

    One call per 200 lessons. Labels that name no lesson, and pairs of a lesson with itself, are left out. Raises
    LibraryError when the model gives no usable reply.
    """
    found: dict[tuple[int, int], str] = {}
    for start in range(0, len(lessons), MOST_LESSONS):
        part = lessons[start : start + MOST_LESSONS]
        if len(part) < 2:
            continue
        for one in await _ask(part, model):
            pair = sorted(_number(label, len(part)) for label in (one.first, one.second))
            if pair[0] >= 0 and pair[0] != pair[1]:
                found.setdefault((start + pair[0], start + pair[1]), visible_line(one.reason, _REASON_CHARACTERS))
    return tuple(_FoundPair(first, second, reason) for (first, second), reason in sorted(found.items()))


def contradiction_findings(
    lessons: Sequence[AuditedLesson], pairs: Sequence[_FoundPair]
) -> Iterator[tuple[int, Finding]]:
    """The findings for both lessons of each pair."""
    for pair in pairs:
        yield pair.first, contradiction(lessons[pair.second], f"the model says: {pair.reason}")
        yield pair.second, contradiction(lessons[pair.first], f"the model says: {pair.reason}")


async def _ask(lessons: Sequence[AuditedLesson], model: "Model | KnownModelName | str") -> list[LabelledPair]:
    from pydantic_ai import Agent, ToolOutput
    from pydantic_ai.exceptions import UnexpectedModelBehavior

    output = ToolOutput(_ContradictionsReply, name="submit", description="Hand in your result.")
    agent = Agent(model, output_type=output, instructions=_contradictions_prompt().text, retries=2)
    try:
        result = await agent.run(_question(lessons))
    except UnexpectedModelBehavior as error:
        raise LibraryError(
            f"the model gave no usable list of contradictions: {error}; name another --model, or leave it out",
            code="no_reply",
        ) from error
    return result.output.contradictions


_DESCRIPTION_WORDS = 100


class _SkillReply(BaseModel):
    """What the model submits."""

    description: str


async def written_description(library: Library, model: "Model | KnownModelName | str") -> str:
    """Return a description of the library as a skill, in the model's words: what it is for and when to load it.

    The model reads the first 200 lessons and the tags. What is too long, or would be refused as a lesson for what it
    looks like, is asked for again, twice. Raises LibraryError when no reply can be used.
    """
    from pydantic_ai import Agent, ModelRetry, ToolOutput
    from pydantic_ai.exceptions import UnexpectedModelBehavior

    output = ToolOutput(_SkillReply, name="submit", description="Hand in your result.")
    instructions = load_prompt("skill", 1).fill({"max_words": str(_DESCRIPTION_WORDS)})
    agent = Agent(model, output_type=output, instructions=instructions, retries=2)

    @agent.output_validator
    def checked(reply: _SkillReply) -> _SkillReply:  # pyright: ignore[reportUnusedFunction]  # the agent calls it
        text = " ".join(reply.description.split())
        end = None if AgentSkill.description_fault(text) else screened(text)
        if fault := AgentSkill.description_fault(text) or (end.reason if end else ""):
            raise ModelRetry(f"this cannot describe a skill: {fault}")
        return _SkillReply(description=text)

    lessons = [AuditedLesson("", one.lesson) for one in library.experiences[:MOST_LESSONS]]
    tags = ", ".join(dict.fromkeys(tag for one in library.experiences for tag in one.tags if TAG.fullmatch(tag)))
    try:
        result = await agent.run(f"{_question(lessons)}\nTags of the lessons: {tags or 'none'}.")
    except UnexpectedModelBehavior as error:
        raise LibraryError(
            f"the model gave no usable description: {error}; give --description, or leave --model out", code="no_reply"
        ) from error
    return result.output.description


def _question(lessons: Sequence[AuditedLesson]) -> str:
    listed = "\n".join(f"L{number}: {visible_line(one.text)}" for number, one in enumerate(lessons, 1))
    code = secrets.token_hex(6)
    while code in listed:
        code = secrets.token_hex(6)
    return f"The code is {code}.\n<lessons {code}>\n{listed}\n</lessons {code}>"


def _number(label: str, count: int) -> int:
    """The place of a label in the list; -1 for a label that names no lesson."""
    digits = label.strip().removeprefix("L").removeprefix("l")
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 6 else 0
    return number - 1 if 1 <= number <= count else -1
