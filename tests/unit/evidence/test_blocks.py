"""From rollouts to comparisons: what counts, once, and only where the lesson would have been shown."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from agentlearn.learning.evidence import FeedbackWait, LessonBlock, LookedAt, blocks_of
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


def test_measurements_are_left_out_and_a_reward_of_another_scale_counts_as_undecided() -> None:
    assert blocks_of([row(0, 1.0, phase="validation"), row(1, 0.0, ("a",), phase="validation")]) == []
    (block,) = blocks_of([row(0, 5.0), row(1, 0.0, ("a",))])
    assert (block.shown, block.lost_shown, block.outside, block.alike()) == (0, 1, 1, (0.0, 1.0))
    (both,) = blocks_of([row(0, float("nan")), row(1, -1.0, ("a",))])
    assert (both.shown, both.hidden, both.outside) == (0, 0, 2), "it is counted, though it says nothing"
    (episode,) = blocks_of([live(1, 3.0, episode="e"), live(2, -1.0, episode="e"), live(3, 0.0, ("a",), episode="f")])
    assert episode.outside == 1, "a mean of such rewards may look like one of ours"


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
    (silent,) = blocks_of([live(1, None), live(2, 0.0, ("a",))])
    assert (silent.alike(), silent.bounds()) == ((0.0, 1.0), (0.5, 0.5)), "silence is no feedback, and no loss"


def test_live_blocks_are_looked_at_in_a_fixed_order_when_no_feedback_is_waited_for() -> None:
    wait = FeedbackWait(days=3, now=9 * DAY)
    young, old = (live(1, None, at=8 * DAY), live(2, 0.0, ("a",), at=8 * DAY + 1)), 6 * DAY
    late = live(5, 1.0, at=old, said=old + 3 * DAY + 1)
    behind = (live(3, 1.0, at=8 * DAY + 2), live(4, 0.0, ("a",), at=8 * DAY + 3))
    rows = [*young, *behind, late, live(6, 0.0, ("a",), at=old + 1)]
    found = LookedAt.of(blocks_of(rows, None, wait))
    assert [(one.lost_shown, one.hidden) for one in found.blocks] == [(1, 1)], "feedback that came too late is none"
    assert found.waiting == 4, "the second block has all its feedback, and stands behind one that has not"
    answered = [replace(young[0], reward=1.0), *rows[1:]]
    assert LookedAt.of(blocks_of(answered, None, wait)).waiting == 0


def test_the_wait_is_measured_on_episodes_of_a_week_ago_or_declared() -> None:
    now = datetime.fromtimestamp(30 * DAY / 1e6, UTC)
    rows = [live(n, 1.0, at=n, said=n + (2 * DAY + 1 if n % 10 == 0 else 60)) for n in range(1, 200)]
    assert FeedbackWait.of(rows, None, now).days == 3
    assert FeedbackWait.of(rows[:99], None, now).days == 7, "they are too few"
    assert FeedbackWait.of([replace(one, at=24 * DAY, said=24 * DAY) for one in rows], None, now).days == 7, "too young"
    assert FeedbackWait.of(rows, 0.5, now).days == 0.5


def test_an_episode_counts_once_and_not_at_all_when_its_lessons_changed() -> None:
    rows = [live(1, 1.0, episode="e"), live(2, 0.0, episode="e"), live(3, 0.0, ("a",), episode="f")]
    (block,) = blocks_of(rows)
    assert (block.effect, block.shown, block.hidden) == (0.5, 1, 1)
    flipped = [live(1, 1.0, episode="e"), live(2, 0.0, ("a",), episode="e"), live(3, 0.0, ("a",), episode="f")]
    assert blocks_of(flipped) == []
