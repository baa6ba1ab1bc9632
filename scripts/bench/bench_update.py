"""One training update compared with TRL's trainer: seconds per step, and peak memory in MiB.

Both do each step on the same rows in one process. Memory is measured in a separate process for each. The model is a
Qwen3 with 1.1 million weights. A step has 8 prompts x 8 rollouts, with prompts of 32 tokens and answers of at most 128
tokens. The settings are AdamW, the dapo loss, micro-batches of 16 rows of 160 tokens, no gradient checkpointing, fp32.
TRL's time excludes the time to generate and score its rollouts. The absolute figures depend on the machine and its
load; the ratios are more meaningful. Needs the extra `dev`.

    just bench update --steps 15
    just bench update --only memory     # of a model with 135 million weights, and of long rows; takes half an hour
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from typing import Any

from scripts.bench.found import Found, Row, Target, load_1min

KINDS = ("uniform", "spread")


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--steps", type=int, default=10, help="timed steps, after two warm-up steps")
    parser.add_argument("--memory-steps", type=int, default=3, help="steps when memory is measured")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--only", choices=("memory",), help="measure only this")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure seconds per step and peak memory in MiB."""
    if chosen.only == "memory":
        return _memory()
    speed = {kind: _speed(kind, chosen) for kind in KINDS}
    memory = {
        (kind, which): _run("alone", which, kind, chosen.memory_steps)["extra_mib"]
        for kind in KINDS
        for which in ("trl", "ours")
    }
    head = _run("head")
    shares = {kind: memory[kind, "ours"] / memory[kind, "trl"] for kind in KINDS}
    return Found(
        rows=(
            *(row for row, _ in speed.values()),
            *(
                Row(name=f"memory, {kind}", figures={"trl_mib": memory[kind, "trl"], "ours_mib": memory[kind, "ours"]})
                for kind in KINDS
            ),
            Row(name="head, V = 151,936", figures={"extra_mib": head["extra_mib"], "wall_s": head["seconds"]}),
        ),
        targets=(
            _target("TRL's time / ours, uniform length", speed["uniform"][1], "at_least", 1.0),
            _target("TRL's time / ours, threefold padding", speed["spread"][1], "at_least", 1.5),
            *(_target(f"our memory / TRL's, {kind}", shares[kind], "at_most", 1.0) for kind in KINDS),
            _target("head, 2,048 tokens, H = 256, V = 151,936, extra peak MiB", head["extra_mib"], "at_most", 400),
        ),
        notes=("ratio: TRL's time divided by ours for the same step; the median over the steps, with quartiles",),
    )


def _memory() -> Found:
    """Measure peak memory: for SmolLM2-135M's shape with an adapter, and for rows of some lengths."""
    ours = _run_memory("adapter")
    contexts = {(n, word): _run_memory("context", n, word) for n in (1024, 4096, 16_384) for word in ("off", "on")}
    return Found(
        rows=(
            Row(name="135M, adapter, 4 x 8 rollouts", figures=ours),
            *(
                Row(name=f"one row of {tokens} tokens, checkpointing {word}", figures=found)
                for (tokens, word), found in contexts.items()
            ),
        ),
        targets=(_target("peak of an update of 135M weights with an adapter, MiB", ours["peak_mib"], "at_most", 4096),),
        notes=("peak_mib: of the whole process, libraries and weights included; extra_mib: added by the update",),
    )


def _run_memory(*arguments: object) -> dict[str, Any]:
    return _run(*arguments, module="scripts.bench.update_memory")


def _speed(kind: str, chosen: argparse.Namespace) -> tuple[Row, float]:
    """Return the row of the table, and the median ratio."""
    load = load_1min()
    found = _run("pair", kind, chosen.steps + 2, chosen.threads)
    assert found["gap"] < 1e-4, f"the first gradients differ by {found['gap']}, so different work was timed"
    pairs = list(zip(found["trl_s"], found["ours_s"], strict=True))[2:]
    ratios = [theirs / ours for theirs, ours in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4)
    figures = {
        "trl_s": statistics.median(theirs for theirs, _ in pairs),
        "ours_s": statistics.median(ours for _, ours in pairs),
        "ratio": middle,
        "lower_quartile": low,
        "upper_quartile": high,
        "padding": found["padding"],
        "gradients_apart": found["gap"],
        "load_1min": load,
    }
    return Row(name=f"update, {kind}", figures=figures), middle


def _target(what: str, figure: float, bound: Any, limit: float) -> Target:
    return Target(what=what, figure=figure, bound=bound, limit=limit)


def _run(*arguments: object, module: str = "scripts.bench.update_beside_trl") -> dict[str, Any]:
    """Run one measurement in a new process."""
    command = [sys.executable, "-W", "ignore", "-m", module, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"TQDM_DISABLE": "1"})
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
