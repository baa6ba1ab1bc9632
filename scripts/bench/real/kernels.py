"""Why do equal seeds give other figures on another machine? `words` is trained with the kernels of several processors.

    python -m scripts.bench.real.kernels

Each run trains SmolLM2-135M-Instruct on `words` as `just real` does, with the same seed and one thread. `again` is the
same run with another PYTHONHASHSEED, later, so with other work on the machine. `avx2` tells torch and its libraries
to use the kernels of a processor without AVX-512. Each is compared with the first run, update by update: how many
rollouts have the same tokens, and by how much the log-probabilities of tokens differ that both sampled after the same
ones.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

from agentlearn.config.model_folders import KNOWN_MODELS, FetchedState
from agentlearn.store import read_store
from agentlearn.types.ids import TaskId
from agentlearn.types.trajectory import ModelTurn, SampledTokens
from scripts.bench.real.measuring import MODEL, Settings, task_named, trained
from scripts.bench.real.runs import RunFailed
from scripts.bench.real.table import TrainingRun

TASK = "words"
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "again": {"PYTHONHASHSEED": "7"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
}
Sampled = dict[tuple[int, TaskId, int], SampledTokens]
"""First answer of each rollout, by number of optimiser steps before it, task and g."""


def run_variant(name: str, store: Path, seed: int, updates: int | None) -> tuple[TrainingRun, Sampled]:
    """Train with the environment of a variant, or take what an earlier call left. Raises RunFailed."""
    before = dict(os.environ)
    settings = Settings(store / name, updates, k=1, jobs=1, threads=1)
    try:
        os.environ.update(VARIANTS[name])
        found = trained(task_named(TASK), seed, settings)
    finally:
        os.environ.clear()
        os.environ.update(before)
    return found, sampled_in(settings.of_task(f"{TASK}-{seed}"))


def sampled_in(folder: Path) -> Sampled:
    """Return the tokens of the run in a store."""
    found: Sampled = {}
    with read_store(folder) as store:
        for run in store.runs():
            for row in store.trajectories(run.run):
                whole = store.trajectory(row.id)
                tokens = next((step.tokens for step in whole.steps if isinstance(step, ModelTurn)), None)
                if tokens is not None:
                    found[whole.treatment.weights_step or 0, whole.task, whole.g] = tokens
    return found


def compare(first: Sampled, other: Sampled) -> list[str]:
    """Return a line for each update that both runs made."""
    lines: list[str] = []
    for step in sorted({key[0] for key in first} & {key[0] for key in other}):
        pairs = [(first[key], other[key]) for key in first if key[0] == step and key in other]
        same = sum(one.ids == two.ids for one, two in pairs)
        lengths = [
            sum(1 for _ in takewhile(lambda ids: ids[0] == ids[1], zip(a.ids, b.ids, strict=False))) for a, b in pairs
        ]
        differences = [
            abs(x - y)
            for (one, two), length in zip(pairs, lengths, strict=True)
            for x, y in zip(one.logprobs[:length], two.logprobs[:length], strict=True)
        ]
        lines.append(
            f"  after {step:2} steps: {same} of {len(pairs)} rollouts have the same tokens;"
            f" largest difference of a log-probability {max(differences, default=0.0):.1e}"
        )
    return lines


def main() -> int:
    """Run the variants and print how they differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="which runs; plain is the first"
    )
    parser.add_argument("--updates", type=int, help="updates of each run (default: as in `just real`)")
    parser.add_argument("--seed", type=int, default=0, help="of the training (default: 0)")
    parser.add_argument("--store", type=Path, default=Path(".agentlearn/kernels"), help="where everything is kept")
    chosen = parser.parse_args()
    if KNOWN_MODELS[MODEL].state() is not FetchedState.FETCHED:
        print(f"the model {MODEL} is not here; fetch it with: agentlearn models fetch {MODEL}", file=sys.stderr)
        return 2
    try:
        plain, first = run_variant("plain", chosen.store, chosen.seed, chosen.updates)
        print("plain  " + _curve(plain))
        for name in chosen.variants:
            if name != "plain":
                run, other = run_variant(name, chosen.store, chosen.seed, chosen.updates)
                print("\n".join([f"{name:6} {_curve(run)}", *compare(first, other)]), flush=True)
    except RunFailed as error:
        print(f"{error}\nWhat was done before is kept: the same command goes on from there.", file=sys.stderr)
        return 1
    return 0


def _curve(run: TrainingRun) -> str:
    return " ".join(f"{one:.2f}" for one in run.curve)


if __name__ == "__main__":
    sys.exit(main())
