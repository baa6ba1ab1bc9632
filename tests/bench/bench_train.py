"""Training the lab model with the recipe `math/train-lab`: held-out reward gained, wall time, and cost of the store.

Wall time is in seconds. The cost of the store is the ratio of the wall times of two runs: one normal run, and one that
discards journal entries, trajectories and metrics instead of writing them. The two kinds of runs alternate, and nothing
else differs.

    just bench train --pairs 3 --updates 10
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from agentlearn.config import packaged_recipe, read_recipe
from tests.bench.found import Found, Row, Target

_THROWN_AWAY = ("record", "save_trajectory", "save_metrics", "save_tasks", "save_version", "save_prompt")


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument(
        "--pairs", type=int, default=3, help="pairs of runs with and without the store; medians are printed"
    )
    parser.add_argument("--updates", type=int, default=6, help="updates in each run of a pair")
    parser.add_argument("--no-recipe", action="store_true", help="do not run the whole recipe, only the pairs")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure held-out rewards and wall time in seconds."""
    rows: list[Row] = []
    targets: list[Target] = []
    if not chosen.no_recipe:
        report, wall_s = _trained({})
        assert report.before is not None
        assert report.after is not None
        assert report.delta is not None
        low = report.delta.ci[0] if report.delta.ci else float("nan")
        figures = {
            "before": report.before.mean,
            "after": report.after.mean,
            "gain": report.delta.mean,
            "low": low,
            "updates": len(report.updates),
            "tokens": sum(one.tokens for one in report.updates),
            "sampling_s": report.seconds.get("sampling"),
            "updating_s": report.seconds.get("updating"),
            "wall_s": wall_s,
            "minutes": wall_s / 60,
        }
        rows.append(Row(name="recipe math/train-lab", figures=figures))
        targets.append(Target(what="held-out gain", figure=report.delta.mean or 0.0, bound="at_least", limit=0.25))
    small = {"epochs": 1, "limit": 12 * chosen.updates, "evaluate": False}
    pairs: list[tuple[float, float]] = []
    for _ in range(chosen.pairs):
        kept = _trained(small)[1]
        with _thrown_away():
            pairs.append((kept, _trained(small)[1]))
    kept_s, bare_s = (statistics.median(one) for one in zip(*pairs, strict=True))
    ratio = statistics.median(kept / bare for kept, bare in pairs)
    rows.append(Row(name=f"{chosen.updates} updates, store kept", figures={"wall_s": kept_s}))
    rows.append(Row(name=f"{chosen.updates} updates, store thrown away", figures={"wall_s": bare_s, "ratio": ratio}))
    targets.append(Target(what="time with the store over without", figure=ratio, bound="at_most", limit=1.05))
    return Found(
        rows=tuple(rows),
        targets=tuple(targets),
        notes=("The lab model shows that training works; it says nothing about the quality of real models.",),
    )


def _trained(changes: dict[str, Any]) -> tuple[Any, float]:
    from agentlearn.train.run_training import run_training
    from agentlearn.train.settings import train_settings

    recipe = packaged_recipe("math/train-lab")
    assert recipe is not None
    with tempfile.TemporaryDirectory() as folder:
        settings = train_settings({**read_recipe(recipe), **changes, "store": Path(folder) / "store"})
        began = time.perf_counter()
        report = asyncio.run(run_training(settings))
        return report, time.perf_counter() - began


@contextmanager
def _thrown_away() -> Generator[None]:
    """Make stores discard everything that is saved while the block runs."""

    async def nothing(*given: object, **more: object) -> None: ...

    patches = [patch(f"agentlearn.store.trajectory_store.Store.{name}", nothing) for name in _THROWN_AWAY]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()
