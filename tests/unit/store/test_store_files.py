"""The store's files: private, watched while the store is open, and written again after a full disk."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agentlearn.errors import StoreDamaged
from agentlearn.store import check_store, open_store, read_store
from agentlearn.store import group_commit as group_commit
from agentlearn.store.database import Database
from agentlearn.store.journal_file import JournalFile
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
    assert told.value.code == "store_files_changed"
    assert " while the store was open; nothing is stored from here on. " in str(told.value)
    assert "\n" not in str(told.value)


FULL_DISK = """
import asyncio, os, resource, sys, traceback
from pathlib import Path
from agentlearn.errors import StoreError
from agentlearn.store import group_commit, open_store
from tests.unit.store import nouns

group_commit.RETRY_PAUSES_S = (0.0, 0.01)
unlimited = resource.RLIM_INFINITY
kept = []

async def save(store, g):
    try:
        await store.save_trajectory(nouns.trajectory(g), b"[]" * 3_000)
    except StoreError as error:
        assert error.code == "store_write", error
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
            assert error.code == "store_write", error
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


def test_a_full_disk_at_any_stage_loses_nothing_and_writing_goes_on(tmp_path: Path) -> None:
    """Each limit on the size of files, with each number of waiting writes, in a process of its own."""
    cases = [f"{limit}-{waiting}" for limit in (40, 5_000, 100_000, 400_000) for waiting in (0, 20, 1_000)]
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path), *cases]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    for case in cases:
        kept = int((tmp_path / case / "kept").read_text())
        assert check_store(tmp_path / case).sound, case
        with read_store(tmp_path / case) as reader:
            assert len(reader.trajectories(nouns.RUN)) >= kept, case


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
