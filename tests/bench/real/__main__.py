"""`just real`: trains a small real model on five kinds of tasks with several seeds, and measures what that changed.

Each line of the table is the same model before and after training, on the same held-out tasks. The interval covers
other tasks and other seeds. Everything is run with the commands that users run, and stays in the store.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agentlearn.config.known_models import KNOWN_MODELS
from agentlearn.config.model_folders import FetchedState, fetched_state
from tests.bench.real.measuring import Settings, lessons_and_weights, measured, trained
from tests.bench.real.table import RealResults, as_text
from tests.bench.real.tasks import TASKS

MODEL = "smollm2-135m"


def main() -> int:
    """Run everything that was asked for, print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(prog="just real", description=__doc__)
    names = [task.name for task in TASKS]
    parser.add_argument("--tasks", nargs="+", choices=names, default=names, help="kinds of tasks")
    parser.add_argument("--seeds", type=int, default=3, help="training seeds for each kind (from 2)")
    parser.add_argument("--updates", type=int, default=12, help="updates of each training")
    parser.add_argument("--k", type=int, default=3, help="rollouts per held-out task and model")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at the same time")
    parser.add_argument("--no-lessons", action="store_true", help="leave out lessons and distillation")
    parser.add_argument("--store", type=Path, default=Path(".agentlearn/real"), help="where everything is kept")
    chosen = parser.parse_args()
    if fetched_state(KNOWN_MODELS[MODEL]) is not FetchedState.FETCHED:
        print(f"the model {MODEL} is not here; fetch it with: agentlearn models fetch {MODEL}", file=sys.stderr)
        return 2
    if chosen.seeds < 2:
        print(f"--seeds is {chosen.seeds}, but an interval needs two seeds; give 2 or more", file=sys.stderr)
        return 2
    began_s = time.perf_counter()
    chosen.store.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    settings = Settings(MODEL, chosen.store, chosen.updates, chosen.k, max(1, cores // chosen.jobs))
    tasks = [task for task in TASKS if task.name in chosen.tasks]
    wanted = [(task, seed) for task in tasks for seed in range(chosen.seeds)]
    with ThreadPoolExecutor(chosen.jobs) as at_once:
        runs = list(at_once.map(lambda one: trained(*one, settings), wanted))
        lines = list(
            at_once.map(lambda task: measured(task, [run for run in runs if run.task == task.name], settings), tasks)
        )
    lessons = None if chosen.no_lessons else lessons_and_weights(settings)
    found = RealResults(
        model=MODEL,
        cores=cores,
        seeds=chosen.seeds,
        updates=chosen.updates,
        k=chosen.k,
        lines=tuple(lines),
        runs=tuple(runs),
        lessons=lessons,
        wall_s=time.perf_counter() - began_s,
    )
    (chosen.store / "real.json").write_text(found.model_dump_json(indent=1) + "\n", encoding="utf-8")
    print(as_text(found))
    print(f"\nall of it as JSON: {chosen.store / 'real.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
