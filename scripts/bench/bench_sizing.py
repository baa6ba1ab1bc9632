"""What a store costs at several sizes: disk, memory and CPU of the commands on it, and of its archive.

The stores are those of `bench_export`: simulated rollouts of about six KB of text each, which repeats itself, so that
they take less room than real ones. Every command is a process of its own; CPU is that of the process with its children,
in seconds, and memory its peak in MB with all imports. The archive is in Parquet, and is asked in place of the store.

    just bench sizing --rollouts 1000000 10000000
"""

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.bench.bench_export import command, fill
from scripts.bench.found import Found, Row, Target

_MEMORY_MB = 2_500.0
"""What DuckDB may use, and the rest of the process."""
_OF_ARCHIVE = ("runs list", "runs show")


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--rollouts", type=int, nargs="+", default=[100_000, 1_000_000], help="sizes of the stores")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure each size."""
    rows = [row for count in chosen.rollouts for row in _of_size(count)]
    peaks = [float(row.figures["peak_mb"] or 0) for row in rows if "peak_mb" in row.figures]
    return Found(
        rows=tuple(rows),
        targets=(Target(what="peak MB of a command", figure=max(peaks), bound="at_most", limit=_MEMORY_MB),),
    )


def _of_size(count: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        store, archive = Path(folder, "store"), Path(folder, "archive")
        fill(store, count)
        filled_mb = _megabytes(store)
        commands = {
            "runs list": "runs list",
            "runs show": "runs show last",
            "store check": "store check",
            "store export, Parquet": f"store export --format parquet --out {folder}/out",
            "store archive": f"store archive --before 2100-01-01 --to {archive}",
        }
        asked = [(name, [*words.split(), "--store", str(store)]) for name, words in commands.items()]
        asked += [
            (f"{name} of the archive", [*commands[name].split(), "--store", str(archive)]) for name in _OF_ARCHIVE
        ]
        rows = [_measured(f"{count:,}: {name}", arguments) for name, arguments in asked]
        disk = {"store_mb": filled_mb, "archive_mb": _megabytes(archive), "store_after_mb": _megabytes(store)}
        return [Row(name=f"{count:,}: disk", figures=disk), *rows]


def _measured(name: str, arguments: Sequence[str]) -> Row:
    before = os.times()
    figures = command(*arguments)
    after = os.times()
    cpu_s = after.children_user - before.children_user + after.children_system - before.children_system
    return Row(name=name, figures={"cpu_s": cpu_s, "wall_s": figures["wall_s"], "peak_mb": figures["peak_mb"]})


def _megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
