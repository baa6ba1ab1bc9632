"""The store's files: private, watched while the store is open, and written again after a full disk."""

import asyncio
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agentlearn.errors import StoreDamaged
from agentlearn.store import check_store, open_store, read_store, repair_store
from agentlearn.store import group_commit as group_commit
from agentlearn.store.database import Database
from agentlearn.store.journal_file import JournalFile
from tests.support.cases import cases
from tests.unit.store import nouns

ROOT = Path(__file__).parents[3]
FILES = ("journal.sqlite", "journal.sqlite-wal", "store.duckdb", "store.duckdb.wal", "store.hwm", "store.lock")


def replaced(file: Path) -> None:
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)


def replaced_folder(file: Path) -> None:
    shutil.copytree(file.parent, file.parent.with_name("copy"), ignore=shutil.ignore_patterns("store.sock"))
    file.parent.rename(file.parent.with_name("moved"))
    file.parent.with_name("copy").rename(file.parent)


@pytest.mark.parametrize("harm", [Path.unlink, replaced, replaced_folder])
@pytest.mark.parametrize("file", FILES)
def test_a_file_that_vanishes_under_a_run_stops_it_at_the_next_write(
    tmp_path: Path, file: str, harm: Callable[[Path], object]
) -> None:
    directory = tmp_path / "store"

    async def main() -> None:
        async with open_store(directory) as store:
            await store.save_run(nouns.run_event())
            await store.record(nouns.call(0))
            harm(directory / file)
            await store.record(nouns.call(1))
            await store.save_tasks([nouns.TASK])

    with pytest.raises(StoreDamaged) as told:
        asyncio.run(main())
    assert told.value.code == "store_damaged"
    assert " while the store was open; nothing is stored from here on. " in str(told.value)
    assert "\n" not in str(told.value)


def test_what_waited_in_a_journal_that_vanishes_is_saved_in_the_database(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            await store.record(nouns.call(0))
            (tmp_path / "journal.sqlite").unlink()
            await store.record(nouns.call(1))

    with pytest.raises(StoreDamaged):
        asyncio.run(main())
    assert not check_store(tmp_path).sound
    done = repair_store(tmp_path)
    assert (done.lost_commits, done.lost_entries) == (0, 0)
    with read_store(tmp_path) as reader:
        assert [one.ordinal for one in reader.calls(nouns.RUN, "u")][:1] == [0]


def modes(directory: Path) -> set[int]:
    return {stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()}


def test_only_the_owner_may_read_a_store_or_a_snapshot_whatever_the_umask(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    found = list[set[int]]()

    async def main() -> None:
        async with open_store(directory) as store:
            await store.save_run(nouns.run_event())
            found.append(modes(directory))
            await store.checkpoint()
            await store.save_tasks([nouns.TASK])
            found.append(modes(directory))
            store.snapshot()
            store.snapshot(tmp_path / "out")

    before = os.umask(0)
    try:
        asyncio.run(main())
    finally:
        os.umask(before)
    assert found == [{0o600}, {0o600}]
    assert modes(directory / "snapshots") == modes(tmp_path / "out") == {0o600}
    assert modes(directory) == {0o600, 0o700}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_store_that_others_could_read_is_made_private_when_it_is_opened(tmp_path: Path) -> None:
    Database(tmp_path, create=True).close()
    mine = tmp_path / "script"
    mine.touch()
    tmp_path.chmod(0o755)
    for file in tmp_path.iterdir():
        file.chmod(0o755)
    Database(tmp_path, create=False).close()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    assert stat.S_IMODE(mine.stat().st_mode) == 0o755  # not one of the store's files
    mine.unlink()
    assert modes(tmp_path) == {0o600}


FULL_DISK = """
import asyncio, os, resource, sys, traceback
from pathlib import Path
from agentlearn.errors import StoreError
from agentlearn.store import group_commit, journal_file, open_store
from tests.unit.store import nouns

journal_file.RETRY_PAUSES_S = (0.0, 0.01)
unlimited = resource.RLIM_INFINITY
kept = []

async def save(store, g):
    try:
        await store.save_trajectory(nouns.trajectory(g), b"[]" * 3_000)
    except StoreError as error:
        assert error.code == "store", error
    else:
        kept.append(g)

async def main(folder, limit):
    async with open_store(folder) as store:
        for g in range(5):
            await save(store, g)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited))
        for g in range(5, 120):
            await save(store, g)
        try:
            await store.checkpoint()
        except StoreError as error:
            assert error.code == "store", error
        assert len(kept) < 120
        resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, unlimited))
        await save(store, 200)
        assert kept[-1] == 200
    (folder / "kept").write_text(str(len(kept)))

children = {}
for case in sys.argv[2:]:
    if child := os.fork():
        children[child] = case
        continue
    try:
        limit, group_commit.MAX_WAITING = map(int, case.split("-"))
        asyncio.run(main(Path(sys.argv[1]) / case, limit))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
failed = [case for child, case in children.items() if os.waitpid(child, 0)[1]]
if failed:
    sys.exit(f"these cases failed: {failed}")
"""


@pytest.mark.slow
def test_a_full_disk_at_any_stage_loses_nothing_and_writing_goes_on(tmp_path: Path) -> None:
    """Each limit on the size of files, and each number of waiting writes, in a process of its own."""
    cases = ["40-20", "5000-0", "100000-0", "100000-20", "100000-1000", "400000-1000"]
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path), *cases]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    for case in cases:
        kept = int((tmp_path / case / "kept").read_text())
        assert check_store(tmp_path / case).sound, case
        with read_store(tmp_path / case) as reader:
            assert len(reader.trajectories(nouns.RUN)) >= kept, case


SMALL_DISK = """
import asyncio, os, sys
from pathlib import Path
from agentlearn.errors import StoreError
from agentlearn.store import check_store, group_commit, journal_file, open_store, read_store
from tests.unit.store import nouns

disk, free_bytes = Path(sys.argv[1]), int(sys.argv[2])
journal_file.RETRY_PAUSES_S = (0.0, 0.01)
group_commit.MAX_WAITING = int(sys.argv[3])
kept, failed = [], []

def fill():
    with (disk / "filler").open("wb") as filler:
        there = os.statvfs(disk)
        os.posix_fallocate(filler.fileno(), 0, max(there.f_bavail * there.f_bsize - free_bytes, 1))

async def attempt(what, writing):
    try:
        await writing
    except StoreError as error:
        assert error.code == "store" and "\\n" not in str(error), error
        failed.append(what)
    else:
        kept.append(what)

async def main():
    async with open_store(disk / "store") as store:
        for g in range(5):
            await attempt(g, store.save_trajectory(nouns.trajectory(g), b"[]" * 3_000))
        fill()
        for g in range(5, 60):
            await attempt(g, store.save_trajectory(nouns.trajectory(g), os.urandom(9_000).hex().encode()))
            if g % 20 == 0:
                await attempt("checkpoint", store.checkpoint())
        await attempt("run", store.save_run(nouns.run_event()))
        assert failed
        if sys.argv[4] == "opened":
            (disk / "filler").unlink()
            await attempt(200, store.save_trajectory(nouns.trajectory(200), b"[]"))
            assert kept[-1] == 200

asyncio.run(main())
if sys.argv[4] == "closed":
    try:
        with read_store(disk / "store"):
            pass
    except StoreError as error:
        assert "\\n" not in str(error), error
    (disk / "filler").unlink()
assert check_store(disk / "store").sound
with read_store(disk / "store") as reader:
    stored = {row.g for row in reader.trajectories(nouns.RUN)}
    assert {g for g in kept if isinstance(g, int)} <= stored, (kept, stored)
    assert reader.runs() or "run" not in kept
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("emptied", "free_bytes", "waiting"), cases(__file__, "a_disk_without_room_costs_nothing_that_was_acknowledged")
)
def test_a_disk_without_room_costs_nothing_that_was_acknowledged(
    tmp_path: Path, emptied: str, free_bytes: int, waiting: int
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user cannot mount")
    try:
        command = [sys.executable, "-c", SMALL_DISK, str(disk), str(free_bytes), str(waiting), emptied]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, cwd=ROOT)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    assert done.returncode == 0, done.stderr


WRITES_FOR_EVER = """
import asyncio, itertools, os, sys
from contextlib import closing
from pathlib import Path
from agentlearn.store import open_store
from agentlearn.store.codec import encode_entry
from agentlearn.store.journal_file import JournalFile
from tests.unit.store import nouns

name, directory = sys.argv[1], Path(sys.argv[2])

async def run():
    async with open_store(directory) as store:
        os.write(1, b"ready\\n")
        for n in itertools.count():
            record = nouns.call(n, unit=name)
            await store.record(record)
            os.write(1, f"{name}/{n}\\n".encode())
            if n % 20 == 0:
                store.runs()

def record():
    with closing(JournalFile(directory)) as journal:
        for n in itertools.count():
            journal.append([encode_entry(nouns.call(n, unit=name))])
            os.write(1, f"{name}/{n}\\n".encode())

asyncio.run(run()) if name == "run" else record()
"""


@pytest.mark.slow
def test_processes_that_write_at_once_and_are_killed_lose_nothing(tmp_path: Path) -> None:
    acknowledged = set[str]()
    for loop in range(4):
        names = ["run", *(f"other-{loop}-{n}" for n in range(3))]
        workers = list[subprocess.Popen[str]]()
        for name in names:
            command = [sys.executable, "-c", WRITES_FOR_EVER, name, str(tmp_path)]
            workers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT))
            if name == "run":
                assert workers[0].stdout is not None
                assert workers[0].stdout.readline() == "ready\n"
        for worker in workers[1:]:
            assert worker.stdout is not None
            for _ in range(10):
                acknowledged.add(worker.stdout.readline().strip())
        for worker in workers if loop % 2 else workers[::-1]:
            worker.kill()
        for worker in workers:
            acknowledged.update(line for line in worker.communicate(timeout=120)[0].split() if line.count("/") == 1)
        assert check_store(tmp_path).sound
    with read_store(tmp_path) as reader:
        for name in {one.partition("/")[0] for one in acknowledged}:
            stored = [one.ordinal for one in reader.calls(nouns.RUN, name)]
            wanted = {int(one.partition("/")[2]) for one in acknowledged if one.startswith(f"{name}/")}
            assert len(stored) == len(set(stored))
            assert wanted <= set(stored)


def test_a_clock_that_is_set_back_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            await store.record(nouns.call(0))
            await store.save_run(nouns.run_event())

    asyncio.run(main())
    for file in tmp_path.iterdir():
        os.utime(file, (1, 1))
    with closing(Database(tmp_path, create=False)) as database, database.cursor() as cursor:
        cursor.execute("UPDATE commit_log SET committed_at = '2199-01-01'")  # as if the clock had been ahead
    asyncio.run(main())
    with closing(JournalFile(tmp_path)) as journal:
        assert journal.last() == 2
    assert check_store(tmp_path).sound
