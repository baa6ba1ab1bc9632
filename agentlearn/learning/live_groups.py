"""Groups of recorded rollouts: of one task, or of tasks that are near each other.

`read_groups` reads all rollouts of a recorder. `KeptGroups` keeps what it grouped in a file, so that a later look reads
only what was recorded or judged since: the groups that this concerns are made anew, all others stay. The file holds
words of the tasks. It can be removed, and is made again where it does not fit the store, as after an erasure.
"""

import json
import math
import os
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

from agentlearn.data.overlap import most_central, same_text
from agentlearn.store import LiveMark, LiveRow, StoreReader, read_store
from agentlearn.store.queries import longest
from agentlearn.text.files import own
from agentlearn.types.group import Groups, LiveGroup
from agentlearn.types.ids import RolloutId, RunId, TaskId, content_hash
from agentlearn.types.ranking import lower_case_words
from agentlearn.types.task import SESSION, Task

KEPT_FILE = "groups.sqlite"
"""Name of the file of a `KeptGroups`."""
MOST = 100_000
"""The latest rollouts with a reward that are grouped. A file keeps up to a tenth more."""
_FORMAT = 1
_AT_ONCE = 5_000
"""Rollouts whose tasks are in memory at a time."""
_ALIKE = 0.5
"""Share of the weight of two texts' words that must be common."""
_RAREST = 8
"""Words of a text that it is looked up by."""
_LISTED = 64
"""Largest number of groups that are looked up by one word: the latest."""
_COMPARED = 12
"""Largest number of groups that a text is compared with: those that share most of its rare words."""


class _Member(NamedTuple):
    """A rollout that is in a group, or looks for one."""

    at: int
    """When it was recorded."""
    id: RolloutId
    task: TaskId
    reward: float
    explained: bool
    kind: str
    """What the rollouts of a group have in common: model, library, withheld lessons; of sessions also the family."""
    bucket: str = ""
    """The key of all rollouts with the same text, answer and kind."""
    words: tuple[str, ...] = ()
    """The different words of its task, sorted."""

    @property
    def near(self) -> tuple[str, ...]:
        """The words that it is compared by. All sessions of coding agents of one family are near each other."""
        return (SESSION,) if self.kind.endswith(SESSION) else self.words


def _told(members: Iterable[_Member]) -> bool:
    """Whether feedback says in words what was wrong with one of the rollouts. Such a rollout teaches also alone."""
    return any(one.explained and one.reward < 1 for one in members)


class _Table(dict[Any, Any]):
    """Values by key, of which those that are asked for are read from a table of the file, and written back."""

    def __init__(self, name: str, file: sqlite3.Connection | None, empty: Callable[[], Any]) -> None:
        super().__init__()
        self.name, self.file, self.empty = name, file, empty

    def __missing__(self, key: str | int) -> Any:
        found = None
        if self.file is not None:
            found = self.file.execute(f"SELECT value FROM {self.name} WHERE key = ?", (key,)).fetchone()  # noqa: S608
        value = self[key] = self.empty() if found is None else json.loads(found[0])
        return value

    def save(self, file: sqlite3.Connection) -> None:
        """Write all values that were asked for; empty ones are taken out."""
        file.executemany(f"DELETE FROM {self.name} WHERE key = ?", ((key,) for key, one in self.items() if not one))  # noqa: S608
        rows = ((key, json.dumps(self[key], ensure_ascii=False)) for key in sorted(self) if self[key])
        file.executemany(f"INSERT OR REPLACE INTO {self.name} VALUES (?, ?)", rows)  # noqa: S608


class _Weights(dict[str, float]):
    """The weights of words, as long as no rollout comes or goes."""

    def __init__(self, grouping: "Grouping") -> None:
        super().__init__()
        self._grouping = grouping

    def __missing__(self, word: str) -> float:
        found = self[word] = math.log1p(self._grouping.numbers["members"] / self._grouping.holders[word])
        return found


class Grouping:
    """All groups of a recorder, and how a rollout finds its group. A group is named by a number.

    file: where earlier groups are, with `numbers`, what was counted of them; None: there are none.
    """

    def __init__(
        self, min_size: int, max_size: int, file: sqlite3.Connection | None = None, numbers: Mapping[str, int] = {}
    ) -> None:
        self.min_size, self.max_size = min_size, max_size
        self.numbers = Counter(numbers)
        """`rollouts`, those that are or look for `members`, the `next` group, rollouts that are `single`, `grouped`."""
        self.buckets, self.groups = _Table("bucket", file, dict[str, Any]), _Table("grouped", file, list[Any])
        self.standing, self.leads = _Table("standing", file, list[Any]), _Table("lead", file, list[int])
        self.holders, self.listed = _Table("word", file, int), _Table("posting", file, list[int])
        self.tables = self.buckets, self.groups, self.standing, self.leads, self.holders, self.listed
        self.led = dict[TaskId, None]()
        """The tasks that lead, or led, a group that was made anew."""
        self._changed = dict[str, None]()
        self._kinds = dict[tuple[str, str | None], str]()

    def _kind(self, kind: str, family: str | None) -> str:
        """A short name of what the rollouts of a group have in common. family: of a session."""
        if (found := self._kinds.get((kind, family))) is None:
            session = "" if family is None else SESSION
            found = self._kinds[kind, family] = content_hash("near", kind, family)[:8] + session
        return found

    def take(self, rows: Iterable[LiveRow], tasks: Mapping[TaskId, Task], *, out: bool = False) -> None:
        """Take rollouts in, or another reward of them. Their groups are those of `regroup`. out: take them out."""
        for row in rows:
            if (task := tasks.get(row.task)) is None:  # erased meanwhile
                continue
            text, kind = same_text(task.problem), f"{row.model} {row.library} {' '.join(row.masked)}"
            key = content_hash("same", kind, text, task.answer)[:24]
            bucket = self.buckets[key]
            if not bucket:
                words = tuple(map(intern, sorted({*lower_case_words(text)})))  # each is in memory once
                bucket |= {"words": words, "rows": {}, "in": None, "whole": False}
            self.numbers["rollouts"] -= bucket["rows"].pop(row.id, None) is not None
            self._changed[key] = None
            if not out:
                near = self._kind(kind, task.family if task.source == SESSION else None)
                bucket["rows"][row.id] = (row.at, row.id, row.task, row.reward, row.explained, near)
                self.numbers["rollouts"] += 1

    def regroup(self) -> None:
        """Place the rollouts that changed, and those that were in a group with them."""
        changed, self._changed = self._changed, {}
        loose = dict[str, list[_Member]]()
        for number in sorted({one for key in changed if (one := self.buckets[key]["in"]) is not None}):
            self._leave(number)
            for one in self._members(number):
                if one.bucket in changed:
                    self._count(one, -1)
                else:
                    loose.setdefault(one.bucket, []).append(one)
            self.groups[number] = []
        for key in changed:
            if members := self._wanted(key):
                loose[key] = members
                for one in members:
                    self._count(one, 1)
            else:
                self.buckets[key] = {}
        first = {key: min((at, one) for at, one, *_ in self.buckets[key]["rows"].values()) for key in loose}
        touched, weights, totals = dict[int, None](), _Weights(self), dict[tuple[str, str], float]()
        for key in sorted(loose, key=lambda key: (not self.buckets[key]["whole"], first[key])):
            members, number = loose[key], None
            rare = sorted(members[0].near, key=self.holders.__getitem__)[:_RAREST]
            if not self.buckets[key]["whole"]:
                number = self._nearest(members[0], rare, weights, totals)
            if number is None:
                number = self.numbers["next"]
                self.numbers["next"] += 1
            if self.standing[number]:  # one that others join
                self._leave(number)
            self.groups[number] = [*self._members(number), *members]
            self.buckets[key]["in"] = number
            touched[number] = None
            for word in rare:
                listed = self.listed[f"{members[0].kind} {word}"]
                if number not in listed:
                    listed.append(number)
                    del listed[:-_LISTED]
        for number in touched:
            self._enter(number)

    def _wanted(self, key: str) -> list[_Member]:
        """The rollouts of a bucket that look for a group, or are one: those that teach together, else one of them."""
        bucket = self.buckets[key]
        words = tuple(bucket["words"])
        rows = sorted(_Member._make((*values, key, words)) for values in bucket["rows"].values())
        bucket["whole"] = len(rows) >= self.min_size and (len({one.reward for one in rows}) > 1 or _told(rows))
        if bucket["whole"]:
            return _latest(rows, self.max_size)
        return [max(reversed(rows), key=lambda one: _told([one]))] if rows else []

    def _nearest(
        self, one: _Member, rare: Sequence[str], weights: "_Weights", totals: dict[tuple[str, str], float]
    ) -> int | None:
        """The group to join: of those near enough, one in which rewards then differ, if any; of these the nearest."""

        def total(of: _Member) -> float:
            if (found := totals.get((of.bucket, of.kind))) is None:
                found = totals[of.bucket, of.kind] = sum(map(weights.__getitem__, of.near))
            return found

        def likeness(other: _Member) -> float:
            words = other.near
            if words == one.near:
                return 1.0
            common, both = mine.intersection(words), total(one) + total(other)
            roughly = sum(map(weights.__getitem__, common))  # which most of them fail; an exact sum has an order
            if roughly < (_ALIKE - 0.01) * (both - roughly):
                return 0.0
            exactly = sum(map(weights.__getitem__, sorted(common)))
            return exactly / (both - exactly)

        mine, compared, best = set(one.near), 0, None
        shared = Counter(chain.from_iterable(self.listed[f"{one.kind} {word}"] for word in rare))
        for code in sorted(number - (count << 40) for number, count in shared.items()):  # most shared first
            number = code & (1 << 40) - 1
            if not (members := self._members(number)):
                continue
            near = 1.0 if len(members) < self.max_size else 0.0
            for other in members:
                near = min(near, likeness(other)) if near >= _ALIKE else 0.0
            if near >= _ALIKE:
                found = any(other.reward != one.reward for other in members), near, -number
                best = found if best is None else max(best, found)
            if (compared := compared + 1) == _COMPARED:
                break
        return None if best is None else -best[2]

    def _members(self, number: int) -> list[_Member]:
        found = self.groups[number]
        if found and not isinstance(found[0], _Member):
            found = self.groups[number] = [_Member(*values[:7], tuple(values[7])) for values in found]
        return found

    def _count(self, one: _Member, by: int) -> None:
        self.numbers["members"] += by
        for word in one.near:
            self.holders[word] += by

    def _enter(self, number: int) -> None:
        """Count a group, by the task that leads it. One that is too small to teach leads nothing."""
        members = self.groups[number] = sorted(self._members(number))
        if len(members) < self.min_size and not _told(members):
            self.standing[number] = [None, False, len(members)]
            self.numbers["single"] += len(members)
            return
        lead = members[most_central([one.words for one in members])].task
        self.numbers["grouped"] -= self._best(lead)[1]
        self.standing[number] = [lead, len({one.reward for one in members}) > 1, len(members)]
        self.leads[lead] = [*self.leads[lead], number]
        self.numbers["grouped"] += self._best(lead)[1]
        self.led[lead] = None

    def _leave(self, number: int) -> None:
        lead, _, size = self.standing[number]
        if lead is None:
            self.numbers["single"] -= size
        else:
            self.numbers["grouped"] -= self._best(lead)[1]
            self.leads[lead] = [one for one in self.leads[lead] if one != number]
            self.numbers["grouped"] += self._best(lead)[1]
            self.led[lead] = None
        self.standing[number] = []

    def _best(self, lead: TaskId) -> tuple[int, int]:
        """Of several groups that one task leads, one that can teach, the larger, the later; its number and size."""
        found = [(*self.standing[number][1:], number) for number in self.leads[lead]]
        return max(found)[:0:-1] if found else (-1, 0)

    def led_by(self, lead: TaskId) -> list[_Member]:
        """The rollouts of the group that a task leads; none where it leads none."""
        return self._members(self._best(lead)[0]) if self.leads[lead] else []

    def found(
        self, leads: Iterable[TaskId], tasks_of: Callable[[Sequence[TaskId]], Mapping[TaskId, Task]]
    ) -> Iterator[LiveGroup]:
        """The groups that these tasks lead, in order of the tasks."""
        wanted = sorted(leads)
        for at in range(0, len(wanted), _AT_ONCE):
            groups = {lead: members for lead in wanted[at : at + _AT_ONCE] if (members := self.led_by(lead))}
            tasks = tasks_of(sorted({one.task for members in groups.values() for one in members}))
            for lead, members in groups.items():
                if all(one.task in tasks for one in members):  # else erased meanwhile
                    others = dict.fromkeys(one.task for one in members if one.task != lead)
                    yield LiveGroup(
                        task=tasks[lead],
                        others=tuple(tasks[one] for one in others),
                        rollouts=tuple(one.id for one in members),
                        rewards=tuple(one.reward for one in members),
                        explained=_told(members),
                    )

    def summed(self, reader: StoreReader, name: str, groups: Sequence[LiveGroup], run: RunId | None = None) -> Groups:
        """These groups, with what was counted of all rollouts."""
        rollouts, single, grouped = (self.numbers[one] for one in ("rollouts", "single", "grouped"))
        return Groups(
            name=name,
            store=reader.directory,
            groups=tuple(groups),
            single=single,
            set_aside=rollouts - grouped - single,
            without_reward=reader.live_without_reward(name, run),
        )


def _latest(members: Sequence[_Member], max_size: int) -> list[_Member]:
    """The latest rollouts with each reward in turn, so that a group that is cut down can still teach.

    Those with a reason come before those without.
    """
    by_reward: defaultdict[float, list[_Member]] = defaultdict(list)
    for one in sorted(members, key=lambda one: one.explained):
        by_reward[one.reward].append(one)
    kept: list[_Member] = []
    while len(kept) < min(max_size, len(members)):
        for reward in sorted(by_reward):
            if by_reward[reward] and len(kept) < max_size:
                kept.append(by_reward[reward].pop())
    return sorted(kept)


def _read_all(reader: StoreReader, name: str, run: RunId | None, grouping: Grouping) -> LiveMark:
    """Group the latest rollouts of a recorder, read in parts between which others use the store."""
    mark, rows = reader.live_mark(), dict[int, LiveRow]()
    for part in reader.live_parts(name, run):
        rows = longest(part, rows)
        if len(rows) > 2 * MOST:
            rows = {row.turn: row for row in _newest(rows.values())}
    latest = _newest(rows.values())
    del rows
    while latest:
        part = latest[-_AT_ONCE:]
        del latest[-_AT_ONCE:]
        grouping.take(part, reader.tasks(sorted({row.task for row in part})))
    grouping.regroup()
    return mark


def _newest(rows: Iterable[LiveRow]) -> list[LiveRow]:
    """The latest ones that are grouped, in order of time."""
    return sorted(sorted(rows, key=lambda row: (-row.at, row.id))[:MOST], key=lambda row: (row.at, row.id))


def live_groups(
    reader: StoreReader, name: str, *, run: RunId | None = None, min_size: int = 2, max_size: int = 8
) -> Groups:
    """Return the groups of the latest 100,000 rollouts that have a reward. One task leads at most one group.

    run: only rollouts of this run.
    """
    grouping = Grouping(min_size, max_size)
    _read_all(reader, name, run, grouping)
    return grouping.summed(reader, name, [*grouping.found(grouping.led, reader.tasks)], run)


def read_groups(store: Path, name: str, *, min_size: int = 2, max_size: int = 8) -> Groups:
    """Read the groups of a recorder. Raises StoreError."""
    with read_store(store) as reader:
        return live_groups(reader, name, min_size=min_size, max_size=max_size)


class KeptGroups:
    """The groups of a recorder, kept in a file. One process at a time may use it."""

    def __init__(self, file: Path, name: str, *, min_size: int, max_size: int = 8) -> None:
        self._path, self._name, self._sizes = file, name, (min_size, max_size)

    def new(self, reader: StoreReader, is_new: Callable[[LiveGroup], bool]) -> Groups:
        """Return the groups that are new, of those that changed since they were asked for and were not new then.

        Raises StoreError.
        """
        try:
            with closing(self._opened()) as file:
                return self._new(file, reader, is_new)
        except (sqlite3.Error, ValueError):  # damaged
            self._path.unlink(missing_ok=True)
        with closing(self._opened()) as file:
            return self._new(file, reader, is_new)

    def every(self) -> dict[TaskId, tuple[RolloutId, ...]]:
        """The rollouts of every group as of the last look, by the task that leads it, in order of the tasks."""
        with closing(self._opened()) as file:
            grouping = Grouping(*self._sizes, file)
            leads = [one for (one,) in file.execute("SELECT key FROM lead ORDER BY key")]
            return {lead: tuple(one.id for one in grouping.led_by(lead)) for lead in leads}

    def _opened(self) -> sqlite3.Connection:
        os.close(os.open(own(self._path, self._path.parent), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        file = sqlite3.connect(self._path)
        try:
            for one in ("kept", *(table.name for table in Grouping(*self._sizes).tables)):
                file.execute(f"CREATE TABLE IF NOT EXISTS {one} (key PRIMARY KEY, value) WITHOUT ROWID")
        except BaseException:
            file.close()
            raise
        return file

    def _note(self, file: sqlite3.Connection, kept: Mapping[str, object]) -> None:
        file.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (self._name, json.dumps(kept)))
        file.commit()

    def _new(self, file: sqlite3.Connection, reader: StoreReader, is_new: Callable[[LiveGroup], bool]) -> Groups:
        found = file.execute("SELECT value FROM kept WHERE key = ?", (self._name,)).fetchone()
        kept: dict[str, Any] = {} if found is None else json.loads(found[0])
        if kept.get("made") != [_FORMAT, *self._sizes] or kept["numbers"].get("rollouts", 0) > 1.1 * MOST:
            kept = {}
        grouping, mark, known = None, reader.live_mark(), LiveMark(**kept["mark"]) if kept else None
        if known is not None and reader.live_mark(known.seq) == known:
            grouping = Grouping(*self._sizes, file, kept["numbers"])
            rows = [row for part in reader.live_parts(self._name, since=known.seq) for row in part]
            tasks, stand = reader.tasks(sorted({row.task for row in rows})), longest(rows)
            grouping.take(stand.values(), tasks)
            grouping.take([row for row in rows if stand[row.turn] is not row], tasks, out=True)
            grouping.regroup()
        while grouping is None or reader.live_mark(mark.seq) != mark:  # something was taken out of the store meanwhile
            for table in ("kept", *(table.name for table in Grouping(*self._sizes).tables)):
                file.execute(f"DELETE FROM {table}")  # noqa: S608
            kept, grouping = {}, Grouping(*self._sizes)
            mark = _read_all(reader, self._name, None, grouping)
        for table in grouping.tables:
            table.save(file)
        now = {"made": [_FORMAT, *self._sizes], "mark": asdict(mark), "numbers": dict(grouping.numbers)}
        asked = sorted({*grouping.led, *kept.get("new", ())})
        self._note(file, now | {"new": asked})
        grouping = Grouping(*self._sizes, numbers=grouping.numbers)  # the other one has everything in memory
        parts = (asked[at : at + _AT_ONCE] for at in range(0, len(asked), _AT_ONCE))
        found = (one for part in parts for one in Grouping(*self._sizes, file).found(part, reader.tasks))
        new = [one for one in found if is_new(one)]
        self._note(file, now | {"new": [one.task.id for one in new]})
        return grouping.summed(reader, self._name, new)
