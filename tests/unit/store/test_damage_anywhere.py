"""Wherever a file of a store is damaged, nothing acknowledged is lost silently, and no error is a traceback."""

import itertools
import random
import shutil
from pathlib import Path

import pytest

from agentlearn.errors import AgentlearnError
from agentlearn.store import StoreReader, check_store, read_store, repair_store
from agentlearn.store.integrity import Repaired
from tests.unit.store import nouns
from tests.unit.store.damage import CALLS, ROLLOUTS, damaged, left_by_a_longer_run

FILES = ("journal.sqlite", "journal.sqlite-wal", "store.duckdb", "store.duckdb.wal", "store.hwm")
KINDS = ("flipped", "zeroed", "scribbled", "truncated")
PLACES = 50
"""Places for each kind of damage to each file."""
EVERY = 5
"""Of so many damaged stores, one is opened and one is repaired; all are checked."""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("crashed")
    left_by_a_longer_run(directory)
    return directory


def test_the_crashed_store_has_older_copies(crashed: Path) -> None:
    assert len(list((crashed / "before").glob("*"))) == 3
    assert check_store(crashed).sound


def copy_of(store: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(store, to, ignore=shutil.ignore_patterns("store.sock", "before"))
    return to


def found_in(reader: StoreReader) -> tuple[int, int]:
    """Numbers of rollouts and calls, none of them twice."""
    calls = reader.calls(nouns.RUN, "u")
    assert [one.ordinal for one in calls] == sorted({one.ordinal for one in calls})
    return len(reader.trajectories(nouns.RUN)), len(calls)


def missing_after_opening(store: Path) -> int | None:
    """How many acknowledged items are not there; None if the store says that it is damaged."""
    try:
        with read_store(store) as reader:
            rollouts, calls = found_in(reader)
    except AgentlearnError as error:
        assert "\n" not in str(error)  # noqa: PT017 - not every damage raises
        return None
    return ROLLOUTS + CALLS - rollouts - calls


def files(store: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in store.iterdir() if file.name != "store.lock"}


def admits_loss(done: Repaired) -> bool:
    return None in (done.lost_commits, done.lost_entries) or any(
        (done.lost_commits, done.lost_entries, *done.lost_rows.values())
    )


def silent_fault(store: Path, *, open_first: bool = False, repair: bool = True) -> str | None:
    """Check a store that may be damaged, open it, repair it. Returns what went wrong without a message, or None."""
    before = files(store)
    report = check_store(store)
    if files(store) != before:
        return "the check changed a file"
    if report.sound:
        missing = missing_after_opening(store)
        return None if missing == 0 else f"the check found nothing, but {missing} items are missing"
    if open_first and (missing := missing_after_opening(store)):
        return f"the store opened, but {missing} items are missing"
    if not repair:
        return None
    try:
        done = repair_store(store)
    except AgentlearnError as error:
        assert "\n" not in str(error)  # noqa: PT017 - not every damage raises
        missing = missing_after_opening(store)
        return f"the store opened, which cannot be repaired; {missing} items are missing" if missing else None
    if findings := check_store(store).findings:
        return f"a repaired store has faults: {findings}"
    missing = missing_after_opening(store)
    if missing is None or (missing and not admits_loss(done)):
        return f"after the repair {missing} items are missing: {done}"
    return None if done.changed else "the repair says that it changed nothing"


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kind", KINDS)
def test_damage_at_a_random_place_is_never_silent(crashed: Path, tmp_path: Path, file: str, kind: str) -> None:
    chance = random.Random(f"{file} {kind}")
    content = (crashed / file).read_bytes()
    for place in range(PLACES):
        store = copy_of(crashed, tmp_path / "store")
        (store / file).write_bytes(damaged(content, kind, chance))
        fault = silent_fault(store, open_first=place % EVERY < 2, repair=place % EVERY == 0)
        assert fault is None, place


@pytest.mark.parametrize("kind", [*KINDS, "deleted"])
def test_whatever_happens_to_the_log_of_the_database_every_rollout_and_call_stays(
    crashed: Path, tmp_path: Path, kind: str
) -> None:
    chance = random.Random(kind)
    content = (crashed / "store.duckdb.wal").read_bytes()
    for place in range(PLACES if kind != "deleted" else 1):
        store = copy_of(crashed, tmp_path / "store")
        if kind == "deleted":
            (store / "store.duckdb.wal").unlink()
        else:
            (store / "store.duckdb.wal").write_bytes(damaged(content, kind, chance))
        done = repair_store(store)
        assert check_store(store).sound, (kind, place)
        assert missing_after_opening(store) == 0, (kind, place, done)
        assert done.lost_entries == 0
        if done.lost_commits:
            assert done.restored_entries >= CALLS


@pytest.mark.parametrize("file", FILES)
def test_a_deleted_file_or_an_older_copy_is_never_silent(crashed: Path, tmp_path: Path, file: str) -> None:
    store = copy_of(crashed, tmp_path / "store")
    (store / file).unlink()
    assert not check_store(store).sound
    assert missing_after_opening(store) is None
    for older in (crashed / "before").glob("*"):
        store = copy_of(crashed, tmp_path / "store")
        if (older / file).exists() and (older / file).read_bytes() != (store / file).read_bytes():
            shutil.copy(older / file, store / file)
            assert silent_fault(store, open_first=True) is None, older.name


def test_two_files_of_an_older_copy_are_never_silent(crashed: Path, tmp_path: Path) -> None:
    for older in sorted((crashed / "before").glob("*")):
        for one, other in itertools.combinations(FILES, 2):
            store = copy_of(crashed, tmp_path / "store")
            for file in (one, other):
                if (older / file).exists():
                    shutil.copy(older / file, store / file)
                else:
                    (store / file).unlink()
            assert silent_fault(store, open_first=True, repair=False) is None, (one, other, older.name)


def test_a_consistent_older_copy_is_a_backup(crashed: Path, tmp_path: Path) -> None:
    for older in (crashed / "before").glob("*"):
        store = copy_of(older, tmp_path / "store")
        assert check_store(store).sound
        assert missing_after_opening(store) is not None
