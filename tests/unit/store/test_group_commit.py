"""Group commits: many writes in one transaction, and what happens when a commit fails."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest

from agentlearn.errors import StoreDamaged, StoreError
from agentlearn.store import group_commit as group_commit
from agentlearn.store import journal_file as journal_file
from agentlearn.store import open_store, read_store, trajectory_store
from agentlearn.store.codec import (
    RolloutEntry,
    RowGroup,
    encode_entry,
    row,
    task_rows,
    trajectory_rows,
)
from agentlearn.store.database import Database, JournalState
from agentlearn.store.group_commit import GroupCommit, JournalEntry
from agentlearn.types.task import Task
from tests.support.cases import cases
from tests.unit.store import nouns


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path, create=True)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_file, "RETRY_PAUSES_S", (0.0, 0.0, 0.0))


def units(count: int) -> list[RowGroup]:
    return [trajectory_rows(nouns.trajectory(g), b"[]") for g in range(count)]


def asked(database: Database, sql: str) -> list[tuple[object, ...]]:
    with database.cursor() as cursor:
        return cursor.execute(sql).fetchall()


def stored(database: Database) -> list[object]:
    return [g for (g,) in asked(database, "SELECT g FROM trajectory ORDER BY g")]


def test_a_group_is_one_commit_and_every_row_names_it(database: Database) -> None:
    commits = GroupCommit(database)
    assert commits.commit(units(5)) == [None] * 5
    assert asked(database, "SELECT seq, n_rows FROM commit_log") == [(1, 5 * 5)]
    assert asked(database, "SELECT count(*), max(seq) FROM step") == [(15, 1)]
    assert commits.commit([task_rows([nouns.TASK]), task_rows([nouns.TASK])]) == [None, None]
    assert asked(database, "SELECT seq, n_rows FROM commit_log ORDER BY seq") == [(1, 25), (2, 1)]
    commits.close()


@pytest.mark.parametrize("queued", [4, 1_000])
def test_producers_share_commits_and_wait_where_the_queue_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queued: int
) -> None:
    monkeypatch.setattr(trajectory_store, "MAX_QUEUED", queued)

    async def main() -> None:
        async with open_store(tmp_path) as store, asyncio.TaskGroup() as group:
            for g in range(200):
                group.create_task(store.save_trajectory(nouns.trajectory(g), b"[]"))

    asyncio.run(main())
    database = Database(tmp_path, create=False)
    assert len(stored(database)) == 200
    assert asked(database, "SELECT count(*) FROM commit_log")[0][0] in range(1, 5)
    database.close()


def test_a_refused_unit_fails_alone(database: Database) -> None:
    commits = GroupCommit(database)
    group = [*units(4), *units(1), (row("trajectory_body", rollout="x", format=2**70, steps="", messages=""),)]
    group.insert(2, (row("run_event", **nouns.run_event(seed=2**70).model_dump(exclude={"at"}), happened_at=nouns.AT),))
    outcomes = commits.commit(group)
    assert [place for place, outcome in enumerate(outcomes) if outcome is not None] == [2, 5]
    refused = outcomes[5]
    assert refused is not None
    assert refused.code == "row_refused"
    assert str(refused).startswith("the store refused a trajectory: Constraint Error: Duplicate key")
    assert stored(database) == [0, 1, 2, 3]
    commits.close()


def rollout(g: int) -> JournalEntry:
    content = encode_entry(RolloutEntry(trajectory=nouns.trajectory(g), messages="[]"))
    return JournalEntry(trajectory_rows(nouns.trajectory(g), b"[]"), content)


def call(ordinal: int, **changes: object) -> JournalEntry:
    record = nouns.call(ordinal, **changes)
    return JournalEntry.of(record)


def test_rollouts_wait_in_the_file_and_share_one_commit(database: Database) -> None:
    commits = GroupCommit(database)
    for g in range(5):
        assert commits.write([rollout(g)]) == [None]
    assert (commits.waiting, stored(database)) == (5, [])
    commits.flush()
    assert (commits.waiting, stored(database)) == (0, [0, 1, 2, 3, 4])
    assert asked(database, "SELECT seq, n_rows FROM commit_log") == [(1, 5 * 5)]
    commits.close()


def test_a_rollout_that_is_stored_already_is_refused_before_it_is_acknowledged(database: Database) -> None:
    commits = GroupCommit(database)
    assert commits.write([rollout(0)]) == [None]
    commits.flush()
    assert commits.write([rollout(1)]) == [None]
    outcomes = commits.write([rollout(0), rollout(1), rollout(2), call(0), rollout(2)])
    assert [outcome and outcome.code for outcome in outcomes] == [
        "row_refused",
        "row_refused",
        None,
        None,
        "row_refused",
    ]
    known = nouns.trajectory(0).id
    assert str(outcomes[0]) == f"the store refused a trajectory: the rollout {known!r} is stored already"
    commits.close()
    assert stored(database) == [0, 1, 2]
    assert asked(database, "SELECT count(*) FROM trajectory_body") == [(3,)]
    assert asked(database, "SELECT count(*) FROM journal") == [(1,)]


@pytest.mark.parametrize("most", [0, 1, 100])
def test_stored_rollouts_are_known_in_a_store_of_any_size(
    database: Database, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(group_commit, "MOST_REMEMBERED", most)
    earlier = GroupCommit(database)
    assert earlier.commit(units(1)) == [None]
    earlier.close()
    commits = GroupCommit(database)
    for g in (1, 2, 3):
        assert commits.write([rollout(g)]) == [None]
        commits.flush()
    codes = [outcome and outcome.code for outcome in commits.write([rollout(g) for g in range(5)])]
    assert codes == ["row_refused"] * 4 + [None]
    commits.close()
    assert stored(database) == [0, 1, 2, 3, 4]


def test_a_number_that_no_column_holds_is_refused_before_it_is_acknowledged(database: Database) -> None:
    commits = GroupCommit(database)
    outcomes = commits.write([call(0), call(1, tokens_in=2**63), call(2)])
    assert [outcome and outcome.code for outcome in outcomes] == [None, "row_refused", None]
    assert str(outcomes[1]) == (
        f"the store refused a journal: tokens_in of a journal is {2**63}, which does not fit into 64 bits"
    )
    commits.flush()  # and what was acknowledged is not held up by it
    assert asked(database, "SELECT ordinal FROM journal ORDER BY ordinal") == [(0,), (2,)]
    commits.close()


def test_what_waits_is_taken_in_where_it_grows_large(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = GroupCommit(database)
    monkeypatch.setattr(group_commit, "MAX_WAITING_BYTES", 2 * len(rollout(0).content) - 1)
    for g in range(2):
        commits.write([rollout(g)])
    assert stored(database) == [0, 1]
    commits.close()


@pytest.mark.slow
def test_the_journal_keeps_entries_until_a_checkpoint_and_stays_small(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "CHECKPOINT_BYTES", 2**17)
    commits = GroupCommit(database)
    most = 0
    for n in range(160):
        assert commits.write([call(n, response="x" * 4_000), task_rows([nouns.TASK])]) == [None, None]
        most = max(most, len(JournalState.read(database.directory).entries))
    assert 10 < most < 100
    assert (database.directory / "journal.sqlite-wal").stat().st_size < 2**23
    commits.close()
    database.close()
    assert (database.directory / "journal.sqlite").stat().st_size < 2**19
    assert not JournalState.read(database.directory).entries


def test_entries_that_share_a_commit_with_rows_are_in_the_journal_too(database: Database) -> None:
    commits = GroupCommit(database)
    outcomes = commits.write([task_rows([nouns.TASK]), rollout(0), rollout(0), call(0)])
    assert [outcome and outcome.code for outcome in outcomes] == [None, None, "row_refused", None]
    assert len(JournalState.read(database.directory).entries) == 2
    assert stored(database) == [0]
    commits.close()


def test_where_the_database_cannot_be_asked_a_rollout_is_committed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def invalid(*_: object) -> set[str]:
        raise duckdb.FatalException("invalidated")

    commits = GroupCommit(database)
    monkeypatch.setattr(GroupCommit, "_stored", invalid)
    assert commits.write([rollout(0), call(0)]) == [None, None]
    assert (commits.waiting, stored(database)) == (0, [0])
    commits.close()


class FailingLedger(GroupCommit):
    """A GroupCommit whose first transactions fail, before they began or after they were committed."""

    def __init__(self, database: Database, failures: Sequence[Exception], *, after: bool) -> None:
        super().__init__(database)
        self._failures = list(failures)
        self._after = after
        self.tried = 0

    def _transaction(self, connection: duckdb.DuckDBPyConnection, units: Sequence[RowGroup], taken: int) -> None:
        self.tried += 1
        failure = self._failures.pop(0) if self._failures else None
        if failure is None or self._after:
            super()._transaction(connection, units, taken)
        if failure is not None:
            raise failure


@pytest.mark.parametrize(
    "kind", [duckdb.TransactionException, duckdb.FatalException, duckdb.InternalException, OSError]
)
@pytest.mark.parametrize("after", [False, True])
def test_a_passing_failure_costs_nothing(database: Database, kind: type[Exception], *, after: bool) -> None:
    commits = FailingLedger(database, [kind("disk full")], after=after)
    assert commits.commit(units(3)) == [None] * 3
    assert commits.tried == (1 if after else 2)
    assert stored(database) == [0, 1, 2]
    assert commits.commit([task_rows([nouns.TASK])]) == [None]
    commits.close()


def test_a_lasting_failure_is_reported_and_the_next_group_goes_on(database: Database) -> None:
    for kind in (duckdb.TransactionException, duckdb.FatalException):
        commits = FailingLedger(database, [kind("Disk full.\nStack trace: …")] * 3, after=False)
        outcomes = commits.commit([task_rows([nouns.TASK])] * 2)
        assert [str(outcome) for outcome in outcomes] == ["the store could not be written: Disk full"] * 2
        assert [outcome and outcome.code for outcome in outcomes] == ["store"] * 2
        assert asked(database, "SELECT count(*) FROM task") == [(0,)]
    assert commits.commit([task_rows([nouns.TASK])] * 2) == [None, None]
    commits.close()


def test_a_store_that_lost_acknowledged_rows_is_not_written_on(database: Database) -> None:
    commits = FailingLedger(database, [duckdb.FatalException("invalidated")], after=False)
    database.journal.acknowledge(commit=99, journal=0)
    outcomes = commits.commit(units(1))
    assert "but 99 were acknowledged" in str(outcomes[0])
    commits.close()
    database.close()
    with pytest.raises(StoreDamaged):  # and not StoreLocked: closing lets go of the lock even so
        Database(database.directory, create=False)


def test_a_defect_is_raised_where_the_rows_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async def main() -> None:
        async with open_store(tmp_path) as store:
            with monkeypatch.context() as patch:
                patch.setattr(GroupCommit, "_transaction", broken)
                with pytest.raises(ZeroDivisionError):
                    await store.save_tasks([nouns.TASK])
            await store.save_tasks([nouns.TASK])
            assert store.task(nouns.TASK.id) == nouns.TASK

    asyncio.run(main())


def test_a_cancelled_writer_loses_only_its_wait(tmp_path: Path) -> None:
    other = Task.of("math", "What is 1 + 1?", "2")

    async def main() -> None:
        async with open_store(tmp_path) as store, asyncio.TaskGroup() as group:
            cancelled = group.create_task(store.save_tasks([nouns.TASK]))
            patient = group.create_task(store.save_tasks([other]))
            await asyncio.sleep(0)
            cancelled.cancel()
            await patient
        assert cancelled.cancelled()

    asyncio.run(main())
    with read_store(tmp_path) as reader:
        assert reader.task(nouns.TASK.id) == nouns.TASK
        assert reader.task(other.id) == other


def test_a_checkpoint_empties_the_log_and_a_failed_one_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "store.duckdb.wal"

    def fails(_: Database) -> None:
        raise duckdb.FatalException("Disk full")

    async def main() -> None:
        async with open_store(tmp_path) as store:
            await store.save_tasks([nouns.TASK])
            with monkeypatch.context() as patch:
                patch.setattr(Database, "checkpoint", fails)
                with pytest.raises(StoreError, match="could not be checkpointed: Disk full"):
                    await store.checkpoint()
            assert store.task(nouns.TASK.id) == nouns.TASK
            await store.save_run(nouns.run_event())
            assert log.stat().st_size > 0
            await store.checkpoint()
            assert not log.exists()
            assert store.run(nouns.RUN).state == "running"

    asyncio.run(main())


def test_the_log_is_kept_where_the_disk_may_be_too_full(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = GroupCommit(database)
    commits.commit(units(1))
    log = database.directory / "store.duckdb.wal"
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=log.stat().st_size))  # pyright: ignore[reportUnknownLambdaType]
        database.checkpoint()
        assert log.exists()
    database.checkpoint()
    assert not log.exists()
    commits.close()


@pytest.mark.parametrize("sql", cases(__file__, "sql_reaches_nothing_outside_the_store"))
def test_sql_reaches_nothing_outside_the_store(database: Database, sql: str) -> None:
    with database.cursor() as cursor, pytest.raises(duckdb.Error):
        cursor.execute(sql)


def test_row_groups_stay_small_and_bodies_are_compressed(database: Database) -> None:
    commits = GroupCommit(database)
    for start in range(0, 6_000, 2_000):
        commits.commit(
            [(row("metric", run=f"{n}", step=n, name="loss", value=0.5),) for n in range(start, start + 2_000)]
        )
        database.checkpoint()
    groups = asked(database, "SELECT count(DISTINCT row_group_id) FROM pragma_storage_info('metric')")
    assert groups == [(3,)]
    commits.commit([trajectory_rows(nouns.trajectory(g), f"{g}".encode() * 3_000) for g in range(100)])
    database.checkpoint()
    bodies = "SELECT DISTINCT compression FROM pragma_storage_info('trajectory_body') WHERE column_name = 'messages'"
    assert ("ZSTD",) in asked(database, f"{bodies} AND segment_type = 'VARCHAR'")
    commits.close()


def test_a_writer_that_is_ended_from_outside_leaves_nobody_waiting(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            await store.save_trajectory(nouns.trajectory(0), b"[]")
            writing = [asyncio.create_task(store.save_trajectory(nouns.trajectory(g), b"[]")) for g in (1, 2)]
            await asyncio.sleep(0)
            store._writer._draining.cancel()  # as `asyncio.run` does with every task when a loop is torn down
            done = await asyncio.gather(*writing, return_exceptions=True)
            assert all(one is None or isinstance(one, StoreError) for one in done)
            with pytest.raises(StoreError, match="the store is closed"):
                await store.save_trajectory(nouns.trajectory(3), b"[]")

    asyncio.run(asyncio.wait_for(main(), timeout=240))
