"""The store's tables as Parquet files: readable by others, complete, and of one moment."""

import asyncio
from pathlib import Path

import duckdb
import pytest

from agentlearn.errors import DataError
from agentlearn.store import Selection, open_store, read_store
from agentlearn.store.parquet import TableFile, parquet_rows, write_parquet
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.ids import RunId, rollout_id
from tests.unit.store import nouns

OTHER = RunId("01jd" + "1" * 22)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    directory = tmp_path / "it's a store"

    async def fill() -> None:
        async with open_store(directory) as opened:
            for run in (nouns.RUN, OTHER):
                await opened.save_run(nouns.run_event(run=run))
                await opened.save_tasks([nouns.TASK])
                await opened.save_version(EMPTY_LIBRARY, run=run)
                for g in range(3):
                    await opened.save_trajectory(nouns.trajectory(g, run=run), b'[{"text":"long"}]')
            unit = rollout_id(nouns.RUN, "epoch-1", nouns.TASK.id, 0, 0)
            await opened.record(nouns.call(0, unit=unit))
            await opened.record(nouns.call(1))

    asyncio.run(fill())
    return directory


def snapshot(store: Path, out: Path | None = None) -> tuple[TableFile, ...]:
    with read_store(store) as reader:
        return reader.snapshot(out)


def export_tables(store: Path, selection: Selection, out: Path) -> tuple[TableFile, ...]:
    with read_store(store) as reader:
        return reader.export_tables(selection, out)


def read(folder: Path, table: str, columns: str = "*") -> list[tuple[object, ...]]:
    path = str(folder / f"{table}.parquet").replace("'", "''")
    with duckdb.connect(":memory:") as connection:
        return connection.execute(f"SELECT {columns} FROM read_parquet('{path}')").fetchall()


def nothing_staged(store: Path) -> bool:
    return not list((store / "staging").glob("*"))


def test_a_snapshot_holds_every_row_and_no_long_text(store: Path) -> None:
    files = {one.table: one for one in snapshot(store)}
    folder = store / "snapshots"
    assert sorted(file.name for file in folder.iterdir()) == sorted(f"{table}.parquet" for table in files)
    assert {table: one.rows for table, one in files.items() if one.rows} == {
        "run_event": 2,
        "task": 1,
        "trajectory": 6,
        "step": 18,
        "journal": 2,
        "library_version": 1,
    }
    rewards = read(folder, "trajectory", "run, g, reward, epoch_us(started_at)")
    assert rewards[0] == (nouns.RUN, 0, 1.0, int(nouns.AT.timestamp()) * 10**6 + nouns.AT.microsecond)
    for table, body in (("task", "problem"), ("run_event", "settings"), ("journal", "response")):
        with pytest.raises(duckdb.BinderException):
            read(folder, table, body)
    assert nothing_staged(store)


def test_an_export_holds_the_selected_rollouts_whole_and_what_belongs_to_them(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rows = {one.table: one.rows for one in export_tables(store, Selection(run=nouns.RUN), out)}
    assert rows == {
        "run_event": 1,
        "task": 1,
        "trajectory": 3,
        "trajectory_body": 3,
        "step": 9,
        "journal": 1,
        "summary": 0,
        "proposal": 0,
        "decision": 0,
        "library_version": 1,
        "metric": 0,
        "experience": 0,
        "blob": 0,
        "live": 0,
        "feedback": 0,
    }
    assert {row[0] for row in read(out, "trajectory_body", "messages")} == {'[{"text":"long"}]'}
    assert {row[0] for row in read(out, "trajectory", "run")} == {nouns.RUN}
    assert read(out, "task", "problem") == [(nouns.TASK.problem,)]


def test_texts_that_need_more_memory_than_an_export_begins_with_are_written(tmp_path: Path) -> None:
    async def fill() -> None:
        async with open_store(tmp_path / "store") as opened:
            await opened.save_run(nouns.run_event(run=nouns.RUN))
            await opened.save_tasks([nouns.TASK])
            for g in range(2):
                await opened.save_trajectory(nouns.trajectory(g), b'["%b"]' % (b"%d" % g * 20_000_000))

    asyncio.run(fill())
    export_tables(tmp_path / "store", Selection(), tmp_path / "out")
    lengths = {row[0] for row in read(tmp_path / "out", "trajectory_body", "length(messages)")}
    assert lengths == {20_000_004}
    assert nothing_staged(tmp_path / "store")


def test_a_second_snapshot_takes_the_place_of_the_first(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    snapshot(store, out)
    (store / "staging").mkdir(exist_ok=True)
    (store / "staging" / "left").write_text("by a crash")

    async def more() -> None:
        async with open_store(store) as opened:
            await opened.save_trajectory(nouns.trajectory(9), b"[]")

    asyncio.run(more())
    snapshot(store, out)
    assert len(read(out, "trajectory", "id")) == 7
    assert all(file.suffix == ".parquet" for file in out.iterdir())
    assert nothing_staged(store)


def test_nothing_selected_is_said(store: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no stored rollout matches"):
        export_tables(store, Selection(domain="web"), tmp_path / "out")
    assert nothing_staged(store)


def test_tables_are_written_while_another_process_holds_the_store(store: Path, tmp_path: Path) -> None:
    async def held() -> None:
        async with open_store(store) as opened:
            await opened.save_trajectory(nouns.trajectory(9), b"[]")
            await opened.record(nouns.call(7))
            rows = {one.table: one.rows for one in snapshot(store, tmp_path / "slim")}
            assert (rows["trajectory"], rows["journal"]) == (7, 3)
            export_tables(store, Selection(run=nouns.RUN, min_reward=0.5), tmp_path / "whole")
            with pytest.raises(DataError, match="no stored rollout matches"):
                export_tables(store, Selection(domain="web"), tmp_path / "out")
            assert nothing_staged(store)
            await opened.save_trajectory(nouns.trajectory(10), b"[]")  # and the run goes on

    asyncio.run(held())
    assert len(read(tmp_path / "whole", "trajectory_body", "messages")) == 4


@pytest.mark.parametrize("name", ["a.parquet", "a[1].parquet", "*.parquet", "a?.parquet", "it's.parquet", "ü.parquet"])
def test_a_file_without_a_store_is_named_at_its_word_and_read_in_order(tmp_path: Path, name: str) -> None:
    write_parquet(tmp_path / "a1.parquet", {"x": ("BIGINT", range(5000))})
    write_parquet(tmp_path / name, {"x": ("BIGINT", [1, 2]), "words": ("VARCHAR[]", [["a"], []])})
    assert list(parquet_rows(tmp_path / name)) == [{"x": 1, "words": ["a"]}, {"x": 2, "words": []}]
    assert [row["x"] for row in parquet_rows(tmp_path / "a1.parquet")] == list(range(5000))
    (tmp_path / name).write_bytes((tmp_path / "a1.parquet").read_bytes()[:-20])
    with pytest.raises(DataError, match=r"cannot be read as Parquet \(.+\); write it again$") as refused:
        list(parquet_rows(tmp_path / name))
    assert refused.value.code == "bad_data"
