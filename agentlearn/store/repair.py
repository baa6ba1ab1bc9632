"""Repair a damaged store. Damaged files are copied first, and everything that is lost is reported."""

import re
from contextlib import closing
from pathlib import Path

import duckdb

from agentlearn.errors import StoreDamaged, StoreError, StoreMissing
from agentlearn.files import write_whole
from agentlearn.store.codec import entry_rows
from agentlearn.store.database import (
    DATABASE,
    DATABASE_LOG,
    WATERMARK,
    Database,
    last_seq_of,
    open_read_only,
)
from agentlearn.store.group_commit import GroupCommit
from agentlearn.store.lock import StoreLock, Watermark
from agentlearn.store.text import error_line
from agentlearn.store.write_ahead_log import JOURNAL_FILE, lost_entries, read_state, sound_part
from agentlearn.types.value import Value

_DAMAGED_AT = re.compile(r"Corrupt WAL file: entry at byte position (\d+)")


class Repaired(Value):
    """What a repair did and what was lost."""

    store: str
    """Directory of the store."""
    kept: tuple[str, ...] = ()
    """Names of the copies of damaged files."""
    lost_commits: int | None = 0
    """Number of acknowledged group commits that are lost; None if unknown."""
    last_commit: int
    """Sequence number of the last remaining group commit."""
    lost_log_bytes: int = 0
    """Bytes removed from DuckDB's log."""
    lost_entries: int | None = 0
    """Number of acknowledged calls, rollouts and summaries lost from the journal file; None if unknown."""
    lost_journal_bytes: int = 0
    """Bytes removed from the journal file."""

    @property
    def changed(self) -> bool:
        """Whether anything had to be repaired."""
        return bool(self.kept)


def repair_store(directory: Path) -> Repaired:
    """Restore a store to its last intact state, and open it once to verify it.

    Raises StoreLocked, StoreMissing, SchemaTooNew; StoreDamaged when the database file itself is damaged: then it and
    its log stay unchanged.
    """
    if not (directory / DATABASE).exists():
        raise StoreMissing(f"there is no {DATABASE} in {str(directory)!r}; restore it from a backup")
    lock = StoreLock(directory)
    try:
        repaired = _StoreRepair(directory).run()
    except OSError as error:
        raise StoreError(f"the store {str(directory)!r} cannot be repaired: {error}") from error
    finally:
        lock.release()
    with closing(Database(directory, create=False)) as database:
        database.checkpoint()  # empties the shortened log, so that nothing is appended to it
        GroupCommit(database, entry_rows).close()
    return repaired


class _StoreRepair:
    """One repair. The caller holds the store's lock."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kept: list[str] = []

    def run(self) -> Repaired:
        acknowledged = self._acknowledged()
        last, lost_log_bytes = self._repair_log(acknowledged)
        if acknowledged is None or last < acknowledged:
            self._copy_aside(WATERMARK)
            mark = Watermark(self._directory / WATERMARK)
            try:
                mark.reset(last)
            finally:
                mark.close()
        lost_entries, lost_journal_bytes = self._repair_journal()
        return Repaired(
            store=str(self._directory),
            kept=tuple(self._kept),
            lost_commits=None if acknowledged is None else max(acknowledged - last, 0),
            last_commit=last,
            lost_log_bytes=lost_log_bytes,
            lost_entries=lost_entries,
            lost_journal_bytes=lost_journal_bytes,
        )

    def _acknowledged(self) -> int | None:
        mark = Watermark(self._directory / WATERMARK)
        try:
            return mark.read()
        except StoreDamaged:
            return None
        finally:
            mark.close()

    def _repair_log(self, acknowledged: int | None) -> tuple[int, int]:
        """The number of the last commit that can be kept, and how many bytes of DuckDB's log had to be removed."""
        log = self._directory / DATABASE_LOG
        size = log.stat().st_size if log.exists() else 0
        found = self._last_commit()
        if isinstance(found, int) and (acknowledged is None or found >= acknowledged):
            return found, 0
        if not size:
            if isinstance(found, int):
                return found, 0
            raise self._beyond_repair(found)
        self._copy_aside(DATABASE_LOG)
        left = size
        while not isinstance(found, int) and (cut := _DAMAGED_AT.search(str(found))) and int(cut[1]) < left:
            left = int(cut[1])
            write_whole(log, log.read_bytes()[:left])
            found = self._last_commit()
        log.unlink()
        without = self._last_commit()
        if isinstance(without, int) and (not isinstance(found, int) or without == found):
            return without, size  # the log's header is damaged, so none of the log can be used
        write_whole(log, (self._directory / self._kept[-1]).read_bytes()[:left])
        if isinstance(found, int):
            return found, size - left
        raise self._beyond_repair(found)

    def _last_commit(self) -> int | duckdb.Error:
        """The number of the last commit in the database and its log, or the error why they cannot be read."""
        try:
            with open_read_only(self._directory / DATABASE) as connection:
                return last_seq_of(connection)
        except duckdb.Error as error:
            return error

    def _repair_journal(self) -> tuple[int | None, int]:
        """How many acknowledged entries (None if unknown) and how many bytes of the journal file are lost."""
        file = self._directory / JOURNAL_FILE
        content = file.read_bytes() if file.exists() else b""
        state = read_state(content)
        if not content or (state.marked and state.end >= state.acknowledged_end):
            return 0, 0
        self._copy_aside(JOURNAL_FILE)
        write_whole(file, sound_part(content))
        return lost_entries(content), state.acknowledged_end - state.end

    def _copy_aside(self, name: str) -> None:
        """Copy a file to the first unused name `NAME.damaged-N`."""
        file = self._directory / name
        number = 1
        while (copy := file.with_name(f"{name}.damaged-{number}")).exists():
            number += 1
        write_whole(copy, file.read_bytes())
        self._kept.append(copy.name)

    def _beyond_repair(self, error: duckdb.Error) -> StoreDamaged:
        return StoreDamaged(
            f"the database file of {str(self._directory)!r} cannot be repaired ({error_line(error)}); restore the"
            " directory from a backup"
        )
