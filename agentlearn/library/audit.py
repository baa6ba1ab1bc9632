"""The audit of libraries: what is wrong with each lesson, as codes and sentences, and which tasks lessons give away.

A score on a task that is given away says nothing about new tasks, so no verdict counts it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from agentlearn.library.curate.answer_search import class_answers
from agentlearn.library.curate.codes import RejectionCode
from agentlearn.library.curate.hostile import screened
from agentlearn.library.curate.lesson_text import NearIndex, checked_lesson, refusal_key
from agentlearn.library.curate.library_draft import CheckContext
from agentlearn.text.secret_values import key_caution, without_keys
from agentlearn.types.experience import (
    MAX_LESSON_CHARACTERS,
    MAX_LESSON_WORDS,
    Experience,
    Library,
    counted_lessons,
    word_count,
)
from agentlearn.types.ids import ExperienceId, TaskId
from agentlearn.types.operation import Rejected
from agentlearn.types.ranking import lower_case_words
from agentlearn.types.rendering import is_section
from agentlearn.types.task import Task


class AuditCode(StrEnum):
    """Why a lesson loses points. Programs and continuous integration rely on these codes."""

    HOSTILE = "hostile"
    """A screen refuses the lesson: it names an address, holds a command or imitates a part of the prompt."""
    HOLDS_KEY = "holds_key"
    """The lesson holds what looks like a key or a password."""
    HOLDS_ANSWER = "holds_answer"
    """The lesson holds the expected answer of a given task."""
    COPIES_TASK = "copies_task"
    """The lesson copies eight words in a row from a given task, or a short problem."""
    NEAR_COPY = "near_copy"
    """Most of the lesson is the wording of a given task, also with other numbers."""
    PLATITUDE = "platitude"
    """A model says that the lesson holds for any task, such as to be careful."""
    DUPLICATE = "duplicate"
    """An earlier lesson says the same, word for word."""
    NEAR_DUPLICATE = "near_duplicate"
    """An earlier lesson says nearly the same."""
    CONTRADICTS = "contradicts"
    """A model says that no agent can follow both this lesson and another one."""
    TOO_LONG = "too_long"
    """The lesson is longer than lessons may be."""
    TOO_SHORT = "too_short"
    """The lesson has fewer than four words."""
    SPECIFIC_NUMBERS = "specific_numbers"
    """A model says that the lesson holds the numbers of one problem."""


_MERITS: dict[AuditCode, tuple[int, str]] = {
    AuditCode.HOSTILE: (100, "remove it, or say it in plain words"),
    AuditCode.HOLDS_KEY: (100, "take it out, and revoke it: older versions keep it"),
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


_SHOWN = 60
_FEWEST_WORDS = 4
_JUDGED = 10 * MAX_LESSON_CHARACTERS
"""Characters whose wording is judged. A longer lesson is too long anyway."""
_RUN = 3
_NEAR_COPY = 0.5
"""Share of a lesson's runs of three words that one task holds, from which it is a near-copy."""
_FEWEST_RUNS = 4
_NUMBER = re.compile(r"\d+")


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
        problems = tuple(task.problem for task in given)
        return cls(CheckContext.of(given, classes=class_answers(given)), runs, problems)

    @property
    def answers(self) -> frozenset[str]:
        """The expected answers."""
        return self.context.answers

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
    words = tuple("#" if _NUMBER.fullmatch(word) else word for word in lower_case_words(text))
    return frozenset(words[start : start + _RUN] for start in range(len(words) - _RUN + 1))


_NO_TASKS = KnownTasks()


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
class AuditedLesson:
    """A lesson to be audited. It may have any text, also one that no library would take."""

    name: str
    """Its id, or its place in a file."""
    text: str
    tags: tuple[str, ...] = ()
    status: str = ""
    """`pending` or `parked` for a lesson that no agent sees; empty for the others."""

    @classmethod
    def all_of(cls, library: Library) -> "tuple[AuditedLesson, ...]":
        """The lessons of a library, those that are withheld last."""
        shown = ((one, "") for one in library.experiences)
        held = ((one.experience, one.status) for one in library.withheld)
        return tuple(cls(one.id, one.lesson, one.tags, status) for one, status in (*shown, *held))

    def findings(self, tasks: KnownTasks) -> Iterator[Finding]:
        """Findings about the lesson, without the others."""
        whole, text, words = self.text, self.text[:_JUDGED], word_count(self.text)
        section = is_section(whole)
        if not section and (words > MAX_LESSON_WORDS or len(whole) > MAX_LESSON_CHARACTERS):
            limits = f"at most {MAX_LESSON_WORDS} and {MAX_LESSON_CHARACTERS} are allowed"
            yield Finding(AuditCode.TOO_LONG, f"it has {words} words and {len(whole)} characters; {limits}")
        elif words < _FEWEST_WORDS and whole.isascii():
            yield Finding(AuditCode.TOO_SHORT, f"it has {words} words")
        checked = checked_lesson(whole if section else text, sections=True)
        refused = checked if isinstance(checked, Rejected) and checked.code != RejectionCode.TOO_LONG else None
        if end := refused or (None if section else screened(text, tasks.answers)):
            yield Finding(AuditCode.HOSTILE, f"{end.code}: {end.reason}")
        if caution := key_caution(whole):
            yield Finding(AuditCode.HOLDS_KEY, caution)
        if tasks.context.holds_answer(whole):
            yield Finding(AuditCode.HOLDS_ANSWER, "it holds the expected answer of a given task")
        if copied := tasks.context.copied_words(whole):
            yield Finding(AuditCode.COPIES_TASK, f"it copies {copied[:_SHOWN]!r} from a given task")
        elif near := tasks.near_copy(whole):
            yield Finding(AuditCode.NEAR_COPY, f"most of its words stand in the given task {near!r}")

    def __str__(self) -> str:
        """The start of its name and of its text."""
        text = without_keys(self.text)
        text = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
        return f"{self.name[:12]} {text!r}"


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

    @classmethod
    def of(cls, lessons: Sequence[AuditedLesson], tasks: KnownTasks = _NO_TASKS) -> "LibraryAudit":
        """Return the findings about each lesson. tasks: tasks that no lesson may repeat."""
        found: list[LessonAudit] = []
        index = NearIndex(lesson.text for lesson in lessons)
        for lesson in lessons:
            findings = list(lesson.findings(tasks))
            if (at := index.near(lesson.text)) is not None:
                same = refusal_key(lessons[at].text) == refusal_key(lesson.text)
                code = AuditCode.DUPLICATE if same else AuditCode.NEAR_DUPLICATE
                findings.append(Finding(code, f"it says {'' if same else 'nearly '}the same as {lessons[at]}"))
            index.add(lesson.text)
            found.append(LessonAudit(lesson, tuple(findings)))
        return cls(tuple(found))

    def with_findings(self, found: Iterable[tuple[int, Finding]]) -> "LibraryAudit":
        """The audit with further findings, each with the number of its lesson."""
        audits = list(self.lessons)
        for number, finding in found:
            audits[number] = replace(audits[number], findings=(*audits[number].findings, finding))
        return LibraryAudit(tuple(audits))

    @property
    def score(self) -> int:
        """The mean score of the lessons that agents see, rounded down; 100 without any. If none is shown, of all."""
        shown = [one.score for one in self.lessons if not one.lesson.status] or [one.score for one in self.lessons]
        return sum(shown) // len(shown) if shown else 100

    def failing(self, threshold: int = DEFAULT_THRESHOLD) -> tuple[LessonAudit, ...]:
        """The lessons with a score below the threshold. Parked lessons are left out: no agent will see them."""
        return tuple(one for one in self.lessons if one.score < threshold and one.lesson.status != "parked")


_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Leaks:
    """The tasks that lessons give away: those whose expected answer they hold, or whose words they repeat."""

    asked: int
    """Number of tasks that were looked at."""
    lessons: Mapping[TaskId, frozenset[ExperienceId]]
    """Each task that is given away, with the lessons that do it."""

    def kept(self, tasks: Iterable[Task]) -> tuple[Task, ...]:
        """Return the tasks that no lesson gives away."""
        return tuple(task for task in tasks if task.id not in self.lessons)

    @property
    def why(self) -> str:
        """Which lessons give tasks away, in words."""
        by = sorted(frozenset[str]().union(*self.lessons.values()))
        named = ", ".join(one[:8] for one in by[:_MOST_NAMED]) + (", …" if len(by) > _MOST_NAMED else "")
        verbs = ("holds", "repeats") if len(by) == 1 else ("hold", "repeat")
        return f"{counted_lessons(len(by))} ({named}) {verbs[0]} an expected answer or {verbs[1]} the words of a task"

    @property
    def sentence(self) -> str:
        """Which tasks are not counted, and why; empty when all are."""
        count = len(self.lessons)
        return f"{count} of {self.asked} tasks {'is' if count == 1 else 'are'} not counted: {self.why}" if count else ""


def leaks(lessons: Iterable[Experience], tasks: Sequence[Task]) -> Leaks:
    """Return which of the tasks these lessons give away.

    Answers that occur in many sentences anyway, such as a small integer, and the classes that tasks are sorted into
    give nothing away; see `answer_search`.
    """
    classes = class_answers(tasks)

    def gives_away(context: CheckContext, lesson: str) -> bool:
        return context.holds_answer(lesson) or bool(context.copied_words(lesson))

    every = CheckContext.of(tasks, classes=classes)
    suspects = {one.id: one.lesson for one in lessons if gives_away(every, one.lesson)}
    found: dict[TaskId, frozenset[ExperienceId]] = {}
    for task in tasks if suspects else ():
        alone = CheckContext.of([task], classes=classes)
        if given := frozenset(one for one, lesson in suspects.items() if gives_away(alone, lesson)):
            found[task.id] = given
    return Leaks(len(tasks), found)
