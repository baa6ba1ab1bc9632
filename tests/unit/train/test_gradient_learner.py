"""The learner of a training run: advantages by the settings, several rewards, dynamic sampling, checkpoints."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentlearn.errors import WeightsDiffer
from agentlearn.learning.callbacks import Advanced, Held, Update
from agentlearn.train.gradient_learner import GradientLearner
from agentlearn.train.settings import train_settings
from agentlearn.train.update.metrics import UNEXPLAINED, UNEXPLAINED_ROW, StepMetrics, hints
from agentlearn.train.update.sequences import PromptPair, TrainingRow
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.group import Group
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from tests.support.batches import RecordingSampler, in_order, sampled_group


def brevity(task: Task, answer: str | None) -> float:
    return 1 / (1 + len(answer or ""))


async def vowels(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    assert trajectory.task == task.id
    return sum(one in "aeiou" for one in answer or "") / 10


def picky(task: Task, answer: str | None) -> float:
    if answer == "no":
        raise ValueError("what is no?")
    return 1.0


BREVITY, VOWELS, PICKY = (f"{__name__}:{one.__name__}" for one in (brevity, vowels, picky))


class StubUpdater:
    """Notes the rows of each step."""

    def __init__(self) -> None:
        self.steps = self.skipped = 0
        self.model = None
        self.figures: dict[str, float] = {}
        self.batches: list[Sequence[TrainingRow]] = []

    def step(self, rows: Sequence[TrainingRow], **_: Any) -> StepMetrics:
        self.batches.append(rows)
        learned = any(row.advantage for row in rows)
        self.steps += learned
        figures = {"reward": sum(row.reward for row in rows) / len(rows)} if rows else {}
        return StepMetrics(
            steps=int(learned),
            skipped=0,
            rows=len(rows),
            masked=0,
            tokens=0,
            seconds=0.0,
            figures=figures | self.figures,
            farthest=rows[-1].rollout if rows else None,
        )


class StubCheckpoints:
    def __init__(self) -> None:
        self.saved: list[int] = []

    def save(self, updater: Any, done: int) -> None:
        self.saved.append(done)

    def restore(self, updater: Any, path: Path) -> int:
        return int(path.name)


class StubTeaching:
    """Lessons that the last two rollouts of each group were sampled with."""

    library = EMPTY_LIBRARY

    async def read(self, tasks: Any) -> None: ...

    def guided(self, trajectory: Trajectory) -> bool:
        return trajectory.g >= 2

    def prompts(self, trajectory: Trajectory) -> Any:
        pair = PromptPair(student=(5, 6, 7), teacher=(9, 5, 6, 7))
        return SimpleNamespace(guided=self.guided(trajectory), pair=lambda _: pair)


def learner(total: int = 9, save_every: int = 20, batch_size: int = 2, **gradient: Any) -> Any:
    """A learner with stubs for the updater, the sampler and the checkpoints."""
    settings = train_settings(
        {
            "domain": "math",
            "model": "somewhere",
            "batch_size": batch_size,
            "save_every": save_every,
            "gradient": gradient,
            "max_output_tokens": 8,
        }
    )
    parts: Any = (StubUpdater(), RecordingSampler(), StubCheckpoints())
    return GradientLearner(EMPTY_LIBRARY, settings, *parts, total=total)


def group(name: str, *rewards: float | None, answers: Sequence[str] = ("yes",), step: int = 0) -> Group:
    return sampled_group(name, rewards, answers=answers, weights_step=step)


def update(one: Any, *groups: Group) -> Update:
    return asyncio.run(one.update(in_order(groups), step=f"epoch-1/{one.done + 1}"))


def advantages(one: Any) -> dict[str, float]:
    """Advantage by rollout of the last step."""
    return {row.rollout: row.advantage for row in one.updater.batches[-1]}


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        ("group", [-1.0, 1.0, -(3**0.5) / 3, -(3**0.5) / 3, -(3**0.5) / 3, 3**0.5]),
        ("none", [-0.5, 0.5, -0.25, -0.25, -0.25, 0.75]),
        ("leave_one_out", [-1.0, 1.0, -1 / 3, -1 / 3, -1 / 3, 1.0]),
        ("max_rl", [-1.0, 1.0, -1.0, -1.0, -1.0, 3.0]),
    ],
)
def test_the_advantages_are_those_of_the_settings(scaling: str, expected: list[float]) -> None:
    one = learner(advantages=scaling)
    update(one, group("t", 0.0, 1.0), group("u", 0.0, 0.0, 0.0, 1.0))
    assert list(advantages(one).values()) == pytest.approx(expected, abs=1e-4)


def test_several_rewards_are_weighted_and_their_means_shown() -> None:
    """Group t differs only in the further rewards, and a failed rollout has none of them."""
    one = learner(advantages="none", rewards={BREVITY: 2.0, VOWELS: 1.0}, reward_weight=0.5)
    made = update(one, group("t", 1.0, 1.0, None, answers=["a", "bcd", ""]))
    sums = [0.5 + 2 / 2 + 0.1, 0.5 + 2 / 4, 0.0]
    mean = sum(sums) / 3
    assert list(advantages(one).values()) == pytest.approx([own - mean for own in sums])
    figures = made.evidence.metrics
    assert figures[f"rewards/{BREVITY}/mean"] == pytest.approx((1 / 2 + 1 / 4 + 0) / 3)
    assert figures[f"rewards/{VOWELS}/mean"] == pytest.approx(0.1 / 3)
    assert figures[f"rewards/{VOWELS}/failed"] == 0
    assert made.evidence.notes == ()


def test_long_answers_are_punished() -> None:
    one = learner(advantages="none", overlong_window=8)
    update(one, group("t", 0.0, 1.0))
    assert advantages(one) == {"t-0": -0.5, "t-1": 0.5}


def test_several_rewards_can_be_normalised_one_by_one() -> None:
    one = learner(rewards={BREVITY: 1.0}, reward_combination="normalise_then_sum", advantage_eps=1e-6)
    update(one, group("t", 0.0, 1.0, answers=["", "bcd"]), group("u", 0.0, 1.0, answers=["bcd", ""]))
    assert list(advantages(one).values()) == pytest.approx([0, 0, -(2**0.5), 2**0.5], abs=1e-4)


def test_a_reward_that_fails_is_counted_and_never_scored_as_0() -> None:
    one = learner(advantages="none", rewards={PICKY: 1.0})
    made = update(one, group("t", 0.0, 1.0, 1.0, answers=["yes", "no", "yes"]))
    assert advantages(one) == {"t-0": -0.5, "t-2": 0.5}
    assert made.evidence.metrics[f"rewards/{PICKY}/failed"] == 1
    assert made.evidence.metrics[f"rewards/{PICKY}/mean"] == 1.0
    (note,) = made.evidence.notes
    assert note.startswith(f"epoch-1/1: these rewards failed: '{PICKY}' 1 times; their rollouts were left out.")
    assert "ValueError: what is no?" in note
    assert update(one, group("t", 0.0, 1.0)).evidence.notes == ()


def test_an_update_waits_for_enough_groups_that_differ() -> None:
    one = learner(dynamic_sampling_limit=4, save_every=1)
    first = update(one, group("t", 0.0, 0.0), group("u", 0.0, 1.0))
    assert first.outcome == Held(
        reason="1 of 2 groups have rewards that differ, after 1 of at most 4 batches; the update waits for more"
    )
    assert first.evidence.metrics["groups/waiting"] == 1
    assert first.evidence.metrics["reward"] == 0.25
    assert first.evidence.groups == {"all_wrong": 1, "mixed": 1}
    second = update(one, group("v", 1.0, 1.0), group("a", 1.0, 1.0))
    assert isinstance(second.outcome, Held)
    third = update(one, group("w", 0.0, 1.0), group("b", 0.0, 1.0))
    assert third.outcome == Advanced(version="step-1", parent="step-0")
    assert list(advantages(one)) == ["b-0", "b-1", "u-0", "u-1", "w-0", "w-1"]
    assert [row.staleness for row in one.updater.batches[0]] == [0] * 6
    assert one.checkpoints.saved == [3]  # not while groups wait
    assert isinstance(update(one, group("t", 0.0, 1.0, step=1)).outcome, Held)
    assert one.done == 4


def test_an_update_is_made_at_the_limit_and_after_the_last_batch() -> None:
    one = learner(dynamic_sampling_limit=2, total=3)
    outcomes = [
        update(one, group(name, *rewards)).outcome.outcome for name, rewards in (("t", (0.0, 1.0)), ("u", (0.0, 0.0)))
    ]
    assert outcomes == ["held", "advanced"]
    assert list(advantages(one)) == ["t-0", "t-1"]
    assert update(one, group("v", 0.0, 1.0, step=1)).outcome.outcome == "advanced"
    assert one.checkpoints.saved == [3]


def test_rollouts_sampled_with_lessons_are_not_learned_from_by_their_rewards() -> None:
    gradient = {"distillation": {"coef": 1.0, "guided_share": 0.5}, "reference": "copy", "loss": "grpo"}
    settings = train_settings({"domain": "math", "model": "x", "distill": "rules", "gradient": gradient})
    parts: Any = (StubUpdater(), RecordingSampler(), StubCheckpoints())
    one: Any = GradientLearner(EMPTY_LIBRARY, settings, *parts, teaching=StubTeaching())  # pyright: ignore[reportArgumentType]
    update(one, group("t", 0.0, 1.0, 0.0, 1.0))
    found = advantages(one)
    assert (found["t-2"], found["t-3"]) == (0.0, 0.0)
    assert found["t-0"] < 0 < found["t-1"]
    assert [row.is_comparable for row in one.updater.batches[-1]] == [True, True, False, False]


def test_rewards_that_are_all_0_are_explained_first() -> None:
    one = learner()
    first = update(one, group("t", *[0.0] * 8), group("u", *[0.0] * 8))
    (note,) = first.evidence.notes
    assert "gives 0 to right answers" in note
    assert "--only-instructions" in note
    assert update(one, group("v", *[0.0] * 8)).evidence.notes == ()
    update(one, group("w", 0.0, 0.5))
    assert not hints(one._figures, 1.0)


def test_one_and_the_same_graded_reward_asks_what_the_reward_reads() -> None:
    one = learner()
    (note,) = update(one, group("t", *[0.5] * 8), group("u", *[0.5] * 8)).evidence.notes
    assert note == "every rollout so far got 0.5, so nothing is learned: does the reward read the answer?"


@pytest.mark.parametrize(
    ("differences", "named"), [((0.01, 0.01), False), ((0.0001, 0.003), True), ((0.001, 0.002), None)]
)
def test_a_difference_from_the_sampler_ends_the_run_also_in_a_single_row(
    differences: tuple[float, float], named: bool | None
) -> None:
    one = learner(lora_rank=4, lora_dropout=0.1)  # dropout is no reason for a difference
    one.updater.figures = dict(zip((UNEXPLAINED, UNEXPLAINED_ROW), differences, strict=True))
    if named is None:
        update(one, group("t", 0.0, 1.0))
        return
    with pytest.raises(WeightsDiffer) as refused:
        update(one, group("t", 0.0, 1.0))
    of = "tokens of rollout 't-1'" if named else "sampled tokens"
    found = differences[named]
    assert f"give the {of} log-probabilities that differ by {found:.3g} nats" in refused.value.message


def test_why_no_weight_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GradientLearner, "weights_sha256", lambda _: "")
    equal, none, mixed, lost = (learner() for _ in range(4))
    update(equal, group("t", 0.5, 0.5))
    update(equal, *(group(one, *[0.5] * 8) for one in "uv"))
    assert equal.nothing_changed == (
        "no update was made, because all groups had equal rewards; every rollout so far got 0.5, so nothing is learned:"
        " does the reward read the answer?"
    )
    update(equal, group("u", 1.0, 1.0))
    assert equal.nothing_changed.endswith("equal rewards; use tasks whose attempts differ, or check the reward")
    assert "because no rollout has a reward" in none.nothing_changed
    lost.updater.skipped = 3
    assert "the gradient of all 3 steps was not finite" in lost.nothing_changed
    update(mixed, group("t", 0.0, 1.0))
    assert mixed.nothing_changed == "1 optimiser steps changed no weight; use a higher learning_rate"
    mixed.first_sha256 = "another"
    assert mixed.nothing_changed == ""
