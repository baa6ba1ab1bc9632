"""Import of rollouts from other programs' logs, as a run of kind `import`.

The file is read twice, one line at a time: first to check every line, then to store the rollouts in batches.
"""

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.data.files import line_rows, read_bytes, text_lines
from agentlearn.data.row import NumberText, SourceRow
from agentlearn.domain.base import Domain, Recording, is_domain, load_domain, optional_members
from agentlearn.errors import ConfigError, DataError
from agentlearn.formats.openai_chat import model_messages
from agentlearn.models.reply import Said, read_messages, shown_text
from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.rollout.transcript import steps_of
from agentlearn.store import Store, open_store
from agentlearn.text import storable
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.ids import RunId, TaskId, new_run_id, rollout_id
from agentlearn.types.run_event import RunEvent
from agentlearn.types.task import Task
from agentlearn.types.trajectory import IMPORTED, Failure, Trajectory, Treatment, Verdict
from agentlearn.types.value import OptionalReward, Value, first_fault

FOREIGN = "foreign"
"""Model of a rollout whose log names none."""


BATCH_ROLLOUTS = 256
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


def _number(given: object) -> object:
    return float(given) if isinstance(given, NumberText) else given


class _Line(Value):
    """One line of a log."""

    model_config = ConfigDict(extra="ignore")

    messages: list[Any] = Field(min_length=1)
    """Messages of any dialect, or items of Responses."""
    reward: Annotated[OptionalReward, BeforeValidator(_number)] = None
    answer: str | int | float | None = None
    """The expected answer."""
    task: str | None = None
    question: str | None = None
    problem: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class _Read:
    """A rollout of a log, and its number in the group of its task."""

    of: Recording
    g: int

    def rollout(self, run: RunId, at: datetime) -> tuple[Trajectory, bytes]:
        """Return the rollout as the store keeps it."""
        one = self.of
        last = one.messages[-1] if one.messages else None
        spoken = split_thoughts((last.text if isinstance(last, ModelResponse) and not last.tool_calls else None) or "")
        answer = "" if spoken.unfinished else spoken.said.strip()
        model, reward, failure = storable(one.model) if one.model else FOREIGN, one.reward, None
        if one.failed:
            failure = Failure(code="recorded_error", message=storable(one.failed), boundary="endpoint")
        verdict = Verdict(status="undecided", reason="imported without a reward")
        if reward is not None:
            verdict = Verdict.of(reward)
        trajectory = Trajectory(
            id=rollout_id(run, IMPORTED, one.task.id, self.g, 0),
            run=run,
            phase=IMPORTED,
            task=one.task.id,
            g=self.g,
            seed=0,
            treatment=Treatment(model=model, library=EMPTY_LIBRARY.version, arm=FOREIGN),
            steps=steps_of(one.messages),
            answer=answer or None,
            failure=failure,
            verdict=None if failure else verdict,
            started_at=at,
        )
        return trajectory, ModelMessagesTypeAdapter.dump_json([*one.messages])


def import_file(file: Path, domain: str, store: Path) -> Imported:
    """Store the rollouts of a JSONL file as a run of kind `import`. Nothing is stored when a line is bad.

    The lines of one task become the rollouts g = 0, 1, … of one group. Memory does not grow with the texts. Of an
    installed domain that knows records of another program, the file or folder may be such a record. Raises DataError
    with the line; StoreError.
    """
    known = load_domain(domain) if is_domain(domain) else None
    if known is not None and "recordings" in optional_members(known, Domain):
        return _imported(store, file.name, known.name, lambda: known.recordings(file), lambda: "")
    if not _DOMAIN.fullmatch(domain):
        raise DataError(f"{domain!r} is not a valid domain name; use lower-case letters, digits, '.', '_' and '-'")
    if file.suffix.lower() != ".jsonl":
        raise DataError(f"{file.name} is not a .jsonl file; {_FORM}, one object per line")
    read_bytes(file, most=1)  # a missing file gets the same message as a task file
    with file.open("rb") as log:
        return _imported(store, file.name, domain, lambda: _of_lines(log, file.name, domain), lambda: _sha256(log))


def _imported(
    store: Path, name: str, domain: str, read: Callable[[], Iterable[Recording]], sha256: Callable[[], str]
) -> Imported:
    """Check all that is read, then read it again and store it. sha256: of the file; empty for several files."""
    begun, members, rewarded = sha256(), Counter[TaskId](), 0
    for one in read():
        members[one.task.id] += 1
        rewarded += one.reward is not None
    if not members:
        raise DataError(f"{name} contains no rollout; {_FORM}, one object per line")
    settings = json.dumps({"file": name, "sha256": begun})
    event = started_event(
        new_run_id(), "import", domain=domain, model=FOREIGN, simulated=False, seed=0, settings=settings
    )

    async def save() -> None:
        async with open_store(store) as opened, recorded_run(opened, event):
            numbers, batch = Counter[TaskId](), list[_Read]()
            for one in read():
                batch.append(_Read(one, numbers[one.task.id]))
                numbers[one.task.id] += 1
                if len(batch) == BATCH_ROLLOUTS:
                    await _save_batch(opened, event, batch)
                    batch.clear()
            await _save_batch(opened, event, batch)
            if sha256() != begun:
                raise DataError(
                    f"{name} changed while it was read; the run {event.run!r} does not hold all of it; import it again"
                )

    asyncio.run(save())
    rollouts = members.total()
    return Imported(run=event.run, domain=domain, rollouts=rollouts, tasks=len(members), rewarded=rewarded)


async def _save_batch(store: Store, event: RunEvent, batch: list[_Read]) -> None:
    tasks = {one.of.task.id: one.of.task for one in reversed(batch)}  # of equal tasks the first
    rollouts = [one.rollout(event.run, event.at) for one in batch]
    await store.save_import(event.run, list(tasks.values()), rollouts)


def _of_lines(log: BufferedReader, name: str, domain: str) -> Iterator[Recording]:
    """Yield the rollouts of a log from its start. Raises DataError with the line."""
    log.seek(0)
    for row, line, asked, messages in _lines(log, name):
        answer = None if line.answer is None else storable(str(line.answer))
        task = Task.of(domain, asked, answer, source=row.where)
        yield Recording(task=task, messages=messages, reward=line.reward, model=line.model or "")


def _lines(log: BufferedReader, name: str) -> Iterator[tuple[SourceRow, _Line, str, list[ModelMessage]]]:
    """Yield each line with the problem of its task, which is the first message of the user if it names none."""
    for row in line_rows(text_lines(log, name), name):
        if row.fault:
            raise DataError(f"{row.fault}; {_FORM}. Nothing was imported")
        try:
            line = _Line.model_validate(row.fields)
            dialogue = read_messages(line.messages)
            messages = model_messages(dialogue)
        except ConfigError as error:
            raise _unusable(row, error.message) from error
        except ValidationError as error:
            raise _unusable(row, first_fault(error)) from error
        except ValueError as error:
            raise _unusable(row, str(error)) from error
        said = (
            shown_text(part for part in one.parts if isinstance(part, Said)) for one in dialogue if one.role == "user"
        )
        asked = storable(line.task or line.question or line.problem or next(said, ""))
        if not asked.strip():
            raise _unusable(row, "it has no task and no user message")
        if all(one.role != "assistant" for one in dialogue):
            raise _unusable(row, "it has no assistant message")
        yield row, line, asked, messages


def _unusable(row: SourceRow, why: str) -> DataError:
    return DataError(f"{row.place} is not a rollout ({why}); {_FORM}. Nothing was imported")


def _sha256(log: BufferedReader) -> str:
    log.seek(0)
    return hashlib.file_digest(log, "sha256").hexdigest()
