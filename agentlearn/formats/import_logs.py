"""Import of rollouts from other programs' logs, as a run of kind `import`.

The file is read twice, one line at a time: first to check every line, then to store the rollouts in batches.
"""

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from io import BufferedReader
from pathlib import Path

from pydantic import ConfigDict, Field, FiniteFloat, ValidationError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.data.files import line_rows, read_bytes, text_lines
from agentlearn.data.row import SourceRow
from agentlearn.domain.base import Domain, is_domain, load_domain, optional_members
from agentlearn.errors import DataError
from agentlearn.formats.openai_chat import ChatMessage, from_chat
from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.rollout.transcript import steps_of
from agentlearn.store import Store, open_store
from agentlearn.text import storable
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.ids import RunId, TaskId, new_run_id, rollout_id
from agentlearn.types.run_event import RunEvent
from agentlearn.types.task import Task
from agentlearn.types.trajectory import IMPORTED, Failure, Trajectory, Treatment, Verdict
from agentlearn.types.value import Value

FOREIGN = "foreign"
"""Model of a rollout whose log names none."""


_BATCH_ROLLOUTS = 256
"""Rollouts that are stored in one commit."""

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


@dataclass(slots=True)
class _Reading:
    """What has been read of a log so far."""

    domain: str
    members: Counter[TaskId] = field(default_factory=Counter[TaskId])
    """Number of rollouts of each task."""
    rewarded: int = 0

    def rollouts(self, log: BufferedReader, name: str) -> Iterator["_Read"]:
        """Yield the rollouts of a log from its start. Raises DataError with the line."""
        log.seek(0)
        for row, line, messages in _lines(log, name):
            answer = None if line.answer is None else storable(str(line.answer))
            task = Task.of(self.domain, line.asked, answer, source=row.where)
            last = line.messages[-1]
            answer = last.text if last.role == "assistant" and not last.tool_calls else ""
            yield self.add(task, messages, line.reward, line.model or "", answer)

    def add(
        self,
        task: Task,
        messages: Sequence[ModelMessage],
        reward: float | None,
        model: str,
        answer: str,
        failed: str = "",
    ) -> "_Read":
        """Return the next rollout of a task. answer: what the agent said last. failed: why nothing could be judged."""
        self.members[task.id] += 1
        self.rewarded += reward is not None
        return _Read(task, self.members[task.id] - 1, messages, reward, model, answer, failed)


@dataclass(frozen=True, slots=True)
class _Read:
    """A rollout of a log: its task, its number in the group of the task, and its messages."""

    task: Task
    g: int
    messages: Sequence[ModelMessage]
    reward: float | None
    model: str
    answer: str
    failed: str

    def rollout(self, run: RunId, at: datetime) -> tuple[Trajectory, bytes]:
        """Return the rollout as the store keeps it."""
        spoken = split_thoughts(self.answer)
        answer = "" if spoken.unfinished else spoken.said.strip()
        model = storable(self.model) if self.model else FOREIGN
        reward = self.reward
        failure = None
        if self.failed:
            failure = Failure(code="recorded_error", message=storable(self.failed), boundary="endpoint")
        verdict = Verdict(status="undecided", reason="imported without a reward")
        if reward is not None:
            status = "correct" if reward >= 1 else "incorrect" if reward <= 0 else "partial"
            verdict = Verdict(status=status, reward=reward)
        trajectory = Trajectory(
            id=rollout_id(run, IMPORTED, self.task.id, self.g, 0),
            run=run,
            phase=IMPORTED,
            task=self.task.id,
            g=self.g,
            seed=0,
            treatment=Treatment(model=model, library=EMPTY_LIBRARY.version, arm=FOREIGN),
            steps=steps_of(self.messages),
            answer=answer or None,
            failure=failure,
            verdict=None if failure else verdict,
            started_at=at,
        )
        return trajectory, ModelMessagesTypeAdapter.dump_json([*self.messages])


def import_file(file: Path, domain: str, store: Path) -> Imported:
    """Store the rollouts of a JSONL file as a run of kind `import`. Nothing is stored when a line is bad.

    The lines of one task become the rollouts g = 0, 1, … of one group. Memory does not grow with the texts. Of an
    installed domain that knows records of another program, the file or folder may be such a record. Raises DataError
    with the line; StoreError.
    """
    known = load_domain(domain) if is_domain(domain) else None
    if known is not None and "recordings" in optional_members(known, Domain):
        return _import_recordings(file, known, store)
    if not _DOMAIN.fullmatch(domain):
        raise DataError(
            f"{domain!r} is not a valid domain name; use lower-case letters, digits, '.', '_' and '-'",
            code="bad_domain",
        )
    if file.suffix.lower() != ".jsonl":
        raise DataError(f"{file.name} is not a .jsonl file; {_FORM}, one object per line")
    read_bytes(file, most=1)  # a missing file gets the same message as a task file
    with file.open("rb") as log:
        sha256, checked = _sha256(log), _Reading(domain)
        rollouts = sum(1 for _ in checked.rollouts(log, file.name))
        if not rollouts:
            raise DataError(f"{file.name} contains no rollout; {_FORM}, one object per line")
        settings = json.dumps({"file": file.name, "sha256": sha256})
        event = started_event(
            new_run_id(), "import", domain=domain, model=FOREIGN, simulated=False, seed=0, settings=settings
        )
        asyncio.run(_save(store, event, log))
    tasks = len(checked.members)
    return Imported(run=event.run, domain=domain, rollouts=rollouts, tasks=tasks, rewarded=checked.rewarded)


def _import_recordings(file: Path, domain: Domain, store: Path) -> Imported:
    """Store what the domain reads in a file or folder. Its tasks are the domain's own."""
    reading, read = _Reading(domain.name), list[_Read]()
    for one in domain.recordings(file):
        last = one.messages[-1] if one.messages else None
        said = last.text if isinstance(last, ModelResponse) and not last.tool_calls else ""
        read.append(reading.add(one.task, one.messages, one.reward, one.model, said or "", one.failed))
    if not read:
        raise DataError(f"{file.name} contains no rollout of {domain.name!r}; name another file", code="no_rollout")
    event = started_event(
        new_run_id(),
        "import",
        domain=domain.name,
        model=FOREIGN,
        simulated=False,
        seed=0,
        settings=json.dumps({"file": file.name}),
    )

    async def save() -> None:
        async with open_store(store) as opened, recorded_run(opened, event):
            for start in range(0, len(read), _BATCH_ROLLOUTS):
                await _save_batch(opened, event, read[start : start + _BATCH_ROLLOUTS])

    asyncio.run(save())
    return Imported(
        run=event.run,
        domain=domain.name,
        rollouts=len(read),
        tasks=len(reading.members),
        rewarded=reading.rewarded,
    )


async def _save(store: Path, event: RunEvent, log: BufferedReader) -> None:
    """Store the checked rollouts. Raises DataError when the file has changed since it was checked."""
    async with open_store(store) as opened, recorded_run(opened, event):
        settings = json.loads(event.settings)
        name, batch = settings["file"], list[_Read]()
        for one in _Reading(event.domain).rollouts(log, name):
            batch.append(one)
            if len(batch) == _BATCH_ROLLOUTS:
                await _save_batch(opened, event, batch)
                batch.clear()
        await _save_batch(opened, event, batch)
        if _sha256(log) != settings["sha256"]:
            raise DataError(
                f"{name} changed while it was read; the run {event.run!r} does not hold all of it; import it again",
                code="file_changed",
            )


async def _save_batch(store: Store, event: RunEvent, batch: list[_Read]) -> None:
    tasks = {one.task.id: one.task for one in reversed(batch)}  # of equal tasks the first
    rollouts = [one.rollout(event.run, event.at) for one in batch]
    await store.save_import(event.run, list(tasks.values()), rollouts)


def _lines(log: BufferedReader, name: str) -> Iterator[tuple[SourceRow, _Line, list[ModelMessage]]]:
    for row in line_rows(text_lines(log, name), name):
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


def _sha256(log: BufferedReader) -> str:
    log.seek(0)
    return hashlib.file_digest(log, "sha256").hexdigest()
