"""What a walk needs is lost: the walk is started again, and in the end it is a failure and never a wrong answer."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo

from agentlearn.config import BudgetOptions
from agentlearn.domain.base import RolloutContext
from agentlearn.errors import ToolLost
from agentlearn.library.capability import Experiences
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.rollout.runner import Rollouts, RolloutSlot
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Treatment
from agentlearn_web import WebDomain
from agentlearn_web.act_tools import WalkDeps
from tests.support.killing import descendants
from tests.support.walking import Site, Walking, served, walking
from tests.unit.test_rollout import RUN, ListJournal, endpoint
from tests.web.browsers import needs_browser

pytestmark = [needs_browser, pytest.mark.slow]
HOME = "http://site.test/"


class DyingBrowser(WebDomain):
    """The web domain, whose browser dies at the start of the first `deaths` walks."""

    def __init__(self, deaths: int) -> None:
        super().__init__()
        self.deaths = deaths

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator[WalkDeps]:
        async with super().open(context) as deps:
            if self.deaths:
                self.deaths -= 1
                browser = deps.walk.page.context.browser
                assert browser is not None
                await browser.close()
            yield deps


def opens_and_answers(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("open", {"url": HOME})])
    return ModelResponse(parts=[ToolCallPart("answer", {"answer": "Ada Byron", "url": HOME})])


def rollout(own: Walking, site: Site, deaths: int) -> Trajectory:
    domain = DyingBrowser(deaths)
    domain.browsers, domain.served = own.browsers, site.policy.served
    task = Task.of("web", "Who leads the group?", "Ada Byron", source="generated", start=HOME)
    context = CallContext(RUN, ListJournal(), Budget(BudgetOptions()))
    rollouts = Rollouts(call_context=context, domain=domain, endpoint=endpoint(opens_and_answers))
    treatment = Treatment(model="scripted", library=EMPTY_LIBRARY.version)
    one = rollouts.one(task, RolloutSlot("epoch-1", 0, seed=1), treatment, Experiences(EMPTY_LIBRARY))
    return own.runner.run(asyncio.wait_for(one, 120)).trajectory


def test_a_walk_whose_browser_dies_is_started_again_in_a_new_one() -> None:
    with walking() as own, served({"/": "<h1>Ada Byron leads the group.</h1>"}) as site:
        kept = rollout(own, site, deaths=2)
        assert (kept.attempt, kept.answer, kept.failure) == (2, "Ada Byron", None)
        assert kept.verdict is not None
        assert kept.verdict.status == "correct"
        assert own.browsers.launched == 3
        lost = rollout(own, site, deaths=3)
    assert lost.failure is not None
    assert (lost.attempt, lost.failure.code, lost.failure.boundary) == (2, "browser_lost", "tool")
    assert lost.verdict is None


def test_a_site_of_this_run_that_no_longer_answers_is_no_wrong_answer() -> None:
    with walking() as own:
        with served({"/": "<h1>home</h1>"}) as site:
            policy = site.policy

        async def one() -> None:
            async with own.browsers.walk(policy) as walk:
                with pytest.raises(ToolLost, match="no longer answers"):
                    await walk.open(HOME)

        own.runner.run(one())
        lost = rollout(own, site, deaths=0)
    assert lost.failure is not None
    assert (lost.attempt, lost.failure.code, lost.failure.boundary) == (2, "site_lost", "tool")
    assert lost.verdict is None


def test_a_walk_whose_driver_process_dies_is_started_again_with_a_new_one() -> None:
    with walking() as own, served({"/": "<h1>Ada Byron leads the group.</h1>"}) as site:
        assert rollout(own, site, deaths=0).attempt == 0
        (driver,) = [pid for pid, _, line in descendants(os.getpid()) if "run-driver" in line]
        os.kill(driver, signal.SIGKILL)
        kept = rollout(own, site, deaths=0)
    assert (kept.answer, kept.failure) == ("Ada Byron", None)
