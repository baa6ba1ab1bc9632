"""A comparison without a terminal says at least every 30 seconds how far it is."""

import io
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from agentlearn.cli.live import EVERY_S
from agentlearn.config import BudgetOptions
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.types.ids import RunId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Usage
from agentlearn_evals.progress import CompareProgress
from tests.support.stages import ListJournal, trajectory


def test_a_slow_comparison_says_how_far_it_is() -> None:
    now, text = [0.0], io.StringIO()
    plan: Any = SimpleNamespace(arms=(), task_sets=(), tasks=10, settings=SimpleNamespace(k=4))
    progress = CompareProgress(plan, Console(file=text, width=200), lambda: now[0])
    context = CallContext(RunId("01run"), ListJournal(), Budget(BudgetOptions()))
    progress.opened(context, 40, {"one": 3, "two": 0})
    context.in_flight = 5
    context.budget.spend(Usage(requests=1, tokens_in=1, tokens_out=2_000), 0.0)
    progress.rollout_done("one", trajectory(Task.of("math", "What is 1 + 1?", "2"), 0, 1.0))
    now[0] = EVERY_S - 1
    progress.heartbeat.beat()
    assert "so far" not in text.getvalue()
    now[0] = EVERY_S
    progress.heartbeat.beat()
    assert "so far    4 of 80 rollouts   5 model calls in flight   2.0k tokens written" in text.getvalue()
