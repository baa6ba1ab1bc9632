"""What an application gives the recorder, as a task, messages, steps and an answer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    UserPromptPart,
)
from pydantic_core import to_json

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.errors import DataError
from agentlearn.formats.openai_chat import ChatMessage, from_chat
from agentlearn.library.shown import first_of_run
from agentlearn.rollout.transcript import steps_of
from agentlearn.secret_values import without_secrets
from agentlearn.text import storable
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Step, Usage, UserTurn

_CHAT = TypeAdapter(list[ChatMessage])
_TASK_FIELDS = ("problem", "task", "question", "prompt", "input")
_ANSWER_FIELDS = ("answer", "expected", "target")


@dataclass(frozen=True, slots=True)
class Passed:
    """What the application passed, before any of it is read. Its lists are copies."""

    messages: tuple[Any, ...]
    """All messages: pydantic-ai's, or OpenAI chat as mappings."""
    new: int = 0
    """Place of the first message of this rollout; earlier ones are its history."""
    output: object = None
    """Output of a pydantic-ai run; None if only messages are known."""


@dataclass(frozen=True, slots=True)
class Captured:
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

    @property
    def usage(self) -> Usage:
        """Sum over the model's turns."""
        return sum((step.usage for step in self.steps if isinstance(step, ModelTurn)), Usage())


def given_of(result: object) -> Passed:
    """Return what a result or a list of messages holds, unread. Raises DataError for anything else."""
    whole: Any = result
    if callable(getattr(whole, "all_messages", None)) and callable(getattr(whole, "new_messages", None)):
        messages = tuple(whole.all_messages())
        return Passed(messages, first_of_run(whole), getattr(whole, "output", None))
    if isinstance(result, Sequence) and not isinstance(result, str | bytes):
        return Passed(tuple(dict(one) if isinstance(one, Mapping) else one for one in result))
    raise _unusable(f"it is a {type(result).__name__}")


def captured(given: Passed) -> Captured:
    """Read what was given. Raises DataError."""
    messages = _messages(given.messages)
    mine = messages[given.new :]
    if not any(isinstance(one, ModelResponse) for one in mine):
        raise _unusable("it holds no reply of a model")
    try:
        written = ModelMessagesTypeAdapter.dump_json(messages).decode()
    except (ValueError, UnicodeError):  # lone surrogates
        written = storable(json.dumps(ModelMessagesTypeAdapter.dump_python(messages, mode="json"), ensure_ascii=False))
    steps = (*map(_unpaid, steps_of(messages[: given.new], opening=True)), *steps_of(mine, opening=True))
    last = next(one for one in reversed(mine) if isinstance(one, ModelResponse))
    return Captured(
        messages=without_secrets(written),
        steps=_safe_steps(steps),
        asked=next((text for one in mine if (text := _asked(one))), ""),
        answer=_answer(given.output, last.text or ""),
        model=storable(last.model_name or ""),
    )


def _unpaid(step: Step) -> Step:
    """A step of the history, whose tokens belong to another rollout."""
    return step.model_copy(update={"usage": Usage()}) if isinstance(step, ModelTurn) else step


def without_task(steps: tuple[Step, ...], task: Task) -> tuple[Step, ...]:
    """The steps without the first one where it is the user's message that is the task."""
    first = steps[0] if steps else None
    return steps[1:] if isinstance(first, UserTurn) and first.text.split() == task.problem.split() else steps


def task_of(name: str, task: object, asked: str) -> Task:
    """Return the task of a rollout. Raises DataError.

    task: a text, a `Task`, or a mapping with the problem; None: what the user asked.
    """
    if isinstance(task, Task):
        return _task(name, task.problem, task.answer, task.fields, task)
    if isinstance(task, Mapping):
        fields: dict[str, Any] = {str(key): value for key, value in task.items()}
        problem = next((fields.pop(key) for key in _TASK_FIELDS if fields.get(key)), asked)
        answer = next((fields.pop(key) for key in _ANSWER_FIELDS if fields.get(key) is not None), None)
        return _task(name, str(problem), None if answer is None else str(answer), fields)
    if task is None or isinstance(task, str):
        return _task(name, task or asked, None, {})
    raise DataError(
        f"task is a {type(task).__name__}; pass its text, a Task, or a mapping with the key 'problem'", code="bad_task"
    )


def _task(name: str, problem: str, answer: str | None, fields: Mapping[str, Any], like: Task | None = None) -> Task:
    problem = clean(problem)
    if not problem.strip():
        raise DataError("the task is empty and the messages hold no question; pass task='...'", code="bad_task")
    try:
        extra = json.loads(clean(json.dumps(dict(fields), ensure_ascii=False, allow_nan=False))) if fields else None
    except (TypeError, ValueError) as error:
        raise DataError(
            f"the fields of the task are not JSON ({error}); pass texts, numbers, lists and mappings", code="bad_task"
        ) from error
    return Task.of(
        name,
        problem,
        None if answer is None else clean(answer),
        fields=extra,
        source="live",
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
        return from_chat(_CHAT.validate_python(list(given)))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _unusable(f"message {where}: {first['msg']}") from error
    except ValueError as error:
        raise _unusable(str(error)) from error


def _unusable(why: str) -> DataError:
    return DataError(
        f"this cannot be recorded: {why}; pass the result of agent.run(), its messages, or OpenAI chat messages",
        code="bad_record",
    )


def _asked(message: ModelMessage) -> str:
    if isinstance(message, ModelResponse):
        return ""
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            content = part.content
            texts = [content] if isinstance(content, str) else [one for one in content if isinstance(one, str)]
            if text := "\n".join(texts).strip():
                return text
    return ""


def _answer(output: object, reply: str) -> str | None:
    if output is None or isinstance(output, str):
        spoken = split_thoughts(reply if output is None else output)
        return None if spoken.unfinished else clean(spoken.said.strip()) or None
    try:
        return clean(to_json(output).decode())
    except (ValueError, TypeError):
        return clean(str(output))


def _safe_steps(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps without known secrets."""
    adapter = _steps_adapter
    text = adapter.dump_json(steps).decode()
    safe = without_secrets(text)
    return steps if safe == text else adapter.validate_json(safe)


_steps_adapter: TypeAdapter[tuple[Step, ...]] = TypeAdapter(tuple[Step, ...])
