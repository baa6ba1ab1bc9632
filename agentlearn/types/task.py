"""A task: one problem and its expected answer."""

import json
from collections.abc import Mapping
from typing import Any, Literal, Self, TypedDict, cast, overload

from pydantic import Field, ModelWrapValidatorHandler, ValidationError, ValidationInfo, model_validator
from typing_extensions import Unpack

from agentlearn.errors import ConfigError
from agentlearn.types.author import Author
from agentlearn.types.ids import TaskId, content_hash
from agentlearn.types.value import Value

Split = Literal["train", "validation", "test"]
OWN = "own"
"""Domain of a task that a program makes without naming one."""
SESSION = "session"
"""Source of a task that a user gave a coding agent in a session of it."""
_DOWNLOADED = "hf:"
"""How the source of a task begins that was downloaded."""
_SHOWN = 80
"""Largest number of characters of a value in a message."""


class _More(TypedDict, total=False):
    """Keyword arguments of `Task.of`."""

    family: str
    split: Split
    source: str
    start: str
    path: tuple[str, ...]
    fields: Mapping[str, Any] | None


class Task(Value):
    """A problem to solve. Two tasks are the same if domain, problem, answer, start and fields are."""

    id: TaskId
    """Content hash of (domain, problem, answer), and of `start` and `extra` if given."""
    domain: str
    problem: str = Field(min_length=1)
    answer: str | None = None
    """Expected answer as the domain writes it; None when it is unknown."""
    family: str = ""
    """Group of similar problems (template, source, site). Standard errors are clustered by it."""
    split: Split = "train"
    source: str = ""
    """Origin of the task: `generated`, or `FILE:LINE`."""
    start: str = ""
    """Starting point, such as a site's address; empty when the task needs none."""
    path: tuple[str, ...] = ()
    """Places on a known path from the start to the answer, in order. For partial credit; never shown to a model."""
    extra: str = Field(default="", exclude_if=lambda extra: not extra)
    """What else the program that gave the task knows about it, as a JSON object; empty for nothing. See `fields`."""

    @property
    def fields(self) -> dict[str, Any]:
        """What else is known about the task, for rewards and deps. Never shown to a model."""
        return json.loads(self.extra) if self.extra else {}

    @property
    def author(self) -> Author:
        """Who wrote it: a stranger for a downloaded dataset. A file that a person names is theirs."""
        dataset = self.source.partition("#")[0] if self.source.startswith(_DOWNLOADED) else ""
        return Author(kind="tasks", name=dataset) if dataset else Author(kind="person")

    @property
    def tags(self) -> tuple[str, ...]:
        """Labels by which results are broken down: the list `tags` of `fields`; none if there is no such list."""
        found = self.fields.get("tags")
        return tuple(str(one) for one in cast("list[object]", found)) if isinstance(found, list) else ()

    @property
    def cluster(self) -> str:
        """Label of its independent unit in statistics: its domain and family; empty when it has no family."""
        return f"{self.domain}/{self.family}" if self.family else ""

    @model_validator(mode="wrap")
    @classmethod
    def _made_in_python(cls, given: Any, made: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """The task of keyword arguments, with what they leave out: id and domain, and `fields` as JSON."""
        if info.mode != "python" or not isinstance(given, Mapping):
            return made(given)
        named = dict(cast("Mapping[str, Any]", given))
        try:
            if (fields := named.pop("fields", None)) is not None:
                named["extra"] = _as_json(fields)
            named.setdefault("domain", OWN)
            if "id" not in named and isinstance(named.get("problem"), str):
                named["id"] = _identity(named)
            return made(named)
        except ValidationError as error:
            raise _refused(error, named) from None

    @overload
    @classmethod
    def of(cls, problem: str, answer: str | None = None, /, **more: Unpack[_More]) -> Self: ...

    @overload
    @classmethod
    def of(cls, domain: str, problem: str, answer: str | None, /, **more: Unpack[_More]) -> Self: ...

    @overload
    @classmethod
    def of(cls, *, problem: str, answer: str | None = None, domain: str = OWN, **more: Unpack[_More]) -> Self: ...

    @classmethod
    def of(cls, *given: Any, **named: Any) -> Self:
        """Return a task: `Task.of("What is 2 + 2?", "4")`, or `Task.of(domain, problem, answer)` for one of a domain.

        Its id is computed. fields: what else a reward or deps may need, as a mapping with JSON values. Raises
        ConfigError, which names the field and its value.
        """
        names = ("domain", "problem", "answer") if len(given) == 3 else ("problem", "answer")
        if len(given) > len(names) or named.keys() & {*names[: len(given)]}:
            raise ConfigError(
                f"Task.of takes a problem and its answer, or a domain, a problem and its answer, not {_short(given)};"
                " name everything else, such as family='sums'",
                code="bad_task",
            )
        return cls(**dict(zip(names, given, strict=False)), **named)


def _identity(named: Mapping[str, Any]) -> TaskId:
    """The id of the task with these fields."""
    more = [one for name in ("start", "extra") if (one := named.get(name))]
    return TaskId(content_hash("task", named["domain"], named["problem"], named.get("answer"), *more))


def _as_json(fields: object) -> str:
    """The JSON of what else is known about a task. Raises ConfigError."""
    if not isinstance(fields, Mapping):
        raise ConfigError(
            f"fields={_short(fields)} is no mapping; give one, such as {{'customer': 17}}", code="bad_task"
        )
    named = cast("Mapping[object, object]", fields)
    for name, value in named.items():
        if not isinstance(name, str):
            raise ConfigError(
                f"fields has the name {_short(name)}, which is no text; write {str(name)!r}", code="bad_task"
            )
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise ConfigError(
                f"fields[{name!r}]={_short(value)} is not JSON; give texts, numbers, lists and mappings of them",
                code="bad_task",
            ) from None
    return json.dumps(dict(named), ensure_ascii=False, sort_keys=True, allow_nan=False) if named else ""


def _refused(error: ValidationError, named: Mapping[str, Any]) -> ConfigError:
    """The first thing that is wrong with a task, as one sentence with the field and its value."""
    found = min(error.errors(include_url=False), key=lambda one: one["loc"] == ("id",))  # what the id is made of, first
    name = str(found["loc"][0]) if found["loc"] else "task"
    match found["type"]:
        case "missing":
            words = f"a task needs a {name}; write Task.of('What is 2 + 2?', '4')"
        case "extra_forbidden":
            value = _short(named.get(name))
            words = f"a task has no field {name!r} (given: {value}); put it into fields={{{name!r}: ...}}"
        case "string_type":
            value = named.get(name)
            as_text = repr(str(value)) if isinstance(value, int | float) else "a text"
            words = f"{name}={_short(value)} is no text; give {as_text}"
        case "string_too_short":
            words = f"{name}={_short(named.get(name))} is empty; give a text"
        case _:
            words = f"{name}={_short(named.get(name))} cannot be used in a task: {found['msg']}"
    return ConfigError(words, code="bad_task")


def _short(value: object) -> str:
    words = repr(value)
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"
