"""The results of an audit: findings, a score per lesson, and a score of the library.

Figures from a simulated model are called simulated in the sentence that has them. Texts from outside are escaped.
"""

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


WEIGHTS: dict[AuditCode, int] = {
    AuditCode.HOSTILE: 100,
    AuditCode.HOLDS_ANSWER: 100,
    AuditCode.COPIES_TASK: 100,
    AuditCode.NEAR_COPY: 60,
    AuditCode.PLATITUDE: 60,
    AuditCode.DUPLICATE: 60,
    AuditCode.NEAR_DUPLICATE: 50,
    AuditCode.CONTRADICTS: 50,
    AuditCode.TOO_LONG: 50,
    AuditCode.TOO_SHORT: 30,
    AuditCode.SPECIFIC_NUMBERS: 30,
}
"""Points that a lesson loses, of 100."""

FIXES: dict[AuditCode, str] = {
    AuditCode.HOSTILE: "remove it, or say it in plain words",
    AuditCode.HOLDS_ANSWER: "say how to find such answers",
    AuditCode.COPIES_TASK: "say what is general, without the words of the task",
    AuditCode.NEAR_COPY: "say what is general, without the words of the task",
    AuditCode.PLATITUDE: "name the situation and the one thing to do in it, or remove it",
    AuditCode.DUPLICATE: "remove one of them",
    AuditCode.NEAR_DUPLICATE: "merge them",
    AuditCode.CONTRADICTS: "keep one of them, or say when each holds",
    AuditCode.TOO_LONG: "shorten it, or make two lessons of it",
    AuditCode.TOO_SHORT: "say when, and what to do",
    AuditCode.SPECIFIC_NUMBERS: "replace the numbers by what they stand for",
}
"""What to do about each finding."""

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
        return WEIGHTS[self.code]

    @property
    def fix(self) -> str:
        """What to do about it."""
        return FIXES[self.code]


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
    return "\n".join(_lines(facts)).rstrip("\n") + "\n"


def _lines(facts: CardFacts) -> Iterator[str]:
    library = facts.library
    yield f"# Library {_safe(facts.name)}"
    yield ""
    held = f", and keeps {len(library.withheld)} that no agent sees" if library.withheld else ""
    yield f"Version `{library.version}` shows {counted_lessons(len(library))}{held}."
    yield f"Each task costs about {library.tokens:,} tokens more with it."
    yield from ("", "## What it gains", "", _gain(facts))
    yield from ("", "## What it was learned from", "", *_origins(facts))
    yield from ("", "## For which model", "", _models(facts))
    yield from ("", "## Audit", "", *_audit(facts.audit))
    yield from ("", "## Lessons", "", *_lessons(facts))
    yield from ("", "## Version", "", *_versions(library))
    yield from ("", "## Compare it yourself", "", *_commands(facts))


def _gain(facts: CardFacts) -> str:
    """The result of the run that made this version; every other run says nothing about it."""
    made = next((run for run in facts.runs if run.made_this and run.gain), None)
    if made is None:
        return "The gain of this version is not measured."
    kind = "Simulated: " if made.simulated else ""
    return f"{kind}{_safe(made.gain)} (run `{_code(made.run)}`)."


def _origins(facts: CardFacts) -> Iterator[str]:
    kinds: dict[str, int] = {}
    for one in facts.library.experiences:
        kinds[one.origin.kind] = kinds.get(one.origin.kind, 0) + 1
    words = {"person": "written by a person", "import": "imported from another program"}
    for kind in ("person", "import"):
        if count := kinds.get(kind):
            yield f"- {counted_lessons(count)} {words[kind]}"
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


def _audit(audit: LibraryAudit) -> Iterator[str]:
    failing = audit.failing()
    yield f"Score {audit.score} of 100; {counted_lessons(len(failing))} below {DEFAULT_THRESHOLD}."
    if failing:
        yield ""
    for one in failing[:10]:
        yield f"- `{_code(one.lesson.name[:12])}` {one.score}: {_safe('; '.join(x.sentence for x in one.findings))}"
    if len(failing) > 10:
        yield f"- and {len(failing) - 10} more"


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


def _versions(library: Library) -> Iterator[str]:
    yield f"- version `{library.version}`"
    yield f"- made from `{_code(library.parent)}`" if library.parent else "- made from no earlier version"
    if library.joined:
        yield f"- joined with `{_code(library.joined)}`"


def _commands(facts: CardFacts) -> Iterator[str]:
    yield from ("This compares the version with no library:", "", "```", visible_line(facts.compare), "```")
    again = next((run.command for run in facts.runs if run.made_this and run.command), "")
    if again:
        yield from (
            "",
            "This repeats the run that made it, with its comparison:",
            "",
            "```",
            visible_line(again),
            "```",
        )


def _safe(text: str) -> str:
    """A text on one line that Markdown and HTML show as it is."""
    return escaped(visible_line(text))


def _code(text: str) -> str:
    """A text for a code span."""
    return visible_line(text).replace("`", "'").replace("|", "/")
