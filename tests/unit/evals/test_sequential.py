"""Sequential comparisons: order of tasks, stopping, and error rate."""

from pathlib import Path
from random import Random

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


def test_a_larger_difference_stops_sooner(tmp_path: Path) -> None:
    design = SequentialDesign(plan(tmp_path), Rules(), {})

    def needed(gain: float) -> int:
        return next(n for n in range(2, 400) if design.has_verdict(rolled({"none": 0.4, "hot": 0.4 + gain}, n, 1)))

    large, small = needed(0.5), needed(0.2)
    assert 3 < large < small


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
