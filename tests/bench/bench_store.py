"""Durable trajectories per second with 16 producers: group commits compared with one commit per trajectory.

Also measured is the longest wait for a commit, in seconds. The absolute figures depend on the disk; the ratio of the
two rates is more meaningful.

    just bench store --total 4000
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from agentlearn.store import group_commit as group_commit
from agentlearn.store import open_store, writer
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.ids import RolloutId, RunId, TaskId, content_hash
from agentlearn.types.trajectory import ModelTurn, ToolResult, Trajectory, Usage, Verdict
from agentlearn.types.treatment import Treatment
from tests.bench.found import Found, Row, Target

TREATMENT = Treatment(model="sim:novice", library=EMPTY_LIBRARY.version, temperature=0.7)
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


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--total", type=int, default=75_000, help="trajectories saved with group commits")
    parser.add_argument("--single", type=int, default=400, help="trajectories saved with one commit each")
    parser.add_argument("--producers", type=int, default=16, help="number of concurrent producers")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure the rates and longest waits of both ways to commit."""
    total, producers = chosen.total, chosen.producers
    with tempfile.TemporaryDirectory() as folder:
        grouped, worst_s = asyncio.run(rate(Path(folder) / "grouped", total=total, producers=producers))
        with _commits_of_one():
            single, single_s = asyncio.run(rate(Path(folder) / "single", total=chosen.single, producers=producers))
    return Found(
        rows=(
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
    usual = writer.MAX_GROUP, group_commit.MAX_WAITING
    writer.MAX_GROUP, group_commit.MAX_WAITING = 1, 0
    try:
        yield
    finally:
        writer.MAX_GROUP, group_commit.MAX_WAITING = usual
