"""The results of an audit: findings, a score per lesson, and a score of the library.

Figures from a simulated model are called simulated in the sentence that has them. Texts from outside are escaped.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from agentlearn.library.formats.markdown_list import escaped
from agentlearn.text import visible_line
from agentlearn.types.experience import Library, counted_lessons, estimated_tokens


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


_SHOWN = 500
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
    for one in facts.library.experiences[:_SHOWN]:
        cells = [
            f"`{_code(one.id[:12])}`",
            _safe(one.lesson),
            _safe(", ".join(one.tags)),
            one.origin.kind,
            str(estimated_tokens(one.lesson)),
            str(scores.get(one.id, "-")),
        ]
        yield f"| {' | '.join(cells)} |"
    if (more := len(facts.library) - _SHOWN) > 0:
        yield ""
        yield f"{more:,} more lessons are not on this page."


def _safe(text: str) -> str:
    """A text on one line that Markdown and HTML show as it is."""
    return escaped(visible_line(text))


def _code(text: str) -> str:
    """A text for a code span."""
    return visible_line(text).replace("`", "'").replace("|", "/")
