"""The score table: what is counted, which rollouts are left out, arms on different tasks."""

import pytest

from agentlearn.errors import DataError
from agentlearn.measure.contrast import Contrast
from agentlearn.measure.score_table import Observation, comparable, tabulate
from agentlearn_evals.analysis import flips


def seen(arm: str, task: str, g: int = 0, score: float | None = 1.0, **more: object) -> Observation:
    status = "undecided" if score is None else "ok"
    return Observation.model_validate({"arm": arm, "task": task, "g": g, "score": score, "status": status, **more})


def test_failures_are_zeros_that_count() -> None:
    lost = seen("b", "t", 1, 0.0, status="failed", error="too_many_turns")
    found = tabulate([seen("a", "t", 0), seen("a", "t", 1), seen("b", "t", 0), lost], ["a", "b"])
    assert found.means("b") == [0.5]
    assert found.differences("b", "a") == [-0.5]


def test_an_undecided_rollout_is_left_out_of_every_arm() -> None:
    rows = [seen(arm, "t", g, float(g == 0)) for arm in "abc" for g in range(3)]
    rows[4] = seen("b", "t", 1, None)
    found = tabulate(rows, ["a", "b", "c"])
    assert {arm: found.scores[arm]["t"] for arm in "abc"} == dict.fromkeys("abc", (1.0, 0.0))
    assert found.dropped == 1
    assert len(found.all["b"]) == 3, "it is still there to be counted"


def test_arms_on_different_tasks_are_refused_or_listed() -> None:
    rows = [seen("a", "t"), seen("b", "t"), seen("a", "u")]
    with pytest.raises(DataError, match=r"'b' has no rollout of task 'u'.*--allow-missing") as refused:
        tabulate(rows, ["a", "b"])
    assert refused.value.code == "bad_data"
    found = tabulate(rows, ["a", "b"], allow_missing=True)
    assert found.tasks == ("t",)
    assert [(one.arm, one.task) for one in found.missing] == [("b", "u")]


def test_rollouts_that_only_some_arms_have_are_refused_or_listed() -> None:
    rows = [seen(arm, task, g) for arm in "ab" for task in "tu" for g in range(3)]
    del rows[9], rows[7]
    with pytest.raises(DataError) as refused:
        tabulate(rows, ["a", "b"])
    assert refused.value.code == "bad_data"
    assert str(refused.value) == (
        "the arms have different rollouts of the same tasks: 'b' has no rollout 1 of task 't' (rollouts: 'a' 6, 'b' 4,"
        " of 6); lost rollouts are often the wrong ones, so find them, or add --allow-missing to compare without them"
        " and see how far they could change the result"
    )
    found = tabulate(rows, ["a", "b"], allow_missing=True)
    assert [(one.arm, one.task, one.reason) for one in found.missing] == [
        ("b", "t", "no rollout 1"),
        ("b", "u", "no rollout 0"),
    ]
    assert {arm: len(found.scores[arm]["t"]) for arm in "ab"} == {"a": 3, "b": 2}, "all decided rollouts count"


def test_arms_are_comparable_when_one_task_is_decided_in_all() -> None:
    rows = [seen("a", "t", score=None), seen("b", "t"), seen("a", "u", 0), seen("b", "u", 1)]
    assert not comparable(rows[:2], ["a", "b"])
    assert comparable(rows, ["a", "b"])
    assert not comparable([*rows[:2], seen("c", "t")], ["a", "b"])


def test_example_rollouts_of_a_flip_are_found_without_trying_all_pairs() -> None:
    many = 20_000
    rows = [seen(arm, "t", g, float(arm == "b")) for arm in "ab" for g in range(many)]
    rows = [one.model_copy(update={"rollout": f"{one.arm}{one.g}"}) for one in rows]
    (flip,) = flips(tabulate(rows, ["a", "b"]), [Contrast(arm="b", baseline="a", mean=1.0)])
    assert (flip.rollout, flip.baseline_rollout) == ("b0", "a0")


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([seen("a", "t")], "bad_data"),
        ([seen("a", "t"), seen("a", "t"), seen("b", "t")], "bad_data"),
        ([seen("a", "t", score=None), seen("b", "t")], "bad_data"),
        ([seen("a", "t", cluster="x"), seen("b", "t", cluster="y")], "bad_data"),
    ],
)
def test_incomparable_observations_are_refused(rows: list[Observation], code: str) -> None:
    with pytest.raises(DataError) as refused:
        tabulate(rows, ["a", "b"])
    assert refused.value.code == code


@pytest.mark.parametrize(("score", "status"), [(None, "ok"), (1.0, "undecided"), (float("nan"), "ok")])
def test_a_score_is_none_exactly_when_undecided_and_never_nan(score: float | None, status: str) -> None:
    with pytest.raises(ValueError, match="score"):
        Observation.model_validate({"arm": "a", "task": "t", "score": score, "status": status})
