"""`Recorder`: records what an application's agent does, from any number of processes at once."""

import asyncio
import atexit
import json
import math
import os
import re
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Self, cast

from agentlearn.errors import AgentlearnError, ConfigError, StoreDamaged, StoreError, StoreMissing
from agentlearn.library.tenants import tenant_store
from agentlearn.live.captured import ShownLibrary, captured, clean, given_of, shown_of, task_of, without_task
from agentlearn.live.personal_data import PersonalData, PersonalDataMode
from agentlearn.plugins import version
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
from agentlearn.store.journal_file import JournalFile, attempts, begin_store
from agentlearn.text import clock
from agentlearn.text.files import own, own_folder, write_whole
from agentlearn.text.secret_values import know_environment
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.group import Groups
from agentlearn.types.ids import RolloutId, RunId, content_hash, new_run_id
from agentlearn.types.operation import Feedback
from agentlearn.types.run_event import RunEvent
from agentlearn.types.task import Task
from agentlearn.types.trajectory import LIVE, Trajectory, Treatment, Verdict
from agentlearn.types.value import UNIT, Scale, number_range, reward_of

MAX_GROUP = 256
"""Largest number of jobs in one durable write."""
MAX_GROUP_BYTES = 2**23
"""Size from which a group takes no more jobs."""
MAX_ENTRY_BYTES = 2**25
"""Largest entry that is stored."""
_FORK_PATIENCE_S = 5.0
_MOST_REMEMBERED = 20_000
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
                raise StoreError("the recorder is closed; record before it is closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="agentlearn-recorder", daemon=True)
                self._thread.start()
                atexit.register(self.close)
            self._jobs.put(_Job(partial(copy_context().run, make), done))  # it holds the secrets of a request
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
        for _ in attempts():
            with self._writing:
                try:
                    self._append_once(ready)
                except StoreDamaged as error:
                    self._drop_journal()  # the next record opens it again, or begins a new store
                    return error
                except StoreError as error:
                    failure = error
                except Exception as error:  # noqa: BLE001 - whatever it is, every waiting caller must be told
                    failure = StoreError(f"the store could not be written: {error}")
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
    scale: the lowest and the highest reward that `feedback` is given, such as (1, 5) for stars and (-1, 1) for thumbs.
        Rewards are stored from 0 to 1, and what was given is kept with them. It is stated once for a name in a store;
        a recorder that states another one than that or (0, 1) is refused. Default: what was stated, else 0 to 1.

    None stands for "not given" in every optional argument of every method. It may be made before a fork and used in
    every child, by several threads and by several event loops. Each method returns when what it was given is on disk.
    They raise StoreError when it cannot be stored, ConfigError and DataError for a value that makes no sense.
    """

    def __init__(
        self,
        name: str,
        store: Path | str | None = None,
        *,
        tenant: str | None = None,
        personal_data: PersonalDataMode | None = "off",
        personal_patterns: Mapping[str, str] | None = None,
        scale: tuple[float, float] | str | None = None,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} is not a valid name for a recorder; use lower-case letters, digits, '.', '_' and '-'"
            )
        know_environment(os.environ)
        self._personal = PersonalData(personal_data or "off", personal_patterns)
        self._scale = None if scale is None else number_range(scale, "the scale", "(1, 5)")
        self.name = name
        self.store = tenant_store(store or None, tenant)
        self._writer = _JournalWriter(self.store.absolute())
        self._session: _Session | None = None
        self._mine = dict[tuple[str, str], None]()
        """Rollouts and episodes that this process recorded last, for feedback on them."""

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
        self, result: object, *, task: Task | Mapping[str, Any] | str | None = None, experiences: object = None,
        episode: str | None = None, user: str | None = None, answer: str | None = None, model: str | None = None,
        seconds: float | None = None, before: int | None = None, reserved: Reserved | None = None,
    ) -> RolloutId:  # fmt: skip
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
        self, result: object, *, task: Task | Mapping[str, Any] | str | None = None, experiences: object = None,
        episode: str | None = None, user: str | None = None, answer: str | None = None, model: str | None = None,
        seconds: float | None = None, before: int | None = None, reserved: Reserved | None = None,
    ) -> RolloutId:  # fmt: skip
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
        self, rollout: str | None = None, *, episode: str | None = None,
        reward: float | tuple[float, str | None] | None = None, comment: str | None = None,
        demonstration: str | None = None, by: str | None = None, only_recorded: bool = False,
    ) -> RolloutId:  # fmt: skip
        """Store feedback on a rollout, or on every rollout of an episode. Returns the id of the feedback.

        It may come from another process, and before the rollout itself is in the database. All feedback is kept, and
        the last reward counts.

        reward: True, False, a number from 0 (wrong) to 1 (right) or on the scale of the recorder, or one of these and a
            reason.
        comment: what was good or bad, in words.
        demonstration: the right answer, written by a person. It becomes a rollout of the same task with reward 1.
        by: who gives it.
        only_recorded: raise ConfigError, code `unknown_rollout` or `unknown_episode`, for what was not recorded under
            the name of this recorder. For doors that take ids from strangers; it can take a look into the store.
        """
        given = self._feedback(rollout, episode, reward, comment, demonstration, by)
        if only_recorded and (given.rollout or "", given.episode) not in self._mine:
            await asyncio.to_thread(self._refuse_unknown, given)
        await asyncio.wrap_future(self._stored(given))
        return given.id

    def feedback_sync(
        self, rollout: str | None = None, *, episode: str | None = None,
        reward: float | tuple[float, str | None] | None = None, comment: str | None = None,
        demonstration: str | None = None, by: str | None = None,
    ) -> RolloutId:  # fmt: skip
        """`feedback` for programs without an event loop. Blocks for some milliseconds."""
        given = self._feedback(rollout, episode, reward, comment, demonstration, by)
        self._stored(given).result()
        return given.id

    def groups(self, *, min_size: int | None = None, max_size: int | None = None) -> Groups:
        """Return groups of the recorded rollouts that have a reward, to learn from. Blocks; reads all of them.

        Rollouts with the same task, apart from case and white space, form a group. Those that are left form groups
        with their nearest neighbours, if these are near enough; a wrong one with a comment needs no other. Rollouts of
        one group were made by the same model with the same lessons; right answers written by persons join the rollout
        that they correct. min_size, max_size: rollouts of a group; default: 2 and 8.
        """
        from agentlearn.learning.live_groups import read_groups

        return read_groups(self.store, self.name, min_size=min_size or 2, max_size=max_size or 8)

    def _record(
        self, result: object, task: object, experiences: object, episode: str | None, user: str | None,
        answer: str | None, model: str | None, seconds: float | None, before: int | None, reserved: Reserved | None,
    ) -> tuple[RolloutId, Future[None]]:  # fmt: skip
        given, shown = given_of(result, before or 0), shown_of(experiences, result)
        if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
            raise ConfigError(f"seconds is {seconds!r}; pass the duration of the rollout, or leave it out")
        named, session, at = reserved or self.reserve(), self._current(), clock.now()
        self._mine |= {(named.rollout, ""): None, ("", clean(str(episode or ""))): None}
        while len(self._mine) > _MOST_REMEMBERED:
            self._mine.pop(next(iter(self._mine)), None)
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
                failure=found.failure,
                verdict=None if found.failure else Verdict(status="undecided", reason="recorded without feedback"),
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
        self, rollout: str | None, episode: str | None, reward: float | tuple[float, str | None] | None,
        comment: str | None, demonstration: str | None, by: str | None,
    ) -> Feedback:  # fmt: skip
        if (rollout is None) == (not episode):
            raise ConfigError("pass the id of a rollout or the name of an episode, and not both", code="bad_feedback")
        if rollout is not None and not _ID.fullmatch(str(rollout)):
            raise ConfigError(
                f"{rollout!r} is not the id of a rollout, which has 32 hex digits; pass what record returned"
            )
        pair: Any = reward
        paired = isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[1], str | None)
        score, why = pair if paired else (pair, None)
        number, on_scale = (None, "") if reward is None else self._rewarded(score)
        cleaning = self._personal.cleaning()
        words = [cleaning.text(_text("comment", one)).strip() for one in (why, comment)]
        right = cleaning.text(_text("demonstration", demonstration)).strip()
        if demonstration and rollout is None:
            raise ConfigError(
                "a demonstration answers one rollout; pass its id in place of the episode", code="bad_feedback"
            )
        if number is None and not any(words) and not right:
            raise ConfigError("the feedback is empty; pass reward, comment or demonstration", code="bad_feedback")
        return Feedback(
            id=RolloutId(content_hash("feedback", new_run_id())),
            name=self.name,
            rollout=None if rollout is None else RolloutId(rollout),
            episode=clean(_text("episode", episode)),
            reward=number,
            given=on_scale,
            reason="; ".join(one for one in words if one),
            demonstration=right,
            by=clean(_text("by", by)),
            personal=cleaning.numbers,
            at=clock.now(),
        )

    def _stored(self, given: Feedback) -> Future[None]:
        entry = ("", lambda: FeedbackEntry(feedback=given))
        return self._writer.submit(lambda: (*_library_entries(ShownLibrary(), given.at), entry))

    def _refuse_unknown(self, given: Feedback) -> None:
        """Raise ConfigError for feedback on what was not recorded under this name. Blocks; reads the store."""
        from agentlearn.store import read_store

        with suppress(StoreMissing), read_store(self.store) as reader:
            if reader.is_recorded(self.name, given.rollout, given.episode):
                latest = reader.latest_recorded(self.name, _MOST_REMEMBERED // 2)[
                    ::-1
                ]  # so that the next needs no look
                known = [key for rollout, episode in latest for key in ((rollout, ""), ("", episode))]
                self._mine = {**dict.fromkeys(known), **self._mine}
                return
        noun, named = ("rollout", given.rollout) if given.rollout else ("episode", given.episode)
        raise ConfigError(f"no {noun} {named!r} was recorded under {self.name!r}", code=f"unknown_{noun}")

    def _rewarded(self, given: object) -> tuple[float, str]:
        """A reward from 0 to 1, and what was given where that is on another scale. Raises ConfigError."""
        low, high = scale = UNIT if isinstance(given, bool) else self._agreed_scale()
        number = reward_of(given, scale, of_feedback=True)
        return number, "" if scale == UNIT else f"{float(cast('float', given)):g} on a scale from {low:g} to {high:g}"

    def _agreed_scale(self) -> Scale:
        """The scale of this recorder. The first one of a name that states another than 0 to 1 states it for all."""
        file = self.store / LIVE / self.name / "scale.json"
        try:
            low, high = known = tuple(json.loads(own(file, self.store).read_bytes()))
        except FileNotFoundError:
            if self._scale in (None, UNIT):
                return UNIT
            own_folder(file.parent, self.store)
            write_whole(file, json.dumps(self._scale).encode(), private=True)
            return self._scale
        if self._scale in (None, known, UNIT):
            return self._scale or known
        raise ConfigError(
            f"rewards of {self.name!r} in {str(self.store)!r} have a scale from {low:g} to {high:g}, and not"
            f" {self._scale[0]:g} to {self._scale[1]:g}; state the same, or record under another name",
            code="bad_scale",
        )

    def _current(self) -> _Session:
        """The session of this process; a forked child begins its own."""
        session = self._session
        if session is None or session.pid != os.getpid():
            session = self._session = _Session(os.getpid(), new_run_id(), clock.now(), count())
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


def _text(what: str, value: object) -> str:
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{what} is {value!r}; pass a text")
    return value or ""
