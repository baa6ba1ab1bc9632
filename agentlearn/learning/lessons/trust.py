"""Whose text the lessons of a run could repeat, and whether its version waits for a person because of that.

What a text says is not looked at: a stranger's sentence can be said in any words. A lesson inherits the strangers whose
text its reflector read, and a version with new lessons of that kind is published only when a person approves it, or has
named these authors with `trust`.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from agentlearn.learning.lessons.shown_reason import shown_reason
from agentlearn.library import LibraryStore
from agentlearn.store import StoreReader
from agentlearn.types.author import Author, AuthorKind, is_trusted, strangers
from agentlearn.types.experience import Library, counted_lessons
from agentlearn.types.group import Group
from agentlearn.types.ids import ExperienceId
from agentlearn.types.trajectory import DEMONSTRATION, IMPORTED, LIVE, ToolResult, UserTurn

_RECORDED = frozenset({LIVE, DEMONSTRATION, IMPORTED})
_MOST_NAMED = 4


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
                continue
            found.update(step.written_by for step in one.steps if isinstance(step, ToolResult))
            if any(isinstance(step, UserTurn) for step in one.steps):
                found.add(Author(kind="traffic", name=group.task.domain))
            if reasons_by is not None and shown_reason(one):
                found.add(Author(kind=reasons_by, name=group.task.domain if reasons_by == "reasons" else ""))
    return strangers(found)


def unapproved(library: Library, accepted: Collection[ExperienceId]) -> tuple[Author, ...]:
    """Return the strangers behind the lessons of a version that are not accepted yet."""
    return strangers(author for one in library.experiences if one.id not in accepted for author in one.origin.strangers)


def why_it_waits(library: Library, accepted: Collection[ExperienceId], *, trust: Collection[str]) -> str:
    """Return why a version waits for a person because of strangers; empty when it does not.

    accepted: lessons that were published before. trust: authors that somebody means to trust.
    """
    shaped = {
        one.id: doubtful
        for one in library.experiences
        if one.id not in accepted and (doubtful := [a for a in one.origin.strangers if not is_trusted(a, trust)])
    }
    if not shaped:
        return ""
    authors = strangers(author for found in shaped.values() for author in found)
    named = ", ".join(one.words for one in authors[:_MOST_NAMED])
    more = f" and {len(authors) - _MOST_NAMED} more" if len(authors) > _MOST_NAMED else ""
    could = f"text that others wrote could have shaped {counted_lessons(len(shaped))} of it: {named}{more}"
    kinds = " ".join(f"--trust {kind}" for kind in dict.fromkeys(a.kind for a in authors) if kind != "library")
    return f"{could}; {f'{kinds} publishes such lessons without asking' if kinds else 'a person decides'}"


def refused_authors(reader: StoreReader, libraries: LibraryStore, *, before: datetime) -> frozenset[Author]:
    """Return the strangers behind what persons refused before a time: single lessons, and versions of runs."""
    found = set[Author]()
    for name in libraries.names():
        found.update(libraries.history(name).refused_strangers(before))
    for one in reader.decisions():
        if one.of_version and one.verdict == "rejected" and one.at < before and one.version is not None:
            shown = libraries.shown_lessons()
            found.update(unapproved(reader.library(one.version), shown))
    return frozenset(found)


def nearest_sentence(lesson: str, texts: Sequence[str]) -> str:
    """Return the sentence of the texts that shares most words with a lesson; empty when none shares three."""
    from agentlearn.library.curate.similarity import lower_case_words

    wanted = set(lower_case_words(lesson))
    best, shared = "", 2
    for text in texts:
        for sentence in text.replace("\n", ". ").split(". "):
            common = len(wanted & set(lower_case_words(sentence)))
            if common > shared or (common == shared and best and len(sentence) < len(best)):
                best, shared = sentence.strip(), common
    return best
