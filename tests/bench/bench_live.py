"""Recording live traffic: acknowledged records per second beside bare SQLite, and how late the event loop is."""

import argparse
import asyncio
import multiprocessing
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from agentlearn import Recorder
from agentlearn.data.nearest import nearest_groups
from agentlearn.recorder.captured import captured, given_of
from tests.bench.found import Found, Row, Target

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
    captured(given_of(chat(0)))  # loads what it needs
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


def rate(work: Any, place: Path, processes: int, records: int) -> tuple[float, list[float]]:
    """Records per second of all processes together, and the stalls of their event loops."""
    context = multiprocessing.get_context("spawn")
    start, out = context.Barrier(processes + 1), context.Queue()
    running = [context.Process(target=work, args=(place, records // processes, start, out)) for _ in range(processes)]
    for one in running:
        one.start()
    start.wait()
    began = time.perf_counter()
    stalls = [late for _ in running for late in out.get()]
    seconds = time.perf_counter() - began
    for one in running:
        one.join()
    return records / seconds, stalls


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--records", type=int, default=4_000, help="number of records of all processes together")
    parser.add_argument("--texts", type=int, default=100_000, help="number of tasks to group with their neighbours")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure rates, stalls of the event loop, and the grouping of neighbours."""
    rows: list[Row] = []
    late_p99: list[float] = []
    for processes in (1, 8):
        with tempfile.TemporaryDirectory() as folder:
            bare = Path(folder, "bare.sqlite")
            with closing(sqlite3.connect(bare)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("CREATE TABLE entry (seq INTEGER PRIMARY KEY, content TEXT)")
            ours, stalls = rate(recorder_process, Path(folder, "store"), processes, chosen.records)
            theirs, _ = rate(sqlite_process, bare, processes, chosen.records)
        stalls.sort()
        late_p99.append(stalls[int(len(stalls) * 0.99)] * 1e3)
        figures = {"records_per_s": ours, "sqlite_per_s": theirs, "ratio": ours / theirs}
        figures |= {"late_p99_ms": late_p99[-1], "late_most_ms": stalls[-1] * 1e3}
        rows.append(Row(name=f"{processes} processes", figures=figures))
    texts = [f"question {n % 997} about topic {n % 89} and case {n}" for n in range(chosen.texts)]
    began = time.perf_counter()
    groups = nearest_groups(texts, [0] * len(texts), [float(n % 2) for n in range(len(texts))], max_size=8)
    rows.append(Row(name="neighbours", figures={"groups": len(groups), "wall_s": time.perf_counter() - began}))
    target = Target(what="event loop late at p99, ms", figure=max(late_p99), bound="at_most", limit=100)
    return Found(rows=tuple(rows), targets=(target,))
