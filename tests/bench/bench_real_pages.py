"""Steps per second of the web walker on real documentation pages, compared with a bare Playwright loop.

A step opens a page by its address and takes its snapshot. The bare loop does not wait for the page to settle, split the
snapshot into parts or record events. Both use the same browser with new contexts, alternately, with one and with four
walks at once, on pages of three sizes. Needs the pages of `scripts/install-real-sites`.

    just bench real_pages [--pages 8] [--rounds 3]
"""

import argparse
import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from statistics import median

from agentlearn_web.boundary.access_policy import AccessPolicy
from agentlearn_web.browser.pool import BrowserOptions, Browsers, open_browsers
from agentlearn_web.browser.walk import Walk
from tests.bench.found import Found, Row, Target
from tests.support.walking import NONCE
from tests.web.real_sites.file_server import serve_real_sites
from tests.web.real_sites.site_files import missing_reason, sites_root
from tests.web.real_sites.site_pages import sized_page_urls

AT_ONCE = (1, 4)
LEAST_RATIO = 0.5
SIZES = {"up to 20 kB": (2_000, 20_000), "20 to 150 kB": (20_000, 150_000), "150 to 800 kB": (150_000, 800_000)}
"""Bytes of the HTML of the pages of a row, from and to."""
SEED = 11

Loop = Callable[[Walk, Sequence[str]], Awaitable[int]]
"""Opens the pages one after the other. Returns how many of them were not shown."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--pages", type=int, default=8, help="pages that each walk opens")
    parser.add_argument("--rounds", type=int, default=3, help="number of repetitions of each loop; medians are printed")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure steps per second of both loops."""
    if missing := missing_reason(sites_root()):
        return Found(notes=(missing,))
    return asyncio.run(_measure(chosen.pages, chosen.rounds))


async def _measure(pages: int, rounds: int) -> Found:
    rows = list[Row]()
    opened = open_browsers(BrowserOptions(walkers=max(AT_ONCE), recycle_after=1_000_000))
    async with serve_real_sites() as policy, opened as browsers:
        for size, (least, most) in SIZES.items():
            urls = sized_page_urls(sites_root(), least, most)
            chosen = random.Random(SEED).sample(urls, pages)
            rows += [
                await _side_by_side(browsers, policy, chosen, f"{size}, {at_once} at once", rounds, at_once)
                for at_once in AT_ONCE
            ]
    targets = tuple(
        Target(
            what=f"{row.name}: steps per second beside the bare loop",
            figure=row.figures["ratio"] or 0.0,
            bound="at_least",
            limit=LEAST_RATIO,
        )
        for row in rows
    )
    return Found(rows=tuple(rows), targets=targets, notes=("a page that is not shown counts as a step",))


async def _side_by_side(
    browsers: Browsers, policy: AccessPolicy, urls: Sequence[str], name: str, rounds: int, at_once: int
) -> Row:
    took: dict[str, list[float]] = {one: [] for one in LOOPS}
    not_shown = dict.fromkeys(LOOPS, 0)
    for number in range(rounds):
        for loop in list(LOOPS)[:: 1 if number % 2 else -1]:
            seconds, missing = await _timed(LOOPS[loop], browsers, policy, urls, at_once)
            took[loop].append(seconds)
            not_shown[loop] += missing
    steps = at_once * len(urls)
    walk_s, bare_s = median(took["walk"]), median(took["bare"])
    return Row(
        name=name,
        figures={
            "walk_steps_per_s": steps / walk_s,
            "bare_steps_per_s": steps / bare_s,
            "ratio": bare_s / walk_s,
            "walk_not_shown": not_shown["walk"],
            "bare_not_shown": not_shown["bare"],
        },
    )


async def _timed(
    loop: Loop, browsers: Browsers, policy: AccessPolicy, urls: Sequence[str], at_once: int
) -> tuple[float, int]:
    """Return the seconds for all walks at once, without opening and closing their contexts, and the pages not shown."""
    ready = asyncio.Barrier(at_once)

    async def one(number: int) -> tuple[float, int]:
        async with browsers.walk(policy, nonce=NONCE) as walk:
            mine = [*urls[number:], *urls[:number]]
            await ready.wait()
            began = time.perf_counter()
            missing = await loop(walk, mine)
            return time.perf_counter() - began, missing

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one(number)) for number in range(at_once)]
    results = [task.result() for task in running]
    return max(seconds for seconds, _ in results), sum(missing for _, missing in results)


async def _walk(walk: Walk, urls: Sequence[str]) -> int:
    return sum([(await walk.open(url)).status != "ok" for url in urls])


async def _bare(walk: Walk, urls: Sequence[str]) -> int:
    from playwright.async_api import Error

    missing = 0
    page = await walk.page.context.new_page()
    for url in urls:
        try:
            await page.goto(url)
            await page.aria_snapshot(mode="ai")
        except Error:
            missing += 1
    return missing


LOOPS: Mapping[str, Loop] = {"walk": _walk, "bare": _bare}
