"""`just proof`: does a real model follow lessons, and can a real model write them?

Reading: on ten kinds of made-up tasks, a model solves held-out tasks without lessons, with the right lesson, without,
with it again, with a placebo, with raw history, and with a wrong lesson. Writing: `agentlearn learn` with a real model
as reflector, and its own lessons on the same tasks. What is done is kept: the same command goes on where it stopped.
"""

import argparse
import os
import resource
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from scripts.bench.proof.kinds import HELD_OUT, KINDS, drawn, kind_named
from scripts.bench.proof.measuring import READING, Bench, Cell
from scripts.bench.proof.models import MODELS, cache_folder
from scripts.bench.proof.server import Server
from scripts.bench.proof.table import Learned, Result, as_markdown
from scripts.bench.proof.writing import learned
from scripts.bench.real.runs import RunFailed


def main() -> int:
    """Measure what was asked for, print the table, and write it as Markdown and JSON."""
    chosen = _options()
    began_s = time.perf_counter()
    signal.signal(signal.SIGTERM, _end)
    try:
        found = _measured(chosen)
    except (RunFailed, RuntimeError) as error:
        print(f"{error}\nWhat was done before is kept: the same command goes on from there.", file=sys.stderr)
        return 1
    text = as_markdown(found)
    (chosen.store / "proof.json").write_text(found.model_dump_json(indent=1) + "\n", encoding="utf-8")
    (chosen.store / "proof.md").write_text(text, encoding="utf-8")
    print(text)
    spent = [resource.getrusage(one) for one in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_s = sum(one.ru_utime + one.ru_stime for one in spent)
    _say(f"this call took {(time.perf_counter() - began_s) / 60:.0f} minutes, {cpu_s / 60:.0f} CPU minutes")
    _say(f"the table and all of it as JSON: {chosen.store / 'proof.md'}, {chosen.store / 'proof.json'}")
    return 0


def _end(number: int, _frame: FrameType | None) -> None:
    """End with an exception, so that the model servers end too."""
    sys.exit(128 + number)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just proof", description=__doc__)
    names = [kind.name for kind in KINDS]
    parser.add_argument("--kinds", nargs="+", choices=names, default=names, help="kinds of tasks")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="seeds of the rules and tasks")
    parser.add_argument("--small", action="store_true", help="lessons written for three kinds only")
    parser.add_argument("--reader", choices=MODELS, default="0.5b", help="model that solves the tasks")
    parser.add_argument("--reflector", choices=MODELS, default="1.5b", help="model that writes lessons")
    parser.add_argument("--writing", nargs="*", type=int, default=[0], help="seeds on which lessons are written")
    parser.add_argument("--phases", nargs="*", choices=READING, default=READING, help="phases of reading")
    parser.add_argument("--learn-tasks", type=int, default=6, help="tasks that lessons are learned from")
    parser.add_argument("--drafts", type=int, default=5, help="times that the reflector writes lessons for them")
    parser.add_argument("--compiled", action="store_true", help="fetch the model server compiled, and do not build it")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each model server")
    parser.add_argument("--store", type=Path, default=cache_folder() / "results", help="where everything is kept")
    return parser.parse_args()


def _measured(chosen: argparse.Namespace) -> Result:
    """Make the cells that are missing. Raises RunFailed and RuntimeError."""
    chosen.store.mkdir(parents=True, exist_ok=True)
    kinds = [kind_named(name) for name in chosen.kinds]
    with ExitStack() as stack:

        def served(name: str) -> Server:
            log = chosen.store / f"server-{name}.log"
            return stack.enter_context(
                Server(name, threads=chosen.threads, say=_say, log=log, compiled=chosen.compiled)
            )

        reader = served(chosen.reader)
        bench = Bench(chosen.store, reader)
        cells = list[Cell]()
        for seed in chosen.seeds:
            for kind in kinds:
                for phase in chosen.phases:
                    cells.append(cell := bench.cell(drawn(kind, seed), phase))
                    _say(f"{kind.name}, seed {seed}, {phase}: {cell.score:.2f} ({cell.wall_s:.0f} s)")
        written, writer = list[Learned](), ""
        if chosen.writing:
            reflector = reader if chosen.reflector == chosen.reader else served(chosen.reflector)
            writer = reflector.label
            for seed in chosen.writing:
                for kind in kinds[:3] if chosen.small else kinds:
                    mine, how = drawn(kind, seed), (chosen.learn_tasks, chosen.drafts)
                    written.append(one := learned(bench, mine, reflector, tasks=how[0], drafts=how[1]))
                    _say(f"{kind.name}, seed {seed}, wrote {len(one.lessons)} lessons ({one.wall_s:.0f} s)")
                    cells.append(cell := bench.cell(drawn(kind, seed), "own"))
                    _say(f"{kind.name}, seed {seed}, its own lessons: {cell.score:.2f}")
        return Result(
            reader=reader.label,
            reflector=writer,
            seeds=chosen.seeds,
            held_out=HELD_OUT,
            cells=tuple(cells),
            learned=tuple(written),
            speed=reader.speed(),
        )


def _say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {words}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
