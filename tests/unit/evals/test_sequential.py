"""Sequential comparisons: order of tasks, stopping, and error rate."""

from pathlib import Path
from random import Random

import pytest

from agentlearn.errors import ConfigError
from agentlearn.measure.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn.measure.observation import Observation
from agentlearn.measure.score_table import ScoreTable, tabulate
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.plan import ComparePlan, plan_comparison
from agentlearn_evals.sequential import SequentialDesign


def plan(folder: Path, **more: object) -> ComparePlan:
    given = {"arms": ("none", "hot=none,temperature=1"), "domains": ("math",), "store": folder, "sequential": True}
    return plan_comparison(CompareSettings.model_validate(given | more))


def rolled(chances: dict[str, float], tasks: int, seed: int) -> ScoreTable:
    rng = Random(seed)
    rows = [
        Observation(arm=arm, task=f"t{task}", g=g, score=float(rng.random() < chance))
        for task in range(tasks)
        for g in range(4)
        for arm, chance in chances.items()
    ]
    return tabulate(rows, list(chances))


def test_an_undecided_task_is_not_an_early_stop(tmp_path: Path) -> None:
    design, found = (
        SequentialDesign(plan(tmp_path, limit=8), Rules(), {}),
        rolled({"none": 0.5, "hot": 0.5}, tasks=7, seed=0),
    )
    assert design.summary(found, early=False).startswith("went through all tasks: 7 of 8 tasks")
    assert design.summary(found, early=True).startswith("stopped early because every arm had a verdict: 7 of 8 tasks")


def test_clusters_come_whole_and_each_task_once(tmp_path: Path) -> None:
    found = plan(tmp_path)
    blocks = [tasks for _, tasks in SequentialDesign(found, Rules(), {}).blocks()]
    tried = [task for tasks in blocks for task in tasks]
    assert sorted(task.id for task in tried) == sorted(task.id for task in found.task_sets[0].tasks)
    homes = {}
    for place, tasks in enumerate(blocks):
        for task in tasks:
            assert homes.setdefault(task.family, place) == place, "a family is not torn apart"
    assert len(blocks) > 5
    other = [task for _, tasks in SequentialDesign(plan(tmp_path, seed=1), Rules(), {}).blocks() for task in tasks]
    assert [task.family for task in other] != [task.family for task in tried]


def test_a_larger_difference_stops_sooner(tmp_path: Path) -> None:
    design = SequentialDesign(plan(tmp_path), Rules(), {})

    def needed(gain: float) -> int:
        return next(n for n in range(4, 400, 8) if design.has_verdict(rolled({"none": 0.4, "hot": 0.4 + gain}, n, 1)))

    large, small = needed(0.5), needed(0.2)
    assert 3 < large < small


def test_it_does_not_stop_while_undecided_rollouts_withhold_the_verdict(tmp_path: Path) -> None:
    design, found = SequentialDesign(plan(tmp_path), Rules(), {}), rolled({"none": 0.5, "hot": 0.5}, 60, 1)
    gone = {"score": None, "status": "undecided", "error": "timeout"}
    rows = [one for arm in found.arms for one in found.all[arm]]
    lost = [one.model_copy(update=gone) if one.arm == "hot" and one.score == 0 else one for one in rows]
    table = tabulate(lost, found.arms)
    assert not design.has_verdict(table)
    (one,) = with_verdicts(design.anytime_contrasts(estimate_contrasts(table, Rules()), table), table, Rules())
    assert one.withheld_code == "bounds", "the decided rollouts alone would say better"


@pytest.mark.slow
def test_the_error_rate_holds_although_it_looks_every_time(tmp_path: Path) -> None:
    design = SequentialDesign(plan(tmp_path), Rules(), {})
    wrong = 0
    for seed in range(30):
        whole = rolled({"none": 0.5, "hot": 0.5}, 80, seed)
        rows = {arm: whole.all[arm] for arm in whole.arms}
        for n in range(10, 81, 10):
            kept = [one for seen in rows.values() for one in seen if int(one.task[1:]) < n]
            if design.has_verdict(tabulate(kept, whole.arms)):
                wrong += 1
                break
    assert wrong <= 4, "1.5 are expected at most; more than 4 of 30 has a chance below 2 %"


def test_sequential_estimates_are_valid_at_any_time(tmp_path: Path) -> None:
    design = SequentialDesign(plan(tmp_path), Rules(), {})
    found = rolled({"none": 0.3, "hot": 0.8}, 60, 2)
    (one,) = with_verdicts(design.anytime_contrasts(estimate_contrasts(found, Rules()), found), found, Rules())
    assert (one.verdict, one.method) == ("better", "bets")
    assert one.low is not None
    assert one.mean is not None
    assert 0 < one.low < one.mean
    assert "are valid at any time" in design.summary(found, early=False)


def test_any_pairs_are_estimated_at_any_time(tmp_path: Path) -> None:
    found = rolled({"none": 0.3, "hot": 0.8, "cold": 0.3}, 60, 2)
    rules = Rules(pairs=(("hot", "cold"), ("none", "hot")))
    design = SequentialDesign(plan(tmp_path), rules, {("hot", "cold"): 2})
    drafts = design.anytime_contrasts(estimate_contrasts(found, rules), found)
    assert [(one.arm, one.baseline, one.look) for one in drafts] == [("cold", "hot", 2), ("hot", "none", 1)]
    assert [one.verdict for one in with_verdicts(drafts, found, rules)] == ["worse", "better"]


def test_a_margin_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--margin"):
        plan(tmp_path, margin=0.1)
