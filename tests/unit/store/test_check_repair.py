"""What is wrong with a store is found without touching it, and mended without a silent loss."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentlearn.errors import StoreDamaged, StoreLocked, StoreMissing
from agentlearn.store import check_store, open_store, read_store, repair_store
from tests.unit.store import nouns
from tests.unit.store.damage import flip, left_by_a_crash

LOG, MARK, DATABASE = "store.duckdb.wal", "store.hwm", "store.duckdb"
JOURNAL, JOURNAL_LOG = "journal.sqlite", "journal.sqlite-wal"


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("crashed")
    left_by_a_crash(directory)
    return directory


@pytest.fixture
def store(crashed: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "store"
    shutil.copytree(crashed, copy, ignore=shutil.ignore_patterns("store.sock"))
    return copy


def files(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir() if file.name != "store.lock"}


def test_what_a_crash_leaves_is_sound_and_looking_changes_nothing(store: Path) -> None:
    before = files(store)
    report = check_store(store)
    assert report.sound
    assert (report.commits, report.acknowledged, report.journal_entries) == (4, 4, 4)
    assert (report.tables["trajectory"], report.tables["task"], report.tables["journal"]) == (2, 1, 0)
    assert report.size_bytes > 1_000
    assert files(store) == before
    assert not repair_store(store).changed
    with read_store(store) as reader:
        assert len(reader.calls(nouns.RUN, "u")) == 4


def torn(store: Path) -> None:
    (store / LOG).write_bytes((store / LOG).read_bytes()[:-20])


def journal_gone(store: Path) -> None:
    for name in (JOURNAL, JOURNAL_LOG, "journal.sqlite-shm"):
        (store / name).unlink()


def journal_is_none(store: Path) -> None:
    flip(store / JOURNAL, 0)
    (store / JOURNAL_LOG).unlink()  # it has the first page too


DAMAGES: dict[str, tuple[Callable[[Path], object], list[str], int | None, int | None]] = {
    # what happens; what is found; commits lost; entries lost that waited in the journal: it still has all others
    "log torn": (torn, ["missing_commits"], 1, 0),
    "log flipped at its end": (lambda store: flip(store / LOG, -30), ["unreadable_log"], 1, 0),
    "log flipped at its head, refused": (lambda store: flip(store / LOG, 20), ["unreadable_log"], 4, 0),
    "log gone": (lambda store: (store / LOG).unlink(), ["missing_commits"], 4, 0),
    "journal gone": (journal_gone, ["missing_journal"], 0, 4),
    "journal's log flipped at its end": (lambda store: flip(store / JOURNAL_LOG, -5), ["missing_entries"], 0, 1),
    "journal is none": (journal_is_none, ["missing_entries"], 0, 4),
    "mark flipped": (lambda store: flip(store / MARK, 30), ["damaged_watermark"], None, 0),
    "mark gone": (lambda store: (store / MARK).unlink(), ["missing_watermark"], None, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_and_repaired_and_losses_are_reported(store: Path, damage: str) -> None:
    harm, found, lost_commits, lost_entries = DAMAGES[damage]
    harm(store)
    before = files(store)
    report = check_store(store)
    assert [one.code for one in report.findings] == found
    assert all("store repair" in one.mend for one in report.findings)
    assert {name: before[name] for name in files(store)} == before
    with pytest.raises(StoreDamaged), read_store(store):
        pass
    done = repair_store(store)
    assert done.changed
    assert (done.lost_commits, done.lost_entries) == (lost_commits, lost_entries)
    for copy in done.kept:  # nothing is thrown away
        assert (store / copy).read_bytes() == before[copy.removesuffix(".damaged-1")]
    assert check_store(store).sound
    with read_store(store) as reader:
        assert len(reader.trajectories(nouns.RUN)) == 2
        assert len(reader.calls(nouns.RUN, "u")) == 4 - (lost_entries or 0)
    assert not repair_store(store).changed


def test_a_mended_store_is_written_on_and_keeps_what_is_written(store: Path) -> None:
    flip(store / LOG, 0)
    repair_store(store)

    async def write() -> None:
        async with open_store(store) as opened:
            await opened.save_run(nouns.run_event())
            await opened.save_trajectory(nouns.trajectory(5), b"[]")

    asyncio.run(write())
    with read_store(store) as reader:
        assert [row.g for row in reader.trajectories(nouns.RUN)] == [0, 1, 5]


def test_a_second_repair_keeps_its_own_copies(store: Path) -> None:
    flip(store / MARK, 30)
    assert repair_store(store).kept == ("store.hwm.damaged-1",)
    (store / MARK).write_bytes(b"something else")
    assert repair_store(store).kept == ("store.hwm.damaged-2",)


def with_everything_in_the_database(store: Path) -> Path:
    with read_store(store):
        pass
    return store / DATABASE


@pytest.mark.parametrize("kept_bytes", [0, 1, 4_096, 12_288])
def test_a_database_of_which_nothing_can_be_read_is_left_unchanged(store: Path, kept_bytes: int) -> None:
    database = with_everything_in_the_database(store)
    os.truncate(database, kept_bytes)
    before = files(store)
    assert not check_store(store).sound
    with pytest.raises(StoreDamaged), read_store(store):
        pass
    with pytest.raises(StoreDamaged) as told:
        repair_store(store)
    assert str(told.value).startswith(f"nothing of the database file of {str(store)!r} can be read (")
    assert str(told.value).endswith("; restore the directory from a backup")
    assert files(store) == before


def test_the_readable_tables_of_a_damaged_database_are_salvaged(store: Path) -> None:
    database = with_everything_in_the_database(store)
    whole = database.read_bytes()
    for at in range(3 * 4_096 + 64, len(whole), 2**18):  # one block after the other, until a table is lost
        database.write_bytes(whole)
        flip(database, at)
        if any(one.code == "unreadable_table" for one in check_store(store).findings):
            break
    done = repair_store(store)
    assert done.lost_rows
    assert "store.duckdb.damaged-1" in done.kept
    report = check_store(store)
    assert report.sound
    assert sum(report.tables.values()) > 0
    assert not repair_store(store).changed


def test_rows_that_do_not_belong_together_are_found(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentlearn.store import trajectory_store as module

    whole = module.trajectory_rows
    monkeypatch.setattr(module, "trajectory_rows", lambda *of: whole(*of)[:1])  # as a defect would have it

    async def write() -> None:
        async with open_store(store) as opened:
            await opened.save_trajectory(nouns.trajectory(7), b"[]")

    asyncio.run(write())
    (finding,) = check_store(store).findings
    assert (finding.code, finding.words) == ("rollout_without_body", "1 rollouts have no text")


def test_there_is_nothing_to_look_at_or_another_process_holds_it(tmp_path: Path) -> None:
    for tool in (check_store, repair_store):
        with pytest.raises(StoreMissing):
            tool(tmp_path / "none")

    async def held() -> None:
        async with open_store(tmp_path):
            for tool in (check_store, repair_store):
                with pytest.raises(StoreLocked):
                    tool(tmp_path)

    asyncio.run(held())
