"""Durable trajectories per second with 16 producers: group commits compared with one commit per trajectory.

Also measured is the longest wait for a commit, in seconds. The absolute figures depend on the disk; the ratio of the
two rates is more meaningful.

    just bench store --total 4000
"""

import argparse
import asyncio
import multiprocessing
import sqlite3
import tempfile
import time
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from agentlearn.store import group_commit as group_commit
from agentlearn.store import open_store
from agentlearn.store import trajectory_store as trajectory_store
from agentlearn.store.journal_file import JournalFile
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.ids import RolloutId, RunId, TaskId, content_hash
from agentlearn.types.trajectory import ModelTurn, ToolResult, Trajectory, Treatment, Usage, Verdict
from scripts.bench.found import Found, Row, Target

TREATMENT = Treatment(model="sim:novice", library=EMPTY_LIBRARY.version, temperature=0.7)
CONTENT = b"x" * 700
"""About as long as the entry of a model call."""
TEXT = " ".join(content_hash("word", n % 300)[: 3 + n % 6] for n in range(220))


def trajectory(n: int) -> tuple[Trajectory, bytes]:
    """Return the n-th rollout and its messages: five steps, about 9 KB of text together."""
    task = TaskId(content_hash("task", n // 8))
    turn = ModelTurn(text=f"{n} {TEXT}"[:800], usage=Usage(requests=1, tokens_in=900, tokens_out=200), seconds=1.0)
    result = ToolResult(call="1", tool="python", content=TEXT[:300], ok=True)
    value = Trajectory(
        id=RolloutId(content_hash("rollout", n)),
        run=RunId("0" * 26),
        phase=f"epoch-{n // 800}",
        task=task,
        g=n % 8,
        seed=n,
        treatment=TREATMENT,
        steps=(turn, result, turn, result, turn),
        answer=str(n),
        verdict=Verdict(status="correct", reward=float(n % 2)),
        usage=Usage(requests=3, tokens_in=2700, tokens_out=600),
        started_at=datetime.now(UTC),
        seconds=3.0,
    )
    return value, f'[{{"content":"{(TEXT * 5)[:6000]} {n}"}}]'.encode()


async def rate(directory: Path, *, total: int, producers: int) -> tuple[float, float]:
    """Return trajectories per second, and the longest wait for an acknowledgement in seconds."""
    waits_s: list[float] = []
    numbers = iter(range(total))
    async with open_store(directory) as store:

        async def produce() -> None:
            for n in numbers:
                value, messages = trajectory(n)
                began_s = time.perf_counter()
                await store.save_trajectory(value, messages)
                waits_s.append(time.perf_counter() - began_s)

        began_s = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(producers):
                group.create_task(produce())
        return total / (time.perf_counter() - began_s), max(waits_s)


def append_for(directory: Path, count: int) -> None:
    """Append entries to the journal, one commit each. Runs in its own process."""
    with closing(JournalFile(directory)) as journal:
        for _ in range(count):
            journal.append([CONTENT])


def journal_rate(directory: Path, *, processes: int, count: int) -> float:
    """Return the journal's commits per second, with so many processes that append at once."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        list(pool.map(append_for, [directory] * processes, [1] * processes))  # the processes have started
        began_s = time.perf_counter()
        list(pool.map(append_for, [directory] * processes, [count // processes] * processes))
        return count / (time.perf_counter() - began_s)


def sqlite_rate(file: Path, *, count: int) -> tuple[float, float]:
    """Return commits per second, and CPU seconds per commit, of SQLite's WAL with nothing around it."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE entry (seq INTEGER PRIMARY KEY, content BLOB)")
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        for _ in range(count):
            connection.execute("INSERT INTO entry (content) VALUES (?)", (CONTENT,))
        return count / (time.perf_counter() - began_s), (time.process_time() - began_cpu_s) / count


def _journal_row(directory: Path, count: int) -> Row:
    asyncio.run(rate(directory, total=1, producers=1))  # makes the store
    plain, plain_cpu_s = sqlite_rate(directory / "plain.sqlite", count=count)
    began_cpu_s = time.process_time()
    append_for(directory, count)
    cpu_s = (time.process_time() - began_cpu_s) / count
    one, eight = (journal_rate(directory, processes=processes, count=count) for processes in (1, 8))
    figures = {
        "commits_per_s": one,
        "eight_to_one": eight / one,
        "one_to_plain_sqlite": one / plain,
        "cpu_ms": cpu_s * 1000,
        "plain_sqlite_cpu_ms": plain_cpu_s * 1000,
    }
    return Row(name="journal", figures=figures)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--total", type=int, default=75_000, help="trajectories saved with group commits")
    parser.add_argument("--single", type=int, default=400, help="trajectories saved with one commit each")
    parser.add_argument("--appends", type=int, default=2_000, help="entries appended to the journal, one commit each")
    parser.add_argument("--producers", type=int, default=16, help="number of concurrent producers")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure the rates and longest waits of both ways to commit."""
    total, producers = chosen.total, chosen.producers
    with tempfile.TemporaryDirectory() as folder:
        grouped, worst_s = asyncio.run(rate(Path(folder) / "grouped", total=total, producers=producers))
        with _commits_of_one():
            single, single_s = asyncio.run(rate(Path(folder) / "single", total=chosen.single, producers=producers))
        journal = _journal_row(Path(folder) / "journal", chosen.appends)
    return Found(
        rows=(
            journal,
            _row("group commit", total, grouped, worst_s),
            _row("one commit each", chosen.single, single, single_s),
            Row(name="ratio", figures={"rate_ratio": grouped / single}),
        ),
        targets=(
            Target(what=f"durable trajectories/s, {producers} producers", figure=grouped, bound="at_least", limit=1500),
            Target(
                what=f"longest wait for a commit, {total:,} trajectories, s", figure=worst_s, bound="at_most", limit=0.5
            ),
        ),
    )


def _row(name: str, total: int, per_s: float, worst_s: float) -> Row:
    return Row(name=name, figures={"trajectories": total, "per_s": per_s, "longest_wait_s": worst_s})


@contextmanager
def _commits_of_one() -> Generator[None]:
    usual = trajectory_store.MAX_GROUP, group_commit.MAX_WAITING
    trajectory_store.MAX_GROUP, group_commit.MAX_WAITING = 1, 0
    try:
        yield
    finally:
        trajectory_store.MAX_GROUP, group_commit.MAX_WAITING = usual
