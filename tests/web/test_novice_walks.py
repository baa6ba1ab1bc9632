"""The simulated solver in a real Chromium: a careful walk is right, and each single trap makes it wrong."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

import pytest

from agentlearn.answers.matching import match_answers
from agentlearn.types.task import Task
from agentlearn_demo.sim.skills import Conversation, FollowedLessons, ToolExchange, ToolUse
from agentlearn_demo.web.novice import FAMILY_SCRIPTS, skills
from agentlearn_demo.web.site import serve_sites
from agentlearn_demo.web.tasks import all_sites, walk_tasks
from agentlearn_web.boundary.access_policy import AccessPolicy
from agentlearn_web.browser.pool import BrowserOptions, Browsers, open_browsers
from agentlearn_web.browser.walk import Walk
from agentlearn_web.observation import PageObservation, render_observation
from tests.web.browsers import needs_browser

pytestmark = [needs_browser, pytest.mark.slow]

NONCE = "n0nce"
TOOLS = ("open", "click", "type", "back", "find", "more", "tabs", "answer")
AT_ONCE = 3


@dataclass(frozen=True)
class Done:
    """One walk to its answer."""

    task: Task
    flaws: frozenset[str]
    traps: tuple[str, ...]
    """What the solver could have fallen into."""
    answer: str
    shown: tuple[PageObservation, ...]


async def step(walk: Walk, use: ToolUse) -> PageObservation:
    return await getattr(walk, use.tool)(**use.arguments)


async def in_browser(walk: Walk, task: Task, flaws: frozenset[str]) -> Done:
    turns: tuple[ToolExchange, ...] = ()
    shown, traps = list[PageObservation](), list[str]()
    while True:
        question = f"Start page: {task.start}\n\n{task.problem}"
        situation = skills.recognise(Conversation("", question, TOOLS, turns))
        assert situation is not None
        traps += situation.traps
        act = situation.act(flaws & set(situation.traps), FollowedLessons(), Random(0))
        assert isinstance(act, ToolUse)
        if act.tool == "answer":
            assert act.arguments["url"] in walk.visited
            return Done(task, flaws, tuple(traps), str(act.arguments["answer"]), tuple(shown))
        shown.append(await step(walk, act))
        turns = (*turns, ToolExchange(act.tool, act.arguments, render_observation(shown[-1], NONCE)))


@asynccontextmanager
async def browsing() -> AsyncGenerator[tuple[Browsers, AccessPolicy]]:
    async with serve_sites(all_sites()) as served, open_browsers(BrowserOptions(walkers=AT_ONCE)) as browsers:
        yield browsers, AccessPolicy(public=False, served=served)


async def every_walk() -> list[Done]:
    """One task of each family: a careful walk, and one with each of its traps alone."""
    async with browsing() as (browsers, policy):

        async def one(task: Task, *flaws: str) -> Done:
            async with browsers.walk(policy) as walk:
                return await in_browser(walk, task, frozenset(flaws))

        async def all_of(task: Task) -> list[Done]:
            careful = await one(task)
            return [careful, *[await one(task, trap) for trap in careful.traps]]

        async with asyncio.TaskGroup() as group:
            tasks = {task.family: task for task in walk_tasks("test", 1)}
            running = [group.create_task(all_of(task)) for task in tasks.values()]
        return [done for each in running for done in each.result()]


def test_careful_walks_are_right_and_each_trap_alone_makes_them_wrong() -> None:
    done = asyncio.run(every_walk())
    assert len({one.task.family for one in done}) == len(FAMILY_SCRIPTS)
    for one in done:
        assert one.task.answer is not None
        found = match_answers(one.answer, one.task.answer, one.task.problem).status
        assert (found == "equal") == (not one.flaws), (one.task.family, sorted(one.flaws), one.answer, one.task.answer)
        assert {seen.status for seen in one.shown} == {"ok"}
        if not one.flaws:
            assert one.traps
            assert list(one.task.path) == [
                url for url in dict.fromkeys(seen.url for seen in one.shown) if url in one.task.path
            ]
