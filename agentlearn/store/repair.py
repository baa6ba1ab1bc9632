"""Mending a damaged store: what is damaged is copied aside first, and what is lost is said, never passed over."""

import re
from contextlib import closing
from pathlib import Path

import duckdb

from agentlearn.errors import StoreDamaged, StoreError, StoreMissing
from agentlearn.files import write_whole
from agentlearn.store.codec import filed_rows
from agentlearn.store.database import DATABASE, LOG, WATERMARK, Database, last_seq_of, look_at
from agentlearn.store.group_commit import GroupCommit
from agentlearn.store.lock import StoreLock, Watermark
from agentlearn.store.write_ahead_log import NAME as JOURNAL
from agentlearn.store.write_ahead_log import lost_entries, sound_part, state_of
from agentlearn.types.value import Value

_CUT = re.compile(r"Corrupt WAL file: entry at byte position (\d+)")


class Repaired(Value):
    """What a repair did, and what could not be saved."""

    store: str
    kept: tuple[str, ...] = ()
    """Copies of the damaged files, as they were."""
    lost_commits: int | None = 0
    """Group commits that were acknowledged and are gone; None where their number is not known."""
    last_commit: int
    """Number of the last one that is left."""
    lost_log_bytes: int = 0
    lost_entries: int | None = 0
    """Acknowledged calls, tool results, rollouts and summaries that are gone; None where their number is not known."""
    lost_journal_bytes: int = 0

    @property
    def changed(self) -> bool:
        """Whether anything had to be mended."""
        return bool(self.kept)


def repair_store(directory: Path) -> Repaired:
    """Bring a store back to its last sound state, and open it once to see that it stands.

    Raises StoreLocked; StoreMissing; SchemaTooNew; StoreDamaged where the database file itself is damaged: then it and
    its log stay as they are.
    """
    if not (directory / DATABASE).exists():
        raise StoreMissing(f"there is no {DATABASE} in {str(directory)!r}; put it back from a backup")
    lock = StoreLock(directory)
    try:
        repaired = _Repair(directory).run()
    except OSError as error:
        raise StoreError(f"the store {str(directory)!r} cannot be repaired: {error}") from error
    finally:
        lock.release()
    with closing(Database(directory, create=False)) as database:
        database.checkpoint()  # nothing more is added to a log that was cut
        GroupCommit(database, filed_rows).close()
    return repaired


class _Repair:
    """One repair, under the store's lock."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kept: list[str] = []

    def run(self) -> Repaired:
        acknowledged = self._acknowledged()
        last, lost_log_bytes = self._mend_log(acknowledged)
        if acknowledged is None or last < acknowledged:
            self._keep(WATERMARK)
            mark = Watermark(self._directory / WATERMARK)
            try:
                mark.reset(last)
            finally:
                mark.close()
        lost_entries, lost_journal_bytes = self._mend_journal()
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

    def _mend_log(self, acknowledged: int | None) -> tuple[int, int]:
        """Number of the last commit that can be saved, and how many bytes of the log are given up for it."""
        log = self._directory / LOG
        size = log.stat().st_size if log.exists() else 0
        found = self._last_commit()
        if isinstance(found, int) and (acknowledged is None or found >= acknowledged):
            return found, 0
        if not size:
            if isinstance(found, int):
                return found, 0
            raise self._beyond_repair(found)
        self._keep(LOG)
        left = size
        while not isinstance(found, int) and (cut := _CUT.search(str(found))) and int(cut[1]) < left:
            left = int(cut[1])
            write_whole(log, log.read_bytes()[:left])
            found = self._last_commit()
        log.unlink()
        without = self._last_commit()
        if isinstance(without, int) and (not isinstance(found, int) or without == found):
            return without, size  # its head is damaged: what it holds belongs to no database
        write_whole(log, (self._directory / self._kept[-1]).read_bytes()[:left])
        if isinstance(found, int):
            return found, size - left
        raise self._beyond_repair(found)

    def _last_commit(self) -> int | duckdb.Error:
        """Number of the last commit that the database and its log hold, or why they cannot be read."""
        try:
            with look_at(self._directory / DATABASE) as connection:
                return last_seq_of(connection)
        except duckdb.Error as error:
            return error

    def _mend_journal(self) -> tuple[int | None, int]:
        """How many acknowledged entries, and how many bytes, of the journal's file are given up."""
        file = self._directory / JOURNAL
        content = file.read_bytes() if file.exists() else b""
        state = state_of(content)
        if not content or (state.marked and state.end >= state.acknowledged_end):
            return 0, 0
        self._keep(JOURNAL)
        write_whole(file, sound_part(content))
        return lost_entries(content), state.acknowledged_end - state.end

    def _keep(self, name: str) -> None:
        """Copy a file aside, under a name that is free."""
        file = self._directory / name
        number = 1
        while (copy := file.with_name(f"{name}.damaged-{number}")).exists():
            number += 1
        write_whole(copy, file.read_bytes())
        self._kept.append(copy.name)

    def _beyond_repair(self, error: duckdb.Error) -> StoreDamaged:
        sentence = str(error).partition("\n")[0].rstrip(".")
        return StoreDamaged(
            f"the database file of {str(self._directory)!r} cannot be repaired ({sentence}); put the directory back"
            " from a backup"
        )
