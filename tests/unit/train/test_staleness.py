"""Staleness counts updates, whatever number of optimiser steps an update makes, also after a resume."""

from hypothesis import given
from hypothesis import strategies as st

from agentlearn.train.gradient_learner import WeightVersions

Metrics = dict[int, dict[str, float]]


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 12))
def test_staleness_is_the_number_of_updates_since_whatever_steps_they_made(made: list[int], resumed: int) -> None:
    versions, metrics, steps = WeightVersions.of(0, 0, {}), Metrics(), [0]
    for update, count in enumerate(made, start=1):
        steps.append(steps[-1] + count)
        metrics[update] = {"optimiser_steps": float(steps[-1])}
        versions.add(steps[-1], update)
        if update == resumed:
            versions = WeightVersions.of(steps[-1], update, metrics)
    for update, step in enumerate(steps):
        last = max(one for one, other in enumerate(steps) if other == step)  # updates without a step change no weights
        assert versions.staleness(step, len(made)) == len(made) - max(update, last)
    assert versions.step == steps[-1]
