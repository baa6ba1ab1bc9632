"""The field's learners on equal terms: `python -m scripts.bench.arena`. The page is docs/arena.md.

Every learner has the same tasks to learn from and to choose by, the same text to start from, the same model behind one
counter, and as many calls as the two of agentlearn that are set by default used in the same ground with the same seed.
What is done is kept: the same command goes on. Learners that are not installed are left out:

    pip install --target PEERS -c constraints.txt gepa==0.1.4 dspy==3.4.1 optuna
    PYTHONPATH=PEERS python -m scripts.bench.arena
"""

import argparse
import io
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from scripts.bench.arena.learners import LEARNERS, OURS, Learner
from scripts.bench.arena.proxy import Ground, Proxy
from scripts.bench.arena.table import Row, as_markdown
from scripts.bench.arena.world import KINDS, World
from scripts.bench.proof.models import cache_folder

SEEDS = {"sealed": 50, "lab": 10, "real": 3}
Drawn = tuple[str, int, Callable[[], Ground]]
"""The name of a ground, a seed, and how it is made."""


def run(name: str, seed: int, ground: Callable[[], Ground], learner: Learner, most: int | None) -> Row:
    """Let a learner learn in a ground. most: calls; None for those that set the calls of others."""
    proxy = Proxy(ground()) if most is None else Proxy(ground(), most)
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        text = learner.run(proxy)
    wall, cpu = time.perf_counter() - wall - proxy.inside_s, time.process_time() - cpu - proxy.inside_cpu_s
    here = proxy.ground
    start, end = here.score(here.start), here.score(text)
    row = Row(
        ground=name,
        seed=seed,
        learner=learner.name,
        start=start,
        end=end,
        calls=proxy.calls,
        tokens=proxy.tokens,
        wall_s=max(wall, 0.0),
        cpu_s=max(cpu, 0.0),
        words=len(text.split()),
    )
    if not here.exact or row.gain < 0.05:
        return row
    after = (at for tried, at in proxy.tried.items() if here.score(tried) >= start + 0.9 * row.gain)
    calls, tokens = min(after, default=(None, None))
    return row.model_copy(update={"calls_to_90": calls, "tokens_to_90": tokens})


def rows_of(drawn: Iterable[Drawn], learners: Sequence[Learner], out: Path) -> list[Row]:
    """Run what is not done yet, in order, and return all of it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    kept = {(row.ground, row.seed, row.learner): row for row in map(Row.model_validate_json, lines)}
    found = list[Row]()
    for name, seed, ground in drawn:
        for learner in learners:
            if (row := kept.get((name, seed, learner.name))) is None:
                ours = [kept[name, seed, one].calls for one in OURS if (name, seed, one) in kept]
                row = run(name, seed, ground, learner, None if learner.name in OURS or not ours else max(ours))
                kept[name, seed, learner.name] = row
                with out.open("a", encoding="utf-8") as file:
                    file.write(row.model_dump_json() + "\n")
            found.append(row)
    return found


def labels(name: str) -> str:
    """The name of a learner in the table."""
    return next(one.label for one in LEARNERS if one.name == name)


def sealed(seeds: int, worlds: Sequence[str], first: int = 0) -> list[Drawn]:
    """The sealed worlds, one seed of all of them after the other."""
    kinds = [kind for kind in KINDS if kind.name in worlds]

    def drawn(at: int, seed: int) -> Drawn:
        return kinds[at].name, seed, lambda: World(kinds[at], seed)

    return [drawn(at, seed) for seed in range(first, first + seeds) for at in range(len(kinds))]


def installed(names: Sequence[str]) -> list[Learner]:
    """Those of these learners that can run; the others are named on stderr."""
    chosen = [one for one in LEARNERS if one.name in names]
    for one in chosen:
        if one.missing:
            print(f"left out: {one.name}; pip install --target PEERS {one.package}, PYTHONPATH=PEERS", file=sys.stderr)
    return [one for one in chosen if not one.missing]


def main() -> None:
    """Run every learner in every ground that is not done yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names, worlds = [one.name for one in LEARNERS], [kind.name for kind in KINDS]
    parser.add_argument("--grounds", nargs="+", choices=SEEDS, default=["sealed"], help="default: sealed")
    parser.add_argument("--seeds", type=int, help=f"default {SEEDS}")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--worlds", nargs="+", choices=worlds, default=worlds, help="sealed worlds")
    parser.add_argument("--learners", nargs="+", choices=names, default=names)
    parser.add_argument("--out", type=Path, default=cache_folder() / "arena.jsonl", help="results; done ones are kept")
    given = parser.parse_args()
    learners, rows = installed(given.learners), list[Row]()
    for ground in given.grounds:
        seeds = given.seeds or SEEDS[ground]
        if ground == "sealed":
            rows += rows_of(sealed(seeds, given.worlds, given.first), learners, given.out)
        elif ground == "lab":
            from scripts.bench.arena.lab import lab

            with lab(seeds, given.first) as drawn:
                rows += rows_of(drawn, learners, given.out)
        else:
            from scripts.bench.arena.real import real

            with real(seeds, given.first) as drawn:
                rows += rows_of(drawn, learners, given.out)
    print(as_markdown(rows, labels))


if __name__ == "__main__":
    main()
