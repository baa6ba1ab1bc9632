"""What an application gives the recorder, as a task, messages, steps and an answer."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_core import to_json

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.errors import ConfigError, DataError
from agentlearn.formats.openai_chat import from_chat
from agentlearn.library.lessons import Advice
from agentlearn.library.shown import first_of_run, shown_in, text_of
from agentlearn.live.personal_data import Cleaning, PersonalData
from agentlearn.models.endings import fault_of
from agentlearn.rollout.transcript import steps_of
from agentlearn.text import storable
from agentlearn.text.secret_values import without_secrets
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.ids import ExperienceId, LibraryVersion
from agentlearn.types.task import SESSION, Task
from agentlearn.types.trajectory import Failure, ModelTurn, Step, Usage, UserTurn

_STEPS: TypeAdapter[tuple[Step, ...]] = TypeAdapter(tuple[Step, ...])
_TASK_FIELDS = ("problem", "task", "question", "prompt", "input")
_ANSWER_FIELDS = ("answer", "expected", "target")


@dataclass(frozen=True, slots=True)
class _Passed:
    """What the application passed, before any of it is read. Its lists are copies."""

    messages: tuple[Any, ...]
    """All messages: pydantic-ai's, or OpenAI chat as mappings."""
    new: int = 0
    """Place of the first message of this rollout; earlier ones are its history."""
    output: object = None
    """Output of a pydantic-ai run; None if only messages are known."""


@dataclass(frozen=True, slots=True)
class _Captured:
    """A rollout that can be stored."""

    messages: str
    """JSON of pydantic-ai's messages."""
    steps: tuple[Step, ...]
    """The whole dialogue, with what came before this rollout; those steps used no tokens of it."""
    asked: str
    """Text of the first message of the user in this rollout; empty when there is none."""
    answer: str | None
    model: str
    """Model that the last reply names; empty if it names none."""
    failure: Failure | None = None
    """What the service did to the last reply, so that it is not the model's answer."""

    @property
    def usage(self) -> Usage:
        """Sum over the model's turns."""
        return sum((step.usage for step in self.steps if isinstance(step, ModelTurn)), Usage())


def given_of(result: object, before: int = 0) -> _Passed:
    """Return what a result or a list of messages holds, unread. Raises DataError for anything else.

    before: number of messages of a list that came before the rollout.
    """
    whole: Any = result
    if callable(getattr(whole, "all_messages", None)) and callable(getattr(whole, "new_messages", None)):
        messages = tuple(whole.all_messages())
        return _Passed(messages, first_of_run(whole), getattr(whole, "output", None))
    if isinstance(result, Sequence) and not isinstance(result, str | bytes):
        return _Passed(tuple(dict(one) if isinstance(one, Mapping) else one for one in result), new=before)
    raise _unusable(f"it is a {type(result).__name__}")


def captured(given: _Passed, cleaning: Cleaning | None = None) -> _Captured:
    """Read what was given. cleaning: what cleans its texts; None: known secrets are taken out. Raises DataError."""
    cleaning = cleaning or PersonalData().cleaning()
    messages = _messages(given.messages)
    mine = messages[given.new :]
    if not any(isinstance(one, ModelResponse) for one in mine):
        raise _unusable("it holds no reply of a model")
    before = steps_of(messages[: given.new], opening=True)  # their tokens belong to another rollout
    unpaid = (one.model_copy(update={"usage": Usage()}) if isinstance(one, ModelTurn) else one for one in before)
    steps = (*unpaid, *steps_of(mine, opening=True))
    text, written = _STEPS.dump_json(steps).decode(), ""
    if cleaning.searches:
        safe = json.dumps(cleaning.json(json.loads(text)))
    else:
        safe = cleaning.text(text)
        with suppress(ValueError, UnicodeError):  # lone surrogates
            written = cleaning.text(ModelMessagesTypeAdapter.dump_json(messages).decode())
    if not written:
        plain = cleaning.json(ModelMessagesTypeAdapter.dump_python(messages, mode="json"))
        written = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    last = next(one for one in reversed(mine) if isinstance(one, ModelResponse))
    prompts = (part for one in mine for part in one.parts if isinstance(part, UserPromptPart))
    # the limit of the request is not known here, so a reply that ended at one counts as whole
    fault = fault_of(last, ModelRequestParameters(), limit=None, whole=True)
    failed = fault and Failure(code=f"endpoint_{fault.code}", message=f"the service {fault.words}", boundary="endpoint")
    return _Captured(
        messages=written,
        steps=steps if safe == text else _STEPS.validate_json(safe),
        asked=next((text for part in prompts if (text := text_of(part.content).strip())), ""),
        answer=None if failed else _answer(given.output, last.text or "", cleaning),
        model=storable(last.model_name or ""),
        failure=failed,
    )


def user_speaks(message: ModelMessage) -> bool:
    """Whether a message holds something that the user said."""
    return isinstance(message, ModelRequest) and any(isinstance(part, UserPromptPart) for part in message.parts)


def without_task(steps: tuple[Step, ...], task: Task) -> tuple[Step, ...]:
    """The steps without the first one where it is the user's message that is the task."""
    first = steps[0] if steps else None
    return steps[1:] if isinstance(first, UserTurn) and first.text.split() == task.problem.split() else steps


def task_of(name: str, task: object, asked: str, cleaning: Cleaning) -> Task:
    """Return the task of a rollout. Raises DataError.

    task: a text, a `Task`, or a mapping with the problem; None: what the user asked.
    """
    if isinstance(task, Task):
        return _task(name, task.problem, task.answer, task.fields, cleaning, task)
    if isinstance(task, Mapping):
        fields: dict[str, Any] = {str(key): value for key, value in task.items()}
        problem = next((fields.pop(key) for key in _TASK_FIELDS if fields.get(key)), asked)
        answer = next((fields.pop(key) for key in _ANSWER_FIELDS if fields.get(key) is not None), None)
        return _task(name, str(problem), None if answer is None else str(answer), fields, cleaning)
    if task is None or isinstance(task, str):
        return _task(name, task or asked, None, {}, cleaning)
    raise DataError(f"task is a {type(task).__name__}; pass its text, a Task, or a mapping with the key 'problem'")


def _task(
    name: str,
    problem: str,
    answer: str | None,
    fields: Mapping[str, Any],
    cleaning: Cleaning,
    like: Task | None = None,
) -> Task:
    problem = cleaning.text(problem)
    if not problem.strip():
        raise DataError("the task is empty and the messages hold no question; pass task='...'")
    try:
        extra = cleaning.json(json.loads(json.dumps(dict(fields), allow_nan=False))) if fields else None
    except (TypeError, ValueError) as error:
        raise DataError(
            f"the fields of the task are not JSON ({error}); pass texts, numbers, lists and mappings"
        ) from error
    return Task.of(
        name,
        problem,
        None if answer is None else cleaning.text(answer),
        fields=extra,
        source=SESSION if like is not None and like.source == SESSION else "live",
        family=like.family if like else "",
        start=like.start if like else "",
    )


def clean(text: str) -> str:
    """The text without known secrets and without lone surrogates."""
    return without_secrets(storable(text))


def _messages(given: Sequence[Any]) -> list[ModelMessage]:
    if not given:
        raise _unusable("it is empty")
    if all(isinstance(one, ModelRequest | ModelResponse) for one in given):
        return list(given)
    if not all(isinstance(one, Mapping) for one in given):
        found = next((one for one in given if not isinstance(one, ModelRequest | ModelResponse)), given[0])
        raise _unusable(f"it mixes messages with a {type(found).__name__}")
    try:
        if all("parts" in one for one in given):
            return ModelMessagesTypeAdapter.validate_python(list(given))
        return from_chat(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _unusable(f"message {where}: {first['msg']}") from error
    except ValueError as error:
        raise _unusable(str(error)) from error


def _unusable(why: str) -> DataError:
    return DataError(
        f"this cannot be recorded: {why}; pass the result of agent.run(), its messages, or OpenAI chat messages"
    )


def _answer(output: object, reply: str, cleaning: Cleaning) -> str | None:
    if output is None or isinstance(output, str):
        spoken = split_thoughts(reply if output is None else output)
        return None if spoken.unfinished else cleaning.json(spoken.said.strip()) or None
    try:
        return cleaning.json(to_json(output).decode())
    except (ValueError, TypeError):
        return cleaning.text(str(output))


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
        return ShownLibrary(shown.version, tuple(sorted(shown.masked)), experiences.library, shown.offered)
    if isinstance(experiences, Library):
        return ShownLibrary(experiences.version, (), experiences)
    if isinstance(experiences, str):
        if _VERSION.fullmatch(experiences) is None:
            raise ConfigError(
                f"{experiences!r} is not the version of a library, which has 32 hex digits; pass the Experiences or the"
                " Library that the agent was shown"
            )
        return ShownLibrary(LibraryVersion(experiences), (), None)
    library = getattr(experiences, "library", None)
    labels: Any = getattr(getattr(experiences, "rendered", None), "labels", None)
    if not isinstance(library, Library):
        raise ConfigError(
            f"experiences is a {type(experiences).__name__}; pass the Experiences, the Library or the version of the"
            " library that the agent was shown"
        )
    shown = set(labels.values()) if isinstance(labels, dict) else set(library.by_id)
    offered: tuple[ExperienceId, ...] | None = getattr(getattr(experiences, "choice", None), "lessons", None)
    masked = tuple(sorted(one for one in (library.by_id if offered is None else offered) if one not in shown))
    return ShownLibrary(library.version, masked, library, offered)
