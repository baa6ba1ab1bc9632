"""Read a journal that may be damaged, without changing it: a copy of its files is read."""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from agentlearn.store.journal_file import (
    JOURNAL,
    connect,
    entry_rows_of,
    identity_of,
    intact_entries,
    last_of,
)
from agentlearn.store.text import error_line

_FARTHEST = 2**62
_SEARCHED = 100_000
"""How many numbers a search in a damaged file tries at most."""


class JournalState(NamedTuple):
    """Content of a journal, intact or not."""

    exists: bool
    identity: str | None
    """Identity of the store that it belongs to; None if unreadable."""
    last: int
    """Number of the last entry that was ever appended, as far as it can be read."""
    entries: dict[int, bytes]
    """The intact entries, by number."""
    problem: str | None
    """What is wrong with the file itself; None for an intact one."""

    def lacks(self, after: int, up_to: int) -> int:
        """How many of the numbers after `after`, up to `up_to`, have no intact entry."""
        return max(up_to - after, 0) - sum(after < number <= up_to for number in self.entries)


ABSENT = JournalState(exists=False, identity=None, last=0, entries={}, problem=f"{JOURNAL} is missing")


def read_journal(directory: Path, *, expected_last: int = 0) -> JournalState:
    """The state of a store's journal. expected_last: the last acknowledged entry. Raises OSError."""
    if not (directory / JOURNAL).exists():
        return ABSENT
    with tempfile.TemporaryDirectory(prefix="agentlearn-journal-") as folder:
        for name in (JOURNAL, JOURNAL + "-wal"):  # the third part, -shm, is only an index
            with suppress(FileNotFoundError):
                shutil.copyfile(directory / name, Path(folder, name))
        if (Path(folder, JOURNAL)).stat().st_size == 0:  # SQLite would delete what its log still has
            return ABSENT._replace(exists=True, problem=f"{JOURNAL} is empty")
        return _read(Path(folder, JOURNAL), expected_last)


def _read(path: Path, expected_last: int) -> JournalState:
    state = ABSENT._replace(exists=True, problem=None)
    try:
        with closing(connect(path)) as connection:
            problems = list[str]()
            for name, step in (("identity", identity_of), ("last", last_of)):
                try:
                    state = state._replace(**{name: step(connection)})
                except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
                    problems.append(error_line(error))
            problems.extend(_broken_pages(connection))
            try:
                rows = entry_rows_of(connection, 0, _FARTHEST)
            except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
                problems.append(error_line(error))
                rows = list(_one_by_one(connection, max(state.last, expected_last)))
            entries = intact_entries(rows)
            if damaged := len(rows) - len(entries):
                problems.append(f"{damaged} of its entries do not match their checksum")
            problem = f"{JOURNAL} is damaged: {problems[0]}" if problems else None
            return state._replace(entries=entries, problem=problem)
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        return state._replace(problem=f"{JOURNAL} cannot be read: {error_line(error)}")


def _broken_pages(connection: sqlite3.Connection) -> Iterator[str]:
    """The first problem that SQLite finds in its pages, if any."""
    try:
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            yield str(found).splitlines()[0]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        yield error_line(error)


def _one_by_one(connection: sqlite3.Connection, last: int) -> Iterator[tuple[object, ...]]:
    """The rows that can still be read, looked up by their number."""
    for number in range(max(last - _SEARCHED, 0) + 1, last + 1):
        with suppress(sqlite3.Error, OverflowError, UnicodeDecodeError):
            yield from entry_rows_of(connection, number, number)
