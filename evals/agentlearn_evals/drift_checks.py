"""Checks whether the model service still answers as it did, by repeating some of the reused rollouts.

New rollouts are interleaved, so drift of a service affects all arms alike. Reused rollouts were made at another time:
if the service changed since, the change looks like a difference between arms. A repeated rollout has the same task,
seed and index. The setting, the stored phase and the report key keep their older name `sentinels`.
"""

from collections.abc import Sequence
from random import Random

from agentlearn.stats import sign_flip_p
from agentlearn.text import number_text
from agentlearn.types.ids import derive_seed
from agentlearn_evals.arms import Arm
from agentlearn_evals.collect import Collector
from agentlearn_evals.comparison import DriftCheck
from agentlearn_evals.eval_tasks import EvalTasks
from agentlearn_evals.rollout_specs import RolloutSpec, rollout_seed

_ALPHA = 0.01


async def check_drift(collector: Collector) -> tuple[DriftCheck, ...]:
    """Repeat some reused rollouts and return one check per arm that has any.

    Returns nothing when the comparison made no new rollouts, or when the setting `sentinels` is 0.
    """
    plan, count = collector.plan, collector.plan.settings.sentinels
    if not count or not collector.made:
        return ()
    rewards: dict[str, list[tuple[float, float]]] = {arm.name: [] for arm in plan.arms}
    for task_set in plan.task_sets:
        specs = [spec for arm in plan.arms for spec in _sample_reused(collector, arm, task_set, count)]
        for spec, trajectory in await collector.make_rollouts(specs, task_set):
            then = collector.reusable[spec.arm.name, task_set.domain.name][spec.task.id, spec.g]
            if trajectory.reward is not None and then.reward is not None:
                rewards[spec.arm.name].append((then.reward, trajectory.reward))
    return tuple(_drift_check(arm, pairs, plan.settings.seed) for arm, pairs in rewards.items() if pairs)


def _sample_reused(collector: Collector, arm: Arm, task_set: EvalTasks, count: int) -> list[RolloutSpec]:
    """Return specs that repeat a random sample of the arm's reused rollouts that have a reward."""
    settings = collector.plan.settings
    reusable = collector.reusable[arm.name, task_set.domain.name]
    keys = sorted(key for key, row in reusable.items() if row.reward is not None)
    drawn = Random(derive_seed(settings.seed, "sentinels", arm.name)).sample(keys, min(count, len(keys)))
    phase = collector.phases[arm.name, task_set.domain.name].replace("compare:", "sentinel:", 1)
    by_id = {task.id: task for task in task_set.tasks}
    return [RolloutSpec(arm, by_id[task], g, rollout_seed(settings.seed, by_id[task], g), phase) for task, g in drawn]


def _drift_check(arm: str, pairs: Sequence[tuple[float, float]], seed: int) -> DriftCheck:
    """pairs: reward then and now of the same rollout."""
    then, now = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    p = sign_flip_p([late - early for early, late in pairs], seed=seed)
    drifted = p < _ALPHA
    scores = f"{number_text(then, 3)} then and {number_text(now, 3)} now"
    words = f"{len(pairs)} reused rollouts were repeated; they scored {scores}"
    if drifted:
        words += "; the service no longer answers as it did, so make all rollouts again with --fresh"
    return DriftCheck(arm=arm, rollouts=len(pairs), then=then, now=now, p=p, drifted=drifted, words=words)
