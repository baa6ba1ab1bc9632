"""Which lessons an agent read: written into the metadata of its messages, and read back from there.

The metadata of messages is never sent to a model. It stays in `all_messages()` and in its JSON.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

from pydantic import Field, ValidationError

from agentlearn.types.ids import ExperienceId, LibraryVersion
from agentlearn.types.value import Value

METADATA_KEY = "agentlearn.experiences"
"""The key of a message's metadata under which lessons are listed, by the id of the capability that showed them."""


class Shown(Value):
    """The lessons of one library that an agent read."""

    library: str | None = None
    """The name or file of the library; None where a `Library` or lessons in words were given."""
    version: LibraryVersion
    lessons: tuple[ExperienceId, ...] = ()
    """The ids of the lessons, in order; withheld ones are left out."""
    masked: tuple[ExperienceId, ...] = ()
    """The ids of the withheld lessons."""
    offered: tuple[ExperienceId, ...] | None = Field(default=None, exclude_if=lambda lessons: lessons is None)
    """The ids of the lessons that retrieval chose for the task, withheld ones included; None: all lessons."""


@runtime_checkable
class _Result(Protocol):
    def new_messages(self) -> Sequence[Any]: ...

    def all_messages(self) -> Sequence[Any]: ...


def shown_in(messages: object) -> Shown | None:
    """Return the lessons that were shown last in these messages; None when no lessons were.

    messages: the result of a run, of which the messages of that run and the one that it answers count, or a list of
    pydantic-ai's messages or of their JSON objects. Of several libraries that were shown together, the first one listed
    is returned.
    """
    return next(iter(all_shown_in(messages).values()), None)


def all_shown_in(messages: object) -> dict[str, Shown]:
    """Return the lessons that were shown last in these messages, by the id of the capability that showed them."""
    found: dict[str, Shown] = {}
    for message in reversed(_listed(messages)):
        entries = _metadata(message).get(METADATA_KEY)
        if isinstance(entries, Mapping):
            for name, entry in cast("Mapping[Any, Any]", entries).items():
                if name not in found and (shown := _read(entry)) is not None:
                    found[str(name)] = shown
    return found


def with_shown(metadata: Mapping[str, Any] | None, name: str, shown: Shown) -> dict[str, Any]:
    """Return a message's metadata with the lessons that the capability of that id showed."""
    kept = metadata or {}
    others = kept.get(METADATA_KEY)
    entries = dict(cast("Mapping[str, Any]", others)) if isinstance(others, Mapping) else {}
    return {**kept, METADATA_KEY: {**entries, name: shown.model_dump(mode="json")}}


def first_of_run(result: Any) -> int:
    """Return the index, in all messages of a result, of the first that belongs to its run.

    A run that goes on from a user's message in its history, as every run of AG-UI does, answers that message.
    """
    messages, new = result.all_messages(), len(result.new_messages())
    first = len(messages) - new
    answers = first > 0 and new > 0 and getattr(messages[first], "kind", "") == "response"
    return first - 1 if answers else first


def _listed(messages: object) -> list[Any]:
    if isinstance(messages, _Result):
        return list(messages.all_messages())[first_of_run(messages) :]
    return list(cast("Iterable[Any]", messages)) if isinstance(messages, Iterable) else []


def _metadata(message: Any) -> Mapping[str, Any]:
    found: Any = (
        cast("Mapping[str, Any]", message).get("metadata")
        if isinstance(message, Mapping)
        else getattr(message, "metadata", None)
    )
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _read(entry: object) -> Shown | None:
    try:
        return Shown.model_validate(entry)
    except ValidationError:
        return None
