"""Which lessons an agent may be shown, and which it read.

`NotShown` is the one answer to the first question, and everything that opens a library for an agent asks it. A lesson
that is parked on `main`, or rests on erased records, is shown by no version of its library: no branch, canary
or older version, and none that a rollback or an import makes the current one. `library unpark` on `main` takes
that back. What is parked on another branch is kept back there only.

What an agent read is written into the metadata of its messages, and read back from there. The metadata of messages is
never sent to a model. It stays in `all_messages()` and in its JSON.

The choice is a function of its arguments alone. It is the same after a restart, in another process and on another
machine, and nothing that happens in a rollout can change it.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Protocol, Self, cast, get_args, runtime_checkable

from pydantic import Field, ValidationError

from agentlearn.errors import ConfigError
from agentlearn.text.files import own
from agentlearn.types.experience import Experience, Library, held_lessons, withhold
from agentlearn.types.ids import ExperienceId, LibraryVersion, content_hash
from agentlearn.types.ranking import lower_case_words
from agentlearn.types.value import Value

ERASED_FILE = "erased"
"""File in the folder of all libraries with the ids of the lessons that rest on erased records."""
RESTS_ON_ERASED = "it rests on erased records"
_LISTED = 4
_log = logging.getLogger("agentlearn")


@dataclass(frozen=True, slots=True)
class NotShown:
    """The lessons that may not be shown."""

    reasons: Mapping[object, str] = field(default_factory=dict[object, str])
    """Why, which may be empty, by the id of the lesson, and by its words for lessons that come with other ids."""

    @classmethod
    def of(cls, libraries: Path, parked: Mapping[ExperienceId, str | None], main: object = None) -> Self:
        """Return the answer for a library.

        libraries: the folder of all libraries. parked: by its log, see `LibraryState.parked`. main: its main version;
        anything else where that cannot be read.
        """
        reasons = dict[object, str | None]()
        with suppress(OSError, UnicodeDecodeError):
            erased = own(libraries / ERASED_FILE, libraries).read_text(encoding="ascii").split()
            reasons |= dict.fromkeys(erased, RESTS_ON_ERASED)
        reasons |= dict(parked)
        if isinstance(main, Library):
            reasons |= {one.experience.id: one.reason for one in main.withheld if one.status == "parked"}
        return cls({one: why for one, why in reasons.items() if why is not None})

    def reason(self, one: Experience) -> str | None:
        """Why a lesson may not be shown; None where it may."""
        return self.reasons.get(one.id, self.reasons.get(lower_case_words(one.lesson))) if self.reasons else None

    def left_out(self, library: Library) -> dict[ExperienceId, str]:
        """The lessons that a version shows, or that wait in it, and that may not be shown, with the reasons."""
        held = ((one, self.reason(made)) for one, (made, how) in held_lessons(library).items() if how != "parked")
        return {one: why for one, why in held if why is not None}

    def applied(self, library: Library, reference: str = "") -> Library:
        """Return the version as agents may see it: without these lessons, which it keeps parked.

        reference: warn, under this name, about what is left out.
        """
        left_out = self.left_out(library)
        if left_out and reference:
            listed = ", ".join(f"{one[:12]} ({why or 'parked'})" for one, why in sorted(left_out.items())[:_LISTED])
            _log.warning("%s is used without lessons that no version may show: %s", reference, listed)
        return withhold(library, left_out)


Choose = Literal["conversation", "turn"]
"""When lessons are chosen: for the first message of a conversation, which keeps them, or for each user message."""
LessonPlace = Literal["instructions", "last"]
"""Where lessons stand: in the instructions, or before the newest user message, so that all before it can be cached."""


def showing(choose: str | None, place: str | None) -> tuple[Choose, LessonPlace]:
    """Return when lessons are chosen and where they stand; None: the default. Raises ConfigError for another word."""
    for name, given, words in (("choose", choose, get_args(Choose)), ("place", place, get_args(LessonPlace))):
        if given is not None and given not in words:
            raise ConfigError(f"{name} is {given!r}; use {' or '.join(map(repr, words))}")
    return cast("Choose", choose or "conversation"), cast("LessonPlace", place or "instructions")


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

    @classmethod
    def all_in(cls, messages: object) -> "dict[str, Shown]":
        """Return the lessons that were shown last in these messages, by the id of the capability that showed them."""
        if not isinstance(messages, list | tuple) and isinstance(messages, _Result):  # slow for a protocol
            messages = messages.all_messages()[first_of_run(messages) :]
        found: dict[str, Shown] = {}
        for message in reversed(list(cast("Iterable[Any]", messages)) if isinstance(messages, Iterable) else []):
            is_json = isinstance(message, Mapping)
            metadata: Any = message.get("metadata") if is_json else getattr(message, "metadata", None)
            entries: Any = metadata.get(METADATA_KEY) if isinstance(metadata, Mapping) else None
            for name, entry in cast("Mapping[Any, Any]", entries).items() if isinstance(entries, Mapping) else ():
                with suppress(ValidationError):
                    found.setdefault(str(name), cls.model_validate(entry))
        return found

    def added_to(self, metadata: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
        """Return a message's metadata with these lessons, which the capability of that id showed."""
        kept = metadata or {}
        others = kept.get(METADATA_KEY)
        entries = dict(cast("Mapping[str, Any]", others)) if isinstance(others, Mapping) else {}
        return {**kept, METADATA_KEY: {**entries, name: self.model_dump(mode="json")}}


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
    return next(iter(Shown.all_in(messages).values()), None)


def first_of_run(result: Any) -> int:
    """Return the index, in all messages of a result, of the first that belongs to its run.

    A run that goes on from a user's message in its history, as every run of AG-UI does, answers that message.
    """
    messages, new = result.all_messages(), len(result.new_messages())
    first = len(messages) - new
    answers = first > 0 and new > 0 and getattr(messages[first], "kind", "") == "response"
    return first - 1 if answers else first


def text_of(prompt: object) -> str:
    """The texts of a user prompt, without its images, files and other content."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Mapping):
        return text_of(cast("Mapping[str, Any]", prompt).get("text"))
    if isinstance(prompt, Sequence):
        return "\n".join(filter(None, map(text_of, cast("Sequence[object]", prompt))))
    found = getattr(prompt, "content", None) or getattr(prompt, "text", None)
    return found if isinstance(found, str) else ""


_MOST_HIDDEN = 0.5
"""Largest share of an application's episodes that a lesson may be hidden in, or that may read a canary."""
_HEX_DIGITS = 13


def masks(
    lessons: Iterable[ExperienceId], *, rollouts: int, hidden: int, key: str
) -> tuple[tuple[ExperienceId, ...], ...]:
    """For each rollout of a block, the sorted lessons to hide.

    Each lesson is hidden in exactly `hidden` of the `rollouts`, independently of the others. key: names the block, such
    as the run, the phase and the task. Raises ConfigError unless each lesson would be hidden and shown at least once.
    """
    if not 1 <= hidden < rollouts:
        raise ConfigError(
            f"hiding each lesson in {hidden!r} of {rollouts!r} rollouts measures nothing; use 1 to {rollouts - 1}"
        )
    found = [list[ExperienceId]() for _ in range(rollouts)]
    for lesson in sorted(set(lessons)):
        order = sorted(range(rollouts), key=lambda g: content_hash("hide", key, lesson, g))
        for g in order[:hidden]:
            found[g].append(lesson)
    return tuple(tuple(one) for one in found)


def hidden_in_episode(lessons: Iterable[ExperienceId], *, share: float, episode: str) -> tuple[ExperienceId, ...]:
    """The sorted lessons to hide in one episode of an application. Each is hidden with probability `share`, in 0..1.

    The whole episode, and every repetition of it, gets the same answer.
    """

    return tuple(lesson for lesson in sorted(set(lessons)) if _place("hide-episode", episode, lesson) < share)


def in_canary(library: str, version: LibraryVersion, episode: str, *, share: float) -> bool:
    """Whether an episode reads the canary of a library, which happens with probability `share`, in 0..1.

    The answer depends on nothing else, and not on which lessons are hidden. An episode that reads a canary goes on
    reading it when the share grows.
    """
    return _place("canary", library, version, episode) < share


def _place(*parts: str) -> float:
    """A number in 0..1 that looks random and depends on the parts only."""
    return int(content_hash(*parts)[:_HEX_DIGITS], 16) / 16**_HEX_DIGITS


def share_of(given: str | float | None, option: str = "hide", of: str = "each lesson is hidden in") -> float:
    """A share of episodes, 0 to 1/2, from "1/5" or 0.2; 0 for None. option, of: for the error. Raises ConfigError."""
    if given is None:
        return 0.0
    try:
        share = -1.0 if isinstance(given, bool) else float(Fraction(given))
    except (ValueError, ZeroDivisionError, OverflowError, TypeError):
        share = -1.0
    if not 0 <= share <= _MOST_HIDDEN:
        raise ConfigError(
            f"{option} is {given!r}; give the share of episodes that {of}, from 0 to 1/2, such as '1/5'",
            code=f"bad_{option.lstrip('-')}",
        )
    return share
