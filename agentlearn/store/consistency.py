"""The state of a store's journal and database, and what they and the watermark contradict each other in.

Each holds numbers that the others must reach. A journal may be damaged, so a copy of its files is read.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import duckdb

from agentlearn.store.journal_file import (
    JOURNAL,
    connect,
    entry_rows_of,
    identity_of,
    intact_entries,
    last_of,
)
from agentlearn.store.store_files import Acknowledged
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


class DatabaseState(NamedTuple):
    """What a database says about its commits."""

    identity: str | None
    """Identity of the store; None in a new database."""
    last: int
    """Number of its last group commit."""
    taken: int
    """Number of the last journal entry that is in it."""
    unacknowledged: int
    """Number of its commits that are later than the watermark; a crash leaves one at most."""


class Contradiction(NamedTuple):
    """Something that the files of a store disagree about."""

    code: str
    words: str


def database_state(connection: duckdb.DuckDBPyConnection, acknowledged: Acknowledged | None) -> DatabaseState:
    """The state of the attached database. Raises duckdb.Error."""
    if not connection.execute("SELECT 1 FROM duckdb_tables() WHERE database_name = 'store'").fetchone():
        return DatabaseState(None, 0, 0, 0)
    query = "SELECT coalesce(max(seq), 0), coalesce(max(journal), 0) FROM commit_log"
    last, taken = connection.execute(query).fetchall()[0]
    identity = connection.execute("SELECT id FROM store_identity").fetchone()
    later = 0
    if acknowledged is not None:
        query = "SELECT count(*) FROM commit_log WHERE seq > ?"
        later = connection.execute(query, [acknowledged.commit]).fetchall()[0][0]
    return DatabaseState(None if identity is None else str(identity[0]), int(last), int(taken), int(later))


def last_seq_of(connection: duckdb.DuckDBPyConnection) -> int:
    """Sequence number of the last group commit in the attached store."""
    found = connection.execute("SELECT coalesce(max(seq), 0) FROM commit_log").fetchone()
    return 0 if found is None else int(found[0])


def file_contradictions(acknowledged: Acknowledged | None, database: Path) -> Iterator[Contradiction]:
    """What the size of the database file shows. DuckDB itself notices a missing end only when it reads there."""
    wanted = acknowledged.size_bytes if acknowledged is not None else 0
    size = database.stat().st_size if database.exists() else 0
    if size < wanted:
        words = f"{database.name} has {size} bytes, but {wanted} were written; its end is missing"
        yield Contradiction("short_database", words)


def database_contradictions(acknowledged: Acknowledged | None, database: DatabaseState) -> Iterator[Contradiction]:
    """What the database shows when it is held against the watermark."""
    if acknowledged is None:
        return
    if database.last < acknowledged.commit:
        words = f"the database holds commits up to {database.last}, but {acknowledged.commit} were acknowledged"
        yield Contradiction("missing_commits", words)
    elif database.identity != acknowledged.identity and not _unfinished(acknowledged, database):
        yield Contradiction("other_store", "the database and store.hwm belong to different stores")
    elif database.unacknowledged > 1:
        words = f"store.hwm is older than the database, which holds {database.unacknowledged} later commits"
        yield Contradiction("old_watermark", words)


def _unfinished(acknowledged: Acknowledged, database: DatabaseState) -> bool:
    """Whether a recorder began the store, and its database is not complete yet."""
    return acknowledged.only_journal and database.identity is None and not database.last


def journal_contradictions(acknowledged: Acknowledged, taken: int, journal: JournalState) -> Iterator[Contradiction]:
    """What the journal shows when it is held against the watermark and the last entry in the database."""
    wanted = max(acknowledged.journal, taken)
    if not journal.exists:
        gone = journal.lacks(taken, wanted)
        yield Contradiction("missing_journal", f"{journal.problem}; {gone} acknowledged entries were only there")
    elif journal.identity is not None and journal.identity != acknowledged.identity:
        yield Contradiction("other_store", "journal.sqlite and store.hwm belong to different stores")
    elif gone := journal.lacks(taken, max(wanted, journal.last)):
        why = f" ({journal.problem})" if journal.problem else ""
        words = f"journal.sqlite lacks {gone} acknowledged entries of {wanted - taken}{why}"
        yield Contradiction("missing_entries", words)
    elif journal.last < wanted:
        words = f"journal.sqlite ends with entry {journal.last}, but {wanted} were acknowledged"
        yield Contradiction("missing_entries", words)
    elif journal.problem is not None:
        yield Contradiction("damaged_journal", journal.problem)
