"""One process at a time, and none of its children."""

import asyncio
import os
import subprocess
import sys
import warnings
from contextlib import closing
from pathlib import Path

import pytest

from agentlearn.errors import StoreError, StoreLocked
from agentlearn.store import open_store, read_store, store_files
from agentlearn.store.database import Database
from tests.support.cases import cases
from tests.unit.store import nouns

OTHER_PROCESS = """
import sys
from contextlib import closing
from pathlib import Path
from agentlearn.errors import AgentlearnError
from agentlearn.store.database import DatabaseState
from agentlearn.store.database import Database
try:
    with closing(Database(Path(sys.argv[1]), create=False)) as database, database.cursor() as cursor:
        print(DatabaseState.read(cursor, None).last)
except AgentlearnError as error:
    print(f"{error.code}: {error}")
"""


def in_another_process(directory: Path) -> str:
    """What a process sees that opens the store now."""
    command = [sys.executable, "-c", OTHER_PROCESS, str(directory)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout.strip()


@pytest.mark.slow
def test_a_second_process_is_refused_and_the_error_names_the_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            await store.save_run(nouns.run_event())
            refused = in_another_process(tmp_path)
            # an open and close of the database file drops DuckDB's own lock in this process
            (tmp_path / "store.duckdb").read_bytes()
            assert in_another_process(tmp_path) == refused
            assert refused.startswith(
                f"store_locked: the store {str(tmp_path)!r} is in use by process {os.getpid()} on "
            )
            assert refused.endswith("; wait until it ends or pass another --store DIR")

    asyncio.run(main())
    assert in_another_process(tmp_path) == "1"


def test_the_same_process_cannot_open_it_twice_either(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path):
            with pytest.raises(StoreLocked):
                async with open_store(tmp_path):
                    pass

    asyncio.run(main())


def test_a_failed_opening_lets_go_of_the_lock(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            await store.save_run(nouns.run_event())

    asyncio.run(main())
    (tmp_path / "store.hwm").write_bytes(b"short")
    for _ in range(2):
        with pytest.raises(StoreError, match="does not match its checksum"), read_store(tmp_path):
            pass


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    async def main() -> None:
        async with open_store(tmp_path / "file" / "store"):
            pass

    with pytest.raises(StoreError, match=r"cannot be used: .*Not a directory"):
        asyncio.run(main())


def test_a_forked_child_cannot_use_the_store_and_does_it_no_harm(tmp_path: Path) -> None:
    acts = cases(__file__, "a_forked_child_cannot_use_the_store_and_does_it_no_harm")
    script = """
import asyncio, os, sys, warnings
from pathlib import Path
from agentlearn.errors import StoreError
from agentlearn.store import open_store
from tests.unit.store import nouns

async def main():
    async with open_store(Path(sys.argv[1])) as store:
        await store.save_run(nouns.run_event())
        for act in sys.argv[2:]:
            if os.fork() == 0:
                try:
                    exec(act)
                except StoreError as error:
                    print(error.code, error, flush=True)
                os._exit(0)
            os.wait()
        await store.save_tasks([nouns.TASK])

warnings.simplefilter("ignore")
asyncio.run(main())
"""
    command = [sys.executable, "-c", script, str(tmp_path), *acts]
    root = Path(__file__).parents[3]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240, cwd=root).stdout
    assert len(said.splitlines()) == len(acts) > 1
    assert all(line.startswith("store the store was opened by process ") for line in said.splitlines())
    with read_store(tmp_path) as reader:
        assert reader.task(nouns.TASK.id) == nouns.TASK
        assert [row.run for row in reader.runs()] == [nouns.RUN]


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    done_r, done_w = os.pipe()

    async def main() -> int:
        async with open_store(tmp_path):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # later Pythons warn of forks in a process with threads
                child = os.fork()
            if child == 0:
                os.close(done_w)
                os.read(done_r, 1)  # until the parent is done
                os._exit(0)
        return child

    child = asyncio.run(main())
    try:
        with read_store(tmp_path) as reader:
            assert reader.runs() == []
    finally:
        os.close(done_w)
        os.waitpid(child, 0)
        os.close(done_r)


READS_ON = """
import sys
from agentlearn.errors import StoreError
from agentlearn.store import read_store
print("reading", flush=True)
reads = 0
while reads < 100_000:
    try:
        with read_store(sys.argv[1]) as reader:
            reader.runs()
    except StoreError as error:  # the writer that was asked has ended, see `test_control_server.py`
        if error.code != "store_unanswered":
            raise
    reads += 1
    if reads % 5 == 0:
        print(reads, flush=True)
"""


@pytest.mark.slow
def test_a_writer_starts_between_two_reads_of_others_that_never_pause(tmp_path: Path) -> None:
    async def write(number: int) -> None:
        async with open_store(tmp_path) as store:
            await store.save_run(nouns.run_event())
            await asyncio.sleep(0.05 * (number % 2))  # readers ask this process meanwhile

    asyncio.run(write(0))
    command = [sys.executable, "-c", READS_ON, str(tmp_path)]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for one in readers:
            assert one.stdout is not None
            assert [one.stdout.readline() for _ in range(2)] == ["reading\n", "5\n"]
        for number in range(5):
            asyncio.run(write(number))
        assert [one.poll() for one in readers] == [None, None]
    finally:
        for one in readers:
            one.kill()
            one.communicate()


async def write(directory: Path) -> None:
    async with open_store(directory) as store:
        await store.save_run(nouns.run_event())


def test_a_writer_that_waited_for_a_reader_too_long_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_files, "READ_PATIENCE_S", 0.1)
    asyncio.run(write(tmp_path))
    reading = closing(Database(tmp_path, create=False, reads=True))
    with reading, pytest.raises(StoreLocked, match=f"is being read by process {os.getpid()} on "):
        asyncio.run(write(tmp_path))


def test_a_reader_gives_the_store_to_who_waits_for_it_and_then_sees_what_was_written(tmp_path: Path) -> None:
    asyncio.run(write(tmp_path))
    with read_store(tmp_path) as reader:
        assert len(reader.evaluated("eval")) == 0
        asyncio.run(write(tmp_path))
        with read_store(tmp_path) as other:
            assert other.runs() == reader.runs()
        assert in_another_process(tmp_path) == "2"
        assert [row.run for row in reader.runs()] == [nouns.RUN]
