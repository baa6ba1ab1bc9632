"""The queue before the ledger: whoever writes waits until its own rows are durable, and shares the commit with others.

There is no timer. While one group is being committed the next one gathers, so that a group is as large as the load
makes it.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from agentlearn.errors import StoreError
from agentlearn.store.group_commit import GroupCommit, JournalEntry
from agentlearn.store.table_row import RowGroup

MAX_GROUP = 256
"""Units in one commit at most."""
MAX_QUEUED = 1_024
"""Units waiting at most; further writers wait before they queue."""


class _Pending(NamedTuple):
    what: RowGroup | JournalEntry
    done: asyncio.Future[None]


class StoreWriter:
    """One thread that commits what any number of coroutines of one event loop write. Made inside that loop."""

    def __init__(self, group_commit: GroupCommit) -> None:
        self._ledger = group_commit
        self._queue: asyncio.Queue[_Pending] = asyncio.Queue(MAX_QUEUED)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="agentlearn-store")
        self._draining = asyncio.create_task(self._drain())  # ends in `close`
        self._closed = False

    async def write(self, what: RowGroup | JournalEntry) -> None:
        """Return when the unit or the journal's entry is durable. Raises StoreError when it is not.

        A caller that is cancelled only stops waiting: what stands in the queue is still committed.
        """
        self._refuse_when_closed()
        pending = _Pending(what, asyncio.get_running_loop().create_future())
        await self._queue.put(pending)
        self._refuse_when_closed()  # meanwhile
        await pending.done

    def settle(self) -> None:
        """Fold the journal's file into the database, for a question to find it. Blocks. Raises StoreError."""
        if self._ledger.spooled and not self._closed:
            self._thread.submit(self._ledger.fold).result()

    async def checkpoint(self) -> None:
        """Move the log into the database file, between two commits. Raises StoreError."""
        self._refuse_when_closed()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._ledger.checkpoint)

    async def close(self) -> None:
        """Commit what is queued and end the thread."""
        self._closed = True
        try:
            await self._queue.join()
        finally:
            self._draining.cancel()
            await asyncio.wait({self._draining})
            self._thread.shutdown(wait=True)
            self._ledger.close()

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
                self._settle(group, await self._committed(group))
        finally:  # ended from outside, as when an event loop is torn down: nobody is to wait for ever
            self._closed = True
            while not self._queue.empty():
                group.append(self._queue.get_nowait())
            ended = StoreError("the store was closed before this was written", code="store_closed")
            self._settle(group, [ended] * len(group))

    async def _committed(self, group: Sequence[_Pending]) -> Sequence[Exception | None]:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._ledger.write, [one.what for one in group])
        except Exception as error:  # noqa: BLE001 - a defect; raised where the rows came from, so that none waits
            return [error] * len(group)

    def _settle(self, group: list[_Pending], outcomes: Sequence[Exception | None]) -> None:
        """Tell everyone in the group how it went, and empty it."""
        for pending, error in zip(group, outcomes, strict=True):
            _settle(pending.done, error)
            self._queue.task_done()
        group.clear()


def _settle(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():  # its caller was cancelled
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
