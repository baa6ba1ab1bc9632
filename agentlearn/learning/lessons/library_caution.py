"""A caution for a library that a person brings as a file: which of its lessons a run would not have applied."""

import shlex

from agentlearn.library.curate.hostile import wrong_form
from agentlearn.types.experience import Library

_LISTED = 5


def library_caution(reference: str, library: Library) -> str | None:
    """One sentence with the number, ids and codes of lessons that may be harmful; None when there are none.

    Only for files: in a library of the store, a person has approved such lessons. Nothing is removed, because a person
    chose the file.
    """
    if not (reference.endswith(".json") or "/" in reference):
        return None
    doubts = [(one.id, end.code) for one in library.experiences if (end := wrong_form(one.lesson)) is not None]
    if not doubts:
        return None
    listed = ", ".join(f"{identity[:12]} ({code})" for identity, code in doubts[:_LISTED])
    more = f" and {len(doubts) - _LISTED} more" if len(doubts) > _LISTED else ""
    return (
        f"caution: {len(doubts)} of the {len(library)} lessons in {reference!r} may be harmful: {listed}{more};"
        f" read them with `agentlearn library show {shlex.quote(reference)}`"
    )
