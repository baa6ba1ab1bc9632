"""Durable trajectories per second with 16 producers, beside one commit per trajectory.

The ratio is what counts: absolute figures follow the disk.
"""

import argparse
import asyncio
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from agentlearn.experience import EMPTY_LIBRARY
from agentlearn.ids import RolloutId, RunId, TaskId, content_hash
from agentlearn.store import open_store, writer
from agentlearn.trajectory import ModelTurn, ToolResult, Trajectory, Usage, Verdict
from agentlearn.treatment import Treatment

TREATMENT = Treatment(model="sim:novice", library=EMPTY_LIBRARY.version, temperature=0.7)
TEXT = " ".join(content_hash("word", n % 300)[: 3 + n % 6] for n in range(220))


def trajectory(n: int) -> tuple[Trajectory, bytes]:
    """The n-th rollout: five steps, and about 9 KB of text with its messages."""
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
    """Trajectories per second, and the longest wait for one acknowledgement in seconds."""
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--total", type=int, default=4_000)
    parser.add_argument("--producers", type=int, default=16)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        grouped, worst_s = asyncio.run(
            rate(Path(directory) / "grouped", total=chosen.total, producers=chosen.producers)
        )
        writer.MAX_GROUP = 1
        single, _ = asyncio.run(rate(Path(directory) / "single", total=chosen.total // 10, producers=chosen.producers))
    print(f"{chosen.producers} producers, group commit: {grouped:,.0f} trajectories/s, longest wait {worst_s:.3f} s")
    print(f"one commit per trajectory:  {single:,.0f} trajectories/s; ratio {grouped / single:.1f}")


if __name__ == "__main__":
    main()
