"""The predicted wall time: never shorter than its bounds, and as long as a schedule that can be counted by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.learning.plan import DRIVER_S, START_S, WORK_S, WORKER_START_S, Phase, Wave, wall_seconds

WAVES = st.lists(
    st.builds(
        Wave,
        units=st.integers(1, 500),
        calls=st.integers(1, 9),
        call_s=st.floats(0.01, 60),
        own_s=st.floats(0, 60),
    ),
    min_size=1,
    max_size=4,
)


@given(waves=WAVES, concurrency=st.integers(1, 64), workers=st.integers(0, 8))
def test_a_phase_has_time_for_its_longest_unit_for_all_calls_and_for_this_machine(
    waves: list[Wave], concurrency: int, workers: int
) -> None:
    found = wall_seconds([Phase(waves)], concurrency=concurrency, workers=workers)
    assert found >= max(one.unit_s for one in waves)
    assert found * 1.000001 >= sum(one.units * one.calls * one.call_s for one in waves) / concurrency
    assert found * 1.000001 >= sum(one.units * one.calls for one in waves) * DRIVER_S
    assert found <= wall_seconds([Phase(waves, times=2)], concurrency=concurrency, workers=workers)
    more = wall_seconds([Phase(waves)], concurrency=concurrency * 2, workers=workers)
    assert more <= found * 1.000001


def test_times_that_can_be_counted_by_hand(subtests: pytest.Subtests) -> None:
    rollouts = Wave(units=10, calls=2, call_s=3.0)
    for words, phases, workers, expected in (
        ("20 calls, 4 at once: 5 turns of 3 s", [Phase([rollouts])], 0, START_S + 15),
        ("all at once: two calls one after the other", [Phase([Wave(4, 2, 3.0)])], 0, START_S + 6),
        ("a summary after the last rollout", [Phase([rollouts, Wave(10, 1, 1.0)])], 0, START_S + 17.5),
        ("tools of 7 s keep the 6 places busy", [Phase([Wave(12, 1, 3.0, own_s=7.0)])], 0, START_S + 20),
        ("nothing to do after a wave", [Phase([rollouts, Wave(0, 1, 9.0)])], 0, START_S + 15),
        ("one core", [Phase([Wave(4000, 1, 0.0)])], 0, START_S + 4000 * (DRIVER_S + WORK_S)),
        ("the driver", [Phase([Wave(4000, 1, 0.0)])], 4, START_S + WORKER_START_S + 4000 * DRIVER_S),
    ):
        with subtests.test(words):
            assert abs(wall_seconds(phases, concurrency=4, workers=workers) - expected) < 1e-6
