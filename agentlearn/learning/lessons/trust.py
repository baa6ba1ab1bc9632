"""Whose text the lessons of a run could repeat, and whether its version waits for a person because of that.

What a text says is not looked at: a stranger's sentence can be said in any words. A lesson inherits the strangers whose
text its reflector read, and a version with new lessons of that kind is published only when a person approves it, or has
named these authors with `trust`.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agentlearn.learning.lessons.stage_agent import shown_reason
from agentlearn.library import LibraryStore
from agentlearn.library.curate.similarity import lower_case_words
from agentlearn.store import StoreReader
from agentlearn.types.author import Author, AuthorKind, strangers
from agentlearn.types.experience import Experience, Library
from agentlearn.types.group import Group
from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId
from agentlearn.types.operation import Applied
from agentlearn.types.task import SESSION
from agentlearn.types.trajectory import DEMONSTRATION, IMPORTED, LIVE, ModelTurn, ToolResult, Trajectory, UserTurn

_RECORDED = frozenset({LIVE, DEMONSTRATION, IMPORTED})
_MOST_READ = 16
"""Largest number of rollouts behind a lesson that are read to show its source."""
_MOST_CHARACTERS = 200_000
_FEWEST_SHARED = 2
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def authors_read(groups: Iterable[Group], *, reasons_by: AuthorKind | None) -> tuple[Author, ...]:
    """Return the strangers whose text stands in groups: in tasks, results of tools, dialogues and reasons.

    reasons_by: who writes the reasons of verdicts; None: the stages see none.
    """
    found = set[Author]()
    for group in groups:
        found.update(task.author for task in group.tasks)
        for one in group.trajectories:
            if one.phase in _RECORDED:
                found.add(Author(kind="traffic", name=group.task.domain))
                if group.task_of(one).source == SESSION:  # a person's own session: what tools returned is not theirs
                    found.update(step.written_by for step in one.steps if isinstance(step, ToolResult))
                continue
            found.update(step.written_by for step in one.steps if isinstance(step, ToolResult))
            # what the user of a task says goes back to the task, whose author counts already
            if group.task_of(one).user is None and any(isinstance(step, UserTurn) for step in one.steps):
                found.add(Author(kind="traffic", name=group.task.domain))
            if reasons_by is not None and shown_reason(one):
                found.add(Author(kind=reasons_by, name=group.task.domain if reasons_by == "reasons" else ""))
    return strangers(found)


def texts_of_strangers(trajectory: Trajectory) -> Iterator[str]:
    """Yield results of tools, and answers that users showed, which no lesson may copy at length."""
    for step in trajectory.steps:
        if isinstance(step, ToolResult) and step.written_by.stranger:
            yield step.content
        elif isinstance(step, ModelTurn) and trajectory.phase == DEMONSTRATION:
            yield step.text


def unapproved(library: Library, accepted: Collection[ExperienceId]) -> tuple[Author, ...]:
    """Return the strangers behind the lessons of a version that are not accepted yet."""
    return strangers(author for one in library.experiences if one.id not in accepted for author in one.origin.strangers)


def waiting_lessons(
    library: Library, accepted: Collection[ExperienceId], *, trust: Collection[str]
) -> Mapping[ExperienceId, Sequence[Author]]:
    """Return the lessons of a version that wait for a person because of strangers, with these strangers.

    accepted: lessons that were published before. trust: authors that somebody means to trust.
    """
    new = [one for one in library.experiences if one.id not in accepted]
    found = {one.id: [author for author in one.origin.strangers if not author.is_trusted(trust)] for one in new}
    return {lesson: authors for lesson, authors in found.items() if authors}


def refused_authors(reader: StoreReader, libraries: LibraryStore, *, before: datetime) -> frozenset[Author]:
    """Return the strangers behind what persons refused before a time: single lessons, and versions of runs."""
    found = set[Author]()
    for name in libraries.names():
        found.update(libraries.history(name).refused_strangers(before))
    refused = [one for one in reader.decisions() if one.version and one.verdict == "rejected" and one.at < before]
    shown = libraries.shown_lessons() if refused else {}
    for one in refused:
        library = reader.library(one.version or LibraryVersion(""))
        left_out = library.by_id.get(one.experience) if one.experience else None
        found.update(unapproved(library, shown) if left_out is None else left_out.origin.strangers)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class ShapedLesson:
    """A lesson that text of strangers could have shaped, and what a person needs to decide on it."""

    lesson: Experience
    sentence: str
    """The sentence of what was read that shares most words with it; empty when none shares two."""
    said_by: str
    """Where the sentence stands, in words; empty without a sentence."""
    attempts: tuple[tuple[RolloutId, float], ...]
    """The rollouts behind it with the lowest and the highest reward, with their rewards."""


def shaped_lessons(
    reader: StoreReader, library: Library, accepted: Collection[ExperienceId]
) -> tuple[ShapedLesson, ...]:
    """Return the lessons of a version that wait for a person because of strangers, in order."""
    waiting = [one for one in library.experiences if one.id not in accepted and one.origin.strangers]
    evidence: dict[ExperienceId, tuple[RolloutId, ...]] = {}
    for row in reader.proposals_of([one.id for one in waiting]):
        if isinstance(row.ended.end, Applied) and row.ended.end.experience is not None:
            evidence[row.ended.end.experience] = row.ended.proposal.evidence[:_MOST_READ]
    found: list[ShapedLesson] = []
    for one in waiting:
        read = [whole.trajectory for whole in reader.whole(evidence.get(one.id, ()))]
        judged = sorted(((t.id, t.reward) for t in read if t.reward is not None), key=lambda pair: pair[1])
        ends = (judged[0], judged[-1]) if len(judged) > 1 else tuple(judged)
        found.append(ShapedLesson(one, *_nearest(one.lesson, list(_texts_read(reader, read))), ends))
    return tuple(found)


def _texts_read(reader: StoreReader, read: Sequence[Trajectory]) -> Iterator[tuple[str, str]]:
    """Texts that others than the model wrote, with where they stand: results of tools, dialogues, reasons, tasks."""
    for one in read:
        yield from (
            (step.content, f"a result of the tool {step.tool}") for step in one.steps if isinstance(step, ToolResult)
        )
        yield from ((step.text, "what the user said") for step in one.steps if isinstance(step, UserTurn))
        if one.phase == DEMONSTRATION:
            yield from ((step.text, "a demonstration") for step in one.steps if isinstance(step, ModelTurn))
        if one.verdict is not None:
            yield one.verdict.reason, "the reason of a reward"
    yield from ((task.problem, "the task") for task in reader.tasks(list({one.task for one in read})).values())


def _nearest(lesson: str, texts: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """The sentence that shares most words with a lesson, and where it stands. A frequent word counts less.

    Of a sentence that stands in several places, the first place is named; results of tools come first.
    """
    wanted = set(lower_case_words(lesson))
    shared: dict[str, tuple[set[str], str]] = {}
    for text, where in texts:
        for sentence in _SENTENCE_END.split(text[:_MOST_CHARACTERS]):
            shared.setdefault(sentence.strip(), (wanted & set(lower_case_words(sentence)), where))
    often = Counter(word for words, _ in shared.values() for word in words)
    near = [one for one, (words, _) in shared.items() if len(words) >= _FEWEST_SHARED]
    if not near:
        return "", ""
    best = max(near, key=lambda one: (sum(1 / often[word] for word in shared[one][0]), -len(one)))
    return best, shared[best][1]
