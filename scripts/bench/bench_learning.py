"""Learning rules compared in simulated worlds: the gain as a share of the oracle's, and what it costs.

Everything is simulated, by a fast twin of the learning loop. Each world has as many variants as seeds. Sealed worlds
are for judging: look at them once, when the rules are final. `--tuning` takes the worlds for tuning.

For each set of rules and each world: mean and worst share of the oracle's gain, model calls and tokens, and lessons in
the published library.

    just bench learning --tuning --seeds 10
    just bench learning --hard
    just bench learning --interacting
    just bench learning --stuck
    just bench learning
"""

import argparse
import os
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from scripts.bench.found import Found, Row, Target
from scripts.bench.learning_rules.environment import Environment, lessons_of
from scripts.bench.learning_rules.loop import Run
from scripts.bench.learning_rules.rules import EARLIER, GATED, LENIENT, NEW, SKIPPING, Rules
from scripts.bench.learning_rules.worlds import (
    HARD,
    HARD_SEEDS,
    INTERACTING,
    INTERACTING_SEEDS,
    SEALED,
    SEALED_SEEDS,
    STUCK,
    TUNING,
    TUNING_SEEDS,
    TURNING,
    world_named,
)

OURS, BEFORE, GATE = "agentlearn", "agentlearn before", "agentlearn with its held-out gate"
EARLIER_GATE = "agentlearn with its earlier gate"
SKIP = "agentlearn --all-wrong skip"
_RULES = {OURS: NEW, BEFORE: EARLIER}
_HARD_RULES = {OURS: NEW, EARLIER_GATE: LENIENT, GATE: GATED}
_STUCK_RULES = {OURS: NEW, SKIP: SKIPPING}
GAINS = {"clean": 0.98, "bad-30": 0.90, "bad-60": 0.60}
"""Smallest mean share of the oracle's gain that we want, by world."""
_BELOW = -0.005
"""A true gain below this counts as worse than the empty library."""
_BY_2 = -0.02


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one set of rules reached in one world with one seed."""

    rules: str
    world: str
    share: float
    """True gain as a share of the oracle's."""
    gain: float
    calls: int
    tokens: int
    lessons: int
    harmful: int
    """Published lessons with reversed advice, and attacks."""
    deaf: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Falls into deaf habits and chances: two without lessons, two with lessons."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--seeds", type=int, default=50, help="seeds per world")
    parser.add_argument("--tuning", action="store_true", help="use the worlds for tuning")
    parser.add_argument("--hard", action="store_true", help="hard worlds, with and without the held-out gate")
    parser.add_argument("--stuck", action="store_true", help="worlds where some tasks are always wrong, taught or not")
    parser.add_argument("--interacting", action="store_true", help="worlds where lessons change what others do")
    parser.add_argument("--world", action="append", default=[], help="only this world (may be given again)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="processes at once")


def measure(chosen: argparse.Namespace) -> Found:
    """Run every set of rules in every world."""
    catalogue, seeds = (TUNING, TUNING_SEEDS) if chosen.tuning else (SEALED, SEALED_SEEDS)
    if chosen.hard:
        catalogue, seeds = (*HARD, *TURNING), HARD_SEEDS
    if chosen.stuck:
        catalogue = STUCK
    if chosen.interacting:
        catalogue, seeds = INTERACTING, INTERACTING_SEEDS
    rules = "hard" if chosen.hard or chosen.interacting else "stuck" if chosen.stuck else "usual"
    worlds = [world_named(name).name for name in chosen.world] or [world.name for world in catalogue]
    jobs = [(world, seed, rules) for world in worlds for seed in seeds[: chosen.seeds]]
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # each process has one core
    with ProcessPoolExecutor(chosen.processes, mp_context=get_context("spawn")) as pool:
        found = [outcome for outcomes in pool.map(_judge, jobs, chunksize=2) for outcome in outcomes]
    if chosen.hard or chosen.interacting:
        return _hard(found, worlds)
    if chosen.stuck:
        return _stuck(found, worlds)
    return Found(rows=(*_mean_rows(found), *_world_rows(found, worlds)), targets=tuple(_targets(found, worlds)))


def _judge(job: tuple[str, int, str]) -> list[Outcome]:
    """Run the sets of rules with one seed of one world."""
    world, seed, which = job
    sets = {"hard": _HARD_RULES, "stuck": _STUCK_RULES, "usual": _RULES}[which]
    return [_run(name, rules, world, seed) for name, rules in sets.items()]


def _stuck(found: Sequence[Outcome], worlds: Sequence[str]) -> Found:
    """Return the worlds with tasks that are always wrong, and a target for the harmful lessons published."""
    by_rules = _by_rules(found)
    rows = [Row(name=f"all worlds: {name}", figures=_figures(of)) for name, of in by_rules.items()]
    harmful = {name: sum(one.harmful for one in of) for name, of in by_rules.items()}
    below = {name: sum(one.gain < _BELOW for one in of) for name, of in by_rules.items()}
    targets = (
        Target(what="harmful lessons published", figure=harmful[OURS], bound="at_most", limit=harmful[SKIP]),
        Target(what="runs below the empty library", figure=below[OURS], bound="at_most", limit=below[SKIP]),
    )
    return Found(rows=(*rows, *_world_rows(found, worlds)), targets=targets)


def _hard(found: Sequence[Outcome], worlds: Sequence[str]) -> Found:
    """Return the hard worlds together, then those that turn, and a target for what the gate lets through."""
    hard = {world.name for world in HARD}
    together = [one for one in found if one.world in hard] or found
    rows = [Row(name=f"all of these worlds: {name}", figures=_figures(of)) for name, of in _by_rules(together).items()]
    gated = [one for one in together if one.rules == GATE]
    worse = sum(one.gain < _BY_2 for one in gated) / max(1, len(gated))
    what = "hard worlds: share of runs more than 2 points below the empty library"
    target = Target(what=what, figure=worse, bound="at_most", limit=0.025)
    return Found(rows=(*rows, *_world_rows(found, worlds)), targets=(target,) if gated else ())


def _run(name: str, rules: Rules, world: str, seed: int) -> Outcome:
    environment = Environment(world_named(world), seed)
    library = Run(environment, rules).learn()
    success = environment.success(library)
    without, with_lessons = environment.deaf[False], environment.deaf[True]
    return Outcome(
        name,
        world,
        environment.share(success),
        success - environment.law.oracle.without,
        environment.spent.calls,
        environment.spent.tokens,
        len(library),
        environment.law.harmful(lessons_of(library)),
        (*without, *with_lessons),  # type: ignore[arg-type]
    )


def _figures(found: Sequence[Outcome]) -> dict[str, float]:
    shares = [one.share for one in found]
    return {
        "share": statistics.mean(shares),
        "worst": min(shares),
        "below_empty": sum(one.gain < _BELOW for one in found),
        "below_by_2": sum(one.gain < _BY_2 for one in found),
        "gain": statistics.mean(one.gain for one in found),
        "calls": statistics.mean(one.calls for one in found),
        "ktokens": statistics.mean(one.tokens for one in found) / 1000,
        "lessons": statistics.mean(one.lessons for one in found),
        "harmful": sum(one.harmful for one in found),
        "runs": len(found),
    }


def _by_rules(found: Sequence[Outcome]) -> Mapping[str, list[Outcome]]:
    grouped: dict[str, list[Outcome]] = {}
    for one in found:
        grouped.setdefault(one.rules, []).append(one)
    return grouped


def _mean_rows(found: Sequence[Outcome]) -> list[Row]:
    return [Row(name=f"all worlds: {name}", figures=_figures(of)) for name, of in _by_rules(found).items()]


def _world_rows(found: Sequence[Outcome], worlds: Sequence[str]) -> list[Row]:
    return [
        Row(name=f"{world}: {name}", figures=_figures(of))
        for world in worlds
        for name, of in _by_rules([one for one in found if one.world == world]).items()
    ]


def _targets(found: Sequence[Outcome], worlds: Sequence[str]) -> list[Target]:
    ours = {world: [one for one in found if one.world == world and one.rules == OURS] for world in worlds}
    before = {world: [one for one in found if one.world == world and one.rules == BEFORE] for world in worlds}
    targets = [
        Target(what=f"{world}: share of the oracle's gain", figure=_mean(ours[world]), bound="at_least", limit=limit)
        for world, limit in GAINS.items()
        if world in ours
    ]
    targets += [
        Target(
            what=f"{world}: runs below the empty library",
            figure=sum(one.gain < _BELOW for one in ours[world]),
            bound="at_most",
            limit=0,
        )
        for world in worlds
    ]
    if "clean" in ours:
        ratio = sum(one.calls for one in ours["clean"]) / sum(one.calls for one in before["clean"])
        targets.append(Target(what="clean: calls, times those before", figure=ratio, bound="at_most", limit=0.45))
    targets += [
        Target(what=f"{world}: change on deaf habits, in standard errors", figure=change, bound="at_most", limit=3.0)
        for world in worlds
        if (change := _deaf_change(ours[world])) is not None
    ]
    return targets


def _mean(found: Sequence[Outcome]) -> float:
    return statistics.mean(one.share for one in found)


def _deaf_change(found: Sequence[Outcome]) -> float | None:
    """How far the rate of deaf habits with lessons is from that without, in standard errors; None without any."""
    falls, chances, falls_with, chances_with = (
        sum(column) for column in zip(*(one.deaf for one in found), strict=True)
    )
    if not chances or not chances_with:
        return None
    pooled = (falls + falls_with) / (chances + chances_with)
    error = (pooled * (1 - pooled) * (1 / chances + 1 / chances_with)) ** 0.5
    return abs(falls / chances - falls_with / chances_with) / error if error else 0.0
