"""One thread per process that appends entries to a store's journal, many in one durable write.

It needs neither the store's lock nor DuckDB. There is no timer: while one group is written, the next one collects.
"""

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from agentlearn.errors import AgentlearnError, StoreDamaged, StoreError
from agentlearn.store.codec import EntryValue, encode_entry, rows_of_entry, unfit_number
from agentlearn.store.journal_file import JournalFile, begin_store

MAX_GROUP = 256
"""Largest number of jobs in one durable write."""
MAX_GROUP_BYTES = 2**23
"""Size from which a group takes no more jobs."""
MAX_ENTRY_BYTES = 2**25
"""Largest entry that is stored."""
RETRY_PAUSES_S = (0.0, 0.05, 0.2, 0.8)
"""Seconds to wait before each attempt to append: a failure such as a full disk may be temporary."""
_FORK_PATIENCE_S = 5.0

KeyedEntries = Sequence[tuple[str, Callable[[], EntryValue]]]
"""KeyedEntries to append together. An entry with a key is appended once per journal; the empty key stands for none."""


class _Job(NamedTuple):
    make: Callable[[], KeyedEntries]
    """Makes the entries; called in the writer's thread, because it takes time for long conversations."""
    done: Future[None]


class JournalWriter:
    """Appends entries from any thread and any event loop. After a fork, the child starts a thread of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._reset()
        _writers.add(self)

    def submit(self, make: Callable[[], KeyedEntries]) -> Future[None]:
        """Append what `make` returns. The future is done when the entries are on disk, and holds the error if not."""
        done: Future[None] = Future()
        with self._starting:
            if self._closed:
                raise StoreError("the recorder is closed; record before it is closed", code="recorder_closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="agentlearn-recorder", daemon=True)
                self._thread.start()
                atexit.register(self.close)
            self._jobs.put(_Job(make, done))
        return done

    def close(self) -> None:
        """Append everything that was submitted, and close the journal. Does nothing the second time."""
        with self._starting:
            if self._closed:
                return
            self._closed = True
            thread = self._thread
            self._jobs.put(None)
        atexit.unregister(self.close)
        if thread is not None:
            thread.join()
        self._drop_journal()

    def _reset(self) -> None:
        """Start again, in a new object or in a forked child."""
        self._starting = threading.Lock()
        self._writing = threading.Lock()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._journal: JournalFile | None = None
        self._known = set[str]()
        """Keys of the entries that the open journal has."""
        self._made = dict[str, bytes]()
        """Entries with a key, made before."""

    def before_fork(self) -> None:
        """Finish the write under way and close the journal, because SQLite must not be carried into a child."""
        if self._writing.acquire(timeout=_FORK_PATIENCE_S):
            self._drop_journal()

    def after_fork(self, *, in_child: bool) -> None:
        """Go on in the parent; start again in the child. The parent writes what was submitted before."""
        if in_child:
            self._reset()
            return
        with suppress(RuntimeError):
            self._writing.release()

    def _run(self) -> None:
        while True:
            first = self._jobs.get()
            if first is None:
                return
            if self._write_group(first):
                return

    def _write_group(self, first: _Job) -> bool:
        """Write the job and those that wait behind it. Returns whether the end of all jobs was reached."""
        ready: list[tuple[_Job, dict[str, bytes], list[bytes]]] = []
        size, job, ended = 0, first, False
        while True:
            if job.done.set_running_or_notify_cancel() and (encoded := _encoded(job, self._made)) is not None:
                ready.append((job, *encoded))
                size += sum(map(len, encoded[1]))
            if len(ready) >= MAX_GROUP or size > MAX_GROUP_BYTES or self._jobs.empty():
                break
            following = self._jobs.get()
            if following is None:
                ended = True
                break
            job = following
        if ready:
            failure = self._append(ready)
            for one, _, _ in ready:
                if failure is None:
                    one.done.set_result(None)
                else:
                    one.done.set_exception(failure)
        return ended

    def _append(self, ready: Sequence[tuple[_Job, dict[str, bytes], list[bytes]]]) -> AgentlearnError | None:
        failure: AgentlearnError | None = None
        for pause_s in RETRY_PAUSES_S:
            time.sleep(pause_s)
            with self._writing:
                try:
                    self._append_once(ready)
                except StoreDamaged as error:
                    self._drop_journal()  # the next record opens it again, or begins a new store
                    return error
                except StoreError as error:
                    failure = error
                except Exception as error:  # noqa: BLE001 - whatever it is, every waiting caller must be told
                    failure = StoreError(f"the store could not be written: {error}", code="store_write")
                else:
                    return None
        self._drop_journal()
        return failure

    def _append_once(self, ready: Sequence[tuple[_Job, dict[str, bytes], list[bytes]]]) -> None:
        if self._journal is None:
            begin_store(self._directory)
            self._journal = JournalFile(self._directory)
        once = {key: content for _, keyed, _ in ready for key, content in keyed.items() if key not in self._known}
        self._journal.append([*once.values(), *(content for _, _, contents in ready for content in contents)])
        self._known |= once.keys()

    def _drop_journal(self) -> None:
        journal, self._journal = self._journal, None
        self._known = set()
        if journal is not None:
            with suppress(OSError, StoreError):
                journal.close()


def _encoded(job: _Job, made: dict[str, bytes]) -> tuple[dict[str, bytes], list[bytes]] | None:
    """The entries of a job as bytes, those with a key by key; None after telling its caller that they make no sense.

    made: entries with a key that were made before; new ones are added.
    """
    keyed: dict[str, bytes] = {}
    contents: list[bytes] = []
    try:
        for key, make in job.make():
            if key in made:
                keyed[key] = made[key]
                continue
            value = make()
            content = encode_entry(value)
            _refuse_unfit(value, content)
            if key:
                keyed[key] = made[key] = content
            else:
                contents.append(content)
    except Exception as error:  # noqa: BLE001 - a bad value of the caller; raised where it waits
        job.done.set_exception(error)
        return None
    return keyed, contents


def _refuse_unfit(value: EntryValue, content: bytes) -> None:
    """Raise StoreError for an entry that the database would refuse, because nothing may be acknowledged then."""
    if len(content) > MAX_ENTRY_BYTES:
        raise StoreError(
            f"a record has {len(content)} bytes, and at most {MAX_ENTRY_BYTES} can be stored; leave out files and"
            " images, or record a part of the conversation",
            code="too_large",
        )
    if (unfit := unfit_number(rows_of_entry(value))) is not None:
        raise StoreError(f"this cannot be stored: {unfit}", code="row_refused")


_writers: "weakref.WeakSet[JournalWriter]" = weakref.WeakSet()


os.register_at_fork(
    before=lambda: [writer.before_fork() for writer in tuple(_writers)],
    after_in_parent=lambda: [writer.after_fork(in_child=False) for writer in tuple(_writers)],
    after_in_child=lambda: [writer.after_fork(in_child=True) for writer in tuple(_writers)],
)
