"""Archives: old runs and old live records as Parquet, and reading, checking and taking in what was archived.

An archive is a folder of one file per table, with all its columns, and `archive.json`, which is written last. It is
named by the date and by a hash of its rows, so an archive that was interrupted is made again under the same name. The
store keeps what its lessons rest on: the runs' lines and reports, proposals, versions, and the rollouts that lessons
were learned from. A folder of archives can be read as one store (`ArchiveSource`).
"""
# ruff: noqa: S608 - names of tables and columns come from our own schema; values are bound

import hashlib
import shutil
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from agentlearn.errors import ConfigError, StoreDamaged, StoreError, UnknownSchema
from agentlearn.plugins import version
from agentlearn.store.codec import error_line, sql_string
from agentlearn.store.database import DATABASE, SCHEMA, Database, open_draft
from agentlearn.store.erasure import Removal
from agentlearn.store.erasure_intent import RECEIPTS, ErasureReceipt
from agentlearn.store.page_queries import PageQuery
from agentlearn.store.parquet import COPY_OPTIONS, TableDrafts
from agentlearn.store.queries import MAKERS, Query, Selection
from agentlearn.store.reader import Parameter
from agentlearn.store.store_files import WATERMARK
from agentlearn.text.files import own, own_folder, put, sha256_of, write_whole
from agentlearn.types.ids import RunId
from agentlearn.types.trajectory import DEMONSTRATION, LIVE
from agentlearn.types.value import Value

ARCHIVE = "archive.json"
_SHARED = {
    "run_event": "run, state, happened_at",
    "task": "id",
    "blob": "hash",
    "experience": "id",
    "library_version": "version",
    "proposal": "run, phase, batch, id",
    "decision": "run, phase, batch, proposal, decided_at",
    "feedback": "id",
}
"""The keys of the tables of which several archives can hold the same row."""
_RECORDED = f"('{LIVE}', '{DEMONSTRATION}')"
_PLAN = (
    # $1 microseconds since 1970. `gone` leaves the store, `kept` is written as well and stays.
    f"""CREATE TEMP TABLE kept AS {MAKERS.replace("$1::VARCHAR[]", "(SELECT list(id) FROM experience)")}
        SELECT DISTINCT rollout AS id FROM made""",
    f"""CREATE TEMP TABLE gone AS
        SELECT t.id FROM trajectory t JOIN (
          SELECT run FROM run_event WHERE kind <> 'live' GROUP BY run
          HAVING epoch_us(max(happened_at)) < $1 AND arg_max(state, happened_at) = 'done'
        ) USING (run) WHERE t.id NOT IN (FROM kept)
        UNION SELECT id FROM trajectory
        WHERE phase = '{LIVE}' AND epoch_us(started_at) < $1 AND id NOT IN (FROM kept)""",
    """INSERT INTO gone SELECT f.id FROM feedback f JOIN trajectory t ON t.id = f.id
        WHERE f.rollout IN (FROM gone) AND f.id NOT IN (FROM kept)""",
    "CREATE TEMP TABLE moved AS SELECT DISTINCT run FROM trajectory WHERE id IN (FROM gone)",
    f"""CREATE TEMP TABLE whole AS
        SELECT DISTINCT run FROM trajectory WHERE run IN (FROM moved) AND phase NOT IN {_RECORDED}""",
    """CREATE TEMP TABLE written AS
        FROM gone UNION SELECT id FROM trajectory WHERE run IN (FROM whole)""",
    """CREATE TEMP TABLE told AS SELECT f.id FROM feedback f WHERE f.rollout IN (FROM gone) OR (f.rollout IS NULL AND
        (f.name, f.episode) IN (SELECT (name, episode) FROM live WHERE rollout IN (FROM gone)) AND
        (f.name, f.episode) NOT IN (SELECT (name, episode) FROM live WHERE rollout NOT IN (FROM gone)))""",
    """CREATE TEMP TABLE gone_task AS SELECT DISTINCT task AS id FROM trajectory WHERE id IN (FROM gone)
        AND task NOT IN (SELECT task FROM trajectory WHERE id NOT IN (FROM gone))""",
)
_OF_ROLLOUT, _OF_RUN = "rollout IN (FROM gone)", "run IN (FROM whole)"
_GONE = {
    "trajectory": "id IN (FROM gone)",
    "trajectory_body": _OF_ROLLOUT,
    "step": _OF_ROLLOUT,
    "live": _OF_ROLLOUT,
    "feedback": "id IN (FROM told)",
    "journal": _OF_RUN,
    "summary": _OF_RUN,
    "metric": _OF_RUN,
    "blob": "kind = 'request' AND name IN (FROM whole)",
    "task": "id IN (FROM gone_task)",
}
"""What leaves the store."""
_IN_MOVED = "run IN (FROM moved)"
_VERSIONS = "(SELECT library_version FROM trajectory WHERE id IN (FROM written))"
_WRITTEN = {
    "trajectory": "id IN (FROM written)",
    "trajectory_body": "rollout IN (FROM written)",
    "step": "rollout IN (FROM written)",
    "live": "rollout IN (FROM written)",
    "feedback": """rollout IN (FROM written) OR (rollout IS NULL AND
        (name, episode) IN (SELECT (name, episode) FROM live WHERE rollout IN (FROM written)))""",
    "journal": _OF_RUN,
    "summary": _OF_RUN,
    "metric": _OF_RUN,
    "blob": "kind = 'prompt' OR name IN (FROM whole)",
    "task": "id IN (SELECT task FROM trajectory WHERE id IN (FROM written))",
    "run_event": _IN_MOVED,
    "proposal": _IN_MOVED,
    "decision": _IN_MOVED,
    "library_version": f"{_IN_MOVED} OR version IN {_VERSIONS}",
    "experience": f"""id IN (SELECT unnest(experiences) FROM library_version
        WHERE {_IN_MOVED} OR version IN {_VERSIONS})""",
}
"""What an archive holds: whole runs and old live records, with all that is needed to read them."""


class _ArchiveNote(Value):
    """What `archive.json` says."""

    tables: int = SCHEMA
    """Number of the schema of the tables."""
    agentlearn: str
    store: str
    before: datetime
    at: datetime
    runs: tuple[RunId, ...]
    """Runs whose rollouts it holds; of runs of recorders, those that began before the date."""
    rows: dict[str, int]
    sha256: dict[str, str]
    """Hash of each table's file."""

    @classmethod
    def read(cls, folder: Path) -> "_ArchiveNote":
        """The note of an archive whose files are as they were written. Raises StoreDamaged, UnknownSchema, OSError."""
        try:
            note = cls.model_validate_json(own(folder / ARCHIVE, folder).read_bytes())
        except ValueError as error:
            raise StoreDamaged(
                f"{str(folder / ARCHIVE)!r} cannot be read; restore the archive from a backup"
            ) from error
        if note.tables != SCHEMA:
            raise UnknownSchema(
                f"the archive {str(folder)!r} has schema {note.tables}, written by agentlearn {note.agentlearn}; this"
                f" agentlearn {version()} reads schema {SCHEMA} only"
            )
        for table, sha256 in note.sha256.items():
            file = own(folder / f"{table}.parquet", folder)
            if not file.is_file() or sha256_of(file) != sha256:
                raise StoreDamaged(
                    f"{str(file)!r} is missing or not as it was written; restore the archive from a backup"
                )
        return note


def is_archive(folder: Path) -> bool:
    """Whether a folder is an archive."""
    return (folder / ARCHIVE).is_file()


def archives_in(folder: Path) -> tuple[Path, ...]:
    """The archives in a folder, or the folder itself if it is one; none in a store."""
    if (folder / WATERMARK).exists():
        return ()
    return (folder,) if is_archive(folder) else tuple(sorted(file.parent for file in folder.glob(f"*/{ARCHIVE}")))


def archive_rows(database: Database, before: datetime, to: Path, *, keep: bool) -> ErasureReceipt | None:
    """Write the runs that are done and the live records that began before a time as an archive, and check it.

    Without `keep`, it leaves the store when that is opened next. The database must have every entry of the journal.
    Returns None when there is nothing to archive. Raises ConfigError, StoreError.
    """
    with closing(Removal(database, _GONE, {})) as removal:
        for statement in _PLAN:
            bound = [round(before.timestamp() * 1_000_000)] if "$1" in statement else None
            removal.cursor.execute(statement, bound)
        if not (counts := removal.counts):
            return None
        runs, at = removal.ids("FROM moved ORDER BY run"), datetime.now(UTC)
        note = _ArchiveNote(
            agentlearn=version(), store=str(database.directory), before=before, at=at, runs=runs, rows={}, sha256={}
        )
        folder, file = (
            _written(removal, note, to),
            database.directory / RECEIPTS / f"archive-{at:%Y%m%dT%H%M%S%fZ}.json",
        )
        receipt = ErasureReceipt(
            store=note.store, at=at, by="archive", removed={} if keep else counts, rollouts=(), tasks=(), feedback=(),
            runs=runs, journal=removal.taken, archive=str(folder.absolute()), file=str(file),
        )  # fmt: skip
        if keep:
            own_folder(file.parent, database.directory)
            write_whole(file, receipt.model_dump_json(indent=1).encode(), private=True)
        else:
            removal.commit(receipt)
        return receipt


def _written(removal: Removal, note: _ArchiveNote, to: Path) -> Path:
    """The folder of the archive, complete and checked. One that holds the same rows already is taken."""
    queries = {table: f"SELECT * FROM {table} WHERE {which}" for table, which in _WRITTEN.items()}
    try:
        sums = {table: _content(removal.cursor, f"({query})") for table, query in queries.items()}
        folder = to / f"{note.before:%Y-%m-%d}-{hashlib.sha256(repr(sums).encode()).hexdigest()[:12]}"
        if is_archive(folder):
            _ArchiveNote.read(folder)
            return folder
        staging = removal.draft_folder()
        try:
            for table, query in queries.items():
                removal.cursor.execute(f"COPY ({query}) TO {_file(staging, table)} ({COPY_OPTIONS})")
            _refuse_second(staging, to)
            own_folder(folder, to)
            for table in queries:
                put(staging / f"{table}.parquet", folder / f"{table}.parquet")
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        with duckdb.connect(":memory:") as connection:
            for table, content in sums.items():
                if _content(connection, f"read_parquet({_file(folder, table)})") != content:
                    raise OSError(f"the file of the table {table} does not hold what was written")  # noqa: TRY301
        hashes = {table: sha256_of(folder / f"{table}.parquet") for table in queries}
        note = note.model_copy(update={"rows": {table: rows for table, (rows, _) in sums.items()}, "sha256": hashes})
        write_whole(folder / ARCHIVE, note.model_dump_json(indent=1).encode(), private=True)
    except (duckdb.Error, OSError) as error:
        raise StoreError(f"nothing was archived to {str(to)!r}: {error_line(error)}", code="not_written") from error
    return folder


def _content(connection: duckdb.DuckDBPyConnection, rows: str) -> tuple[int, int]:
    """Number of rows, and a hash of them all in any order."""
    found = connection.execute(f"SELECT count(*), coalesce(bit_xor(hash(t)), 0) FROM {rows} t").fetchone()
    return (0, 0) if found is None else (int(found[0]), int(found[1]))


def _file(folder: Path, table: str) -> str:
    return sql_string(folder.absolute() / f"{table}.parquet")


def _refuse_second(staging: Path, to: Path) -> None:
    """Raise ConfigError where another archive of the folder holds one of the rollouts, which would count twice."""
    if others := ", ".join(_file(one, "trajectory") for one in archives_in(to)):
        with duckdb.connect(":memory:") as connection:
            query = f"SELECT count(*) FROM read_parquet({_file(staging, 'trajectory')}) SEMI JOIN"
            (found,) = connection.execute(f"{query} read_parquet([{others}]) USING (id)").fetchone() or (0,)
        if found:
            raise ConfigError(
                f"the archives in {str(to)!r} hold {found:,} of these rollouts, which would count twice there; give"
                " another folder with --to"
            )


@contextmanager
def archived_store(folder: Path, near: Path) -> Generator[Path]:
    """A store with the rows of an archive, until the block ends. near: the folder for it.

    Raises StoreDamaged, UnknownSchema, duckdb.Error, OSError.
    """
    note = _ArchiveNote.read(folder)
    with TemporaryDirectory(prefix="agentlearn-archive-", dir=near) as place:
        with closing(open_draft(Path(place, DATABASE))) as connection:
            for table in note.rows:
                connection.execute(f"INSERT INTO {table} BY NAME FROM read_parquet({_file(folder, table)})")
            connection.execute("CHECKPOINT store")
        yield Path(place)


class ArchiveSource:
    """The archives of a folder as one store to read. A `QuerySource`. Close it after use."""

    def __init__(self, folder: Path) -> None:
        self.directory = folder
        """The folder."""
        self.live: frozenset[RunId] = frozenset()
        self._connection = duckdb.connect(":memory:")
        archives = archives_in(folder)
        for table in _WRITTEN:
            files = ", ".join(_file(one, table) for one in archives)
            once = f"QUALIFY row_number() OVER (PARTITION BY {_SHARED[table]}) = 1" if table in _SHARED else ""
            self._connection.execute(
                f"CREATE VIEW {table} AS SELECT * RENAME (file_row_number AS rowid)"
                f" FROM read_parquet([{files}], file_row_number = true) {once}"
            )
        allowed = ", ".join(sql_string(one.absolute()) for one in archives)
        self._connection.execute(f"SET allowed_directories = [{allowed}]")
        self._connection.execute("SET enable_external_access = false; SET lock_configuration = true")

    def rows(self, query: Query | PageQuery, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        """The rows of a query, with text still escaped. Raises StoreDamaged."""
        try:
            with self._connection.cursor() as cursor:
                found = cursor.execute(query.value, list(parameters))
                columns = [column[0] for column in found.description]
                rows = [dict(zip(columns, values, strict=True)) for values in found.fetchall()]
        except duckdb.Error as error:
            raise StoreDamaged(
                f"the archives in {str(self.directory)!r} could not be read: {error_line(error)}; restore them from a"
                " backup"
            ) from error
        return [{name: value for name, value in row.items() if name != "rowid"} for row in rows]

    def draft_tables(self, selection: Selection | None, *, texts: bool = False) -> TableDrafts:
        """Refused: archives are Parquet already. Raises ConfigError."""
        raise ConfigError(
            f"{str(self.directory)!r} is an archive, and nothing can be exported from it; take it in first: agentlearn"
            f" store merge {self.directory} --store DIR"
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
