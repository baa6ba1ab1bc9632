"""What was acknowledged stays, and what is missing is noticed."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from agentlearn.errors import StoreDamaged
from agentlearn.store import check_store, open_store, read_store
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


@pytest.mark.parametrize(("limit", "how"), [(1, "kill"), (57, "exit"), (400, "kill")])
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


def left_with_a_log(directory: Path) -> None:
    """A store whose process died, so that its last commits stand in the log alone."""
    script = """
import asyncio, os, sys
from pathlib import Path
from agentlearn.store import open_store
from tests.unit.store import nouns

async def main():
    async with open_store(Path(sys.argv[1])) as store:
        await store.save_run(nouns.run_event())
        await store.save_tasks([nouns.TASK])
        os._exit(0)

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", script, str(directory)], check=True, timeout=240, cwd=ROOT)


def test_a_store_without_its_database_is_refused(tmp_path: Path) -> None:
    left_with_a_log(tmp_path)
    (tmp_path / "store.duckdb").unlink()

    async def main() -> None:
        async with open_store(tmp_path):
            pass

    with pytest.raises(StoreDamaged, match=r"store.duckdb' is missing"):
        asyncio.run(main())
    assert (tmp_path / "store.duckdb.wal").exists()
