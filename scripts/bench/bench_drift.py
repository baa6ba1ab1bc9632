"""How often a comparison of equal arms gives a verdict after the service changed, or at looks at parts of the tasks.

The service gets worse by some points after the baseline was stored. "By arm" reuses every stored rollout of an arm;
"now" is the rule of `compare`: a stored rollout is reused only beside those that the same run made (`made_together`).
The rollouts go through `tabulate`, `estimate_contrasts` and `with_verdicts`. Both arms are equally good, so every
verdict is false.

    just bench drift
    just bench drift --simulations 100 --only added
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from agentlearn.measure.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn.measure.score_table import Observation, tabulate
from agentlearn.store import EvaluatedRow, StoreReader
from agentlearn.types.ids import RolloutId, RunId
from agentlearn.types.task import Task
from agentlearn_evals.plan import StoredRollouts, made_together, rollout_seed, stored_rollouts
from scripts.bench.found import Found, Row, Target

LIMIT = 0.065
"""Largest share of false verdicts."""
TASKS = [Task.of("math", f"Problem {number}", "1") for number in range(60)]
K = 4
ARMS = ("before", "after")
Kind = Literal["added", "grown", "stopped"]
Rule = Literal["by arm", "now"]


@dataclass(frozen=True, slots=True)
class Rollout:
    """A rollout in a simulated store."""

    arm: str
    task: int
    g: int
    run: str
    reward: float


class Stored:
    """A store that holds these rollouts."""

    def __init__(self, rollouts: list[Rollout]) -> None:
        self.rollouts = rollouts

    def evaluated(self, phase: str) -> list[EvaluatedRow]:
        """Return the rollouts of an arm, oldest first."""
        return [_row(one) for one in self.rollouts if one.arm == phase]


def _row(one: Rollout) -> EvaluatedRow:
    task = TASKS[one.task]
    return EvaluatedRow(
        id=RolloutId(f"{one.run}-{one.arm}-{one.task}-{one.g}"),
        run=RunId(one.run),
        task=task.id,
        g=one.g,
        attempt=0,
        seed=rollout_seed(0, task, one.g),
        outcome="ok",
        failure_code=None,
        failure_boundary=None,
        verdict="correct",
        reward=one.reward,
        requests=1,
        tokens_in=0,
        tokens_cached=0,
        tokens_out=0,
        cost_usd=0.0,
        seconds=0.0,
        tool_calls=0,
    )


def verdict(kind: Kind, drop: float, rule: Rule, rng: np.random.Generator) -> str:
    """Return the verdict of one comparison of equal arms that reuses rollouts from before the service changed."""
    shifts = np.clip(rng.normal(0, 0.1, len(TASKS)), -0.3, 0.3)
    middle = rng.uniform(0.3, 0.7, len(TASKS))
    rates = {"before": middle - shifts / 2, "after": middle + shifts / 2}

    def made(arm: str, task: int, g: int, run: str) -> Rollout:
        rate = rates[arm][task] - (drop if run == "second" else 0.0)
        return Rollout(arm, task, g, run, float(rng.random() < rate))

    k = 2 * K if kind == "grown" else K
    first = {
        "added": [("before", task, g) for task in range(len(TASKS)) for g in range(K)],
        "grown": [(arm, task, g) for arm in ARMS for task in range(len(TASKS)) for g in range(K)],
        "stopped": [("before", task, 0) for task in range(12)]
        + [(arm, task, 0) for arm in ARMS for task in range(12, len(TASKS))],
    }[kind]
    stored = [made(*one, "first") for one in first]
    reader = cast("StoreReader", Stored(stored))
    reused: Mapping[str, StoredRollouts]
    if rule == "now":
        reused = made_together(reader, {arm: (arm, 0) for arm in ARMS}, TASKS, k)
    else:
        reused = {arm: stored_rollouts(reader, arm, TASKS, k, 0) for arm in ARMS}
    observations = list[Observation]()
    for arm in ARMS:
        for number, task in enumerate(TASKS):
            for g in range(k):
                row = reused[arm].get((task.id, g)) or _row(made(arm, number, g, "second"))
                observations.append(Observation(arm=arm, task=task.id, g=g, score=row.reward))
    return _verdict(observations, 1, int(rng.integers(1 << 30)))


def _verdict(observations: list[Observation], look: int, seed: int) -> str:
    table, rules = tabulate(observations, ARMS), Rules(seed=seed)
    drafts = [one.model_copy(update={"look": look}) for one in estimate_contrasts(table, rules)]
    return with_verdicts(drafts, table, rules)[0].verdict


def parts(rule: Rule, rng: np.random.Generator) -> bool:
    """Return whether one of five comparisons of equal arms, each on 60 other tasks, gives a verdict."""
    for look in range(1, 6):
        right = rng.random((2, len(TASKS), K)) < rng.uniform(0.3, 0.7, (len(TASKS), 1))
        observations = [
            Observation(arm=arm, task=f"{look}/{task}", g=g, score=float(right[side, task, g]))
            for side, arm in enumerate(ARMS)
            for task in range(len(TASKS))
            for g in range(K)
        ]
        if _verdict(observations, look if rule == "now" else 1, int(rng.integers(1 << 30))) != "cannot_tell":
            return True
    return False


Simulation = Callable[[np.random.Generator], bool]


def _given(kind: Kind, drop: float, rule: Rule) -> Simulation:
    return lambda rng: verdict(kind, drop, rule, rng) != "cannot_tell"


def _parts(rule: Rule) -> Simulation:
    return lambda rng: parts(rule, rng)


def rows() -> Iterator[tuple[str, Rule, Simulation]]:
    """Return the name, the rule and the simulation of every row."""
    rules: tuple[Rule, ...] = ("by arm", "now")
    others: tuple[tuple[Kind, str], ...] = (("grown", "K from 4 to 8"), ("stopped", "stopped and continued"))
    for rule in rules:
        for drop in (0.0, 0.05, 0.1, 0.15, 0.2, 0.4):
            yield f"arm added, {100 * drop:.0f} points worse: {rule}", rule, _given("added", drop, rule)
        for kind, words in others:
            yield f"{words}, 40 points worse: {rule}", rule, _given(kind, 0.4, rule)
        yield f"five parts of the tasks: {rule}", rule, _parts(rule)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--simulations", type=int, default=400, help="comparisons per row")
    parser.add_argument("--only", default="", help="only rows whose names contain this")


def measure(chosen: argparse.Namespace) -> Found:
    """Return the share of false verdicts by row."""
    found, targets = list[Row](), list[Target]()
    for name, rule, simulate in rows():
        if chosen.only not in name:
            continue
        given = sum(simulate(np.random.default_rng([7, number])) for number in range(chosen.simulations))
        found.append(Row(name=name, figures={"given": given / chosen.simulations}))
        print(name, given / chosen.simulations, file=sys.stderr, flush=True)
        if rule == "now":
            targets.append(Target(what=name, figure=given / chosen.simulations, bound="at_most", limit=LIMIT))
    return Found(rows=tuple(found), targets=tuple(targets), notes=(f"{chosen.simulations} comparisons per row",))
