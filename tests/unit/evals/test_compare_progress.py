"""A comparison without a terminal says at least every 30 seconds how far it is."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from agentlearn.cli.live import EVERY_S
from agentlearn.config import BudgetOptions, RequestOptions
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.types.ids import RunId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Usage
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.plan import plan_comparison
from agentlearn_evals.terminal import CompareProgress
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
    assert "so far     4 of 80 rollouts   5 model calls in flight   2.0k tokens written" in text.getvalue()


def test_models_on_this_machine_have_a_default_limit_of_answers_and_others_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 2048}')
    arms = ("none", f"local=none,model=local:{tmp_path}")
    settings = CompareSettings(arms=arms, models=("sim:novice",), domains=("math",), limit=2, store=tmp_path / "s")
    plan = plan_comparison(settings)
    first, local = plan.arms
    (tasks,) = plan.task_sets
    assert plan.call_settings(first.model).added == {}
    assert plan.conditions(first, tasks).request is None  # rollouts stored earlier are still reused
    assert plan.call_settings(local.model).added == {"max_tokens": 512}
    assert plan.conditions(local, tasks).request == RequestOptions(max_output_tokens=512)
    assert "max output tokens 512" in plan.sampling_words(local)
    given = plan_comparison(settings.model_copy(update={"max_output_tokens": 900}))
    assert given.call_settings(local.model).added == {"max_tokens": 900}
