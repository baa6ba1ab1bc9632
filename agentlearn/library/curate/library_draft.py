"""A library under construction: the lessons that stay, and the changes accepted so far."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from pydantic import Field

from agentlearn.config.options import LessonOptions
from agentlearn.errors import ConfigError
from agentlearn.library.curate.answer_search import AnswerSearch
from agentlearn.library.curate.lesson_text import COPIED_WORDS, LessonWords, Shingle, shingles, words_line
from agentlearn.library.curate.operations import MAX_TAGS, lesson_of, targets_of
from agentlearn.types.experience import (
    Experience,
    Library,
    Origin,
    estimated_tokens,
    experience_id,
)
from agentlearn.types.ids import ExperienceId
from agentlearn.types.operation import (
    Add,
    Applied,
    Delete,
    Dropped,
    Edit,
    Ended,
    Folded,
    Merge,
    Modify,
    Operation,
    Quarantined,
    Rejected,
)
from agentlearn.types.ranking import lower_case_words
from agentlearn.types.task import Task
from agentlearn.types.value import Author, Value, strangers


@dataclass(slots=True)
class LibraryDraft:
    """The working state of one `next_version` call."""

    library: Library
    """The version that the changes are made to; never changed itself."""
    experiences: dict[ExperienceId, Experience]
    """The next version's experiences in order. A replaced experience's key keeps its place."""
    unchanged: dict[ExperienceId, LessonWords]
    """Lessons of the library that no accepted operation touches."""
    tokens: int
    """Estimated tokens of the next version."""
    parked: tuple[LessonWords, ...] = ()
    """Lessons of the library that are parked."""
    by_person: bool = False
    """Whether a person makes the changes."""
    name: str = ""
    """Name of the library."""
    read: tuple[Author, ...] = ()
    """The strangers whose text was read for the changes."""
    added: list[LessonWords] = field(default_factory=list[LessonWords])
    """Lessons of the accepted operations."""
    deletes: int = 0
    """Delete operations accepted."""
    accepted: int = 0
    """Operations accepted, of any kind."""
    edited: set[ExperienceId] = field(default_factory=set[ExperienceId])
    """Sections of which accepted edits changed a passage."""

    @classmethod
    def of(cls, library: Library, *, by_person: bool = False, name: str = "", read: tuple[Author, ...] = ()) -> Self:
        """A draft without changes."""
        return cls(
            library=library,
            experiences=dict(library.by_id),
            unchanged={one.id: LessonWords.of(one.lesson) for one in library.experiences},
            tokens=library.tokens,
            parked=tuple(LessonWords.of(one.experience.lesson) for one in library.withheld if one.status == "parked"),
            by_person=by_person,
            name=name,
            read=read,
        )

    def growth(self, operation: Operation) -> tuple[int, int]:
        """The number of lessons and of tokens by which the operation changes the library."""
        targets, lesson = targets_of(operation), lesson_of(operation)
        if isinstance(operation, Edit):
            now = self.experiences[operation.target].lesson
            return 0, estimated_tokens(self.after(operation) or now) - estimated_tokens(now)
        removed = sum(estimated_tokens(self.unchanged[target].text) for target in targets)
        return bool(lesson) - len(targets), estimated_tokens(lesson) - removed

    def apply(self, operation: Operation) -> ExperienceId | None:
        """Apply an operation that passed every rule. Returns the id of the experience it makes; None for a delete."""
        targets = targets_of(operation)
        self.tokens += self.growth(operation)[1]
        if isinstance(operation, Edit):
            edited = self._made(operation, targets, self.after(operation) or "")
            self.experiences[operation.target], self.unchanged[operation.target] = edited, LessonWords.of(edited.lesson)
            self.edited.add(operation.target)
            self.accepted += 1
            return edited.id
        for target in targets:
            del self.unchanged[target]
        made = None if isinstance(operation, Delete) else self._made(operation, targets, self._placed(operation))
        if made is not None:
            self.experiences[targets[0] if targets else made.id] = made
            self.added.append(LessonWords.of(made.lesson))
        for target in targets if made is None else targets[1:]:
            del self.experiences[target]
        self.deletes += made is None
        self.accepted += 1
        return made and made.id

    def finished(self) -> Library:
        """The next version; the library itself when nothing was applied."""
        if not self.accepted:
            return self.library
        return self.library.next(self.experiences.values())

    def _placed(self, operation: Add | Modify | Merge) -> str:
        """The lesson; a section of a document with the empty lines that part it from its neighbours."""
        if not self.library.document:
            return operation.lesson
        if targets := targets_of(operation):
            before = self.experiences[targets[0]].lesson
            return operation.lesson.rstrip("\n") + (before[len(before.rstrip("\n")) :] or "\n")
        last = next((one.lesson for one in reversed(self.experiences.values())), "\n\n")
        return operation.lesson if last.endswith("\n\n") else f"\n{operation.lesson}"

    def after(self, edit: Edit) -> str | None:
        """The section as the edit leaves it; None where its passage does not stand there exactly once."""
        section = self.experiences[edit.target].lesson
        if not edit.old.strip():
            body = section.rstrip("\n")
            apart = "\n" if _LISTED.match(edit.new) and _LISTED.match(body.rpartition("\n")[2]) else "\n\n"
            return f"{body}{apart}{edit.new.strip()}{section[len(body) :] or chr(10)}"
        found = list(re.finditer(r"\s+".join(map(re.escape, edit.old.split())), section))
        if len(found) != 1:
            return None
        before, behind = section[: found[0].start()], section[found[0].end() :]
        if not edit.new.strip():  # without what parted the passage from the words behind it
            behind = behind.lstrip(" ") if not before or before.endswith((" ", "\n")) else behind
            behind = behind.lstrip("\n") if before.endswith("\n") else behind
        changed = f"{before}{edit.new.strip()}{behind}"
        return changed if changed.endswith("\n") else f"{changed}\n"

    def _made(
        self, operation: Add | Modify | Merge | Edit, parents: tuple[ExperienceId, ...], lesson: str
    ) -> Experience:
        inherited = dict.fromkeys(tag for parent in parents for tag in self.library.by_id[parent].tags)
        asked = operation.model_dump(mode="json")
        kind = "modify" if isinstance(operation, Edit) else operation.op
        authors = (*self.read, *(one for parent in parents for one in self.library.by_id[parent].origin.strangers))
        made = ["person", asked] if self.by_person else asked
        return Experience(
            id=experience_id(self.library.version, made, self.accepted, library=self.name),
            lesson=lesson,
            tags=() if isinstance(operation, Edit) else operation.tags or tuple(inherited)[:MAX_TAGS],
            origin=Origin(
                kind="person" if self.by_person else kind,
                parents=parents,
                library=self.library.version,
                strangers=() if self.by_person else strangers(authors),
            ),
        )


_LISTED = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]")
_FEWEST_WORDS = 4
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_FORMAT_WORDS = frozenset(
    {"decimal", "place", "places", "digit", "digits", "nearest", "modulo", "mod", "percent", "round"}
)


def _short_lines(problem: str) -> Iterable[str]:
    """The problem when it is short, and its short sentences with a number that do not only ask for a form."""
    if _FEWEST_WORDS <= len(lower_case_words(problem)) < COPIED_WORDS:
        yield words_line(problem)
    for sentence in _SENTENCE_END.split(problem):
        words = lower_case_words(sentence)
        if (
            _FEWEST_WORDS <= len(words) < COPIED_WORDS
            and any(map(str.isdigit, words))
            and not _FORMAT_WORDS & set(words)
        ):
            yield words_line(sentence)


OwnRule = Callable[[Operation, Library], str | None]
"""A rule of a user's own. It gets an operation that passed all other rules, and the library before the batch, and
returns why the operation is refused, as the model reads it in the repair round, or None. ConfigError: it failed."""


@dataclass(frozen=True)
class CheckContext:
    """Limits of a batch, and the answers, problems, pages and reasons that its lessons must not repeat.

    All collections are sets, so the order of tasks, pages and reasons cannot matter.
    """

    options: LessonOptions = field(default_factory=LessonOptions)
    """Limits on deletes and on the library."""
    max_merge_targets: int = 8
    """Largest number of experiences that one merge may replace; else a merge could evade `max_deletes`."""
    near_duplicate: float = 0.85
    """Jaccard similarity of two lessons' words, 0..1, from which they count as the same."""
    answers: frozenset[str] = frozenset()
    """Expected answers of the batch's tasks, as the domain writes them."""
    shingles: frozenset[Shingle] = frozenset()
    """Every run of eight words in the batch's problems, and in what users said after them."""
    short_problems: frozenset[str] = frozenset()
    """Problems of four to seven words, and short sentences of problems with a number, as `words_line` returns them."""
    seen: frozenset[str] = frozenset()
    """Pages that the batch's rollouts read, each in the form that `words_line` returns."""
    reasons: frozenset[str] = frozenset()
    """Reasons of verdicts that the stages were shown, each in the form that `words_line` returns."""
    refused: frozenset[str] = frozenset()
    """Lessons that a person refused, as `refusal_key` returns them."""
    waived: frozenset[str] = frozenset()
    """Codes of rules that do not count, because a person set them aside. Only those of `codes.ACCEPTABLE` can be."""
    by_person: bool = False
    """Whether a person asks, and not a stage of a run."""
    strangers: tuple[Author, ...] = ()
    """The strangers whose text those who propose have read."""
    refused_authors: frozenset[Author] = frozenset()
    """The strangers behind lessons and versions that a person refused."""
    library: str = ""
    """Name of the library that is changed, which the ids of new lessons belong to."""
    edits: int | None = None
    """Largest number of changes of a document in one update; None: no limit."""
    rules: tuple[OwnRule, ...] = ()
    """Rules of the user's own."""

    def __post_init__(self) -> None:
        if not 0 < self.near_duplicate <= 1:
            raise ConfigError(f"near_duplicate is {self.near_duplicate!r}; give a similarity above 0 and at most 1")
        if self.max_merge_targets < 2:
            raise ConfigError(f"max_merge_targets is {self.max_merge_targets!r}; give at least 2")

    @classmethod
    def of(
        cls,
        tasks: Iterable[Task],
        *,
        pages: Iterable[str] = (),
        reasons: Iterable[str] = (),
        said: Iterable[str] = (),
        options: LessonOptions | None = None,
        refused: frozenset[str] = frozenset(),
        strangers: tuple[Author, ...] = (),
        refused_authors: frozenset[Author] = frozenset(),
        library: str = "",
        classes: frozenset[str] = frozenset(),
    ) -> Self:
        """The context of a batch: its tasks, the pages that its rollouts read, and the reasons of their verdicts.

        said: what users said in its dialogues after the task. classes: answers that a lesson may name, as
        `class_answers` returns them.
        """
        batch = tuple(tasks)
        asked = dict.fromkeys((*(task.problem for task in batch), *said))
        return cls(
            options=options or LessonOptions(),
            answers=frozenset(task.answer for task in batch if task.answer is not None) - classes,
            shingles=frozenset[Shingle]().union(*map(shingles, asked)),
            short_problems=frozenset(line for text in asked for line in _short_lines(text)),
            refused=refused,
            strangers=strangers,
            refused_authors=refused_authors,
            library=library,
            seen=frozenset(map(words_line, dict.fromkeys(pages))),
            reasons=frozenset(words_line(reason) for reason in dict.fromkeys(reasons) if reason),
        )

    @cached_property
    def answer_search(self) -> AnswerSearch:
        """Patterns that find the answers in a lesson."""
        return AnswerSearch.of(self.answers)

    def holds_answer(self, lesson: str) -> bool:
        """Whether a lesson holds an expected answer that hardly occurs by chance."""
        return self.answer_search.found(lesson) == "distinctive"

    def copied_words(self, lesson: str) -> str:
        """Words in a row that a task holds too: eight, or a whole short problem. Empty when there are none."""
        if copied := shingles(lesson) & self.shingles:
            return " ".join(min(copied))
        line = words_line(lesson)
        return next((one.strip() for one in sorted(self.short_problems) if lesson and one in line), "")


class EndCounts(Value):
    """Number of proposals by how they ended."""

    applied: int = 0
    """Operations that changed the library."""
    folded: int = 0
    """Compare proposals that a consolidate proposal replaced."""
    dropped: dict[str, int] = Field(default_factory=dict)
    """Valid proposals that were not used, by reason in alphabetical order."""
    rejected: dict[str, int] = Field(default_factory=dict)
    """Refused proposals, by code in alphabetical order."""
    quarantined: dict[str, int] = Field(default_factory=dict)
    """Proposals that wait for a person, by code in alphabetical order."""

    @classmethod
    def of(cls, ended: Iterable[Ended]) -> Self:
        """Count each proposal once."""
        ends = [one.end for one in ended]

        def counted(names: Iterable[str]) -> dict[str, int]:
            return dict(sorted(Counter(names).items()))

        return cls(
            applied=sum(isinstance(end, Applied) for end in ends),
            folded=sum(isinstance(end, Folded) for end in ends),
            dropped=counted(end.reason for end in ends if isinstance(end, Dropped)),
            rejected=counted(end.code for end in ends if isinstance(end, Rejected)),
            quarantined=counted(end.code for end in ends if isinstance(end, Quarantined)),
        )
