"""Which lessons a recorded rollout was shown."""

import re
from typing import Any, NamedTuple

from agentlearn.errors import ConfigError
from agentlearn.library.lessons import Advice
from agentlearn.library.shown import shown_in
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.ids import ExperienceId, LibraryVersion

_VERSION = re.compile(r"[0-9a-f]{32}")


class ShownLibrary(NamedTuple):
    """Lessons that were in the context of a rollout."""

    version: LibraryVersion = EMPTY_LIBRARY.version
    masked: tuple[ExperienceId, ...] = ()
    """Lessons of that version that were not shown, sorted."""
    library: Library | None = EMPTY_LIBRARY
    """None when only its version is known."""
    offered: tuple[ExperienceId, ...] | None = None
    """Lessons that retrieval chose, withheld ones included; None: all."""


def shown_of(experiences: object, result: object = None) -> ShownLibrary:
    """Return what was shown. Raises ConfigError.

    experiences: an `Experiences` object, what `with lessons(...)` yields, a `Library`, its version, or None. What the
    messages of the result say comes first, because `Experiences` may have followed a newer version since.
    """
    said = shown_in(result)
    if said is not None and not isinstance(experiences, Library | str):
        library: Any = getattr(experiences, "library", None)
        known = next((one for one in (library, EMPTY_LIBRARY) if getattr(one, "version", "") == said.version), None)
        return ShownLibrary(said.version, tuple(sorted(said.masked)), known, said.offered)
    if experiences is None:
        return ShownLibrary()
    if isinstance(experiences, Advice):
        shown = experiences.shown
        known = None if shown.lessons else EMPTY_LIBRARY
        return ShownLibrary(shown.version, tuple(sorted(shown.masked)), known, shown.offered)
    if isinstance(experiences, Library):
        return ShownLibrary(experiences.version, (), experiences)
    if isinstance(experiences, str):
        if _VERSION.fullmatch(experiences) is None:
            raise ConfigError(
                f"{experiences!r} is not the version of a library, which has 32 hex digits; pass the Experiences or the"
                " Library that the agent was shown",
                code="bad_version",
            )
        return ShownLibrary(LibraryVersion(experiences), (), None)
    library = getattr(experiences, "library", None)
    labels: Any = getattr(getattr(experiences, "rendered", None), "labels", None)
    if not isinstance(library, Library):
        raise ConfigError(
            f"experiences is a {type(experiences).__name__}; pass the Experiences, the Library or the version of the"
            " library that the agent was shown",
            code="bad_experiences",
        )
    shown = set(labels.values()) if isinstance(labels, dict) else set(library.by_id)
    offered: tuple[ExperienceId, ...] | None = getattr(getattr(experiences, "choice", None), "lessons", None)
    masked = tuple(sorted(one for one in (library.by_id if offered is None else offered) if one not in shown))
    return ShownLibrary(library.version, masked, library, offered)
