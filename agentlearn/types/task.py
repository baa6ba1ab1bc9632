"""A task: one problem and its expected answer."""

import json
from collections.abc import Mapping
from typing import Any, Literal, Self, TypedDict, cast, overload

from pydantic import Field, ModelWrapValidatorHandler, ValidationError, ValidationInfo, model_validator
from typing_extensions import Unpack

from agentlearn.errors import ConfigError
from agentlearn.text import short_repr
from agentlearn.types.ids import TaskId, content_hash
from agentlearn.types.value import Author, Value

Split = Literal["train", "validation", "test"]
OWN = "own"
"""Domain of a task that a program makes without naming one."""
SESSION = "session"
"""Source of a task that a user gave a coding agent in a session of it."""
_DOWNLOADED = "hf:"
"""How the source of a task begins that was downloaded."""


class User(Value):
    """The user of a multi-turn task: a person with a hidden goal, played by a model, or a script.

    The task's problem is what the user says first. In a file or a mapping it stands in `user_goal` or `user_script`,
    and `user_turns`.
    """

    goal: str = ""
    """What the user wants and knows. Only the model that plays the user sees it."""
    script: tuple[str, ...] = ()
    """What the user says after each message of the agent, in order."""
    turns: int = Field(default=8, ge=1)
    """Largest number of replies of a user with a goal. A script has as many as it has messages."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if bool(self.goal.strip()) == bool(self.script):
            raise ValueError("needs either a goal or a script of what the user says")
        if not all(line.strip() for line in self.script):
            raise ValueError("has an empty message in its script")
        return self

    @classmethod
    def read(cls, named: Mapping[str, Any]) -> Self | None:
        """Return the user that a row or the fields of a task describe; None for none.

        A script is a list of texts, JSON of one, or a text with one message per line. Raises ValueError, whose words
        continue the name of a place.
        """
        given = {
            name: named[f"user_{name}"] for name in cls.model_fields if named.get(f"user_{name}") not in (None, "")
        }
        if not given or set(given) == {"turns"}:
            return None
        try:
            if isinstance(script := given.get("script"), str):
                listed = script.lstrip().startswith("[")
                given["script"] = json.loads(script) if listed else [one for one in script.splitlines() if one.strip()]
            return cls(**given)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            why = " ".join([*(f"its {name}:" for name in first["loc"][:1]), first["msg"].removeprefix("Value error, ")])
        except ValueError as error:
            why = f"its script is no JSON: {error}"
        raise ValueError(f"has a user that cannot be used ({short_repr(given)}): {why}")

    def as_fields(self) -> dict[str, Any]:
        """Return the user as fields of a task."""
        return {"user_script": list(self.script)} if self.script else {"user_goal": self.goal, "user_turns": self.turns}


class _More(TypedDict, total=False):
    """Keyword arguments of `Task.of`."""

    family: str
    split: Split
    source: str
    start: str
    path: tuple[str, ...]
    fields: Mapping[str, Any] | None
    user: User | None


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
    def user(self) -> User | None:
        """The user whom the agent talks with; None for a task of one message."""
        return User.read(self.fields) if '"user_' in self.extra else None

    @property
    def whole_text(self) -> str:
        """The problem, and what its user wants or says, by which tasks that are nearly the same are found."""
        user = self.user
        return self.problem if user is None else "\n".join((self.problem, user.goal, *user.script))

    @property
    def author(self) -> Author:
        """Who wrote it: a stranger for a downloaded dataset, and for the tasks of another project, such as `bfcl:java`.

        A file that a person names is theirs.
        """
        dataset = self.source.partition("#")[0] if self.source.startswith(_DOWNLOADED) else ""
        dataset = self.domain if ":" in self.domain else dataset
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
            fields, user = named.pop("fields", None), named.pop("user", None)
            if fields is not None or user is not None:
                named["extra"] = _as_json(fields, user)
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

        Its id is computed. user: whom the agent talks with. fields: what else a reward or deps may need, as a mapping
        with JSON values. Raises ConfigError, which names the field and its value.
        """
        names = ("domain", "problem", "answer") if len(given) == 3 else ("problem", "answer")
        if len(given) > len(names) or named.keys() & {*names[: len(given)]}:
            raise ConfigError(
                f"Task.of takes a problem and its answer, or a domain, a problem and its answer, not"
                f" {short_repr(given)}; name everything else, such as family='sums'"
            )
        return cls(**dict(zip(names, given, strict=False)), **named)


def _identity(named: Mapping[str, Any]) -> TaskId:
    """The id of the task with these fields."""
    more = [one for name in ("start", "extra") if (one := named.get(name))]
    return TaskId(content_hash("task", named["domain"], named["problem"], named.get("answer"), *more))


def _as_json(fields: object, user: object) -> str:
    """The JSON of what else is known about a task, with its user. Raises ConfigError."""
    fields = {} if fields is None else fields
    if user is not None and not isinstance(user, User):
        raise ConfigError(f"user={short_repr(user)} is no user; give one, such as User(goal='Return order 17')")
    if not isinstance(fields, Mapping):
        raise ConfigError(f"fields={short_repr(fields)} is no mapping; give one, such as {{'customer': 17}}")
    named = cast("Mapping[object, object]", fields)
    for name, value in named.items():
        if not isinstance(name, str):
            raise ConfigError(f"fields has the name {short_repr(name)}, which is no text; write {str(name)!r}")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise ConfigError(
                f"fields[{name!r}]={short_repr(value)} is not JSON; give texts, numbers, lists and mappings of them"
            ) from None
    described = {str(name): value for name, value in named.items()} | (user.as_fields() if user is not None else {})
    try:
        User.read(described)
    except ValueError as error:
        raise ConfigError(f"the task {error}") from None
    return json.dumps(described, ensure_ascii=False, sort_keys=True, allow_nan=False) if described else ""


def _refused(error: ValidationError, named: Mapping[str, Any]) -> ConfigError:
    """The first thing that is wrong with a task, as one sentence with the field and its value."""
    found = min(error.errors(include_url=False), key=lambda one: one["loc"] == ("id",))  # what the id is made of, first
    name = str(found["loc"][0]) if found["loc"] else "task"
    match found["type"]:
        case "missing":
            words = f"a task needs a {name}; write Task.of('What is 2 + 2?', '4')"
        case "extra_forbidden":
            value = short_repr(named.get(name))
            words = f"a task has no field {name!r} (given: {value}); put it into fields={{{name!r}: ...}}"
        case "string_type":
            value = named.get(name)
            as_text = repr(str(value)) if isinstance(value, int | float) else "a text"
            words = f"{name}={short_repr(value)} is no text; give {as_text}"
        case "string_too_short":
            words = f"{name}={short_repr(named.get(name))} is empty; give a text"
        case _:
            words = f"{name}={short_repr(named.get(name))} cannot be used in a task: {found['msg']}"
    return ConfigError(words)
