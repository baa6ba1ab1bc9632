"""Where there is no terminal, a run says at least every 30 seconds how far it is, however slow its model is."""

import io
from typing import Any

import pytest
from pydantic_ai.models.test import TestModel
from rich.console import Console

from agentlearn.cli.live import EVERY_S, ProgressLines
from agentlearn.cli.progress import LearnProgress
from agentlearn.cli.train_progress import TrainProgress
from agentlearn.config import BudgetOptions, LearnSettings
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.models.call_settings import CallSettings
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.endpoint_state import EndpointState, Limiter
from agentlearn.train.settings import train_settings
from agentlearn.types.ids import RunId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Usage
from tests.support.stages import ListJournal, trajectory

TASKS = tuple(Task.of("math", f"What is {n} + {n}?", str(2 * n)) for n in range(10))


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def of_learn(out: Console, clock: Clock) -> LearnProgress:
    return LearnProgress(LearnSettings(domain="math", model="local:m", epochs=2), out, clock)


def of_train(out: Console, clock: Clock) -> TrainProgress:
    return TrainProgress(train_settings({"domain": "math", "model": "m", "epochs": 2}), out, clock)


def slow_run(made: Any) -> tuple[Any, Clock, io.StringIO, CallContext, Endpoint]:
    text, clock = io.StringIO(), Clock()
    progress = made(Console(file=text, width=200), clock)
    context = CallContext(RunId("01run"), ListJournal(), Budget(BudgetOptions()))
    state = EndpointState(Limiter(4))
    sent = CallSettings({"max_tokens": 512})
    model = Endpoint("local:m", TestModel(), state, simulated=False, url="none", call_settings=sent)
    return progress, clock, text, context, model


def wait(progress: ProgressLines, clock: Clock, seconds: float) -> None:
    """Let the seconds pass, with a look at each of them as the thread takes it."""
    for _ in range(round(seconds)):
        clock.now += 1
        progress.heartbeat.beat()


@pytest.mark.parametrize("made", [of_learn, of_train])
def test_a_run_without_a_terminal_says_every_thirty_seconds_how_far_it_is(made: Any) -> None:
    progress, clock, text, context, model = slow_run(made)
    wait(progress, clock, EVERY_S)
    assert "so far" in text.getvalue()
    assert "the model is being opened" in text.getvalue()
    progress.opened(context, model, model, TASKS, ())
    progress.phase_started("epoch-1", 40)
    text.truncate(0)
    context.in_flight = 4
    wait(progress, clock, EVERY_S - 1)
    assert text.getvalue() == ""
    wait(progress, clock, 1)
    assert "epoch 1/2: 0 of 40 rollouts   4 model calls in flight   0 tokens written   0 tokens/s" in text.getvalue()
    progress.rollout_done("epoch-1", trajectory(TASKS[0], 0, 1.0))
    context.budget.spend(Usage(requests=1, tokens_in=100, tokens_out=1_200), 0.0)
    model.endpoint_state.cut_off["rollout"] = 2
    wait(progress, clock, EVERY_S)
    assert "epoch 1/2: 1 of 40 rollouts" in text.getvalue()
    assert "1.2k tokens written   20 tokens/s   01:00   2 answers cut at the limit" in text.getvalue()
    wait(progress, clock, 600 - 2 * EVERY_S)
    assert text.getvalue().count("so far") == 600 // EVERY_S
