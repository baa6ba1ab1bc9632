"""Tasks as a program gives them: texts, pairs, mappings, objects, rows of a data frame, or tasks."""

import json
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import asdict, is_dataclass
from typing import Any, Protocol, TypeVar, cast

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError

from agentlearn.domain.custom import CustomTasks, Reward, find_reward
from agentlearn.domain.custom.function_reward import function_reward
from agentlearn.errors import ConfigError, DataError
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import Trajectory, Verdict

_FORMS = "a text, a pair (problem, answer), a mapping with 'problem' and 'answer', or a Task"


class DataFrame(Protocol):
    """A data frame of pandas, Polars or Arrow: anything with columns that can give its rows as mappings."""

    @property
    def columns(self) -> Any: ...


TaskGiven = Task | str | tuple[str, object] | Mapping[str, Any] | BaseModel | object
"""One task: a `Task`, its problem, its problem and expected answer, or named values such as `problem` and `answer`.

All other values of a mapping are kept in `Task.fields`, for the reward and the deps. The model does not see them.
"""
TasksGiven = Iterable[TaskGiven] | AsyncIterable[TaskGiven] | DataFrame
"""Tasks in order, or a data frame with a row for each."""


async def tasks_from(
    given: TasksGiven, judged: CustomTasks, *, split: Split = "train", limit: int | None = None
) -> tuple[Task, ...]:
    """Return the tasks, each once. limit: most tasks; later ones are not asked for.

    Raises DataError with the number of the bad task (from 0) and what to do.
    """
    kept: dict[str, Task] = {}
    first: dict[tuple[str, str, str], int] = {}
    at = 0
    async with aclosing(_each(given)) as each:
        async for one in each:
            task = _task(one, at, judged, split)
            same = (" ".join(task.problem.split()), task.start, task.extra)
            if (before := first.setdefault(same, at)) != at and task.id not in kept:
                raise DataError(
                    f"tasks[{before}] and tasks[{at}] have the same problem with different answers; keep the right one",
                    code="disputed_task",
                )
            kept.setdefault(task.id, task)
            at += 1
            if limit is not None and len(kept) >= limit:
                break
    return tuple(kept.values())


async def _each(given: Any) -> AsyncGenerator[Any]:
    if isinstance(given, AsyncIterable):
        async for one in given:
            yield one
        return
    for one in _rows(given):
        yield one


def _rows(given: Any) -> Iterator[Any]:
    """Yield the tasks of an iterable, or the rows of a data frame. Raises ConfigError for anything else."""
    if isinstance(given, str | bytes | Mapping | BaseModel):
        raise ConfigError(f"{_short(given)} is one task and not several; put it into a list", code="bad_tasks")
    if hasattr(given, "columns"):
        for method, arguments in (("to_dicts", ()), ("to_pylist", ()), ("to_dict", ("records",))):
            rows: Any = getattr(given, method, None)
            if callable(rows):
                return iter(cast("Iterable[Any]", rows(*arguments)))
    if not isinstance(given, Iterable):
        raise ConfigError(f"{_short(given)} holds no tasks; give a list, each entry {_FORMS}", code="bad_tasks")
    return iter(given)


def _task(given: Any, at: int, judged: CustomTasks, split: Split) -> Task:
    if isinstance(given, Task):
        return given if given.domain == judged.name and given.split == split else _renamed(given, judged.name, split)
    match given:
        case str():
            named: Mapping[str, Any] = {"problem": given}
        case tuple() if len(given) == 2:
            named = {"problem": given[0], "answer": given[1]}
        case Mapping():
            named = {str(name): value for name, value in given.items()}
        case BaseModel():
            named = given.model_dump()
        case _ if is_dataclass(given) and not isinstance(given, type):
            named = asdict(given)
        case _:
            raise DataError(f"tasks[{at}] is {_short(given)}; give {_FORMS}", code="bad_task")
    return _read(named, at, judged, split)


def _read(named: Mapping[str, Any], at: int, judged: CustomTasks, split: Split) -> Task:
    from agentlearn.data import ColumnChoice, Columns, SourceRow
    from agentlearn.data.reading import RowReader

    columns = judged.data_columns()
    if columns.chosen is None and "problem" in named:
        columns = Columns(chosen=ColumnChoice(problem="problem", answer="answer" if "answer" in named else ""))
    answers = {name: _plain_answer(value) for name, value in named.items() if name in {"answer", *columns.answer}}
    row = SourceRow(f"tasks#{at}", {**named, **answers})
    parsed = RowReader(columns, judged.reward.gold, judged.reward.needs_gold).read(row)
    read = {name for names in parsed.columns.values() for name in names.split("+")} | {"answer", "problem", "start"}
    start = str(named.get("start") or parsed.start)
    return Task.of(
        judged.name,
        parsed.problem,
        parsed.answer,
        family=parsed.family,
        split=split,
        source=f"tasks#{at}",
        start=start,
        fields={name: _json_value(value, at, name) for name, value in named.items() if name not in read},
    )


def _renamed(task: Task, domain: str, split: Split) -> Task:
    return Task.of(
        domain,
        task.problem,
        task.answer,
        family=task.family,
        split=split,
        source=task.source,
        start=task.start,
        path=task.path,
        fields=task.fields,
    )


def _plain_answer(value: Any) -> Any:
    """Return an expected answer as the reader takes it: lists, mappings, objects and truth values as JSON."""
    if isinstance(value, str) or value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    return json.dumps(TypeAdapter(Any).dump_python(value, mode="json"), ensure_ascii=False)


def _json_value(value: Any, at: int, name: str) -> Any:
    try:
        plain = TypeAdapter(Any).dump_python(value, mode="json")
        json.dumps(plain, allow_nan=False)
    except (PydanticSerializationError, TypeError, ValueError) as error:
        raise DataError(
            f"tasks[{at}] has {_short(value)} in {name!r}, which is not JSON; leave it out, or give text or numbers",
            code="bad_field",
        ) from error
    return plain


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


Out = TypeVar("Out")
RewardResult = bool | float | tuple[bool | float, str] | Verdict
"""What a reward returns: right or wrong, a number from 0 to 1, either with the reason in words, or a verdict."""
RewardFunction = (
    Callable[[Task, Out], RewardResult | Awaitable[RewardResult]]
    | Callable[[Task, Out, Trajectory], RewardResult | Awaitable[RewardResult]]
)
"""Judges the output of a rollout. The third parameter is the record of the rollout: steps, tool calls, tokens."""
RewardGiven = RewardFunction[Out] | str
"""A function, or the name of a reward: `exact`, `number`, `choice`, `contains`, `judge`, or `module:function`."""


def reward_from(given: RewardGiven[Any] | None) -> Reward:
    """Return the reward that was given. Raises ConfigError."""
    if isinstance(given, str):
        return find_reward(given)
    if given is None:
        raise ConfigError(
            "no reward was given; add reward=, a function (task, output) that returns True, False, a number from 0 to"
            " 1, or (number, 'why'), or a name such as 'exact'",
            code="no_reward",
        )
    name = getattr(given, "__name__", type(given).__name__)
    return function_reward(str(name), given)
