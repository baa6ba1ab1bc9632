"""How many rollouts a group gets, and which tasks an epoch visits: laws of the pure rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.config import LearnSettings
from agentlearn.learning.batch import Allocation, Batch, Schedule, batches_of
from agentlearn.types.ids import TaskId
from agentlearn.types.task import Task
from tests.support.cases import cases
from tests.support.stages import group

TASKS = tuple(Task.of("math", f"What is {n} + {n}?", str(2 * n)) for n in range(12))


rewards = st.sampled_from([0.0, 0.02, 0.5, 0.98, 1.0])


margins = st.sampled_from([0.0, 0.05, 1.0])
allocations = st.builds(
    Allocation,
    group_size=st.integers(1, 9),
    stop_after=st.integers(2, 12),
    margin=margins,
    revisit_every=st.integers(1, 6),
)


@given(
    allocation=st.builds(Allocation, group_size=st.just(9), stop_after=st.integers(2, 12), margin=margins),
    drawn=st.lists(st.sampled_from([None, 0.0, 0.02, 0.98, 1.0]), min_size=9, max_size=9),
)
def test_a_group_ends_with_its_first_wave_if_its_rewards_differ_or_are_all_right_and_else_is_whole(
    allocation: Allocation, drawn: list[float | None]
) -> None:
    wave = drawn[: allocation.first_wave]
    decided = [one for one in wave if one is not None]
    differ = bool(decided) and max(decided) - min(decided) > allocation.margin
    ends = differ or all(one == 1.0 for one in wave)
    assert len(wave) + allocation.more(wave) == (allocation.first_wave if ends else allocation.group_size)


@given(allocation=allocations, wave=st.lists(rewards, min_size=1, max_size=9))
def test_the_order_of_rewards_does_not_matter_and_a_larger_margin_never_saves(
    allocation: Allocation, wave: list[float]
) -> None:
    more = allocation.more(wave)
    assert allocation.more(wave[::-1]) == more
    wider = Allocation(allocation.group_size, allocation.stop_after, allocation.margin + 0.1)
    assert wider.more(wave) >= more


@given(seed=st.integers(0, 99), every=st.integers(1, 6), start=st.integers(1, 20))
def test_a_settled_task_is_visited_once_in_so_many_epochs(seed: int, every: int, start: int) -> None:
    allocation = Allocation(5, 3, revisit_every=every)
    for task in TASKS[:3]:
        epochs = range(start, start + every)
        visited = [allocation.visits(task.id, epoch=one, settled=True, seed=seed) for one in epochs]
        assert sum(visited) == 1
        assert all(allocation.visits(task.id, epoch=one, settled=False, seed=seed) for one in epochs)


@given(
    allocation=allocations,
    epochs=st.integers(0, 6),
    size=st.integers(1, 14),
    seed=st.integers(0, 20),
    right=st.sets(st.tuples(st.integers(1, 6), st.integers(0, 11))),
)
def test_every_epoch_visits_what_is_due_in_the_order_of_all_tasks(
    allocation: Allocation, epochs: int, size: int, seed: int, right: set[tuple[int, int]]
) -> None:
    """right: epochs and numbers of tasks; a visit there ends all right."""
    settled: dict[TaskId, bool] = {}
    schedule = Schedule(TASKS, allocation, epochs=epochs, size=size, seed=seed, settled=settled)
    made: list[Batch] = []
    while True:
        possible = schedule.may_follow()
        if (batch := schedule.following()) is None:
            break
        assert set(batch.tasks) <= set(possible)
        if batch.first:
            due = [
                one
                for one in TASKS
                if allocation.visits(one.id, epoch=batch.epoch, settled=settled.get(one.id, False), seed=seed)
            ]
            assert (batch.of_epoch, batch.skipped) == (len(due), len(TASKS) - len(due))
        made.append(batch)
        settled.update({one.id: (batch.epoch, TASKS.index(one)) in right for one in batch.tasks})
    for epoch in range(1, epochs + 1):
        parts = [one for one in made if one.epoch == epoch]
        (whole,) = batches_of(TASKS, epochs=epoch, size=len(TASKS), seed=seed)[epoch - 1 :]
        visited = [task for part in parts for task in part.tasks]
        assert visited == [task for task in whole.tasks if task in set(visited)]
        assert [part.number for part in parts] == list(range(1, len(parts) + 1))
        assert [part.first for part in parts] == [part.number == 1 for part in parts]
        assert [part.last for part in parts] == [part.number == len(parts) for part in parts]
        assert all(len(part.tasks) == size for part in parts[:-1])
    if allocation.revisit_every == 1:
        assert made == batches_of(TASKS, epochs=epochs, size=size, seed=seed)


@given(allocation=allocations, epochs=st.integers(1, 8), right=st.floats(0, 1), mixed=st.floats(0, 1))
def test_what_is_expected_lies_between_the_least_and_the_most(
    allocation: Allocation, epochs: int, right: float, mixed: float
) -> None:
    shares = allocation.expected_visits(epochs, right)
    assert shares[0] == 1.0
    assert all(1 / allocation.revisit_every - 1e-9 <= one <= 1 + 1e-9 for one in shares)
    assert allocation.first_wave <= allocation.expected_size(mixed) <= allocation.group_size


def test_rewards_within_the_margin_are_equal_on_both_sides_of_the_threshold(subtests: pytest.Subtests) -> None:
    for rewards_of_group, threshold, margin, kind, settled in cases(
        __file__, "rewards_within_the_margin_are_equal_on_both_sides_of_the_threshold"
    ):
        with subtests.test(repr((rewards_of_group, threshold, margin, kind, settled))):
            found = group(rewards_of_group)
            assert (found.kind(threshold, margin), found.settled(threshold, margin)) == (kind, settled)


def test_stored_rollouts_are_all_read() -> None:
    settings = LearnSettings(
        domain="math", group_size=5, stop_after=3, revisit_every=4, reward_margin=0.05, end_when_settled=0.7
    )
    assert Allocation.of(settings) == Allocation(5, 3, 0.05, 4, 0.7)
    assert Allocation.of(settings.model_copy(update={"from_store": True})) == Allocation.of_all(5)
    assert Allocation.of_all(5).first_wave == 5


def test_tasks_with_equal_rewards_are_visited_by_chance_and_others_always() -> None:
    equal = {task.id: at % 2 == 0 for at, task in enumerate(TASKS)}
    made: dict[float, list[tuple[TaskId, ...]]] = {}
    for chance in (1.0, 0.3):
        schedule = Schedule(TASKS, Allocation.of_all(4, chance), epochs=200, size=12, seed=1, equal=equal)
        made[chance] = [tuple(one.id for one in batch.tasks) for batch in iter(schedule.following, None)]
    assert all(len(one) == len(TASKS) for one in made[1.0])
    for task in TASKS:
        visits = sum(task.id in one for one in made[0.3])
        assert visits == 200 if not equal[task.id] else 40 < visits < 80
    again = Schedule(TASKS, Allocation.of_all(4, 0.3), epochs=200, size=12, seed=1, equal=equal)
    assert [tuple(one.id for one in batch.tasks) for batch in iter(again.following, None)] == made[0.3]
