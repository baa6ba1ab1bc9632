"""Erase rollouts with everything that was made of them, so that no file of the store holds a byte of it.

DuckDB leaves the bytes of deleted rows in its file, so the rows that stay are copied to a new file. When that copy is
complete, an intent is written, and the next opening of the store carries it out (`store.erasure_intent`). Entries that
other processes append to the journal meanwhile stay.
"""
# ruff: noqa: S608 - conditions and names of tables are constants of ours or come from our own schema

import secrets
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from agentlearn.errors import StoreError
from agentlearn.store.codec import error_line, escape, sql_string
from agentlearn.store.database import DATABASE, DATABASE_LOG, Database
from agentlearn.store.erasure_intent import COPY, INTENT, Erased, ErasureReceipt, RestingLesson
from agentlearn.store.journal_file import JOURNAL
from agentlearn.store.store_files import WATERMARK, StoreLock, Watermark
from agentlearn.text import clock
from agentlearn.text.files import own, own_folder, sync, write_whole
from agentlearn.types.task import SESSION
from agentlearn.types.trajectory import DEMONSTRATION, IMPORTED, LIVE

_RECORDED = f"('{LIVE}', '{DEMONSTRATION}', '{IMPORTED}')"
_OWN_TASKS = f"('live', '{SESSION}')"
_ASKED = (
    # $1 rollout, $2 episode, $3 user, $4 microseconds since 1970
    f"""CREATE TEMP TABLE gone AS
        SELECT rollout AS id FROM live WHERE episode = $2 OR user_name = $3
        UNION SELECT id FROM trajectory WHERE id = $1 OR (epoch_us(started_at) < $4 AND phase IN {_RECORDED})""",
    # a rollout that was recorded after each of its calls goes whole
    f"""INSERT INTO gone SELECT DISTINCT o.id FROM trajectory o JOIN trajectory t USING (run, phase, task, g)
        WHERE t.phase = '{LIVE}' AND t.id IN (FROM gone) AND o.id NOT IN (FROM gone)""",
    """CREATE TEMP TABLE said AS SELECT DISTINCT f.id FROM feedback f WHERE
        f.rollout IN (FROM gone) OR f.rollout = $1 OR f.id IN (FROM gone) OR f.episode = $2 OR f.who = $3 OR
        (epoch_us(f.given_at) < $4 AND CASE WHEN f.rollout IS NULL
         THEN (f.name, f.episode) NOT IN (SELECT (name, episode) FROM live)
         ELSE f.rollout NOT IN (SELECT rollout FROM live) END) OR
        (f.rollout IS NULL AND (f.name, f.episode) IN (SELECT (name, episode) FROM live WHERE rollout IN (FROM gone))
         AND (f.name, f.episode) NOT IN (SELECT (name, episode) FROM live WHERE rollout NOT IN (FROM gone)))""",
)
"""The records that somebody asked to erase, and what was said about them."""
_FOLLOWING = (
    "INSERT INTO gone SELECT id FROM trajectory WHERE id IN (FROM said) AND id NOT IN (FROM gone)",
    # a task goes with the records that asked it; one from a file, when no rollout is left
    f"""CREATE TEMP TABLE gone_task AS WITH mine AS (
          SELECT task, bool_or(phase = '{IMPORTED}') AS imported FROM trajectory WHERE id IN (FROM gone) GROUP BY task
        ), other AS (
          SELECT task, bool_or(phase IN {_RECORDED}) AS recorded FROM trajectory
          WHERE id NOT IN (FROM gone) AND task IN (SELECT task FROM mine) GROUP BY task
        ) SELECT m.task AS id FROM mine m LEFT JOIN other o USING (task) LEFT JOIN task k ON k.id = m.task
        WHERE o.task IS NULL OR (NOT o.recorded AND (m.imported OR k.source IN {_OWN_TASKS}))""",
    "INSERT INTO gone SELECT id FROM trajectory WHERE task IN (FROM gone_task) AND id NOT IN (FROM gone)",
    """CREATE TEMP TABLE touched AS SELECT run FROM trajectory WHERE id IN (FROM gone)
        UNION SELECT run FROM summary WHERE rollout IN (FROM gone)
        UNION SELECT run FROM (SELECT run, unnest(evidence) AS id FROM proposal) WHERE id IN (FROM gone)
        UNION SELECT run FROM (SELECT run, unnest(regexp_extract_all(report, '[0-9a-f]{32}')) AS id FROM run_event)
        WHERE id IN (FROM gone) OR id IN (FROM gone_task)""",
    """CREATE TEMP TABLE resting AS WITH RECURSIVE found AS (
          SELECT run, phase, batch, id FROM (SELECT run, phase, batch, id, unnest(evidence) AS rollout FROM proposal)
          WHERE rollout IN (FROM gone)
          UNION SELECT p.run, p.phase, p.batch, p.id FROM proposal p JOIN found f USING (run, phase, batch)
          WHERE list_contains(p.rests_on, f.id)
        ) SELECT DISTINCT (run, phase, batch, id) AS key FROM found""",
    """CREATE TEMP TABLE lesson AS WITH RECURSIVE found AS (
          SELECT experience AS id FROM proposal WHERE (run, phase, batch, id) IN (FROM resting)
          UNION SELECT experience FROM decision
          WHERE verdict = 'approved' AND (run, phase, batch, proposal) IN (FROM resting)
          UNION SELECT e.id FROM experience e JOIN found f ON list_contains(e.parents, f.id)
        ) SELECT DISTINCT id FROM found WHERE id IS NOT NULL""",
    "CREATE TEMP TABLE dropped (id VARCHAR)",
)
_OF_ROLLOUT = "rollout IN (FROM gone)"
GONE = {
    "trajectory": "id IN (FROM gone)",
    "trajectory_body": _OF_ROLLOUT,
    "step": _OF_ROLLOUT,
    "live": _OF_ROLLOUT,
    "summary": _OF_ROLLOUT,
    "task": "id IN (FROM gone_task)",
    "feedback": "id IN (FROM said)",
    "journal": "unit IN (FROM gone) OR (stage <> 'rollout' AND run IN (FROM touched))",
    "proposal": "(ended <> 'applied' OR experience IN (FROM dropped)) AND (run, phase, batch, id) IN (FROM resting)",
    "experience": "id IN (FROM dropped)",
    "blob": "kind IN ('failure', 'request') AND name IN (FROM touched)",
}
"""What is removed of each table. A proposal whose lesson a library holds stays, without what the model wrote."""


def _without(items: str, gone: str, key: str = "one") -> str:
    """SQL for a list without the items whose key is gone, in its order."""
    return f"""(SELECT coalesce(list(one ORDER BY place), []) FROM (
        SELECT unnest({items}) AS one, generate_subscripts({items}, 1) AS place) WHERE {key} NOT IN (FROM {gone}))"""


_WITHHELD = _without("json_extract(withheld, '$[*]')", "dropped", "(one->>'$.experience.id')")
WITHOUT = {
    "proposal": f"""* REPLACE (CASE WHEN run IN (FROM touched) THEN '' ELSE raw END AS raw,
        {_without("evidence", "gone")} AS evidence)""",
    "library_version": f"""* REPLACE ({_without("experiences", "dropped")} AS experiences,
        CASE WHEN withheld IS NOT NULL THEN to_json({_WITHHELD})::VARCHAR END AS withheld)""",
    "decision": """* REPLACE (
        CASE WHEN verdict = 'rejected' AND (run, phase, batch, proposal) IN (FROM resting) THEN '' ELSE lesson_key END
          AS lesson_key,
        CASE WHEN (run, phase, batch, proposal) IN (FROM resting) THEN '' ELSE note END AS note)""",
    # a comparison repeats the problems of its tasks
    "run_event": r"""* REPLACE (CASE WHEN run NOT IN (FROM touched) THEN report
        ELSE regexp_replace(report, '"problem":\s*"(?:[^"\\]|\\.)*"', '"problem":""', 'g') END AS report)""",
}
"""How the rows of a table that stay are copied, where some of their texts may repeat what is removed."""
_ONE_ROW = frozenset({"schema_version", "store_identity"})


def plan_erased(connection: duckdb.DuckDBPyConnection, receipts: Sequence[ErasureReceipt]) -> None:
    """Plan in another store the erasures that these receipts tell of. `GONE` and `WITHOUT` then hold for its tables.

    The tables of that store must be those that the connection finds without a prefix. Raises duckdb.Error.
    """
    listed = {
        "rollouts": [one for done in receipts for one in done.rollouts],
        "feedback": [one for done in receipts for one in done.feedback],
        "tasks": [one for done in receipts for one in done.tasks],
        "runs": [one for done in receipts for one in done.runs],
        "lessons": [one.id for done in receipts for one in done.lessons if done.choice == "park" and not one.versions],
    }
    for statement, what in (
        ("CREATE TEMP TABLE gone AS SELECT unnest($1::VARCHAR[]) AS id", "rollouts"),
        (
            """CREATE TEMP TABLE said AS SELECT unnest($1::VARCHAR[]) AS id
                UNION SELECT id FROM feedback WHERE rollout IN (FROM gone)""",
            "feedback",
        ),
        *((statement, "") for statement in _FOLLOWING),
        (
            """INSERT INTO gone_task SELECT id FROM (SELECT unnest($1::VARCHAR[]) AS id)
                WHERE id NOT IN (SELECT task FROM trajectory WHERE id NOT IN (FROM gone))""",
            "tasks",
        ),
        ("INSERT INTO touched SELECT unnest($1::VARCHAR[])", "runs"),
        ("INSERT INTO dropped SELECT unnest($1::VARCHAR[])", "lessons"),
    ):
        connection.execute(statement, [listed[what]] if what else None)


class Removal:
    """What is taken out of an open store, by copying what stays to a new database file.

    gone: for each table, the condition of the rows that go, on temporary tables of `cursor`. without: how the rows of a
    table that stay are copied. The store must have every journal entry in its database, see `GroupCommit.flush`.
    """

    def __init__(self, database: Database, gone: Mapping[str, str], without: Mapping[str, str]) -> None:
        self._database, self.cursor = database, database.cursor()
        self._gone, self._without = gone, without

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows that go, by table."""
        found = {table: self.ids(f"SELECT count(*) FROM {table} WHERE {gone}")[0] for table, gone in self._gone.items()}
        return {table: count for table, count in found.items() if count}

    @property
    def taken(self) -> int:
        """Number of the last journal entry that is in the database."""
        return int(self.ids("SELECT coalesce(max(journal), 0) FROM commit_log")[0])

    def commit(self, receipt: ErasureReceipt) -> None:
        """Copy what stays, and write the intent. The removal is done when the store is opened next.

        receipt: this removal's, with its files. Nothing may be written to the store from here on. Raises StoreError.
        """
        directory, draft = self._database.directory, self._database.staging / COPY
        try:
            self._database.checkpoint()
            room = shutil.disk_usage(directory).free - (directory / DATABASE).stat().st_size
            if self._database.log_bytes or room < 0:
                raise OSError("the disk has no room for a second copy of the database")  # noqa: TRY301
            own_folder(draft.parent, directory)
            self._copy(draft)
            sync(draft)
            draft.replace(directory / COPY)
            for copy in map(Path, receipt.files):
                if copy.is_absolute():  # it can be written again, should the intent not be written
                    copy.unlink(missing_ok=True)
            write_whole(directory / INTENT, receipt.model_dump_json().encode(), private=True)
        except (duckdb.Error, OSError) as error:
            for name in (INTENT, COPY):  # in this order: an intent without its copy means that it took its place
                (directory / name).unlink(missing_ok=True)
            raise StoreError(f"nothing was erased: {error_line(error)}") from error

    def close(self) -> None:
        """Close the connection."""
        self.cursor.close()

    def draft_folder(self) -> Path:
        """A new folder in which the connection may write files. Raises OSError."""
        folder = self._database.staging / secrets.token_hex(8)
        return own_folder(folder, self._database.directory)

    def ids(self, query: str) -> tuple[Any, ...]:
        """The first column of a query's rows."""
        return tuple(one for (one,) in self.cursor.execute(query).fetchall())

    def _copy(self, draft: Path) -> None:
        cursor, log = self.cursor, "commit_log"
        tables = self.ids(
            f"SELECT table_name FROM duckdb_tables() WHERE database_name = 'store' AND table_name <> '{log}'"
        )
        cursor.execute(f"ATTACH {sql_string(draft)} AS fresh (ROW_GROUP_SIZE 2048)")
        try:
            cursor.execute("USE fresh")
            cursor.execute(files("agentlearn.store").joinpath("schema.sql").read_text(encoding="utf-8"))
            for table in tables:
                stays = f"({self._gone[table]}) IS NOT TRUE" if table in self._gone else "true"
                cursor.execute(
                    f"INSERT INTO {table} SELECT {self._without.get(table, '*')} FROM store.{table} WHERE {stays}"
                )
            counted = " UNION ALL ".join(f"SELECT seq FROM {one}" for one in tables if one not in _ONE_ROW)
            cursor.execute(
                f"INSERT INTO {log} SELECT c.* REPLACE (coalesce(n, 0) AS n_rows) FROM store.{log} c"
                f" LEFT JOIN (SELECT seq, count(*) AS n FROM ({counted}) GROUP BY seq) USING (seq) ORDER BY c.seq"
            )
            cursor.execute("CHECKPOINT fresh")
        finally:
            cursor.execute("USE store")
            cursor.execute("DETACH fresh")


class Erasure(Removal):
    """What an erasure of an open store would remove."""

    def __init__(self, database: Database, asked: Erased) -> None:
        super().__init__(database, GONE, WITHOUT)
        before = None if asked.before is None else round(asked.before.timestamp() * 1_000_000)
        parameters = [escape(one) or None for one in (asked.rollout, asked.episode, asked.user)] + [before]
        for statement in (*_ASKED, *_FOLLOWING):
            used = {f"{place}": one for place, one in enumerate(parameters, start=1) if f"${place}" in statement}
            self.cursor.execute(statement, used or None)
        self.receipt = ErasureReceipt(
            store=str(database.directory),
            at=clock.now(),
            by=next(iter(asked.model_dump(exclude_defaults=True))),
            removed=self.counts,
            rollouts=self.ids("SELECT DISTINCT id FROM gone ORDER BY id"),
            tasks=self.ids("FROM gone_task ORDER BY id"),
            feedback=self.ids("FROM said ORDER BY id"),
            runs=self.ids("FROM touched ORDER BY run"),
            journal=self.taken,
            lessons=tuple(RestingLesson(id=one) for one in self.ids("FROM lesson ORDER BY id")),
        )

    def commit(self, receipt: ErasureReceipt) -> None:
        """Copy what stays, and write the intent, see `Removal.commit`."""
        dropped = [one.id for one in receipt.lessons if receipt.choice == "park" and not one.versions]
        self.cursor.execute("INSERT INTO dropped SELECT unnest(?::VARCHAR[])", [dropped])
        super().commit(receipt)


@contextmanager
def copied_store(directory: Path, near: Path | None = None) -> Generator[Path]:
    """A copy of a store's database and journal until the block ends; no byte of the store changes.

    near: the folder for the copy; None: that of temporary files. Raises StoreLocked, StoreError.
    """
    lock = StoreLock(directory, named=False)
    try:
        with TemporaryDirectory(prefix="agentlearn-store-", dir=near) as folder:
            try:
                with closing(Watermark(directory / WATERMARK)) as mark, mark.locked():
                    for name in (DATABASE, DATABASE_LOG, JOURNAL, f"{JOURNAL}-wal", WATERMARK):
                        with suppress(FileNotFoundError):
                            shutil.copyfile(own(directory / name, directory), Path(folder, name))
            except OSError as error:
                raise StoreError(f"the store {str(directory)!r} cannot be copied for a trial: {error}") from error
            yield Path(folder)
    finally:
        lock.release()
