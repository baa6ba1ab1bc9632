"""Import of rollouts from other programs' logs, as a run of kind `import`."""

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ConfigDict, Field, FiniteFloat, ValidationError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from agentlearn.data.files import file_rows
from agentlearn.data.row import SourceRow
from agentlearn.errors import DataError
from agentlearn.formats.openai_chat import ChatMessage, from_chat
from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.rollout.transcript import steps_of
from agentlearn.store import open_store
from agentlearn.text import storable
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.ids import RunId, TaskId, new_run_id, rollout_id
from agentlearn.types.run_event import RunEvent
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict
from agentlearn.types.treatment import Treatment
from agentlearn.types.value import Value

FOREIGN = "foreign"
"""Model of a rollout whose log names none."""

PHASE = "import"

_FORM = 'write {"messages": [...], "reward": 1.0, "answer": "...", "task": "..."}, where only messages is required'
_DOMAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class Imported(Value):
    """Result of an import."""

    run: RunId
    domain: str
    rollouts: int
    tasks: int
    rewarded: int
    """Number of rollouts with a reward; the others are undecided."""


class _Line(Value):
    """One line of a log."""

    model_config = ConfigDict(extra="ignore")

    messages: tuple[ChatMessage, ...] = Field(min_length=1)
    reward: FiniteFloat | None = None
    answer: str | int | float | None = None
    """The expected answer."""
    task: str | None = None
    question: str | None = None
    problem: str | None = None
    model: str | None = None

    @property
    def asked(self) -> str:
        """The task's problem: the field of that name, or the first user message."""
        named = self.task or self.question or self.problem
        return storable(named) if named else next((one.text for one in self.messages if one.role == "user"), "")


def import_file(file: Path, domain: str, store: Path) -> Imported:
    """Store the rollouts of a JSONL file as a run of kind `import`: all of them, or none.

    The lines of one task become the rollouts g = 0, 1, … of one group. Raises DataError with the line; StoreError.
    """
    if not _DOMAIN.fullmatch(domain):
        raise DataError(
            f"{domain!r} is not a valid domain name; use lower-case letters, digits, '.', '_' and '-'",
            code="bad_domain",
        )
    if file.suffix.lower() != ".jsonl":
        raise DataError(f"{file.name} is not a .jsonl file; {_FORM}, one object per line")
    run, at = new_run_id(), datetime.now(UTC)
    tasks: dict[TaskId, Task] = {}
    members: Counter[TaskId] = Counter()
    rollouts: list[tuple[Trajectory, bytes]] = []
    for row, line, messages in _lines(file):
        task = Task.of(
            domain, line.asked, None if line.answer is None else storable(str(line.answer)), source=row.where
        )
        tasks.setdefault(task.id, task)
        rollouts.append(_rollout(run, task, members[task.id], line, messages, at))
        members[task.id] += 1
    if not rollouts:
        raise DataError(f"{file.name} contains no rollout; {_FORM}, one object per line")
    asyncio.run(_save(store, _event(run, domain, file), list(tasks.values()), rollouts))
    rewarded = sum(trajectory.reward is not None for trajectory, _ in rollouts)
    return Imported(run=run, domain=domain, rollouts=len(rollouts), tasks=len(tasks), rewarded=rewarded)


async def _save(store: Path, event: RunEvent, tasks: list[Task], rollouts: list[tuple[Trajectory, bytes]]) -> None:
    async with open_store(store) as opened, recorded_run(opened, event):
        await opened.save_import(event.run, tasks, rollouts)


def _lines(file: Path) -> Iterator[tuple[SourceRow, _Line, list[ModelMessage]]]:
    for row in file_rows(file):
        if row.fault:
            raise DataError(f"{row.fault}; {_FORM}. Nothing was imported", code="bad_rollout")
        try:
            line = _Line.model_validate(row.fields)
            messages = from_chat(line.messages)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise _unusable(row, f"{where}: {first['msg']}") from error
        except ValueError as error:
            raise _unusable(row, str(error)) from error
        if not line.asked.strip():
            raise _unusable(row, "it has no task and no user message")
        if all(one.role != "assistant" for one in line.messages):
            raise _unusable(row, "it has no assistant message")
        yield row, line, messages


def _unusable(row: SourceRow, why: str) -> DataError:
    return DataError(f"{row.place} is not a rollout ({why}); {_FORM}. Nothing was imported", code="bad_rollout")


def _rollout(
    run: RunId, task: Task, g: int, line: _Line, messages: list[ModelMessage], at: datetime
) -> tuple[Trajectory, bytes]:
    last = line.messages[-1]
    answer = last.text.strip() if last.role == "assistant" and not last.tool_calls else ""
    model = storable(line.model) if line.model else FOREIGN
    trajectory = Trajectory(
        id=rollout_id(run, PHASE, task.id, g, 0),
        run=run,
        phase=PHASE,
        task=task.id,
        g=g,
        seed=0,
        treatment=Treatment(model=model, library=EMPTY_LIBRARY.version),
        steps=steps_of(messages),
        answer=answer or None,
        verdict=_verdict(line.reward),
        started_at=at,
    )
    return trajectory, ModelMessagesTypeAdapter.dump_json(messages)


def _verdict(reward: float | None) -> Verdict:
    if reward is None:
        return Verdict(status="undecided", reason="imported without a reward")
    status = "correct" if reward >= 1 else "incorrect" if reward <= 0 else "partial"
    return Verdict(status=status, reward=reward, reason="as imported")


def _event(run: RunId, domain: str, file: Path) -> RunEvent:
    settings = {"file": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    return started_event(
        run, "import", domain=domain, model=FOREIGN, simulated=False, seed=0, settings=json.dumps(settings)
    )
