"""`Recorder`: records what an application's agent does, from any number of processes at once."""

import asyncio
import atexit
import json
import math
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Self

from agentlearn.errors import AgentlearnError, ConfigError, StoreDamaged, StoreError
from agentlearn.installed import version
from agentlearn.library.tenants import tenant_store
from agentlearn.recorder.captured import ShownLibrary, captured, clean, given_of, shown_of, task_of, without_task
from agentlearn.recorder.personal_data import PersonalData, PersonalDataMode
from agentlearn.secret_values import know_environment
from agentlearn.store.codec import (
    EntryValue,
    FeedbackEntry,
    LibraryEntry,
    LiveEntry,
    LiveRunEntry,
    encode_entry,
    rows_of_entry,
    unfit_number,
)
from agentlearn.store.journal_file import JournalFile, begin_store
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.group import Groups
from agentlearn.types.ids import RolloutId, RunId, content_hash, new_run_id
from agentlearn.types.operation import Feedback
from agentlearn.types.run_event import RunEvent
from agentlearn.types.task import Task
from agentlearn.types.trajectory import LIVE, Trajectory, Treatment, Verdict

MAX_GROUP = 256
"""Largest number of jobs in one durable write."""
MAX_GROUP_BYTES = 2**23
"""Size from which a group takes no more jobs."""
MAX_ENTRY_BYTES = 2**25
"""Largest entry that is stored."""
RETRY_PAUSES_S = (0.0, 0.05, 0.2, 0.8)
"""Seconds to wait before each attempt to append: a failure such as a full disk may be temporary."""
_FORK_PATIENCE_S = 5.0
_ODD_NUMBER = re.compile(rb"[:,\[]-?(?:\d{19}|Infinity|NaN)")
"""Where an entry may hold a number that does not fit into a column."""

KeyedEntries = Sequence[tuple[str, Callable[[], EntryValue]]]
"""KeyedEntries to append together. An entry with a key is appended once per journal; the empty key stands for none."""


class _Job(NamedTuple):
    make: Callable[[], KeyedEntries]
    """Makes the entries; called in the writer's thread, because it takes time for long conversations."""
    done: Future[None]


class _JournalWriter:
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
        while (first := self._jobs.get()) is not None and not self._write_group(first):
            pass

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
            if pause_s:  # sleep(0) gives the processor away
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
    if _ODD_NUMBER.search(content) and (unfit := unfit_number(rows_of_entry(value))) is not None:
        raise StoreError(f"this cannot be stored: {unfit}", code="row_refused")


_writers: "weakref.WeakSet[_JournalWriter]" = weakref.WeakSet()


os.register_at_fork(
    before=lambda: [writer.before_fork() for writer in tuple(_writers)],
    after_in_parent=lambda: [writer.after_fork(in_child=False) for writer in tuple(_writers)],
    after_in_child=lambda: [writer.after_fork(in_child=True) for writer in tuple(_writers)],
)


UNKNOWN_MODEL = "unknown"
"""Model of a record that names none."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class _Session:
    """The run of a recorder in one process."""

    pid: int
    run: RunId
    at: datetime
    numbers: "count[int]"


class Reserved(NamedTuple):
    """The id of a rollout that is recorded later in this process."""

    rollout: RolloutId
    run: RunId
    number: int
    attempt: int = 0
    """Number of shorter recordings of the same rollout."""


class Recorder:
    """Records rollouts of an application and feedback on them, to learn from later.

    name: name of the tasks; `agentlearn learn NAME --from-store` learns from them.
    store: directory of the store; default: AGENTLEARN_STORE, else `.agentlearn`. It is made with the first record.
    tenant: record into the tenant's own store, `tenants/NAME` in the store; nothing of it reaches another one.
    personal_data: what happens to e-mail addresses, phone numbers, payment cards, IBANs and keys in all texts. `off`:
        they are stored; `tag`: they are stored and counted with the record; `redact`: a placeholder such as `[email 1]`
        is stored in their place, the same one for the same value in one record.
    personal_patterns: further kinds by name, as regular expressions.

    It may be made before a fork and used in every child, by several threads and by several event loops. Each method
    returns when what it was given is on disk. They raise StoreError when it cannot be stored, ConfigError and DataError
    for a value that makes no sense.
    """

    def __init__(
        self,
        name: str,
        store: Path | str | None = None,
        *,
        tenant: str | None = None,
        personal_data: PersonalDataMode = "off",
        personal_patterns: Mapping[str, str] | None = None,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} is not a valid name for a recorder; use lower-case letters, digits, '.', '_' and '-'",
                code="bad_name",
            )
        know_environment(os.environ)
        self._personal = PersonalData(personal_data, personal_patterns)
        self.name = name
        self.store = tenant_store(store or None, tenant)
        self._writer = _JournalWriter(self.store.absolute())
        self._session: _Session | None = None

    def __repr__(self) -> str:
        return f"Recorder({self.name!r}, store={str(self.store)!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write everything that was given, and stop. Needed only by applications that do not wait for their records."""
        self._writer.close()

    async def record(
        self,
        result: object,
        *,
        task: Task | Mapping[str, Any] | str | None = None,
        experiences: object = None,
        episode: str = "",
        user: str = "",
        answer: str | None = None,
        model: str | None = None,
        seconds: float | None = None,
        before: int = 0,
        reserved: Reserved | None = None,
    ) -> RolloutId:
        """Store one rollout and return its id.

        result: what `agent.run` returned, its messages, or OpenAI chat messages as mappings.
        task: what was asked, without the rest of the conversation. Default: the user's first message.
        experiences: the `Experiences`, the `Library` or the library version that the agent was shown. None: what the
            messages say, see `shown_in`; no lessons where they say nothing.
        episode: name for rollouts that belong together, such as a conversation, for feedback on all of them.
        user: name of the person whose conversation it is, to erase all of it later. No model ever reads it.
        answer: default: the run's output, else the last text of the model.
        model: default: what the last reply names.
        before: how many of a list of pydantic-ai's messages came before this rollout; their tokens are not counted.
        reserved: the id that `reserve` gave for it.
        """
        identity, done = self._record(
            result, task, experiences, episode, user, answer, model, seconds, before, reserved
        )
        await asyncio.wrap_future(done)
        return identity

    def record_sync(
        self,
        result: object,
        *,
        task: Task | Mapping[str, Any] | str | None = None,
        experiences: object = None,
        episode: str = "",
        user: str = "",
        answer: str | None = None,
        model: str | None = None,
        seconds: float | None = None,
        before: int = 0,
        reserved: Reserved | None = None,
    ) -> RolloutId:
        """`record` for programs without an event loop. Blocks for some milliseconds."""
        identity, done = self._record(
            result, task, experiences, episode, user, answer, model, seconds, before, reserved
        )
        done.result()
        return identity

    def reserve(self, *, continuing: Reserved | None = None) -> Reserved:
        """Return the id of a rollout that is recorded later, for a program that has to name it before it ends.

        continuing: a rollout of the same task that this one holds, and goes on from, such as the earlier calls of an
        agent whose calls are recorded one by one. Of both, the later one with a reward is learned from.
        """
        if continuing is not None:
            run, number, attempt = continuing.run, continuing.number, continuing.attempt + 1
            return Reserved(RolloutId(content_hash("live", run, number, attempt)), run, number, attempt)
        session = self._current()
        number = next(session.numbers)
        return Reserved(RolloutId(content_hash("live", session.run, number)), session.run, number)

    async def feedback(
        self,
        rollout: str | None = None,
        *,
        episode: str = "",
        reward: float | tuple[float, str] | None = None,
        comment: str = "",
        demonstration: str = "",
        by: str = "",
    ) -> RolloutId:
        """Store feedback on a rollout, or on every rollout of an episode. Returns the id of the feedback.

        It may come from another process, and before the rollout itself is in the database. All feedback is kept, and
        the last reward counts.

        reward: True, False, a number (1 is right, 0 is wrong), or a number and a reason.
        comment: what was good or bad, in words.
        demonstration: the right answer, written by a person. It becomes a rollout of the same task with reward 1.
        by: who gives it.
        """
        given, done = self._feedback(rollout, episode, reward, comment, demonstration, by)
        await asyncio.wrap_future(done)
        return given.id

    def feedback_sync(
        self,
        rollout: str | None = None,
        *,
        episode: str = "",
        reward: float | tuple[float, str] | None = None,
        comment: str = "",
        demonstration: str = "",
        by: str = "",
    ) -> RolloutId:
        """`feedback` for programs without an event loop. Blocks for some milliseconds."""
        given, done = self._feedback(rollout, episode, reward, comment, demonstration, by)
        done.result()
        return given.id

    def groups(self, *, min_size: int = 2, max_size: int = 8) -> Groups:
        """Return groups of the recorded rollouts that have a reward, to learn from. Blocks; reads the whole store.

        Rollouts with the same task, apart from case and white space, form a group. Those that are left form groups
        with their nearest neighbours, if these are near enough; a wrong one with a comment needs no other. Rollouts of
        one group were made by the same model with the same lessons; right answers written by persons join the rollout
        that they correct.
        """
        from agentlearn.learning.stored_groups import read_groups

        return read_groups(self.store, self.name, min_size=min_size, max_size=max_size)

    def _record(
        self,
        result: object,
        task: object,
        experiences: object,
        episode: str,
        user: str,
        answer: str | None,
        model: str | None,
        seconds: float | None,
        before: int,
        reserved: Reserved | None,
    ) -> tuple[RolloutId, Future[None]]:
        given, shown = given_of(result, before), shown_of(experiences, result)
        if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
            raise ConfigError(f"seconds is {seconds!r}; pass the duration of the rollout, or leave it out")
        named, session, at = reserved or self.reserve(), self._current(), datetime.now(UTC)
        task = dict(task) if isinstance(task, Mapping) else task

        def rollout() -> LiveEntry:
            cleaning = self._personal.cleaning()
            found = captured(given, cleaning)
            asked = task_of(self.name, task, found.asked, cleaning)
            trajectory = Trajectory(
                id=named.rollout,
                run=named.run,
                phase=LIVE,
                task=asked.id,
                g=named.number % 2**31,
                attempt=named.attempt,
                seed=0,
                treatment=Treatment(
                    model=clean(model) if model else found.model or UNKNOWN_MODEL,
                    library=shown.version,
                    masked=shown.masked,
                ),
                offered=shown.offered,
                steps=without_task(found.steps, asked),
                answer=found.answer if answer is None else cleaning.text(_text("answer", answer)),
                verdict=Verdict(status="undecided", reason="recorded without feedback"),
                usage=found.usage,
                started_at=at - timedelta(seconds=seconds or 0.0),
                seconds=seconds or 0.0,
            )
            return LiveEntry(
                trajectory=trajectory,
                messages=found.messages,
                task=asked,
                episode=clean(_text("episode", episode)),
                user=clean(_text("user", user)),
                personal=cleaning.numbers,
            )

        def entries() -> KeyedEntries:
            begun = (f"run {session.run}", lambda: LiveRunEntry(event=self._event(session)))
            return (begun, *_library_entries(shown, at), ("", rollout))

        return named.rollout, self._writer.submit(entries)

    def _feedback(
        self,
        rollout: str | None,
        episode: str,
        reward: float | tuple[float, str] | None,
        comment: str,
        demonstration: str,
        by: str,
    ) -> tuple[Feedback, Future[None]]:
        if (rollout is None) == (not episode):
            raise ConfigError("pass the id of a rollout or the name of an episode, and not both", code="bad_feedback")
        if rollout is not None and not _ID.fullmatch(str(rollout)):
            raise ConfigError(
                f"{rollout!r} is not the id of a rollout, which has 32 hex digits; pass what record returned",
                code="bad_rollout_id",
            )
        number, why = _reward(reward)
        cleaning = self._personal.cleaning()
        words = [cleaning.text(_text("comment", one)).strip() for one in (why, comment)]
        right = cleaning.text(_text("demonstration", demonstration)).strip()
        if demonstration and rollout is None:
            raise ConfigError(
                "a demonstration answers one rollout; pass its id in place of the episode", code="bad_feedback"
            )
        if number is None and not any(words) and not right:
            raise ConfigError("the feedback is empty; pass reward, comment or demonstration", code="bad_feedback")
        at = datetime.now(UTC)
        given = Feedback(
            id=RolloutId(content_hash("feedback", new_run_id())),
            name=self.name,
            rollout=None if rollout is None else RolloutId(rollout),
            episode=clean(episode),
            reward=number,
            reason="; ".join(one for one in words if one),
            demonstration=right,
            by=clean(_text("by", by)),
            personal=cleaning.numbers,
            at=at,
        )
        return given, self._writer.submit(
            lambda: (*_library_entries(ShownLibrary(), at), ("", lambda: FeedbackEntry(feedback=given)))
        )

    def _current(self) -> _Session:
        """The session of this process; a forked child begins its own."""
        session = self._session
        if session is None or session.pid != os.getpid():
            session = self._session = _Session(os.getpid(), new_run_id(), datetime.now(UTC), count())
        return session

    def _event(self, session: _Session) -> RunEvent:
        """The only event of the run: it is a list of records, which is never resumed, so it is done from the start."""
        return RunEvent(
            run=session.run,
            domain=self.name,
            kind="live",
            state="done",
            model="live traffic",
            simulated=False,
            seed=0,
            settings=json.dumps({"recorder": self.name, "pid": session.pid}),
            package_version=version(),
            at=session.at,
        )


def _library_entries(shown: ShownLibrary, at: datetime) -> KeyedEntries:
    """The libraries that the store has to know: the one that was shown, and the empty one."""
    libraries = {one.version: one for one in (shown.library, EMPTY_LIBRARY) if one is not None}
    return [
        (f"library {key}", lambda library=one: LibraryEntry(library=library, at=at)) for key, one in libraries.items()
    ]


def _reward(reward: object) -> tuple[float | None, str]:
    """A reward as a number and a reason. Raises ConfigError."""
    number, why = (reward[0], reward[1]) if isinstance(reward, Sequence) and len(reward) == 2 else (reward, "")
    if number is None and not isinstance(reward, Sequence):
        return None, ""
    if not isinstance(number, int | float) or not math.isfinite(number) or not isinstance(why, str):
        raise ConfigError(
            f"reward is {reward!r}; pass True, False, a finite number, or a number and a reason", code="bad_reward"
        )
    return float(number), why


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{what} is {value!r}; pass a text", code="bad_text")
    return value
