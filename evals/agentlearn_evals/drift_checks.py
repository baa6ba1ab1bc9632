"""Sentinels: some of the reused rollouts, made anew, to see whether the service still answers as it did.

Reused rollouts beside new ones are no longer interleaved: what changed at the service meanwhile looks like an arm's
doing. A sentinel has the task, seed and index of the reused rollout; only the time is another.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from agentlearn.stats import sign_flip_p
from agentlearn.types.ids import derive_seed
from agentlearn_evals.arms import Arm
from agentlearn_evals.collect import Collector
from agentlearn_evals.comparison import DriftCheck
from agentlearn_evals.eval_tasks import EvalTasks
from agentlearn_evals.rollout_specs import RolloutSpec, rollout_seed

_ALPHA = 0.01


async def check_drift(collector: Collector) -> tuple[DriftCheck, ...]:
    """One line per arm of which rollouts were reused; none where all were, or none was."""
    plan, count = collector.plan, collector.plan.settings.sentinels
    if not count or not collector.made:
        return ()
    pairs: dict[str, list[tuple[float, float]]] = {arm.name: [] for arm in plan.arms}
    for task_set in plan.task_sets:
        specs = [spec for arm in plan.arms for spec in _chosen(collector, arm, task_set, count)]
        for spec, trajectory in await collector.make_rollouts(specs, task_set):
            then = collector.reusable[spec.arm.name, task_set.domain.name][spec.task.id, spec.g]
            if trajectory.outcome != "undecided" and then.reward is not None:
                pairs[spec.arm.name].append((then.reward, trajectory.reward or 0.0))
    return tuple(_line(arm, found, plan.settings.seed) for arm, found in pairs.items() if found)


def _chosen(collector: Collector, arm: Arm, task_set: EvalTasks, count: int) -> list[RolloutSpec]:
    """Reused rollouts that had a reward, drawn by the seed."""
    settings = collector.plan.settings
    reusable = collector.reusable[arm.name, task_set.domain.name]
    places = sorted(place for place, row in reusable.items() if row.reward is not None)
    drawn = Random(derive_seed(settings.seed, "sentinels", arm.name)).sample(places, min(count, len(places)))
    phase = collector.phases[arm.name, task_set.domain.name].replace("compare:", "sentinel:", 1)
    by_id = {task.id: task for task in task_set.tasks}
    specs = [RolloutSpec(arm, by_id[task], g, 0, phase) for task, g in drawn]
    return [replace(spec, seed=rollout_seed(settings.seed, spec.task, spec.g)) for spec in specs]


def _line(arm: str, pairs: Sequence[tuple[float, float]], seed: int) -> DriftCheck:
    then, now = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    p = sign_flip_p([late - early for early, late in pairs], seed=seed)
    drifted = p < _ALPHA
    words = f"{len(pairs)} reused rollouts of {arm} made anew: {then:.3f} then, {now:.3f} now"
    if drifted:
        words += "; the service no longer answers as it did, so make all rollouts anew with --fresh"
    return DriftCheck(arm=arm, rollouts=len(pairs), then=then, now=now, p=p, drifted=drifted, words=words)
