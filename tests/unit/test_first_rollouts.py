"""Which rollouts may start before one is decided, and when a run ends because the first ones fail alike."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from agentlearn.domain.contract import rollout_ending_in
from agentlearn.errors import AllFailed, EndpointError, VerifierError
from agentlearn.rollout.recorded_run import FIRST, FirstRollouts, cause_of
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Verdict

TASK = Task.of("sums", "1 + 1?", "2", source="sums.csv:2")


def finished(cause: str) -> Any:
    """Return a finished rollout, undecided by a cause, or decided."""
    verdict = Verdict(status="undecided", reason=cause) if cause else Verdict(status="correct", reward=1.0)
    trajectory = rollout_ending_in(TASK, "2").model_copy(update={"verdict": verdict})
    return SimpleNamespace(trajectory=trajectory, cause=cause)


def made(causes: list[str], *, holds_back: bool = True) -> tuple[int, int, str]:
    """Run rollouts with these ends, all at once: most under way at a time, number made, and why the run ended."""
    first, counts = FirstRollouts("the run can be resumed", holds_back=holds_back), {"now": 0, "most": 0, "made": 0}

    async def one(cause: str) -> None:
        async def rollout() -> Any:
            counts["now"] += 1
            counts["made"] += 1
            counts["most"] = max(counts["most"], counts["now"])
            await asyncio.sleep(0)
            counts["now"] -= 1
            return finished(cause)

        first.refuse(await first.make(rollout), TASK)

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for cause in causes:
                group.create_task(one(cause))

    words = ""
    try:
        asyncio.run(all_of_them())
    except* AllFailed as error:
        words = str(error.exceptions[0])
    return counts["most"], counts["made"], words


def test_ten_rollouts_with_one_cause_end_the_run_and_no_other_has_started() -> None:
    most, count, words = made(["broken"] * 200)
    assert (most, count) == (FIRST, FIRST)
    assert words.startswith("the first 10 rollouts are undecided for one and the same reason: broken (rollout ")
    assert words.endswith("task 'sums.csv:2'); once that is corrected, the run can be resumed")


@pytest.mark.parametrize(
    "causes",
    [["broken"] * 9 + [""] + ["broken"] * 100, ["a", "b", "c"] * 9, [""] * 100, ["broken"] * 9],
    ids=["one is decided", "different causes", "healthy", "fewer than ten"],
)
def test_other_runs_go_on(causes: list[str]) -> None:
    assert made(causes)[1:] == (len(causes), "")


def test_nothing_is_held_back_where_the_service_waits_for_a_number_of_calls() -> None:
    assert made(["broken"] * 50, holds_back=False)[0] == 50


def test_errors_with_one_cause_are_those_of_one_type_and_place() -> None:
    def raised(index: Any) -> VerifierError:
        try:
            try:
                [1][index]
            except (IndexError, TypeError) as error:
                raise VerifierError(f"the reward failed for {index!r}", code="reward_raised") from error
        except VerifierError as error:
            return error
        raise AssertionError

    assert cause_of(raised(3)) == cause_of(raised(4))
    assert cause_of(raised(3)) != cause_of(raised("a"))
    assert cause_of(EndpointError("one", code="endpoint_500")) == cause_of(EndpointError("two", code="endpoint_500"))
