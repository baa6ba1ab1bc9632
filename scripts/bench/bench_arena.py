"""The field's learners on equal terms, small: what is installed of them in two sealed worlds, and ours in both.

All of it, with the lab model and a real one, is `python -m scripts.bench.arena`; docs/arena.md says what it found.
"""

import argparse
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.bench.arena.__main__ import installed, rows_of, sealed
from scripts.bench.arena.learners import LEARNERS, OURS
from scripts.bench.arena.world import KINDS
from scripts.bench.found import Found, Row, Target


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--worlds", nargs="+", choices=[one.name for one in KINDS], default=["clean", "60 % harmful"])


def measure(chosen: argparse.Namespace) -> Found:
    """Run them, and compare the share of our runs that ended below the start with 5 %."""
    learners = installed([one.name for one in LEARNERS])
    with TemporaryDirectory() as folder:
        rows = rows_of(sealed(chosen.seeds, chosen.worlds), learners, Path(folder) / "arena.jsonl")
    found = list[Row]()
    for world in chosen.worlds:
        for one in learners:
            here = [row for row in rows if (row.ground, row.learner) == (world, one.name)]
            mean = {key: statistics.mean(getattr(row, key) for row in here) for key in ("gain", "calls", "cpu_s")}
            found.append(Row(name=f"{world}: {one.label}", figures={**mean, "harmed": sum(row.harmed for row in here)}))
    ours = [row.harmed for row in rows if row.learner in OURS]
    target = Target(what="our runs below the start, share", figure=statistics.mean(ours), bound="at_most", limit=0.05)
    return Found(rows=tuple(found), targets=(target,))
