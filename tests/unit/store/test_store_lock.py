"""One process at a time, and none of its children."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentlearn.errors import StoreError
from agentlearn.store import open_store, read_store
from tests.support.cases import cases
from tests.unit.store import nouns

OTHER_PROCESS = """
import sys
from contextlib import closing
from pathlib import Path
from agentlearn.errors import AgentlearnError
from agentlearn.store.database import last_seq_of
from agentlearn.store.database import Database
try:
    with closing(Database(Path(sys.argv[1]), create=False)) as database, database.cursor() as cursor:
        print(last_seq_of(cursor))
except AgentlearnError as error:
    print(f"{error.code}: {error}")
"""


def in_another_process(directory: Path) -> str:
    """What a process sees that opens the store now."""
    command = [sys.executable, "-c", OTHER_PROCESS, str(directory)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout.strip()


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


def test_a_failed_opening_lets_go_of_the_lock(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            await store.save_run(nouns.run_event())

    asyncio.run(main())
    (tmp_path / "store.hwm").write_bytes(b"short")
    for _ in range(2):
        with pytest.raises(StoreError, match="does not match its checksum"), read_store(tmp_path):
            pass


@pytest.mark.parametrize("act", cases(__file__, "a_forked_child_cannot_use_the_store_and_does_it_no_harm"))
def test_a_forked_child_cannot_use_the_store_and_does_it_no_harm(tmp_path: Path, act: str) -> None:
    script = f"""
import asyncio, os, sys, warnings
from pathlib import Path
from agentlearn.errors import StoreError
from agentlearn.store import open_store
from tests.unit.store import nouns

async def main():
    async with open_store(Path(sys.argv[1])) as store:
        await store.save_run(nouns.run_event())
        if os.fork() == 0:
            try:
                {act}
            except StoreError as error:
                print(error.code, error, flush=True)
            os._exit(0)
        os.wait()
        await store.save_tasks([nouns.TASK])

warnings.simplefilter("ignore")
asyncio.run(main())
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    root = Path(__file__).parents[3]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240, cwd=root).stdout
    assert said.startswith("store_forked the store was opened by process ")
    with read_store(tmp_path) as reader:
        assert reader.task(nouns.TASK.id) == nouns.TASK
        assert [row.run for row in reader.runs()] == [nouns.RUN]
