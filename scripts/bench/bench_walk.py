"""Steps per second of the web walker, compared with a bare Playwright loop that makes the same clicks.

The bare loop clicks by role and name and takes the same snapshot. It does not check refs, wait for the page to settle,
record events or restrict access. Both use the same browser with new contexts, alternately, with one and with four walks
at once. Also measured are the processor time of a step (of the browser, the driver and this process), and the memory in
MB over many walks.

    just bench walk [--steps 20] [--rounds 5] [--walks 200]
"""

import argparse
import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from statistics import median
from typing import Any

import psutil

from agentlearn_web.browser.pool import BrowserOptions, Browsers, open_browsers
from scripts.bench.found import Found, Row, Target
from tests.support.walking import Site, ref, served

AT_ONCE = (1, 4)
LEAST_RATIO = 0.5
MOST_CPU = 1.4
GROWTH_AT = 4
"""Number of times that memory is measured over the walks."""

Loop = Callable[[Browsers, Site, str, int, asyncio.Barrier], Coroutine[Any, Any, float]]
"""Returns the seconds for the steps of one walk, timed after all walks have opened their first page."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--steps", type=int, default=20, help="clicks per walk")
    parser.add_argument(
        "--rounds", type=int, default=5, help="number of repetitions of each loop; medians are printed; 0 skips them"
    )
    parser.add_argument("--walks", type=int, default=200, help="walks over which memory growth is measured; 0 skips it")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure steps per second of both loops, then memory over many walks."""
    return asyncio.run(_measure(chosen.steps, chosen.rounds, chosen.walks))


async def _measure(steps: int, rounds: int, walks: int) -> Found:
    rows, targets = list[Row](), list[Target]()
    async with open_browsers(BrowserOptions(walkers=16, recycle_after=1_000_000)) as browsers:
        with served(PAGES) as site:
            for start, kind in STARTS.items() if rounds else ():
                for at_once in AT_ONCE:
                    row = await _side_by_side(browsers, site, start, kind, at_once, steps, rounds)
                    rows.append(row)
                    what = f"{row.name}: steps per second beside the bare loop"
                    ratio = row.figures["ratio"] or 0.0
                    targets.append(Target(what=what, figure=ratio, bound="at_least", limit=LEAST_RATIO))
                    what, ratio = f"{row.name}: processor time of a step beside it", row.figures["cpu_ratio"] or 0.0
                    targets.append(Target(what=what, figure=ratio, bound="at_most", limit=MOST_CPU))
    if walks:
        async with open_browsers(BrowserOptions(walkers=4, recycle_after=1_000_000)) as browsers:
            with served(PAGES) as site:
                rows += await _growth(browsers, site, walks)
    notes = ("PSS is the proportional memory of all browser processes; RSS is the memory of this process",)
    return Found(rows=tuple(rows), targets=tuple(targets), notes=notes)


async def _side_by_side(
    browsers: Browsers, site: Site, start: str, kind: str, at_once: int, steps: int, rounds: int
) -> Row:
    took: dict[str, list[float]] = {"walk": [], "bare": []}
    spent: dict[str, list[float]] = {"walk": [], "bare": []}
    for _, loop in LOOPS:  # warm-up
        await _timed(loop, browsers, site, start, at_once, 2)
    for number in range(rounds):
        for name, loop in LOOPS[:: 1 if number % 2 else -1]:
            began_s = _processor_s()
            took[name].append(await _timed(loop, browsers, site, start, at_once, steps))
            spent[name].append(_processor_s() - began_s)
    walk_s, bare_s = median(took["walk"]), median(took["bare"])
    walk_cpu_s, bare_cpu_s = median(spent["walk"]), median(spent["bare"])
    figures = {
        "walk_steps_per_s": at_once * steps / walk_s,
        "bare_steps_per_s": at_once * steps / bare_s,
        "ratio": bare_s / walk_s,
        "walk_step_ms": 1000 * walk_s / steps,
        "bare_step_ms": 1000 * bare_s / steps,
        "cpu_ratio": walk_cpu_s / bare_cpu_s,
        "walk_cpu_ms": 1000 * walk_cpu_s / steps / at_once,
        "bare_cpu_ms": 1000 * bare_cpu_s / steps / at_once,
    }
    return Row(name=f"{kind}, {at_once} at once", figures=figures)


def _processor_s() -> float:
    """Return the processor time of this process, the driver and the browser so far, also of renderers that ended."""
    us = psutil.Process()
    spent = sum(us.cpu_times()[:2])
    for one in us.children(recursive=True):
        with suppress(psutil.Error):
            spent += sum(one.cpu_times()[:4])
    return spent


async def _timed(loop: Loop, browsers: Browsers, site: Site, start: str, at_once: int, steps: int) -> float:
    """Return the seconds for the steps of all walks at once, without opening and closing their contexts."""
    async with asyncio.TaskGroup() as group:
        ready = asyncio.Barrier(at_once)
        running = [group.create_task(loop(browsers, site, start, steps, ready)) for _ in range(at_once)]
    return max(one.result() for one in running)


async def _walk(browsers: Browsers, site: Site, start: str, steps: int, ready: asyncio.Barrier) -> float:
    async with browsers.walk(site.policy) as walk:
        seen = await walk.open(f"http://site.test{start}")
        await ready.wait()
        began = time.perf_counter()
        for step in range(steps):
            seen = await walk.click(ref(seen, "next" if step % 3 else "other"))
            assert seen.status == "ok", seen
        return time.perf_counter() - began


async def _bare(browsers: Browsers, site: Site, start: str, steps: int, ready: asyncio.Barrier) -> float:
    async with browsers.walk(site.policy) as walk:
        page = await walk.page.context.new_page()
        await walk.page.close()
        await page.goto(f"http://site.test{start}")
        await page.aria_snapshot(mode="ai")
        await ready.wait()
        began = time.perf_counter()
        for step in range(steps):
            await page.get_by_role("link", name="next" if step % 3 else "other", exact=True).click()
            await page.wait_for_load_state()
            await page.aria_snapshot(mode="ai")
        return time.perf_counter() - began


LOOPS: tuple[tuple[str, Loop], ...] = (("walk", _walk), ("bare", _bare))


async def _growth(browsers: Browsers, site: Site, walks: int) -> list[Row]:
    """Measure memory after each part of the walks. Four walks run at once, with four steps each."""

    async def one() -> None:
        async with browsers.walk(site.policy) as walk:
            seen = await walk.open("http://site.test/still/0")
            for _ in range(3):
                seen = await walk.click(ref(seen, "next"))

    rows: list[Row] = []
    part = max(walks // GROWTH_AT, 1)
    for number in range(GROWTH_AT):
        slots = asyncio.Semaphore(4)

        async def slotted(slots: asyncio.Semaphore = slots) -> None:
            async with slots:
                await one()

        async with asyncio.TaskGroup() as group:
            for _ in range(part):
                group.create_task(slotted())
        rows.append(Row(name=f"after {(number + 1) * part} walks", figures=_kept()))
    return rows


def _kept() -> dict[str, float]:
    us = psutil.Process()
    sizes: dict[str, list[float]] = {"browser": [], "driver": []}
    for one in us.children(recursive=True):
        with suppress(psutil.Error):  # renderer processes can end at any time
            sizes["driver" if "node" in one.name() else "browser"].append(one.memory_full_info().pss / 2**20)
    return {
        "browser_pss_mb": sum(sizes["browser"]),
        "driver_pss_mb": sum(sizes["driver"]),
        "our_rss_mb": us.memory_info().rss / 2**20,
        "processes": len(sizes["browser"]) + len(sizes["driver"]),
        "our_descriptors": us.num_fds(),
        "our_tasks": len(asyncio.all_tasks()),
    }


def _page(kind: str, number: int, script: str) -> str:
    rows = "".join(f"<tr><td>Row {n}<td>{n * number}</tr>" for n in range(20))
    links = f"<a href=/{kind}/{(number + 1) % 10}>next</a> <a href=/{kind}/{(number + 5) % 10}>other</a>"
    nav = "".join(f"<li><a href=/{kind}/{n}>Page {n}</a>" for n in range(10))
    body = f"<nav><ul>{nav}</ul></nav><h1>Page {number}</h1>{links}<table>{rows}</table>"
    return f"<!doctype html><title>Page {number}</title>{body}{script}"


_SCRIPT = "<script>document.querySelector('h1').append(' with a script')</script>"
STARTS = {"/still/0": "still pages", "/lively/0": "pages with scripts"}
PAGES = {
    f"/{kind}/{number}": _page(kind, number, script)
    for kind, script in (("still", ""), ("lively", _SCRIPT))
    for number in range(10)
}
