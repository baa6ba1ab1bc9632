"""Which lessons are proposed: those whose removal is shown to be not worse, and no others."""

from random import Random

import pytest

from agentlearn.measure.contrast import Contrast
from agentlearn.measure.contrasts import LossEvidence, Rules, estimate_contrasts, shows_no_loss, with_verdicts
from agentlearn.measure.score_table import Observation, tabulate

TASKS, K = 200, 4


def contrasts(
    chances: dict[str, float],
    *,
    lost: dict[str, int] | None = None,
    tasks: int = TASKS,
    families: int = TASKS,
    margin: float = 0.1,
) -> dict[str, Contrast]:
    """Contrasts of simulated rollouts against the first arm. lost: undecided rollouts of an arm, all of them wrong."""
    rng, rows = Random(1), list[Observation]()
    draws = {(task, g): rng.random() for task in range(tasks) for g in range(K)}
    for arm, chance in chances.items():
        left = (lost or {}).get(arm, 0)
        for (task, g), drawn in draws.items():
            score: float | None = float(drawn < chance)
            if left and not score:
                score, left = None, left - 1
            status = "undecided" if score is None else "ok"
            family = f"f{task % families}"
            rows.append(Observation(arm=arm, task=f"t{task}", g=g, score=score, status=status, cluster=family))
    table, rules = tabulate(rows, list(chances)), Rules(margin=margin)
    return {one.arm: one for one in with_verdicts(estimate_contrasts(table, rules), table, rules)}


def test_a_lesson_whose_effect_is_gone_is_proposed_and_one_whose_effect_is_there_is_not() -> None:
    found = contrasts({"both": 0.9, "without-gone": 0.9, "without-there": 0.6})
    assert shows_no_loss(found["without-gone"], "verdict")
    assert not shows_no_loss(found["without-there"], "verdict")
    assert not shows_no_loss(found["without-there"], "margin")


def test_a_small_loss_above_the_margin_is_never_proposed() -> None:
    found = contrasts({"both": 0.9, "without": 0.78})
    assert not shows_no_loss(found["without"], "verdict")
    assert not shows_no_loss(found["without"], "margin")


def test_few_families_propose_nothing_by_a_verdict_and_something_by_the_margin_alone() -> None:
    found = contrasts({"both": 0.9, "without": 0.895}, tasks=60, families=25, margin=0.1)["without"]
    assert "25 clusters" in found.caution
    assert not shows_no_loss(found, "verdict")
    assert shows_no_loss(found, "margin")


@pytest.mark.parametrize("evidence", ["verdict", "margin"])
def test_undecided_rollouts_that_could_hide_a_loss_withhold_the_proposal(evidence: LossEvidence) -> None:
    """Counted as right or left out, the arms would be equal; the lost rollouts could all be wrong."""
    lost = contrasts({"both": 0.8, "without": 0.7}, lost={"without": 80}, tasks=100)["without"]
    assert lost.undecided.arm == 80
    assert not shows_no_loss(lost, evidence)


def test_undecided_rollouts_of_both_arms_are_not_counted_as_wrong() -> None:
    few = contrasts({"both": 0.9, "without": 0.9}, lost={"both": 4, "without": 4})
    assert few["without"].mean == 0
    assert shows_no_loss(few["without"], "verdict")


def test_more_lessons_need_more_evidence() -> None:
    """The margin test is corrected for the number of lessons: what one removal shows, one of forty may not."""
    chances = {"both": 0.9, "without": 0.88}
    alone = contrasts(chances, tasks=60, margin=0.08)["without"]
    many = contrasts(chances | {f"without-{n}": 0.84 for n in range(40)}, tasks=60, margin=0.08)["without"]
    assert alone.margin is not None
    assert many.margin is not None
    assert alone.margin.holds
    assert not many.margin.holds
    assert shows_no_loss(alone, "margin")
    assert not shows_no_loss(many, "margin")
