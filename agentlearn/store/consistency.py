"""Compare a store's database, journal and watermark. Each holds numbers that the others must reach."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import duckdb

from agentlearn.store.journal_state import JournalState
from agentlearn.store.watermark import Acknowledged


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
