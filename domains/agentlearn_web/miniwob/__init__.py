"""MiniWoB++ as a domain: small pages with one task each; the agent acts in a browser and the page gives the reward."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Self

from agentlearn.domain.base import Answer, Domain, RolloutContext, checked_limit
from agentlearn.errors import ConfigError, ToolError
from agentlearn.types.author import Author, AuthorKind
from agentlearn.types.ids import content_hash
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import PromptRef, ToolResult, Trajectory, Verdict

if TYPE_CHECKING:
    from pydantic_ai import Agent

    from agentlearn.domain.base import CheckResult
    from agentlearn_web.boundary.access_policy import HostPort
    from agentlearn_web.browser.pool import Browsers
    from agentlearn_web.miniwob.episode import EpisodeDeps

__all__ = ["MiniwobDomain", "domain", "variant"]

LABELLED = "labelled"
"""Name of the variant whose pages get labels. Its figures do not compare with published ones."""


class MiniwobDomain(Domain):
    """Tasks on MiniWoB++'s small pages, unaltered unless they are labelled. Heavy modules are imported late."""

    name: str = "miniwob"
    description: str = "tasks on MiniWoB++'s small pages, done in a real Chromium and rewarded by the page"
    threshold: float = 1.0
    runs_code: bool = False
    reasons_by: AuthorKind = "person"
    replayable: bool = False
    """A browser's acts cannot be repeated, so an interrupted episode restarts."""

    def __init__(self, *, labelled: bool = False) -> None:
        """Make the domain. labelled: whether unnamed links and icons of the pages get a role and a name."""
        self.labelled = labelled
        if labelled:
            self.name = f"miniwob:{LABELLED}"
            self.description = f"{type(self).description}; unnamed links and icons get labels"
        self.browsers: Browsers | None = None
        """Running browser in which `open` starts its walks."""
        self.served: Mapping[str, HostPort] = {}
        """Loopback address of the site with the pages."""

    def max_open_rollouts(self) -> int:
        """Return how many contexts the browser keeps."""
        from agentlearn_web.browser.pool import default_walkers

        return self.browsers.walkers if self.browsers else default_walkers()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        """Serve the pages and start the browser; yields the domain that uses them. Raises MissingExtra, ConfigError."""
        from agentlearn_web.browser.pool import open_browsers
        from agentlearn_web.miniwob.pages import miniwob_folder, serve_miniwob

        async with serve_miniwob(miniwob_folder()) as served, open_browsers() as browsers:
            bound = copy(self)
            bound.served, bound.browsers = served, browsers
            yield bound

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> tuple[Task, ...]:
        """Return episodes of all pages. No two splits share one, for any seeds. Default sizes: 40, 20 and 40."""
        from agentlearn_web.miniwob.pages import generate_episode_tasks

        return generate_episode_tasks(split, seed, checked_limit(limit), domain=self.name)

    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> tuple[Task, ...]:
        """Return the episodes that a file names. Raises DataError with file, line and next step."""
        from agentlearn_web.miniwob.pages import read_episode_tasks

        return read_episode_tasks(path, split=split, limit=checked_limit(limit), domain=self.name)

    def agent(self) -> "Agent[EpisodeDeps, Answer]":
        """Return the agent; its deps are the value that `open` yields."""
        from agentlearn_web.miniwob.episode import miniwob_agent

        return miniwob_agent()

    def prompts(self) -> tuple[PromptRef, ...]:
        """Return the prompt of the agent."""
        from agentlearn.prompts import load_prompt

        return (load_prompt("miniwob", 1, package="agentlearn_web.prompts").ref,)

    def question(self, task: Task) -> str:
        """Return a message that says which page is open."""
        return f"{task.problem}. The page is open in tab t1; its instruction stands on it."

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator["EpisodeDeps"]:
        """Open the task's page in a fresh browser context and start its episode. Raises ToolError."""
        from agentlearn_web.boundary.access_policy import AccessPolicy
        from agentlearn_web.miniwob.episode import EpisodeDeps, begin_episode
        from agentlearn_web.miniwob.pages import page_url, parse_episode

        if self.browsers is None:
            raise ToolError("the miniwob domain has no browser; open rollouts inside `domain.running()`")
        page, episode = parse_episode(context.task)
        nonce, mark = content_hash("fence", context.seed)[:16], content_hash("episode", context.seed)
        places = AccessPolicy(public=False, served=self.served)
        async with self.browsers.walk(places, nonce=nonce, record=context.record) as walk:
            seen = await walk.open(page_url(page))
            if seen.status != "ok":
                raise ToolError(f"the page {page!r} did not open: {seen.note}", code="no_episode")
            begun = await begin_episode(walk.page, seed=episode, mark=mark, labelled=self.labelled)
            await walk.tabs()  # take a new view: the last one shows the page before the episode started
            yield EpisodeDeps(walk, nonce, begun)

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict:
        """Return the page's reward as a verdict: 1 is correct, between 0 and 1 is partial."""
        from agentlearn_web.miniwob.episode import parse_reward

        answer = trajectory.answer
        if answer is None:
            return Verdict(status="no_answer", reward=0.0)
        reward = parse_reward(answer)
        if reward is None:
            return Verdict(status="incorrect", reward=0.0, reason="the episode was not brought to its end")
        if reward >= 1:
            return Verdict(status="correct", reward=1.0)
        return Verdict(status="partial" if reward > 0 else "incorrect", reward=max(reward, 0.0))

    def author_of(self, tool: str, place: str) -> Author:
        """Return the project that wrote the pages."""
        return Author(kind="pages", name="miniwob")

    def pages_seen(self, trajectory: Trajectory) -> Iterable[str]:
        """Return the text of the page that the rollout saw: names and texts, without refs and our own words."""
        from agentlearn_web.observation import site_words

        return (site_words(step.content) for step in trajectory.steps if isinstance(step, ToolResult))

    def for_lessons(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory without the lines of pages that a person could not see."""
        from agentlearn_web.unseen_text import without_unseen

        return without_unseen(trajectory)

    def machine_checks(self) -> "Iterator[CheckResult]":
        """Check whether the pages are installed, for `agentlearn doctor`. The web domain checks the browser."""
        from agentlearn_web.miniwob.pages import check_miniwob

        return check_miniwob()

    def answer_key(self, answer: str) -> str | None:
        """Return None: a reward is not an answer to vote on."""
        return None


def variant(name: str) -> MiniwobDomain:
    """Return the domain `miniwob:NAME`; the only NAME is `labelled`. Raises ConfigError."""
    if name != LABELLED:
        raise ConfigError(f"there is no domain 'miniwob:{name}'; use 'miniwob' or 'miniwob:{LABELLED}'")
    return MiniwobDomain(labelled=True)


domain = MiniwobDomain()
