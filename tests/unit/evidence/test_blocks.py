"""From rollouts to comparisons: what counts, once, and only where the lesson would have been shown."""

from dataclasses import replace
from typing import Any

import pytest

from agentlearn.learning.evidence import LessonBlock, blocks_of
from agentlearn.store import ExposedRow
from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId, RunId, TaskId

A, B = ExperienceId("a"), ExperienceId("b")
DAY = 86_400_000_000


def row(g: int, reward: float | None, masked: tuple[str, ...] = (), **changes: Any) -> ExposedRow:
    """A rollout of a task of a run."""
    made = ExposedRow(
        id=RolloutId(f"{changes.get('run', 'run')}-{changes.get('task', 't')}-{g}-{changes.get('attempt', 0)}"),
        run=RunId("run"),
        phase="epoch-1",
        batch=1,
        task=TaskId("t"),
        g=g,
        attempt=0,
        seed=g,
        model="m",
        library=LibraryVersion("v"),
        masked=[ExperienceId(one) for one in masked],
        offered=None,
        arm="main",
        reward=reward,
        at=g,
        run_name="",
        episode="",
        experiences=[A, B],
        family="",
    )
    return replace(made, **changes)


def live(number: int, reward: float | None, masked: tuple[str, ...] = (), **changes: Any) -> ExposedRow:
    """A recorded rollout."""
    given = {
        "phase": "live",
        "task": TaskId(f"t{number}"),
        "at": number,
        "run_name": "desk",
        "id": RolloutId(f"l{number}"),
    }
    return row(number, reward, masked, **given | changes)


def test_a_group_gives_one_difference_for_each_hidden_lesson() -> None:
    rows = [row(0, 1.0), row(1, 1.0, ("b",)), row(2, 0.0, ("a",)), row(3, 0.0), row(4, 1.0)]
    first, second = blocks_of(rows)
    assert first == LessonBlock(A, "m", effect=0.75, shown=4, hidden=1, at=0, level=0.0, task="t")
    assert (second.lesson, second.effect) == (B, pytest.approx(-0.5))


def test_undecided_rollouts_count_as_half_right_and_bound_the_effect() -> None:
    (block,) = blocks_of([row(0, 1.0), row(1, None), row(2, 1.0, ("a",)), row(3, None, ("a",))])
    assert (block.effect, block.shown, block.hidden, block.lost_shown, block.lost_hidden) == (0.0, 1, 1, 1, 1)
    assert (block.bounds(), block.alike()) == ((-0.5, 0.5), (0.0, 0.0))
    (one_sided,) = blocks_of([row(0, 1.0), row(1, 1.0), row(2, None, ("a",))])
    assert (one_sided.effect, one_sided.bounds(), one_sided.alike()) == (0.5, (0.0, 1.0), (1.0, 0.0))
    assert blocks_of([row(0, None), row(1, None, ("a",))]) == []


def test_a_rollout_counts_only_where_retrieval_chose_the_lesson() -> None:
    rows = [row(0, 1.0, offered=[B]), row(1, 0.0, ("a",), offered=[B]), row(2, 0.0, ("b",), offered=[B])]
    assert [one.lesson for one in blocks_of(rows)] == [B]


def test_another_task_batch_model_or_version_is_another_block() -> None:
    rows = [row(0, 1.0), row(1, 0.0, ("a",))]
    for change in ({"task": TaskId("u")}, {"batch": 2}, {"model": "n"}, {"library": LibraryVersion("w")}):
        moved = [rows[0], replace(rows[1], **change)]
        assert blocks_of(moved) == [], change


def test_the_latest_attempt_counts_once() -> None:
    rows = [row(0, 1.0), row(1, 1.0, ("a",)), row(1, 0.0, ("a",), attempt=1, at=9)]
    (block,) = blocks_of(rows)
    assert (block.effect, block.hidden) == (1.0, 1)


def test_a_run_that_is_repeated_with_its_seed_adds_nothing() -> None:
    rows = [row(0, 1.0), row(1, 0.0, ("a",))]
    again = [replace(one, run=RunId("second"), id=RolloutId(f"again-{one.g}"), at=one.at + 10) for one in rows]
    assert blocks_of([*rows, *again]) == blocks_of(rows)
    other_seed = [replace(one, seed=one.seed + 100) for one in again]
    assert len(blocks_of([*rows, *other_seed])) == 2


def test_measurements_and_rewards_of_another_scale_are_left_out() -> None:
    assert blocks_of([row(0, 1.0, phase="validation"), row(1, 0.0, ("a",), phase="validation")]) == []
    assert blocks_of([row(0, 5.0), row(1, 0.0, ("a",))]) == []


def test_a_block_on_the_task_that_a_lesson_comes_from_is_marked() -> None:
    rows = [row(0, 1.0), row(1, 0.0, ("a",))]
    (block,) = blocks_of(rows, {A: {TaskId("t")}})
    assert block.own_task


def test_live_episodes_are_compared_with_their_neighbours_of_the_same_day_and_version() -> None:
    rows = [live(1, 1.0), live(2, 0.0), live(3, 0.0, ("a",)), live(4, 1.0, ("a",)), live(5, 1.0)]
    first, second = blocks_of(rows)
    assert (first.effect, first.shown, first.hidden) == (0.5, 2, 1)
    assert (second.effect, second.shown, second.hidden) == (0.0, 1, 1)
    assert blocks_of([live(1, 1.0), live(2, 0.0, ("a",), at=DAY + 1)]) == []
    assert blocks_of([live(1, 1.0), live(2, 0.0, ("a",), library=LibraryVersion("w"))]) == []
    assert blocks_of([live(1, None), live(2, 0.0, ("a",))]) == [], "a rollout without feedback says nothing"


def test_an_episode_counts_once_and_not_at_all_when_its_lessons_changed() -> None:
    rows = [live(1, 1.0, episode="e"), live(2, 0.0, episode="e"), live(3, 0.0, ("a",), episode="f")]
    (block,) = blocks_of(rows)
    assert (block.effect, block.shown, block.hidden) == (0.5, 1, 1)
    flipped = [live(1, 1.0, episode="e"), live(2, 0.0, ("a",), episode="e"), live(3, 0.0, ("a",), episode="f")]
    assert blocks_of(flipped) == []
