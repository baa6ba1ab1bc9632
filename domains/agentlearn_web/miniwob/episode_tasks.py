"""Episodes as tasks: a page, and a number that seeds the page's content. No two splits share an episode."""

import re
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from random import Random

from agentlearn import data
from agentlearn.errors import DataError
from agentlearn.types.ids import derive_seed
from agentlearn.types.task import Split, Task
from agentlearn_web.miniwob.pages import LABELLED_PAGES, PAGES
from agentlearn_web.miniwob.serving import page_url

DOMAIN = "miniwob"
GOLD = "reward 1"
SOURCE = "generated"
SIZES: dict[Split, int] = {"train": 40, "validation": 20, "test": 40}
EPISODES = 30_000
"""Upper limit of generated episode numbers."""
_SPLITS: tuple[Split, ...] = ("train", "validation", "test")
_PROBLEM = re.compile(r"MiniWoB ([a-z0-9-]+), episode (\d{1,9})")


def domain_pages(domain: str) -> tuple[str, ...]:
    """Return the pages that are tasks of a domain: `miniwob`, or `miniwob:labelled`, which has more."""
    return PAGES if domain == DOMAIN else (*PAGES, *LABELLED_PAGES)


def generate_episode_tasks(
    split: Split, seed: int, limit: int | None = None, *, domain: str = DOMAIN
) -> tuple[Task, ...]:
    """Return the split's episodes: in each round one of each page, in a shuffled order.

    limit: None gives the split's default size. The episode number modulo three determines its split.
    """
    size = SIZES[split] if limit is None else limit
    episodes = islice(_episodes(split, seed, domain_pages(domain)), size)
    return tuple(episode_task(page, episode, split=split, domain=domain) for page, episode in episodes)


def episode_task(
    page: str, episode: int, *, split: Split = "train", source: str = SOURCE, domain: str = DOMAIN
) -> Task:
    """Return the task of one episode."""
    problem = f"MiniWoB {page}, episode {episode}"
    return Task.of(domain, problem, GOLD, family=page, split=split, source=source, start=page_url(page))


def parse_episode(task: Task) -> tuple[str, int]:
    """Return page and number of a task's episode. Raises DataError if the task does not name an episode."""
    match = _PROBLEM.fullmatch(task.problem.strip())
    if match is None or match[1] not in domain_pages(task.domain):
        raise DataError(
            f"{task.source or task.id} has the problem {task.problem!r}; name a page and an episode, such as"
            " 'MiniWoB click-button, episode 17'",
            code="no_episode",
        )
    return match[1], int(match[2])


def read_episode_tasks(
    source: str | Path, *, split: Split, limit: int | None = None, domain: str = DOMAIN
) -> tuple[Task, ...]:
    """Return the episodes in a file's column `problem`. Raises DataError with file, line and next step."""
    match = data.read_tasks(source, domain=domain, split=split, limit=limit, answer_required=False)
    return tuple(episode_task(*parse_episode(one), split=split, source=one.source, domain=domain) for one in match)


def _episodes(split: Split, seed: int, pages: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    rng = Random(derive_seed("miniwob", split, seed))
    seen: set[tuple[str, int]] = set()
    for _ in count():
        for page in rng.sample(pages, len(pages)):
            episode = rng.randrange(EPISODES // 3) * 3 + _SPLITS.index(split)
            if (page, episode) not in seen:
                seen.add((page, episode))
                yield page, episode
