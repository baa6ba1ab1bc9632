"""Recorders of several processes, each with a journal of its own, merged into one store; then into it again.

Each process stands for a machine: it has no file in common with the others. Rates are rollouts per second of wall time,
memory is the peak of one process in MB, CPU that of the process in seconds. `merged` counts from the first journal to
the last, with both copies and all checks; `again` is the same command on a store that has everything.

    just bench segments --total 100000 --processes 8
"""

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from agentlearn.live.several_stores import archive_store, merge_stores
from agentlearn.store import check_store
from agentlearn.store.codec import LiveEntry, encode_entry
from agentlearn.store.journal_file import JournalFile, begin_store
from agentlearn.types.ids import RolloutId, content_hash
from agentlearn.types.task import Task
from agentlearn.types.trajectory import LIVE
from scripts.bench.bench_store import trajectory
from scripts.bench.found import Found, Row

AT_ONCE = 256
"""Entries in one durable write, as a busy recorder makes them."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--total", type=int, default=100_000, help="rollouts of all processes together")
    parser.add_argument("--processes", type=int, default=8, help="number of processes, each with its own journal")


def write_segment(folder: Path, first: int, count: int) -> float:
    """Write the journal of one machine: `count` rollouts of about 9 KB. Returns the seconds. For a process."""
    begun_s = time.perf_counter()
    begin_store(folder)
    with closing(JournalFile(folder)) as journal:
        for at in range(first, first + count, AT_ONCE):
            journal.append([_entry(n) for n in range(at, min(at + AT_ONCE, first + count))])
    return time.perf_counter() - begun_s


def _entry(n: int) -> bytes:
    value, messages = trajectory(n)
    task = Task.of("support", f"Question {n // 8}", "7")
    live = value.model_copy(update={"id": RolloutId(content_hash("live", n)), "phase": LIVE, "task": task.id})
    return encode_entry(LiveEntry(trajectory=live, messages=messages.decode(), task=task))


Step = dict[str, float]
"""Figures of a step in a process of its own: seconds of wall and of CPU, and its memory in MB."""


def merge(folders: list[Path], target: Path) -> Step:
    """Merge the journals. For a process."""
    return _measured(lambda: merge_stores(folders, target))


def archive(store: Path, to: Path) -> Step:
    """Archive everything. For a process."""
    return _measured(lambda: archive_store(store, datetime(2100, 1, 1, tzinfo=UTC), to))


def _measured(work: Callable[[], object]) -> Step:
    before_mb, begun_s, begun_cpu_s = _peak_mb(), time.perf_counter(), time.process_time()
    work()
    cpu_s, wall_s = time.process_time() - begun_cpu_s, time.perf_counter() - begun_s
    return {"wall_s": wall_s, "cpu_s": cpu_s, "peak_mb": _peak_mb(), "over_imports_mb": _peak_mb() - before_mb}


def measure(chosen: argparse.Namespace) -> Found:
    """Measure writing, merging, merging again and archiving."""
    total, processes = chosen.total, chosen.processes
    share, context = total // processes, multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as place, ProcessPoolExecutor(processes, mp_context=context) as writers:
        folders = [Path(place, f"machine-{number}") for number in range(processes)]
        began_s = time.perf_counter()
        list(writers.map(write_segment, folders, range(0, share * processes, share), [share] * processes))
        wrote_s = time.perf_counter() - began_s
        size_mb = sum(file.stat().st_size for file in Path(place).rglob("*") if file.is_file()) / 2**20
        rows = [_row("written", share * processes, {"wall_s": wrote_s, "mb": size_mb})]
        target = Path(place, "target")
        rows += [_apart(name, share * processes, merge, folders, target) for name in ("merged", "again")]
        failures = tuple(one.words for one in check_store(target).findings)
        stored_mb = sum(file.stat().st_size for file in target.rglob("*") if file.is_file()) / 2**20
        rows.append(_apart("archived", share * processes, archive, target, Path(place, "archives")))
        archived_mb = sum(file.stat().st_size for file in Path(place, "archives").rglob("*.parquet")) / 2**20
    sizes = Row(name="on disk", figures={"journals_mb": size_mb, "store_mb": stored_mb, "archive_mb": archived_mb})
    return Found(rows=(*rows, sizes), failures=failures)


def _apart(name: str, total: int, work: Callable[..., Step], *arguments: object) -> Row:
    """Run one step in a process of its own, so that its peak of memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return _row(name, total, pool.submit(work, *arguments).result())


def _row(name: str, total: int, figures: Step) -> Row:
    return Row(name=name, figures={"rollouts": total, "per_s": total / figures["wall_s"], **figures})


def _peak_mb() -> float:
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
