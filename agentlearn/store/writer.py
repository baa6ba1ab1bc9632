"""Queue writes and commit them in groups. Each writer waits until its own rows are durable.

There is no timer: while one group is being committed, the next one collects in the queue.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from agentlearn.errors import StoreError
from agentlearn.store.codec import RowGroup
from agentlearn.store.group_commit import GroupCommit, JournalEntry

MAX_GROUP = 256
"""Largest number of writes in one commit."""
MAX_QUEUED = 1_024
"""Largest number of queued writes; further writers wait until there is room."""


class _Pending(NamedTuple):
    what: RowGroup | JournalEntry
    done: asyncio.Future[None]


class StoreWriter:
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
            raise StoreError("the store is closed; write inside `async with open_store(...)`", code="store_closed")

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
            ended = StoreError("the store was closed before this was written", code="store_closed")
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
