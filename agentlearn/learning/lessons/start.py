"""The library that a run starts from: the one of its own name, unless something else is asked for.

What persons wrote into the library of that name stays in every case, so that no run can publish a version without it.
The command line and Python follow the same rule.
"""

import shlex

from agentlearn.config import LearnSettings
from agentlearn.library import NO_LIBRARY, LibraryStore
from agentlearn.library.curate.hostile import wrong_form
from agentlearn.library.curate.similarity import refusal_key
from agentlearn.library.history.change_log import MAIN, is_library_name
from agentlearn.types.experience import EMPTY_LIBRARY, Library, counted_lessons, held_lessons


def start_library(settings: LearnSettings, libraries: LibraryStore, given: Library | None = None) -> Library:
    """Return the library to start from, with all lessons that persons wrote into the library of the run's name.

    given: the library that a program gave; None: the one of the settings, which is by default the library of the run's
    name, or no lesson where there is none. Raises LibraryError for an unknown library.
    """
    history = libraries.history(settings.library_name)
    if given is not None:
        chosen = given
    elif settings.library is None:
        chosen = history.load() if history.exists else EMPTY_LIBRARY
    else:
        chosen = libraries.load(settings.library)
    return _with_written(chosen, history.load(MAIN)) if history.exists else chosen


def _with_written(chosen: Library, main: Library) -> Library:
    """Return a library with the lessons of another one that persons wrote, and with its withheld ones.

    It is the library itself where it has them all. A lesson that says the same as one of a person gives way to it.
    """
    held, theirs = held_lessons(chosen), held_lessons(main)
    written = [one for one in main.written if one.id not in chosen.by_id]
    parked = {key for key, (one, status) in theirs.items() if one.by_person and status != "shown"} & chosen.by_id.keys()
    withheld = [one for one in main.withheld if one.experience.id not in held or one.experience.id in parked]
    if not written and not withheld:
        return chosen
    words = {refusal_key(one.lesson) for one in written}
    kept = [
        one
        for one in chosen.experiences
        if one.id not in parked and (one.by_person or refusal_key(one.lesson) not in words)
    ]
    shown = (*kept, *written)
    ids = {one.id for one in shown}
    still = [one for one in chosen.withheld if one.experience.id not in ids]
    empty = chosen.version == EMPTY_LIBRARY.version
    if empty and main.version == main.only_written().version:
        return main
    return Library(
        parent=main.version if empty else chosen.version,
        joined=None if empty else main.version,
        experiences=shown,
        withheld=(*still, *withheld),
    )


def start_words(settings: LearnSettings, start: Library) -> str:
    """What a run starts from, in words: the version, the number of its lessons, and how many a person wrote."""
    libraries, own = LibraryStore(settings.store / "libraries"), settings.library_name
    written, asked = len(start.written), settings.library
    if not len(start):
        return "no lessons"
    if asked == NO_LIBRARY:
        return f"nothing but the {counted_lessons(written)} of {own} that a person wrote"
    name = (asked or own).partition("@")[0]
    place = asked or "what the program gave"
    if is_library_name(name) and start.version in libraries.history(name).versions():
        place = f"{name}@{start.version[:8]}"
    by = "all" if written == len(start) else f"{written}" if written else "none"
    return f"{place}: {counted_lessons(len(start))}, {by} of them written by a person"


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
