"""What was acknowledged stays, and what is missing is noticed."""

import asyncio
import itertools
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentlearn.errors import StoreDamaged, StoreError
from agentlearn.store import check_store, open_store, read_store
from agentlearn.store.database import Database
from agentlearn.types.ids import RunId
from tests.unit.store import nouns

ROOT = Path(__file__).parents[3]
WRITE_UNTIL_KILLED = """
import asyncio, itertools, os, signal, sys
from pathlib import Path
from agentlearn.store import open_store
from tests.unit.store import nouns

limit = int(sys.argv[2])
acknowledged = itertools.count(1)

async def produce(store, n):
    for g in itertools.count():
        saved = nouns.trajectory(g, phase=f"phase-{n}")
        await store.record(nouns.call(g, unit=f"u{n}"))
        await store.save_summary(nouns.summary(f"{n}-{g}"))
        await store.save_trajectory(saved, b"[]" * 500)
        os.write(1, f"{saved.id} u{n} {g}\\n".encode())
        if next(acknowledged) == limit:
            os.kill(os.getpid(), signal.SIGKILL) if sys.argv[3] == "kill" else os._exit(3)

async def main():
    async with open_store(Path(sys.argv[1])) as store, asyncio.TaskGroup() as group:
        for n in range(8):
            group.create_task(produce(store, n))

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("limit", "how"), [(1, "kill"), (57, "exit"), pytest.param(400, "kill", marks=pytest.mark.slow)]
)
def test_what_was_acknowledged_survives_a_sudden_death(tmp_path: Path, limit: int, how: str) -> None:
    command = [sys.executable, "-c", WRITE_UNTIL_KILLED, str(tmp_path), str(limit), how]
    died = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, cwd=ROOT)
    acknowledged = [line.split() for line in died.stdout.splitlines()]
    assert died.returncode == (-9 if how == "kill" else 3), died.stderr
    assert len(acknowledged) >= limit
    report = check_store(tmp_path)
    assert (report.sound, report.journal_entries > 0) == (True, True)  # not all of them are in the database yet
    for _ in range(2):  # and what is taken out of the journal counts once
        with read_store(tmp_path) as reader:
            stored = [row.id for row in reader.trajectories(nouns.RUN)]
            assert len(stored) == len(set(stored))
            assert {rollout for rollout, _, _ in acknowledged} <= set(stored)
            assert reader.trajectory(acknowledged[-1][0]).answer == "4"
            for n in range(8):
                calls = [one.ordinal for one in reader.calls(nouns.RUN, f"u{n}")]
                assert calls == sorted(set(calls))
                assert {int(g) for _, unit, g in acknowledged if unit == f"u{n}"} <= set(calls)
            assert len({one.id for one in reader.summaries(nouns.RUN)}) >= limit


def test_leaving_the_store_commits_what_is_queued_and_checkpoints(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            for g in range(300):
                waiting = asyncio.ensure_future(store.save_trajectory(nouns.trajectory(g), b"[]"))
                await asyncio.sleep(0)
                waiting.cancel()
        assert not (tmp_path / "store.duckdb.wal").exists()

    asyncio.run(main())
    with read_store(tmp_path) as reader:
        assert len(reader.trajectories(nouns.RUN)) == 300


def test_a_store_that_was_left_takes_no_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            pass
        for use in (store.save_run(nouns.run_event()), store.checkpoint()):
            with pytest.raises(StoreError) as refused:
                await use
            assert refused.value.code == "store"
        with pytest.raises(StoreError):
            store.runs()

    asyncio.run(main())


def test_an_error_inside_the_block_comes_out_as_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            await store.save_run(nouns.run_event(run=RunId("r")))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        asyncio.run(main())
    with read_store(tmp_path) as reader:
        assert [row.run for row in reader.runs()] == ["r"]


async def write_something(directory: Path, chance: random.Random, numbers: Iterator[int]) -> None:
    async with open_store(directory) as store:
        for step in chance.choices(("rollouts", "checkpoint", "read"), (3, 1, 1), k=chance.randrange(1, 7)):
            if step == "rollouts":
                for g in range(chance.randrange(1, 20)):
                    messages = chance.randbytes(chance.randrange(1, 60_000)).hex().encode()
                    await store.save_trajectory(nouns.trajectory(next(numbers), attempt=g), messages)
            elif step == "checkpoint":
                await store.checkpoint()
            else:
                store.runs()


def delete_something(directory: Path, chance: random.Random) -> None:
    """As no command does, so that checkpoints find blocks to free."""
    with closing(Database(directory, create=False)) as database, database.cursor() as cursor:
        for table in chance.sample(("trajectory_body", "step", "trajectory"), chance.randrange(4)):
            cursor.execute(f"DELETE FROM {table} WHERE hash(rowid) % {chance.randrange(1, 4)} = 0")
        for step in chance.sample(("VACUUM", "CHECKPOINT", "CHECKPOINT"), chance.randrange(4)):
            database.checkpoint() if step == "CHECKPOINT" else cursor.execute(step)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_whole_database_is_never_refused_and_one_cut_short_always_is(tmp_path: Path, seed: int) -> None:
    chance, numbers, file = random.Random(seed), itertools.count(), tmp_path / "store.duckdb"
    for _ in range(4):
        asyncio.run(write_something(tmp_path, chance, numbers))
        if chance.random() < 0.7:
            delete_something(tmp_path, chance)
    whole = file.read_bytes()
    blocks = range(3 * 2**12, len(whole), 2**18)
    for size in (0, 1, *chance.sample(range(len(whole)), 8), *chance.sample(blocks, 4), len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(StoreDamaged, match="its end is missing"), read_store(tmp_path):
            pass
        assert file.read_bytes() == whole[:size]
    file.write_bytes(whole)
    with read_store(tmp_path):
        pass
