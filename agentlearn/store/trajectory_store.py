"""The trajectory store: one directory, one process at a time, everything durable before it is acknowledged."""

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentlearn.errors import StoreLocked
from agentlearn.log import get_log
from agentlearn.models.journal import CallRecord
from agentlearn.store.codec import (
    FiledRollout,
    FiledSummary,
    call_rows,
    filed,
    filed_rows,
    library_rows,
    metric_rows,
    prompt_rows,
    proposal_rows,
    run_inputs_rows,
    run_rows,
    summary_rows,
    task_rows,
    trajectory_rows,
)
from agentlearn.store.control_server import ControlServer
from agentlearn.store.database import Database
from agentlearn.store.group_commit import GroupCommit, JournalEntry
from agentlearn.store.parquet import Drafts
from agentlearn.store.queries import Query
from agentlearn.store.query_source import LocalSource, Parameter, QuerySource
from agentlearn.store.reader import StoreReader
from agentlearn.store.remote import NobodyAnswers, Remote
from agentlearn.store.table_row import RowGroup
from agentlearn.store.views import Selection
from agentlearn.store.writer import StoreWriter
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.ids import CallId, RunId
from agentlearn.types.operation import Ended
from agentlearn.types.run import RunEvent, RunInputs
from agentlearn.types.summary import Summary
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef, Trajectory


class Store(StoreReader):
    """A store open for writing and reading; also a `calls.journal.Journal`.

    Each write is one unit, stored whole or not at all, and returns when it is durable. It raises StoreError when it is
    not, also for numbers that are not finite and times without a zone. A cancelled caller only stops waiting.
    Belongs to one event loop.
    """

    def __init__(self, database: Database) -> None:
        self._writer = StoreWriter(GroupCommit(database, filed_rows))
        self._held = _Settled(database, self._writer)
        super().__init__(self._held)
        self._database = database
        self._recalled: dict[CallId, CallRecord] = {}
        self._begun: frozenset[str] = frozenset()

    async def record(self, record: CallRecord) -> None:
        """Journal an answered call. Of several records of one id the first counts."""
        await self._write(JournalEntry(call_rows(record), filed(record)))

    def recorded(self, identity: CallId) -> CallRecord | None:
        """What `recall` found under that id; once, for a question is asked once."""
        return self._recalled.pop(identity, None)

    def recall(self, run: RunId) -> None:
        """Let `recorded` answer from the journal of an interrupted run."""
        self._recalled = {one.id: one for one in self.unfinished_calls(run)}
        self._begun = frozenset(one.unit for one in self._recalled.values())

    def began(self, unit: str) -> bool:
        """Whether `recall` found anything for that unit of work."""
        return unit in self._begun

    async def save_run_inputs(self, run: RunId, run_inputs: RunInputs) -> None:
        """Store what a run stands on, once."""
        await self._write(run_inputs_rows(run, run_inputs))

    async def save_metrics(self, run: RunId, step: int, values: Mapping[str, float]) -> None:
        """Store the numbers of one update, counted from 1. One that is not finite is left out."""
        await self._write(metric_rows(run, step, values))

    async def save_run(self, event: RunEvent) -> None:
        """Add an event to a run."""
        await self._write(run_rows(event))
        live = self._held.live
        self._held.live = live | {event.run} if event.state == "running" else live - {event.run}

    async def save_tasks(self, tasks: Sequence[Task]) -> None:
        """Store those of the tasks that are new."""
        await self._write(task_rows(tasks))

    async def save_trajectory(self, trajectory: Trajectory, messages: bytes) -> None:
        """Store a finished rollout. messages: JSON of pydantic-ai's ModelMessagesTypeAdapter.

        Raises StoreError, code `row_refused`, for a rollout that is stored already.
        """
        rows = trajectory_rows(trajectory, messages)
        await self._write(JournalEntry(rows, filed(FiledRollout(trajectory=trajectory, messages=messages.decode()))))

    async def save_import(
        self, run: RunId, tasks: Sequence[Task], rollouts: Sequence[tuple[Trajectory, bytes]]
    ) -> None:
        """Store rollouts that were made elsewhere, in one commit: all of them or none."""
        rows = (one for trajectory, messages in rollouts for one in trajectory_rows(trajectory, messages))
        version = library_rows(EMPTY_LIBRARY, run, datetime.now(UTC))
        await self._write((*task_rows(tasks), *version, *rows))

    async def save_summary(self, summary: Summary) -> None:
        """Store a summary. Of several of one id the last counts."""
        await self._write(JournalEntry(summary_rows(summary), filed(FiledSummary(summary=summary))))

    async def save_proposals(self, run: RunId, phase: str, batch: int, ended: Sequence[Ended]) -> None:
        """Store proposals with their ends. Of several of one id in a batch the last counts."""
        await self._write(proposal_rows(run, phase, batch, ended))

    async def save_version(self, library: Library, *, run: RunId | None) -> None:
        """Store a library version and those of its experiences that are new. run: which made it; None for a person."""
        await self._write(library_rows(library, run, datetime.now(UTC)))

    async def save_prompt(self, ref: PromptRef, text: str) -> None:
        """Store the words behind a reference, once."""
        await self._write(prompt_rows(ref, text))

    async def checkpoint(self) -> None:
        """Move the log into the database file. For the barrier between two batches, where nobody waits for a write."""
        self._database.guard()
        await self._writer.checkpoint()

    @contextmanager
    def answering(self) -> Generator[None]:
        """Answer the questions of other processes of this user meanwhile. `open_store` does it."""
        try:
            server = ControlServer(self._held)
        except OSError as error:  # a file system without sockets: others have to wait, as they can
            get_log().info("store.not_answering", directory=str(self._held.directory), reason=str(error))
            yield
            return
        try:
            yield
        finally:
            server.close()

    async def close(self) -> None:
        """Commit what is queued. `open_store` does it."""
        await self._writer.close()

    async def _write(self, what: RowGroup | JournalEntry) -> None:
        self._database.guard()
        if what:
            await self._writer.write(what)


class _Settled(LocalSource):
    """The database with everything in it that was acknowledged before the question."""

    def __init__(self, database: Database, writer: StoreWriter) -> None:
        super().__init__(database)
        self._writer = writer

    def rows(self, query: Query, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        """As `LocalSource.rows`."""
        self._writer.settle()
        return super().rows(query, parameters)

    def draft_tables(self, selection: Selection | None) -> Drafts:
        """As `LocalSource.draft_tables`."""
        self._writer.settle()
        return super().draft_tables(selection)


@asynccontextmanager
async def open_store(directory: Path, *, create: bool = True) -> AsyncGenerator[Store]:
    """The store in `directory`, held until the block ends; every queued write is committed by then.

    Raises StoreLocked, SchemaTooNew, StoreDamaged, or StoreMissing where there is none and `create`
    is False. Opening blocks for about 0.1 s, before anything else runs.
    """
    with closing(Database(directory, create=create)) as database:
        store = Store(database)
        try:
            with store.answering():
                yield store
        finally:
            await store.close()


@contextmanager
def read_store(directory: Path) -> Generator[StoreReader]:
    """The store in `directory` for reading, also while another process of this user holds it: then that one is asked.

    Raises as `open_store` does with `create=False`; StoreLocked where who holds it does not answer.
    """
    with ExitStack() as stack:
        yield StoreReader(_source(directory, stack))


def _source(directory: Path, stack: ExitStack) -> QuerySource:
    try:
        database = stack.enter_context(closing(Database(directory, create=False)))
    except StoreLocked as locked:
        try:
            return Remote(directory)
        except NobodyAnswers:
            raise locked from None
    GroupCommit(database, filed_rows).close()  # takes in what a process that was killed left in the journal's file
    return LocalSource(database)
