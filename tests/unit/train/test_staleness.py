"""Staleness counts updates, whatever number of optimiser steps an update makes, also after a resume."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentlearn.learning.callbacks import Update
from agentlearn.train.gradient_learner import (
    GradientLearner,
    WeightVersions,
)
from agentlearn.train.settings import train_settings
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import CheckpointStore
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.group import Group
from agentlearn.types.trajectory import (
    ModelTurn,
    SampledTokens,
    Treatment,
    Verdict,
)
from tests.support.tiny_lm import tiny_lm, tiny_tokenizer, true_logprobs
from tests.unit.store import nouns

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


class Served:
    """A sampler with a copy of the weights."""

    def weights_sha256(self) -> str:
        return ""

    def rounds(self, rollouts: int, *, at_once: int) -> None:
        return None

    @asynccontextmanager
    async def paused(self) -> AsyncGenerator[None]:
        yield

    async def synchronise(self, model: Any) -> None:
        return None


def learner(folder: Path, **changes: Any) -> GradientLearner:
    gradient = {"learning_rate": 0.01, "minibatches": 8}
    settings = train_settings(
        {"domain": "math", "model": "vllm:m", "store": folder, "gradient": gradient, "save_every": 100} | changes
    )
    return GradientLearner(
        EMPTY_LIBRARY,
        settings,
        Updater(tiny_lm(), settings.gradient),
        Served(),
        CheckpointStore(folder=folder / "checkpoints", out=folder / "out", tokenizer=tiny_tokenizer()),
    )


def group(treatment: Treatment, phase: str) -> Group:
    prompt, model = (5, 6, 7), tiny_lm()
    members = []
    for g in range(8):
        ids = (8 + g, 9 + g, 2)
        logprobs = tuple(float(one) for one in true_logprobs(model, prompt + ids)[3:])
        turn = ModelTurn(tokens=SampledTokens(prompt=prompt, ids=ids, logprobs=logprobs))
        verdict = Verdict(status="correct" if g % 2 else "incorrect", reward=float(g % 2), reason="")
        members.append(nouns.trajectory(g, phase=phase, steps=(turn,), treatment=treatment, verdict=verdict))
    return Group(task=nouns.TASK, trajectories=tuple(members))


async def stream(*groups: Group) -> AsyncIterator[Group]:
    for one in groups:
        yield one


def learned(trained: GradientLearner, planned: Treatment, number: int) -> Update:
    return asyncio.run(trained.update(stream(group(planned, f"epoch-{number}")), step=f"epoch-{number}/1"))


def test_with_one_batch_ahead_and_minibatches_every_row_is_trained(tmp_path: Path) -> None:
    trained = learner(tmp_path, max_staleness=1)
    planned = [trained.assign(nouns.TASK, 0)] * 2  # the second batch starts before the first update
    for number in range(1, 4):
        metrics = learned(trained, planned[number - 1], number).evidence.metrics
        planned.append(trained.assign(nouns.TASK, 0))
        assert (metrics["rows"], metrics["rows/stale"]) == (8, 0)
        assert metrics[f"staleness/{min(number - 1, 1)}"] == 8
        assert metrics["optimiser_steps"] == 8 * number


def test_rows_older_than_the_limit_are_dropped_and_counted(tmp_path: Path) -> None:
    trained = learner(tmp_path, max_staleness=1)
    first = trained.assign(nouns.TASK, 0)
    for number in (1, 2):
        learned(trained, first, number)
    metrics = learned(trained, first, 3).evidence.metrics
    assert (metrics["rows"], metrics["rows/stale"], metrics["staleness/2"]) == (0, 8, 8)
