"""Sampling runs ahead of the updates by a limited number of batches, and by no more than it is of use."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.learning.batch import Allocation, Batch, GroupStream, SamplingAhead, Schedule
from agentlearn.types.group import Group
from agentlearn.types.task import Task

TASKS = [Task.of("math", f"What is {n} + 1?", str(n + 1), family="sums", source="generated") for n in range(12)]


async def sampled(most: int, slots: int, delays: list[int], *, done: int = 0) -> list[tuple[str, int]]:
    """Run 12 batches of one task with 2 rollouts each; return `planned`, `complete` and `updated` with the batch."""
    said, room, plans = list[tuple[str, int]](), asyncio.Semaphore(slots), dict[int, int]()
    schedule = Schedule(TASKS, Allocation.of_all(2), epochs=1, size=1, seed=0)
    for _ in range(done):
        schedule.following()

    async def rollout(batch: Batch, groups: GroupStream, g: int) -> None:
        async with room:
            groups.rollout_started()
            for _ in range(delays[(2 * batch.number + g) % len(delays)]):
                await asyncio.sleep(0)

    async def group(batch: Batch, groups: GroupStream) -> None:
        async with asyncio.TaskGroup() as both:
            for g in range(2):
                both.create_task(rollout(batch, groups, g))
        groups.put(Group(task=batch.tasks[0], trajectories=()))
        said.append(("complete", batch.number))

    async with asyncio.TaskGroup() as under_way:

        def start(batch: Batch) -> GroupStream:
            groups = GroupStream(1, rollouts=2)
            plans[batch.number] = sampling.updates
            said.append(("planned", batch.number))
            under_way.create_task(group(batch, groups))
            return groups

        sampling = SamplingAhead(schedule, start, most=most, updates=done)
        under_way.create_task(sampling.run())
        number, found = done, await sampling.next()
        while found is not None:
            batch, groups = found
            number += 1
            assert batch.number == number
            assert 0 <= sampling.updates - plans[number] <= most
            async for _ in groups:
                await asyncio.sleep(0)
            said.append(("updated", number))
            found = await sampling.next()  # as the loop does, to know whether this was the last batch
            sampling.updated()
    assert number == 12
    return said


@given(st.integers(1, 8), st.integers(1, 9), st.lists(st.integers(0, 12), min_size=1, max_size=7), st.integers(0, 11))
def test_no_batch_misses_more_updates_than_the_limit_and_all_are_learned_in_order(
    most: int, slots: int, delays: list[int], done: int
) -> None:
    said = asyncio.run(sampled(most, slots, delays, done=done))
    assert [number for word, number in said if word == "updated"] == list(range(done + 1, 13))


@pytest.mark.parametrize("most", [1, 3])
def test_slow_last_rollouts_leave_no_slot_idle(most: int) -> None:
    said = asyncio.run(sampled(most, 2, [1, 30]))
    assert said.index(("planned", 2)) < said.index(("complete", 1))
