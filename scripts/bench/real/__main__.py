"""`just real`: trains a small real model on five kinds of tasks with several seeds, and measures what that changed.

Each line of the table is the same model before and after training, on the same held-out tasks. The interval covers
other tasks and other seeds. Everything is run with the commands that users run, and stays in the store. A call that was
interrupted goes on where it stopped; its minutes are then those since it went on.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from agentlearn.config.model_folders import KNOWN_MODELS, FetchedState
from scripts.bench.real.measuring import (
    MODEL,
    ORIGINS,
    Distilled,
    Settings,
    distilled,
    gym,
    lessons_and_weights,
    measured,
    other_kind,
    task_named,
    trained,
    trained_by_trl,
)
from scripts.bench.real.runs import RunFailed
from scripts.bench.real.table import LessonsLine, OtherKind, RealResults, TaskLine, TrainingRun, as_text
from scripts.bench.real.tasks import TASKS, RealTask


def main() -> int:
    """Run everything that was asked for, print the table, and write it as JSON."""
    chosen = _options()
    if KNOWN_MODELS[MODEL].state() is not FetchedState.FETCHED:
        print(f"the model {MODEL} is not here; fetch it with: agentlearn models fetch {MODEL}", file=sys.stderr)
        return 2
    if chosen.seeds < 2:
        print(f"--seeds is {chosen.seeds}, but an interval needs two seeds; give 2 or more", file=sys.stderr)
        return 2
    try:
        found = _run(chosen)
    except RunFailed as error:
        print(f"{error}\nWhat was done before is kept: the same command goes on from there.", file=sys.stderr)
        return 1
    (chosen.store / "real.json").write_text(found.model_dump_json(indent=1) + "\n", encoding="utf-8")
    print(as_text(found))
    print(f"\nall of it as JSON: {chosen.store / 'real.json'}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just real", description=__doc__)
    names = [task.name for task in TASKS]
    parser.add_argument("--tasks", nargs="+", choices=names, default=names, help="kinds of tasks")
    parser.add_argument("--seeds", type=int, default=3, help="training seeds for each kind (from 2)")
    parser.add_argument("--updates", type=int, help="updates of each training (default: as each kind of task needs)")
    parser.add_argument("--k", type=int, default=2, help="rollouts per held-out task and model")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at the same time")
    parser.add_argument("--no-lessons", action="store_true", help="leave out lessons and distillation")
    parser.add_argument(
        "--with-other-kind",
        action="store_true",
        help="also distil the person's lessons into weights trained on record, and measure record",
    )
    parser.add_argument("--with-trl", action="store_true", help="also train with TRL, except on product")
    parser.add_argument("--store", type=Path, default=Path(".agentlearn/real"), help="where everything is kept")
    return parser.parse_args()


def _run(chosen: argparse.Namespace) -> RealResults:
    """Train, measure and compare. Raises RunFailed."""
    began_s, cores = time.perf_counter(), len(os.sched_getaffinity(0))
    settings = Settings(chosen.store, chosen.updates, chosen.k, chosen.jobs, max(1, cores // chosen.jobs))
    tasks = [task for task in TASKS if task.name in chosen.tasks]
    wanted = [(trained, task) for task in tasks]
    if chosen.with_trl:
        wanted += [(trained_by_trl, task) for task in tasks if task.tools == "none"]
    # First what takes longest, and comparisons last: a job then waits at most for jobs that run already.
    longest_first = sorted(range(len(wanted)), key=lambda at: -wanted[at][1].size)
    with ThreadPoolExecutor(chosen.jobs) as at_once:
        runs = {
            at: [at_once.submit(wanted[at][0], wanted[at][1], seed, settings) for seed in range(chosen.seeds)]
            for at in longest_first
        }
        libraries = [] if chosen.no_lessons else [at_once.submit(distilled, one, settings) for one in ORIGINS]
        lines = {at: at_once.submit(_measured, wanted[at][1], runs[at], settings) for at in longest_first}
        on_gym = next((runs[at][0] for at in runs if wanted[at] == (trained, gym())), None)
        on_record = None
        if chosen.with_other_kind:
            known = next((runs[at][0] for at in runs if wanted[at] == (trained, task_named("record"))), None)
            on_record = known or at_once.submit(trained, task_named("record"), 0, settings)
        lessons = at_once.submit(_lessons, libraries, on_gym, settings) if libraries else None
        other = at_once.submit(_other_kind, on_record, settings) if on_record is not None else None
    return RealResults(
        model=MODEL,
        cores=cores,
        seeds=chosen.seeds,
        k=chosen.k,
        lines=tuple(lines[at].result() for at in range(len(wanted))),
        runs=tuple(run.result() for at in range(len(wanted)) for run in runs[at]),
        lessons=None if lessons is None else lessons.result(),
        other_kind=None if other is None else other.result(),
        wall_s=time.perf_counter() - began_s,
    )


def _measured(task: RealTask, runs: Sequence[Future[TrainingRun]], settings: Settings) -> TaskLine:
    return measured(task, [run.result() for run in runs], settings)


def _lessons(
    libraries: Sequence[Future[Distilled]], rewarded: Future[TrainingRun] | None, settings: Settings
) -> LessonsLine:
    weights = None if rewarded is None else rewarded.result().weights
    return lessons_and_weights([one.result() for one in libraries], weights, settings)


def _other_kind(run: Future[TrainingRun], settings: Settings) -> OtherKind:
    return other_kind(run.result(), settings)


if __name__ == "__main__":
    sys.exit(main())
