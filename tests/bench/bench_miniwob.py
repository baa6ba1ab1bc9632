"""Every MiniWoB++ page with the reward that a script gets through the public acts, or the reason why it has none.

The pages are unaltered, except those that are tasks of `miniwob:labelled` only. A reward is the mean over the episodes.

    just bench miniwob [--episodes 2]
"""

import argparse
import asyncio
from statistics import mean

from agentlearn.domain.base import RolloutContext
from agentlearn_web.miniwob import MiniwobDomain, domain, variant
from agentlearn_web.miniwob.episode_tasks import episode_task
from agentlearn_web.miniwob.pages import LABELLED_PAGES, LEFT_OUT, PAGES
from tests.bench.found import Found, Row
from tests.web.miniwob_more_scripts import ALL_SCRIPTS, UNSCRIPTED
from tests.web.miniwob_scripts import Hands

AT_ONCE = 3
EPISODE_S = 90.0


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--episodes", type=int, default=2, help="episodes per page")


def measure(chosen: argparse.Namespace) -> Found:
    """Run the scripts and list all pages."""
    return asyncio.run(_table(range(1, chosen.episodes + 1)))


async def _table(episodes: range) -> Found:
    rows: list[Row] = []
    notes: list[str] = []
    for kind, of, pages in (("unaltered", domain, PAGES), ("labelled", variant("labelled"), LABELLED_PAGES)):
        rewards = await _rewards(of, [page for page in pages if page in ALL_SCRIPTS], episodes)
        rows += [Row(name=f"{page} ({kind})", figures={"reward": mean(rewards[page])}) for page in sorted(rewards)]
        solved = [page for page, of_page in rewards.items() if mean(of_page) == 1]
        notes.append(f"{kind}: {len(solved)} of {len(pages)} pages with reward 1 in every episode")
        notes += [f"{page} ({kind}): no script, {UNSCRIPTED[page]}" for page in pages if page not in rewards]
    notes += [f"{page}: left out, {reason}" for reason, pages in LEFT_OUT.items() for page in pages]
    return Found(rows=tuple(rows), notes=tuple(notes))


async def _rewards(of: MiniwobDomain, pages: list[str], episodes: range) -> dict[str, list[float]]:
    """Return the rewards of each page's episodes; 0 for an episode that its script did not finish."""
    rewards: dict[str, list[float]] = {page: [] for page in pages}
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(running: MiniwobDomain, page: str, episode: int) -> None:
        async with slots:
            rewards[page].append(await _reward(running, page, episode))

    async with of.running() as running, asyncio.TaskGroup() as group:
        for page in pages:
            for episode in episodes:
                group.create_task(one(running, page, episode))
    return rewards


async def _reward(running: MiniwobDomain, page: str, episode: int) -> float:
    task = episode_task(page, episode, domain=running.name)
    async with running.open(RolloutContext(task=task, seed=episode)) as deps:
        try:
            async with asyncio.timeout(EPISODE_S):
                await ALL_SCRIPTS[page](Hands(deps.walk, await deps.walk.tabs()))
        except (AssertionError, IndexError, RuntimeError, TimeoutError):  # the script found no element to act on
            pass
        return await deps.episode.reward() or 0.0
