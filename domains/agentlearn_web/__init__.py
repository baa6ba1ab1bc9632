"""The web domain: questions about websites, answered by a walker that drives a real Chromium behind a real boundary.

Tasks are about generated sites that are served here, or are read from a file, such as WebWalkerQA. What the simulated
solver needs (`agentlearn_web.novice`) is announced apart, so that nothing that learns imports it.
"""

from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Self

from agentlearn.domain.base import Answer, Domain, JudgeModel, RolloutContext, RolloutShape, checked_limit
from agentlearn.errors import ConfigError, ToolError
from agentlearn.types.ids import content_hash
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import PromptRef, ToolResult, Trajectory, Verdict

if TYPE_CHECKING:
    from pydantic_ai import Agent

    from agentlearn.data import Columns, SourceRow, StartAndPath
    from agentlearn.domain.check_result import CheckResult
    from agentlearn_web.agent import WalkDeps
    from agentlearn_web.boundary.access_policy import AccessPolicy, HostPort
    from agentlearn_web.browser.pool import Browsers

__all__ = ["WebDomain", "domain"]


class WebDomain(Domain):
    """Implements `agentlearn.domain.base.Domain`. Heavy modules are imported when they are first needed."""

    name: str = "web"
    description: str = "questions about websites, walked in a real Chromium; on generated sites, or WebWalkerQA"
    threshold: float = 1.0
    runs_code: bool = False
    replayable: bool = False
    """What a browser did cannot be done again: an interrupted walk begins anew."""
    uses_judge: bool = True
    rewards: tuple[str, ...] = ("answer", "path")

    def __init__(self) -> None:
        self.browsers: Browsers | None = None
        """A running browser, which `open` takes its walks from."""
        self.served: Mapping[str, HostPort] = {}
        """The generated sites, each with the loopback address behind it."""
        self.judge: JudgeModel | None = None
        """Whom `verify` asks about answers in free text."""
        self.reward: str = "answer"
        """`path` also gives credit for the pages of the known way that a walk without the right answer found."""

    def max_open_rollouts(self) -> int:
        """Walks open at the same time, as many as the browser keeps contexts."""
        from agentlearn_web.browser.pool import default_walkers

        return self.browsers.walkers if self.browsers else default_walkers()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        """The same domain with its sites served and its browser started. Raises MissingExtra, ConfigError."""
        from agentlearn_web.browser.pool import open_browsers
        from agentlearn_web.sites.site_server import sites_served

        async with sites_served() as served, open_browsers() as browsers:
            bound = copy(self)
            bound.served, bound.browsers = served, browsers
            yield bound

    def with_judge(self, judge: JudgeModel) -> Self:
        """The same domain, with a model to ask about answers in free text."""
        bound = copy(self)
        bound.judge = judge
        return bound

    def with_reward(self, reward: str) -> Self:
        """The same domain under one of `rewards`. Raises ConfigError for another."""
        if reward not in self.rewards:
            known = " or ".join(map(repr, self.rewards))
            raise ConfigError(f"the web domain has no reward {reward!r}; choose {known}", code="bad_reward")
        bound = copy(self)
        bound.reward = reward
        return bound

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> tuple[Task, ...]:
        """Questions about generated sites; no two splits share a site. Default sizes: 24, 16 and 30."""
        from agentlearn_web.tasks import generated

        return generated(split, seed, checked_limit(limit))

    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> tuple[Task, ...]:
        """Tasks from a file, each with the address where it begins. Raises DataError with file, line and next step."""
        from agentlearn_web.task_reader import read_tasks

        return read_tasks(path, split=split, limit=checked_limit(limit))

    def data_columns(self) -> "Columns":
        """Under which names a source's columns are looked for."""
        from agentlearn_web.task_reader import COLUMNS

        return COLUMNS

    def start_and_path(self, row: "SourceRow") -> "StartAndPath":
        """Where a row's walk begins, and the addresses on the known way. Raises ValueError without a beginning."""
        from agentlearn_web.task_reader import way_of

        return way_of(row)

    def agent(self) -> "Agent[WalkDeps, Answer]":
        """The walker; its deps are what `open` yields."""
        from agentlearn_web.agent import web_agent

        return web_agent()

    def prompts(self) -> tuple[PromptRef, ...]:
        """The instructions of the agent, and the rubric of the judge of answers in free text."""
        from agentlearn.prompts import load_prompt

        return tuple(load_prompt(name, 1, package="agentlearn_web.prompts").ref for name in ("walk", "judge"))

    def question(self, task: Task) -> str:
        """Where the walk begins, and the question."""
        return f"Start page: {task.start}\n\n{task.problem}" if task.start else task.problem

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator["WalkDeps"]:
        """A walk in a fresh browser context. Raises ToolError when no browser is running or it gives none."""
        from agentlearn_web.agent import WalkDeps

        if self.browsers is None:
            raise ToolError("the web domain has no browser; open rollouts inside `domain.running()`")
        nonce = content_hash("fence", context.seed)[:16]
        async with self.browsers.walk(self.places(context.task), nonce=nonce, record=context.record) as walk:
            yield WalkDeps(walk, nonce)

    def places(self, task: Task) -> "AccessPolicy":
        """Where a task's walk may go: on the generated sites alone, or on the public web and where the task says."""
        from agentlearn_web.boundary.access_policy import AccessPolicy, host_port, named_by

        if task.start and host_port(task.start)[0] in self.served:
            return AccessPolicy(public=False, served=self.served)
        return AccessPolicy(named=named_by(task.start))

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict | Awaitable[Verdict]:
        """Compare the answer with the expected one exactly, as dates, numbers, lists and words.

        Of answers in free text, which are those of tasks that were not generated here, the judge has the last word.
        """
        from agentlearn_web.verify import verify

        return verify(task, trajectory, self.judge, shaped=self.reward == "path")

    def rollout_shape(self, data: str | None = None) -> RolloutShape:
        """Walks are longer than most rollouts and see pages of some 1,200 tokens; read tasks are judged by a model."""
        return RolloutShape(turns=7, prompt=1_300, turn_out=120, tool_result=1_200, judged=data is not None)

    def pages_seen(self, trajectory: Trajectory) -> Iterable[str]:
        """What the walk saw of pages: their titles, names and texts, without refs and other words of ours."""
        from agentlearn_web.observation import words_of

        return (words_of(step.content) for step in trajectory.steps if isinstance(step, ToolResult))

    def machine_checks(self) -> "Iterator[CheckResult]":
        """What walks need here, for `agentlearn doctor`."""
        from agentlearn_web.doctor import examine

        return examine()

    def answer_key(self, answer: str) -> str | None:
        """One form for equal answers; None for an empty one."""
        from agentlearn_web.matching import answer_key

        return answer_key(answer)


domain = WebDomain()
