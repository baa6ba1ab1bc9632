"""Finding one lesson of a library by the start of its id."""

from agentlearn.errors import LibraryError
from agentlearn.library.history.library_diff import LessonStatus, held_lessons
from agentlearn.types.experience import Library
from agentlearn.types.ids import ExperienceId

_ID_SHOWN = 12


def find_lesson(library: Library, prefix: str, *wanted: LessonStatus, where: str) -> ExperienceId:
    """Return the id of the only lesson whose id starts with the prefix and that has one of these statuses.

    where: a reference to the library, for the message. Raises LibraryError.
    """
    held = {identity: status for identity, (_, status) in held_lessons(library).items()}
    matching = [identity for identity in held if prefix and identity.startswith(prefix)]
    if len(matching) > 1:
        exact = [identity for identity in matching if identity == prefix]
        listed = ", ".join(repr(one[:_ID_SHOWN]) for one in matching[:8])
        if not exact:
            raise LibraryError(
                f"{len(matching)} lessons of {where!r} have an id that starts with {prefix!r} (found: {listed}); give"
                " more of the one that you mean",
                code="ambiguous",
            )
        matching = exact
    if not matching:
        raise LibraryError(
            f"no lesson of {where!r} has an id that starts with {prefix!r}; `agentlearn library show {where}` lists"
            " them with their ids",
            code="unknown_lesson",
        )
    if wanted and held[matching[0]] not in wanted:
        raise LibraryError(
            f"the lesson {prefix!r} of {where!r} is {held[matching[0]]}, not {' or '.join(wanted)};"
            f" `agentlearn library show {where}` lists all lessons",
            code="wrong_status",
        )
    return matching[0]
