"""Versions of a library that keep some lessons and no longer show them."""

from collections.abc import Mapping

from agentlearn.errors import LibraryError
from agentlearn.types.experience import Library, Withheld, WithheldStatus
from agentlearn.types.ids import ExperienceId


def withhold(library: Library, reasons: Mapping[ExperienceId, str], *, status: WithheldStatus = "parked") -> Library:
    """The next version, which keeps these lessons and shows them to no agent; the same library when there are none.

    reasons: why, in a sentence, by lesson. The other lessons keep their order, and lessons that were withheld before
    stay so. Raises LibraryError for a lesson that the library does not show.
    """
    for lesson in reasons:
        if lesson not in library.by_id:
            raise LibraryError(
                f"the lesson {lesson!r} is not among the lessons that version {library.version[:8]} shows;"
                " `agentlearn library show` lists them",
                code="unknown_lesson",
            )
    if not reasons:
        return library
    parked = tuple(
        Withheld(experience=one, status=status, reason=reasons[one.id])
        for one in library.experiences
        if one.id in reasons
    )
    return Library(
        parent=library.version,
        experiences=tuple(one for one in library.experiences if one.id not in reasons),
        withheld=(*library.withheld, *parked),
    )
