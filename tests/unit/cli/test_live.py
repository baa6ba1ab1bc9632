"""The live view: what it shows of a scripted run, how wide it is, and that the terminal is given back as it was."""

import io
from collections import Counter
from collections.abc import Sequence

import pytest
from pydantic_ai.models.test import TestModel
from rich.console import Console

from agentlearn.cli.live import LiveView
from agentlearn.cli.progress import LearnProgress
from agentlearn.config import BudgetOptions, LearnSettings
from agentlearn.errors import BudgetExceeded
from agentlearn.learning.callbacks import Evidence, Held, Update
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.endpoint_state import EndpointState, Limiter
from agentlearn.types.experience import library_of
from agentlearn.types.ids import ProposalId, RunId
from agentlearn.types.operation import Add, Dropped, Ended, Proposal
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Usage
from tests.support.cases import cases
from tests.support.stages import ListJournal, trajectory

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
TASKS = tuple(Task.of("math", f"What is {n} + {n}?", str(2 * n)) for n in range(10))
PAID = LearnSettings(domain="math", model="openai:gpt-5-mini", epochs=2)


def endpoint(name: str = "openai:gpt-5-mini", *, most: int = 32) -> Endpoint:
    return Endpoint(
        name=name,
        model=TestModel(),
        endpoint_state=EndpointState(Limiter(most)),
        simulated=name[:4] == "sim:",
        url="none",
    )


def call_context() -> CallContext:
    return CallContext(RunId("01run"), ListJournal(), Budget(BudgetOptions()))


def terminal(width: int = 100) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, soft_wrap=True, highlight=False)


def written(out: Console) -> str:
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def lines(view: LiveView, width: int = 100) -> list[str]:
    out = Console(file=io.StringIO(), record=True, force_terminal=True, width=width)
    out.print(view)
    return [line.rstrip() for line in out.export_text().splitlines()]


def scripted(progress: LearnProgress, rewards: Sequence[tuple[int, float | None]]) -> None:
    """A run in its second epoch: rewards by task, three groups, one batch learned from, some requests unanswered."""
    model, reflector = endpoint(), endpoint("openai:gpt-5", most=8)
    told = call_context()
    progress.opened(told, model, reflector, TASKS, ())
    progress.phase_started("epoch-2", 50)
    progress.view.clock = lambda: (progress.view.phase.started if progress.view.phase else 0.0) + 75.0
    for g, (number, reward) in enumerate(rewards):
        one = trajectory(TASKS[number], g, reward)
        progress.rollout_done("epoch-2", one)
    for kind in ("mixed", "mixed", "all_right", "failed"):
        progress.group_done(kind)
    proposal = Proposal(
        id=ProposalId("p"), stage="compare", ordinal=0, operation=Add(lesson="When in doubt, count again.")
    )
    ended = (Ended(proposal=proposal, end=Dropped(reason="not taken up")),)
    library = library_of(["When a range is closed, count both of its ends."])
    progress.updated("epoch-2/1", Update(Held(reason="x"), library, Evidence(ended=ended)))
    told.in_flight = 7
    told.budget.spend(Usage(requests=1, tokens_in=1_200_000, tokens_out=34_000), 0.5)
    model.endpoint_state.answered.update({"rollout": 1_200, "judge": 34})
    model.endpoint_state.failures.update(Counter({"status_429": 3}))
    reflector.endpoint_state.failures.update(Counter({"timeout": 1}))


def test_the_view_shows_phase_rewards_tasks_lessons_calls_and_costs() -> None:
    progress = LearnProgress(PAID, terminal())
    scripted(progress, [(0, 1.0), (0, 0.0), (1, 1.0), (1, 1.0), (2, 0.0), (2, None)])
    phase, reward, groups, lessons, calls, spent = lines(progress.view)
    assert phase.startswith("  epoch 2/2  ")
    assert phase.endswith("6/50 rollouts  01:15  453 tokens/s")
    # The means of the three tasks are 0.5, 1 and 0: what is undecided counts in no mean.
    assert reward == "  reward     0.50 [0.15, 0.85]   mean over 3 tasks, 95 % interval   1 undecided"
    assert groups == "  tasks      right and wrong 2 · all right 1 · all wrong 0 · failed 1   of 4"
    assert lessons == "  lessons    1   proposals: 0 applied, 0 merged into them, 1 not used, 0 refused"
    assert calls == "  calls      7 in flight (limit 40)   1,234 answered   failed: status_429 3, timeout 1"
    assert spent.startswith("  spent      $0.50 for 1.2M tokens   whole run: about $")
    assert spent.endswith(" tokens (a rough estimate)")


@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    progress = LearnProgress(PAID, terminal(width))
    scripted(progress, [(number, 1.0) for number in range(10)])
    shown = lines(progress.view, width)
    assert len(shown) == 6, "and none is broken in two"
    assert max(len(line) for line in shown) <= width


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BudgetExceeded("enough"), ValueError("a bug")])
def test_the_terminal_is_restored_however_the_run_ends(error: BaseException) -> None:
    out = terminal()
    progress = LearnProgress(PAID, out)

    def ends() -> None:
        with progress:
            scripted(progress, [(0, 1.0)])
            assert HIDE in written(out)
            raise error

    with pytest.raises(type(error)):
        ends()
    assert written(out).count(HIDE) == written(out).count(SHOW) == 1
    assert written(out).rindex(SHOW) > written(out).rindex(HIDE)
    assert progress.live is not None
    assert not progress.live.is_started


@pytest.mark.parametrize(
    ("limits", "more"),
    cases(__file__, "a_run_stopped_by_its_budget_says_which_limit_to_raise"),
)
def test_a_run_stopped_by_its_budget_says_which_limit_to_raise(limits: dict[str, float], more: str) -> None:
    out = Console(file=io.StringIO(), force_terminal=False, width=200, soft_wrap=True)
    settings = LearnSettings.model_validate({"domain": "math", "store": "kept", **limits})
    told = CallContext(RunId("01run"), ListJournal(), Budget(BudgetOptions.model_validate(limits)))
    told.budget.spend(Usage(requests=1, tokens_in=2000), 0.5)

    def ends() -> None:
        with LearnProgress(settings, out) as progress:
            progress.opened(told, endpoint(), endpoint(), TASKS, ())
            told.budget.check()

    with pytest.raises(BudgetExceeded) as reached:
        ends()
    assert reached.value.__notes__ == [f"  resume     agentlearn learn --resume 01run --store kept{more}"]
