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
from tests.support.paper_walk import TOOLS, question, walked
from tests.web.browsers import needs_browser

pytestmark = [needs_browser, pytest.mark.slow]

NONCE = "n0nce"
AT_ONCE = 3


@dataclass(frozen=True)
class Done:
    """Run a walk in the browser, and compare it with the same walk without a browser."""

    task: Task
    flaws: frozenset[str]
    answer: str
    shown: tuple[PageObservation, ...]


def cases() -> list[tuple[Task, frozenset[str]]]:
    """One task of each family: careful, and with each of its traps alone."""
    tasks = {task.family: task for task in walk_tasks("test", 1)}
    return [
        (task, flaws)
        for task in tasks.values()
        for flaws in (frozenset[str](), *(frozenset({trap}) for turn in walked(skills, task).traps for trap in turn))
    ]


async def step(walk: Walk, use: ToolUse) -> PageObservation:
    return await getattr(walk, use.tool)(**use.arguments)


async def in_browser(walk: Walk, task: Task, flaws: frozenset[str]) -> Done:
    turns: tuple[ToolExchange, ...] = ()
    shown: list[PageObservation] = []
    while True:
        situation = skills.recognise(Conversation("", question(task), TOOLS, turns))
        assert situation is not None
        act = situation.act(flaws & set(situation.traps), FollowedLessons(), Random(0))
        assert isinstance(act, ToolUse)
        if act.tool == "answer":
            assert act.arguments["url"] in walk.visited
            return Done(task, flaws, str(act.arguments["answer"]), tuple(shown))
        shown.append(await step(walk, act))
        turns = (*turns, ToolExchange(act.tool, act.arguments, render_observation(shown[-1], NONCE)))


@asynccontextmanager
async def browsing() -> AsyncGenerator[tuple[Browsers, AccessPolicy]]:
    async with serve_sites(all_sites()) as served, open_browsers(BrowserOptions(walkers=AT_ONCE)) as browsers:
        yield browsers, AccessPolicy(public=False, served=served)


async def every_walk() -> list[Done]:
    async with browsing() as (browsers, policy):

        async def one(task: Task, flaws: frozenset[str]) -> Done:
            async with browsers.walk(policy) as walk:
                return await in_browser(walk, task, flaws)

        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(*case)) for case in cases()]
        return [each.result() for each in running]


def test_careful_walks_are_right_and_each_trap_alone_makes_them_wrong() -> None:
    done = asyncio.run(every_walk())
    assert len({one.task.family for one in done}) == len(FAMILY_SCRIPTS)
    for one in done:
        assert one.task.answer is not None
        found = match_answers(one.answer, one.task.answer, one.task.problem).status
        assert (found == "equal") == (not one.flaws), (one.task.family, sorted(one.flaws), one.answer, one.task.answer)
        assert one.answer == walked(skills, one.task, one.flaws).answer
        assert {seen.status for seen in one.shown} == {"ok"}
        if not one.flaws:
            assert list(one.task.path) == [
                url for url in dict.fromkeys(seen.url for seen in one.shown) if url in one.task.path
            ]
