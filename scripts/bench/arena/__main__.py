"""Compares learners of instructions: `python -m scripts.bench.arena`. Simulated.

Every learner gets the same orders to learn from and to choose by, and as many calls of the simulated model, for
rollouts and for reflection together, as `agentlearn` used in the same world. GEPA 0.1.4 comes from PyPI (`pip install
gepa`). Scores are exact: the share of 100 held-out orders that a model solves which follows the final instructions.
"""

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from math import sqrt
from pathlib import Path

from scripts.bench.arena.learners import LEARNERS
from scripts.bench.arena.world import KINDS, World

TRAIN, CHOOSE, HELD_OUT = 40, 20, 100


def run(kind: int, seed: int, names: Sequence[str], epochs: int) -> Iterator[dict[str, object]]:
    """Yield what each learner came to in one world. `agentlearn` is the first that learns, and sets the calls."""
    used = epochs
    for name in names:
        world = World(KINDS[kind], seed)
        instructions = LEARNERS[name](world, world.tasks(TRAIN, "learn"), world.tasks(CHOOSE, "choose"), used)
        tasks = World(KINDS[kind], seed).tasks(HELD_OUT, "test")
        if name == "agentlearn":
            used = world.calls
        start, end = world.score(world.start, tasks), world.score(instructions, tasks)
        yield {
            "world": KINDS[kind].name,
            "seed": seed,
            "learner": name,
            "start": start,
            "end": end,
            "calls": world.calls,
            "words": len(instructions.split()),
        }


def table(rows: Sequence[dict[str, object]]) -> str:
    """The rows as a table of Markdown: means over seeds with 95 % intervals."""
    lines = ["| world | learner | seeds | held out, start → end | below the start | calls | words |"]
    lines.append("|---|---|---|---|---|---|---|")
    for world, learner in dict.fromkeys((row["world"], row["learner"]) for row in rows):
        here = [row for row in rows if (row["world"], row["learner"]) == (world, learner)]
        ends = [float(str(row["end"])) for row in here]
        half = 1.96 * statistics.stdev(ends) / sqrt(len(ends)) if len(ends) > 1 else 0.0
        means = {key: statistics.mean(float(str(row[key])) for row in here) for key in ("start", "calls", "words")}
        below = sum(float(str(row["end"])) < float(str(row["start"])) - 1e-9 for row in here)
        lines.append(
            f"| {world} | {learner} | {len(here)} | {means['start']:.2f} → {statistics.mean(ends):.2f} ± {half:.2f} |"
            f" {below} | {means['calls']:.0f} | {means['words']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run every learner in every world that is not done yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=3, help="of agentlearn, which sets the calls of all (default 3)")
    parser.add_argument("--out", type=Path, default=Path("arena.jsonl"), help="results; what is in it is not run again")
    given = parser.parse_args()
    names = [name for name in LEARNERS if name != "GEPA" or find_spec("gepa")]
    if "GEPA" not in names:
        print("GEPA is not installed (pip install gepa); it is left out")
    done = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    for kind in range(len(KINDS)):
        for seed in range(given.seeds):
            if not any((row["world"], row["seed"]) == (KINDS[kind].name, seed) for row in done):
                rows = list(run(kind, seed, names, given.epochs))
                with given.out.open("a") as file:
                    file.writelines(f"{json.dumps(row)}\n" for row in rows)
                done += rows
    print(table(done))


if __name__ == "__main__":
    main()
