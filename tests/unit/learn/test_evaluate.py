"""Held-out scores are those of `compare`: clustered, bounded, undecided rollouts left out and never wrong."""

from collections.abc import Sequence

import pytest

from agentlearn.learning.evaluate import Scores, held_out, score_of, verdict_notes
from agentlearn.measure.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn.measure.score_table import tabulate
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Failure, FailureBoundary
from tests.support.cases import cases
from tests.support.stages import trajectory

ARMS = ("the start", "the end")
TASKS = [Task.of("math", f"Problem {n}?", str(n), family=f"f{n % 2}") for n in range(4)]


def tasks_of(families: Sequence[str]) -> list[Task]:
    return [Task.of("math", f"Problem {n}?", str(n), family=family) for n, family in enumerate(families)]


def scores(rewards: Sequence[Sequence[float | None]], tasks: Sequence[Task] = TASKS) -> Scores:
    made = [trajectory(one, g, reward) for one, row in zip(tasks, rewards, strict=True) for g, reward in enumerate(row)]
    return Scores.of(made, tasks, len(rewards[0]))


def failing(boundary: FailureBoundary) -> Scores:
    failure = Failure(code="x", message="x", boundary=boundary)
    one = trajectory(TASKS[0], 0, 1.0).model_copy(update={"failure": failure, "verdict": None})
    return Scores.of([one], TASKS, 1)


def test_paired_difference_over_tasks() -> None:
    before = scores([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    after = scores([[1.0, 0.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    result = held_out(TASKS, before, after, arms=ARMS, seed=0)
    assert (result.before.mean, result.after.mean, result.delta.mean) == (0.25, 0.75, 0.5)
    assert (result.delta.n, result.delta.clusters, result.families) == (4, 2, 2)
    assert [(one.k, one.at_least_one) for one in result.after.passes] == [(1, 0.75), (2, 1.0)]


def test_the_numbers_are_those_of_compare() -> None:
    """The same rollouts give the same interval, p and verdict in both."""
    tasks = tasks_of([f"f{n % 7}" for n in range(30)])
    before = scores([[float(n % 3 == 0), 0.0, float(n % 4 == 0)] for n in range(30)], tasks)
    after = scores([[1.0, float(n % 2), float(n % 4 != 1)] for n in range(30)], tasks)
    found = held_out(tasks, before, after, arms=ARMS, seed=3).delta
    table = tabulate([*before.named("a", tasks), *after.named("b", tasks)], ("a", "b"))
    rules = Rules(seed=3)
    [contrast] = with_verdicts(estimate_contrasts(table, rules), table, rules)
    assert (found.mean, found.ci, found.p) == (contrast.mean, (contrast.low, contrast.high), contrast.p_adjusted)
    assert (found.clusters, found.caution, found.verdict) == (contrast.clusters, contrast.caution, contrast.verdict)
    assert found.clusters == 7


@pytest.mark.parametrize(
    ("lost", "margin", "verdict"),
    cases(__file__, "with_a_margin_a_small_loss_is_no_loss"),
)
def test_with_a_margin_a_small_loss_is_no_loss(lost: int, margin: float | None, verdict: str) -> None:
    """Of 120 tasks, 20 are gained and 20 + lost are lost."""
    tasks = tasks_of([f"f{n}" for n in range(120)])
    before = scores([[float(20 <= n < 40 + lost)] for n in range(120)], tasks)
    after = scores([[float(n < 20)] for n in range(120)], tasks)
    assert held_out(tasks, before, after, arms=ARMS, seed=0, margin=margin).delta.verdict == verdict


def test_an_undecided_rollout_leaves_both_sides() -> None:
    before = scores([[None, 1.0], [0.0, 0.0], [0.0, 0.0], [None, None]])
    after = scores([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    result = held_out(TASKS, before, after, arms=ARMS, seed=0)
    assert (result.before.n, result.delta.n) == (3, 3)
    assert (result.before.undecided, result.after.undecided) == (3, 0)
    assert result.delta.mean == 0
    assert result.delta.worst is not None
    assert result.delta.worst.low == 0 < result.delta.worst.high


def test_an_outage_during_one_measurement_gives_no_verdict() -> None:
    """Half of the rollouts after learning got no answer: no number may say that learning helped or hurt."""
    tasks = tasks_of([f"f{n % 25}" for n in range(60)])
    before = scores([[1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]] * 30, tasks)
    after = scores([[None, None, 1.0, 1.0]] * 60, tasks)
    result = held_out(tasks, before, after, arms=ARMS, seed=0)
    assert result.delta.verdict == "cannot_tell"
    assert result.delta.withheld.startswith("No verdict: 120 rollouts of the end (")
    assert result.after.undecided == 120


def test_an_outage_is_not_called_the_absence_of_a_change() -> None:
    tasks = tasks_of([f"f{n % 25}" for n in range(60)])
    before = scores([[1.0, 0.0, None, None], [0.0, 1.0, None, None]] * 30, tasks)
    after = scores([[0.0, 1.0, None, None], [1.0, 0.0, 1.0, 0.0]] * 30, tasks)
    delta = held_out(tasks, before, after, arms=ARMS, seed=0).delta
    assert (delta.verdict, delta.withheld) == ("cannot_tell", "")
    assert delta.left_open == (
        "180 of 480 rollouts have no score, so the difference could be between -0.375 and +0.375"
    )
    assert delta.left_open in delta.sentence
    assert verdict_notes(delta, worse="", unclear="try more") == ()


def test_where_nothing_is_decided_there_is_no_number() -> None:
    result = held_out(TASKS, scores([[1.0]] * 4), scores([[None]] * 4), arms=ARMS, seed=0)
    assert (result.before.mean, result.after.mean, result.delta.mean) == (None, None, None)
    assert result.after.undecided == 4
    assert result.delta.sentence.startswith("No verdict")


@pytest.mark.parametrize(
    ("boundary", "mean", "undecided"),
    [("output", 0.0, 0), ("endpoint", None, 1), ("tool", None, 1), ("deadline", None, 1)],
)
def test_only_a_failure_of_the_agent_is_a_zero(boundary: FailureBoundary, mean: float | None, undecided: int) -> None:
    found = score_of(TASKS, failing(boundary))
    assert (found.mean, found.undecided, found.errors) == (mean, undecided, {"x": 1})


def test_one_task_has_no_interval() -> None:
    one = Scores.of([trajectory(TASKS[0], 0, 1.0)], TASKS, 1)
    other = Scores.of([trajectory(TASKS[0], 0, 0.0)], TASKS, 1)
    assert held_out(TASKS[:1], one, other, arms=ARMS, seed=0).delta.ci is None


def test_intervals_of_scores_stay_between_0_and_1() -> None:
    found = score_of(TASKS, scores([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]]))
    assert found.ci is not None
    assert 0 <= found.ci[0] <= found.ci[1] <= 1


def test_one_measurement_is_not_compared_with_itself() -> None:
    once = scores([[1.0, 0.0]] * 4)
    found = held_out(TASKS, once, once, arms=ARMS, seed=0).delta
    assert (found.mean, found.ci, found.p, found.compared) == (0.0, None, None, False)


def test_a_worse_result_is_said_first() -> None:
    tasks = tasks_of([""] * 60)
    before, after = scores([[1.0, 1.0]] * 40 + [[1.0, 0.0]] * 20, tasks), scores([[0.0, 0.0]] * 60, tasks)
    worse = held_out(tasks, before, after, arms=ARMS, seed=0)
    assert worse.delta.verdict == "worse"
    [note] = verdict_notes(worse.delta, worse="do not use it", unclear="more tasks")
    assert note == "held-out tasks got worse; do not use it"
