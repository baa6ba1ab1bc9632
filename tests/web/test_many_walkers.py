"""Sixteen walks at once on one browser, including a page that hangs and one that never ends: all walks end."""

import asyncio

import pytest

from agentlearn_web.browser.walk import Walk
from agentlearn_web.browser.walk_settings import WalkSettings
from agentlearn_web.observation import PageObservation
from tests.support.walking import Reply, ref, served, walking
from tests.web.browsers import needs_browser

pytestmark = [needs_browser, pytest.mark.slow]

WALKS = 16
STEPS = 6
LIMIT_S = 240
"""Far longer than the walks take; it only ends a test that hangs."""
SETTINGS = WalkSettings(act_s=60, action_s=3, load_s=3, hung_s=6)
PAGES = {
    **{f"/{n}": f"<title>Page {n}</title><h1>Page {n}</h1><a href=/{n + 1}>next</a>" for n in range(STEPS)},
    "/hang": "<title>Hang</title><button onclick='while(1){}'>stick</button>",
    "/endless": Reply("<title>Endless</title><h1>On</h1>", endless=True),
}


async def walked(walk: Walk, number: int) -> list[PageObservation]:
    seen = [await walk.open("http://site.test/0")]
    for _ in range(STEPS - 1):
        seen.append(await walk.click(ref(seen[-1], "next")))
        if number == 3 and len(seen) == 3:
            stuck = await walk.open("http://site.test/hang")
            seen += [await walk.click(ref(stuck, "stick")), await walk.open("http://site.test/2")]
        if number == 7 and len(seen) == 3:
            seen += [await walk.open("http://site.test/endless"), await walk.open("http://site.test/2")]
    return seen


def test_all_walks_end_though_one_hangs_and_one_never_loads() -> None:
    with walking(SETTINGS) as own, served(PAGES) as site:

        async def one(number: int) -> list[PageObservation]:
            async with own.browsers.walk(site.policy) as walk:
                return await walked(walk, number)

        async def all_of_them() -> list[list[PageObservation]]:
            async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
                running = [group.create_task(one(number)) for number in range(WALKS)]
            return [task.result() for task in running]

        walks = own.runner.run(all_of_them())
        assert own.browsers.launched == 1
    for number, seen in enumerate(walks):
        assert seen[-1].title == f"Page {STEPS - 1}", number
        statuses = {view.status for view in seen}
        assert statuses == ({"ok", "hung"} if number == 3 else {"ok"}), number
        assert {view.tab for view in seen} == ({"t1", "t2"} if number == 3 else {"t1"}), number
