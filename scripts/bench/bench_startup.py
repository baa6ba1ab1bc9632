"""Start-up: CPU seconds of `agentlearn --help` and `import agentlearn` beyond those of a bare interpreter.

The imports of pydantic_ai and openai are measured for comparison. Each repetition starts one process per command. The
figures are medians in seconds.

    just bench startup --rounds 15
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

from scripts.bench.found import Found, Row, Target
from tests.support.command import AGENTLEARN

BARE = "bare interpreter"
HELP = "agentlearn --help"
IMPORT = "import agentlearn"
COMMANDS: dict[str, list[str]] = {
    BARE: [sys.executable, "-c", "pass"],
    HELP: [str(AGENTLEARN), "--help"],
    IMPORT: [sys.executable, "-c", "import agentlearn"],
    "import pydantic_ai": [sys.executable, "-c", "import pydantic_ai"],
    "import openai": [sys.executable, "-c", "import openai"],
}
_TARGETS_S = {HELP: 0.3, IMPORT: 0.15}


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--rounds", type=int, default=9, help="number of repetitions; medians are printed")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure CPU and wall time of each command in seconds."""
    for command in COMMANDS.values():
        _seconds(command)  # warm-up: fill the page cache and compile modules
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for _ in range(chosen.rounds):
        for name, command in COMMANDS.items():
            taken[name].append(_seconds(command))
    cpu_s = {name: statistics.median(cpu for cpu, _ in both) for name, both in taken.items()}
    over_s = {name: cpu_s[name] - cpu_s[BARE] for name in COMMANDS}
    rows = tuple(
        Row(
            name=name,
            figures={
                "cpu_s": cpu_s[name],
                "cpu_over_bare_s": over_s[name],
                "wall_s": statistics.median(wall for _, wall in both),
                "rounds": len(both),
            },
        )
        for name, both in taken.items()
    )
    targets = tuple(
        Target(what=f"{name}, CPU over a bare interpreter, s", figure=over_s[name], bound="at_most", limit=limit)
        for name, limit in _TARGETS_S.items()
    )
    return Found(rows=rows, targets=targets)


def _seconds(command: list[str]) -> tuple[float, float]:
    """Return CPU and wall time of one process in seconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after, wall_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s
