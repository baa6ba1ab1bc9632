"""Recording live traffic: acknowledged records per second beside bare SQLite, and how long the event loop stands still."""

import asyncio
import multiprocessing
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from agentlearn import Recorder
from agentlearn.data.nearest import nearest_groups

RECORDS = 2_000
AT_ONCE = 20
REPLY = "Use the link on the login page, then choose a new password. " * 8


def chat(number: int) -> list[dict[str, Any]]:
    """A conversation of about 600 bytes."""
    return [
        {"role": "user", "content": f"How do I reset password {number}?"},
        {"role": "assistant", "content": f"{number} {REPLY}"},
    ]


async def record_all(store: Path, count: int) -> list[float]:
    """Record with `AT_ONCE` callers at once. Returns by how many seconds a timer of 1 ms was late, each time."""
    stalls, going = list[float](), True

    async def watch() -> None:
        while going:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            stalls.append(time.perf_counter() - before - 0.001)

    async with Recorder("bench", store) as recorder:

        async def caller(first: int) -> None:
            for number in range(first, count, AT_ONCE):
                await recorder.record(chat(number))

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(caller(first) for first in range(AT_ONCE)))
        going = False
        await watching
    return stalls


def recorder_process(store: Path, count: int, start: Any, out: Any) -> None:
    """Wait for the start, record, and send the stalls."""
    import pydantic_ai.messages  # noqa: F401  # not part of what is measured

    start.wait()
    out.put(asyncio.run(record_all(store, count)))


def sqlite_process(path: Path, count: int, start: Any, out: Any) -> None:
    """The same rows as bare SQLite writes, each group of `AT_ONCE` in a commit as durable as the journal's."""
    start.wait()
    with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        for first in range(0, count, AT_ONCE):
            connection.execute("BEGIN IMMEDIATE")
            rows = [(str(chat(number)) * 2,) for number in range(first, min(first + AT_ONCE, count))]
            connection.executemany("INSERT INTO entry (content) VALUES (?)", rows)
            connection.execute("COMMIT")
    out.put([])


def rate(work: Any, place: Path, processes: int) -> tuple[float, list[float]]:
    """Records per second of all processes together, and the stalls of their event loops."""
    context = multiprocessing.get_context("spawn")
    start, out = context.Barrier(processes + 1), context.Queue()
    running = [
        context.Process(target=work, args=(place, RECORDS // processes, start, out)) for _ in range(processes)
    ]
    for one in running:
        one.start()
    start.wait()
    began = time.perf_counter()
    stalls = [late for _ in running for late in out.get()]
    seconds = time.perf_counter() - began
    for one in running:
        one.join()
    return RECORDS / seconds, stalls


def main() -> None:
    """Measure and print."""
    for processes in (1, 8):
        with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
            bare = Path(folder, "bare.sqlite")
            with closing(sqlite3.connect(bare)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("CREATE TABLE entry (seq INTEGER PRIMARY KEY, content TEXT)")
            ours, stalls = rate(recorder_process, Path(folder, "store"), processes)
            theirs, _ = rate(sqlite_process, bare, processes)
        stalls.sort()
        p99, worst = stalls[int(len(stalls) * 0.99)] * 1e3, stalls[-1] * 1e3
        print(
            f"{processes} processes: {ours:,.0f} records/s, bare SQLite {theirs:,.0f}/s, ratio {ours / theirs:.2f};"
            f" event loop late by {p99:.1f} ms at p99, {worst:.1f} ms at most"
        )
    texts = [f"question {number % 997} about topic {number % 89} and case {number}" for number in range(100_000)]
    began = time.perf_counter()
    groups = nearest_groups(texts, [0] * len(texts), [float(number % 2) for number in range(len(texts))], max_size=8)
    print(f"100,000 tasks into {len(groups):,} groups of neighbours in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
