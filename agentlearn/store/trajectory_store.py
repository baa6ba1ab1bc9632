"""The trajectory store: one directory, opened by one process at a time. A write returns when it is durable.

Writes are queued and committed in groups. There is no timer: while one group is being committed, the next one collects
in the queue.
"""

import asyncio
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from agentlearn.errors import StoreError, StoreLocked
from agentlearn.models.call_context import CallRecord
from agentlearn.store.archive import ArchiveSource, archives_in
from agentlearn.store.codec import (
    LiveRunEntry,
    RolloutEntry,
    RowGroup,
    SummaryEntry,
    document_rows,
    encode_entry,
    library_rows,
    proposal_rows,
    row,
    rows_of_entry,
    task_rows,
    trajectory_rows,
)
from agentlearn.store.control_server import ControlServer, RemoteSource, StoreNotAnswering
from agentlearn.store.database import Database
from agentlearn.store.group_commit import GroupCommit, JournalEntry
from agentlearn.store.page_queries import PageQuery
from agentlearn.store.parquet import TableDrafts
from agentlearn.store.queries import Query, Selection
from agentlearn.store.reader import LocalSource, Parameter, QuerySource, StoreReader
from agentlearn.store.store_files import StoreLock
from agentlearn.text import clock
from agentlearn.text.log import get_log
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.group import Summary
from agentlearn.types.ids import CallId, RunId
from agentlearn.types.operation import Ended
from agentlearn.types.run_event import RunEvent, RunFailure, RunInputs
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef, Trajectory

T = TypeVar("T")

MAX_GROUP = 256
"""Largest number of writes in one commit."""
MAX_QUEUED = 1_024
"""Largest number of queued writes; further writers wait until there is room."""
_LOOK_S = 0.02
"""How often a reader looks whether another process waits for the store."""
HANDOVER_S = 5.0
"""Longest wait for a process that has the store and does not answer questions yet, or no longer."""


class _Pending(NamedTuple):
    what: RowGroup | JournalEntry
    done: asyncio.Future[None]


class _StoreWriter:
    """Commits the writes of all coroutines of one event loop in one thread. Construct it inside that loop."""

    def __init__(self, group_commit: GroupCommit) -> None:
        self._group_commit = group_commit
        self._queue: asyncio.Queue[_Pending] = asyncio.Queue(MAX_QUEUED)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="agentlearn-store")
        self._draining = asyncio.create_task(self._drain())  # ends in `close`
        self._closed = False

    async def write(self, what: RowGroup | JournalEntry) -> None:
        """Return when the rows or the journal entry are durable. Raises StoreError when they cannot be stored.

        If the caller is cancelled, a queued write is still committed.
        """
        self._refuse_when_closed()
        pending = _Pending(what, asyncio.get_running_loop().create_future())
        await self._queue.put(pending)
        self._refuse_when_closed()  # it may have been closed while we waited
        await pending.done

    def flush(self) -> None:
        """Move the journal's entries into the database, so that queries see them. Blocks. Raises StoreError."""
        if not self._closed:
            self._thread.submit(self._group_commit.flush).result()

    async def checkpoint(self) -> None:
        """Move DuckDB's log into the database file, between two commits. Raises StoreError."""
        self._refuse_when_closed()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._group_commit.checkpoint)

    async def close(self) -> None:
        """Commit all queued writes and end the thread."""
        self._closed = True
        try:
            await self._queue.join()
        finally:
            self._draining.cancel()
            await asyncio.wait({self._draining})
            self._thread.shutdown(wait=True)
            self._group_commit.close()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise StoreError("the store is closed; write inside `async with open_store(...)`")

    async def _drain(self) -> None:
        group: list[_Pending] = []
        try:
            while True:
                group = [await self._queue.get()]
                while len(group) < MAX_GROUP and not self._queue.empty():
                    group.append(self._queue.get_nowait())
                self._report(group, await self._committed(group))
        finally:  # cancelled, as when the event loop shuts down: no writer may wait for ever
            self._closed = True
            while not self._queue.empty():
                group.append(self._queue.get_nowait())
            ended = StoreError("the store was closed before this was written")
            self._report(group, [ended] * len(group))

    async def _committed(self, group: Sequence[_Pending]) -> Sequence[Exception | None]:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._group_commit.write, [one.what for one in group])
        except Exception as error:  # noqa: BLE001 - a bug; raised in each waiting writer
            return [error] * len(group)

    def _report(self, group: list[_Pending], outcomes: Sequence[Exception | None]) -> None:
        """Give each writer of the group its result, and empty the group."""
        for pending, error in zip(group, outcomes, strict=True):
            _report(pending.done, error)
            self._queue.task_done()
        group.clear()


def _report(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():  # its caller was cancelled
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


class Store(StoreReader):
    """A store open for writing and reading; implements `models.journal.Journal`.

    Each write is atomic and returns when it is durable. It raises StoreError when it cannot be stored, also for numbers
    that are not finite and times without a time zone. If the caller is cancelled, the write still happens.
    Only one event loop may use it.
    """

    def __init__(self, database: Database) -> None:
        self._writer = _StoreWriter(GroupCommit(database))
        self._local = _UpToDateSource(database, self._writer)
        super().__init__(self._local)
        self._database = database
        self._recalled_calls: dict[CallId, CallRecord] = {}
        self._units_with_calls: frozenset[str] = frozenset()
        self._saved_prompts: set[PromptRef] = set()

    @property
    def directory(self) -> Path:
        """The store's directory."""
        return self._database.directory

    async def record(self, record: CallRecord) -> None:
        """Store an answered call in the journal. Of several records with one id the first counts."""
        await self._write(JournalEntry.of(record))

    async def recorded(self, identity: CallId) -> CallRecord | None:
        """Return the call that `recall` found under an id, and forget it: a resumed run asks for each call once."""
        return self._recalled_calls.pop(identity, None)

    def recall(self, run: RunId) -> None:
        """Load the journal of an interrupted run, for `recorded` to answer from."""
        self._recalled_calls = {one.id: one for one in self.unfinished_calls(run)}
        self._units_with_calls = frozenset(one.unit for one in self._recalled_calls.values())

    def began(self, unit: str) -> bool:
        """Whether `recall` found any call of a work unit."""
        return unit in self._units_with_calls

    async def save_run_inputs(self, run: RunId, run_inputs: RunInputs) -> None:
        """Store a run's inputs; a second call for the same run changes nothing."""
        await self._write(document_rows(run, run_inputs))

    async def save_run_failure(self, run: RunId, failure: RunFailure) -> None:
        """Store why a run ends without a report."""
        await self._write(document_rows(run, failure))

    async def save_metrics(self, run: RunId, step: int, values: Mapping[str, float]) -> None:
        """Store the metrics of one update, counted from 1. Values that are not finite are left out."""
        numbers = {name: float(value) for name, value in sorted(values.items()) if math.isfinite(value)}
        await self._write(tuple(row("metric", run=run, step=step, name=name, value=numbers[name]) for name in numbers))

    async def save_run(self, event: RunEvent) -> None:
        """Add an event to a run."""
        self._local.live |= {event.run}  # first, or a reader could take a run that begins for an interrupted one
        await self._write(rows_of_entry(LiveRunEntry(event=event)))

    async def save_tasks(self, tasks: Sequence[Task]) -> None:
        """Store the tasks that are not stored yet."""
        await self._write(task_rows(tasks))

    async def save_trajectory(self, trajectory: Trajectory, messages: bytes) -> None:
        """Store a finished rollout. messages: JSON of pydantic-ai's ModelMessagesTypeAdapter.

        Raises StoreError, code `row_refused`, for a rollout that is stored already.
        """
        rows = trajectory_rows(trajectory, messages)
        await self._write(
            JournalEntry(rows, encode_entry(RolloutEntry(trajectory=trajectory, messages=messages.decode())))
        )

    async def save_import(
        self, run: RunId, tasks: Sequence[Task], rollouts: Sequence[tuple[Trajectory, bytes]]
    ) -> None:
        """Store a run made by another program, in one commit: all of it or nothing."""
        rows = (one for trajectory, messages in rollouts for one in trajectory_rows(trajectory, messages))
        version = library_rows(EMPTY_LIBRARY, run, clock.now())
        await self._write((*task_rows(tasks), *version, *rows))

    async def save_summary(self, summary: Summary) -> None:
        """Store a summary. Of several with one id the last counts."""
        await self._write(JournalEntry.of(SummaryEntry(summary=summary)))

    async def save_proposals(self, run: RunId, phase: str, batch: int, ended: Sequence[Ended]) -> None:
        """Store proposals with their outcomes. Of several with one id in a batch the last counts."""
        await self._write(proposal_rows(run, phase, batch, ended))

    async def save_version(self, library: Library, *, run: RunId | None) -> None:
        """Store a library version and its new experiences. run: the run that made it; None if a person did."""
        await self._write(library_rows(library, run, clock.now()))

    async def save_prompt(self, ref: PromptRef, text: str) -> None:
        """Store a prompt's text; a second call with the same text changes nothing."""
        if ref not in self._saved_prompts:
            await self._write((row("blob", hash=ref.sha256, kind="prompt", name=ref.label, body=text),))
            self._saved_prompts.add(ref)

    async def checkpoint(self) -> None:
        """Move DuckDB's log into the database file. Call it between two batches, when no write is waiting."""
        self._database.refuse_in_fork()
        await self._writer.checkpoint()

    @contextmanager
    def serving_queries(self) -> Generator[None]:
        """Answer queries of this user's other processes while the block runs. `open_store` calls it."""
        try:
            server = ControlServer(self._local)
        except OSError as error:  # a file system without sockets: other processes must wait
            get_log().info("store_query.unavailable", directory=str(self._local.directory), reason=str(error))
            yield
            return
        try:
            yield
        finally:
            server.close()

    async def close(self) -> None:
        """Commit all queued writes and stop writing. `open_store` calls it."""
        await self._writer.close()

    async def _write(self, what: RowGroup | JournalEntry) -> None:
        self._database.refuse_in_fork()
        if what:
            await self._writer.write(what)


class _UpToDateSource(LocalSource):
    """The database, flushed before each query, so that a query sees every acknowledged write."""

    def __init__(self, database: Database, writer: _StoreWriter) -> None:
        super().__init__(database)
        self._writer = writer

    def rows(self, query: Query | PageQuery, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        """The rows of a query, see `LocalSource.rows`."""
        self._database.refuse_in_fork()
        self._writer.flush()
        return super().rows(query, parameters)

    def draft_tables(self, selection: Selection | None, *, texts: bool = False) -> TableDrafts:
        """Write draft files, see `LocalSource.draft_tables`."""
        self._database.refuse_in_fork()
        self._writer.flush()
        return super().draft_tables(selection, texts=texts)


@asynccontextmanager
async def open_store(directory: Path | str, *, create: bool = True) -> AsyncGenerator[Store]:
    """Open the store in `directory` until the block ends, when every queued write is committed.

    Raises StoreLocked, UnknownSchema, StoreDamaged, or StoreMissing when there is no store and `create` is False.
    Opening blocks the event loop for about 0.1 s.
    """
    with closing(Database(Path(directory), create=create)) as database:
        store = Store(database)
        try:
            with store.serving_queries():
                yield store
        finally:
            await store.close()


@contextmanager
def read_store(directory: Path | str) -> Generator[StoreReader]:
    """Open the store in `directory` for reading. If another process of this user has it open, that process answers.

    A folder of archives (`agentlearn store archive`) is read as one store. The block may be long: between two questions
    the store is given to whoever waits for it, so another process may write there. Raises the errors of `open_store`
    with `create=False`; StoreLocked when the other process does not answer.
    """
    if archives_in(Path(directory)):
        with closing(ArchiveSource(Path(directory))) as archives:
            yield StoreReader(archives)
        return
    with closing(_LentSource(Path(directory))) as source:
        yield StoreReader(source)


class _LentSource:
    """The database, opened in this process, and given to others between two questions when they wait for it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        """Directory of the store."""
        self.live: frozenset[RunId] = frozenset()
        """Runs of the process that had the store open, as of the last answer."""
        self._asking, self._over = threading.Lock(), threading.Event()
        self._stack, self._source = ExitStack(), None
        self._lending: threading.Thread | None = None
        self._opened()

    def rows(self, query: Query | PageQuery, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        """The rows of a query, see `QuerySource`."""
        return self._answer(lambda source: source.rows(query, parameters))

    def draft_tables(self, selection: Selection | None, *, texts: bool = False) -> TableDrafts:
        """Write draft files, see `QuerySource`."""
        return self._answer(lambda source: source.draft_tables(selection, texts=texts))

    def _answer(self, ask: Callable[[QuerySource], T]) -> T:
        with self._asking:
            source = self._opened()
            try:
                found = ask(source)
            except StoreError as error:
                if error.code != "store_unanswered":
                    raise
                self._source = None  # the process that had the store open has ended
                found = ask(source := self._opened())
            self.live = source.live
        return found

    def close(self) -> None:
        """Close the database."""
        self._over.set()
        with self._asking:
            self._source = None
            self._stack.close()
        if self._lending is not None:
            self._lending.join()

    def _opened(self) -> QuerySource:
        if self._source is None:
            self._source = _source(self.directory, self._stack)
            if self._lending is None and isinstance(self._source, LocalSource):
                self._lending = threading.Thread(target=self._lend, name="agentlearn-lending", daemon=True)
                self._lending.start()
        return self._source

    def _lend(self) -> None:
        while not self._over.wait(_LOOK_S):
            if isinstance(self._source, LocalSource) and StoreLock.wanted(self.directory):
                with self._asking, suppress(StoreError):
                    self._source = None
                    self._stack.close()


def _source(directory: Path, stack: ExitStack) -> QuerySource:
    give_up = time.monotonic() + HANDOVER_S
    while True:
        try:
            database = stack.enter_context(closing(Database(directory, create=False, reads=True)))
        except StoreLocked as locked:
            try:
                return RemoteSource(directory)
            except StoreNotAnswering as error:
                if not error.absent or time.monotonic() > give_up:
                    raise locked from None
            time.sleep(0.02)  # that process is about to answer, or about to end
            continue
        GroupCommit(database).close()  # commits what a killed process left in the journal
        return LocalSource(database)
