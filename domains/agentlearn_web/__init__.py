"""The web domain: an agent answers questions about websites with a real Chromium behind a network boundary.

Tasks are read from a file such as WebWalkerQA, or are about sites that the demo generates and serves on this machine
(`agentlearn.domain.demo`).
"""

from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from agentlearn.domain.base import Answer, Domain, JudgeModel, RolloutContext, RolloutShape, checked_limit
from agentlearn.domain.demo import demo_of, find_demo
from agentlearn.errors import ConfigError, ToolError
from agentlearn.types.ids import content_hash
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import PromptRef, ToolResult, Trajectory, Verdict
from agentlearn.types.value import Author, AuthorKind

if TYPE_CHECKING:
    from pydantic_ai import Agent

    from agentlearn.config import SiteOptions
    from agentlearn.data import ColumnChoice, Columns, SourceRow, StartAndPath
    from agentlearn.domain.base import CheckResult
    from agentlearn_web.act_tools import WalkDeps
    from agentlearn_web.boundary.access_policy import AccessPolicy, HostPort
    from agentlearn_web.browser.pool import Browsers
    from agentlearn_web.sessions import SiteAccess

__all__ = ["WebDomain", "domain"]


class WebDomain(Domain):
    """Questions about websites; a rollout is a walk in a browser. Heavy modules are imported when first needed."""

    name: str = "web"
    description: str = "questions about websites, walked in a real Chromium; on generated sites, or WebWalkerQA"
    threshold: float = 1.0
    runs_code: bool = False
    replayable: bool = False
    """A browser's acts cannot be repeated, so an interrupted walk restarts."""
    uses_judge: bool = True
    reasons_by: AuthorKind = "model"
    """The judge's; those of comparisons are fixed words."""
    question_by: AuthorKind = "person"
    rewards: tuple[str, ...] = ("answer", "path", "judged")

    def __init__(self) -> None:
        self.browsers: Browsers | None = None
        """Running browser in which `open` starts its walks."""
        self.served: Mapping[str, HostPort] = {}
        """Loopback address of each site that is served on this machine."""
        self.judge: JudgeModel | None = None
        """Model that `verify` asks about answers in free text."""
        self.reward: str = "answer"
        """`path` also gives credit for pages on the known path that a walk without the right answer visited. `judged`
        asks the judge about every answer, and not only about those that a comparison leaves open."""
        self.acts: frozenset[str] | None = None
        """The acts that the model is offered; None for all except `screenshot`."""
        self.columns: ColumnChoice | None = None
        """Columns of files that the user chose."""
        self.access: SiteAccess | None = None
        """How walks reach sites, where the user gave options for it."""

    def _with(self, **changes: object) -> Self:
        """Return the same domain with other attributes."""
        bound = copy(self)
        vars(bound).update(changes)
        return bound

    def max_open_rollouts(self) -> int:
        """Return how many contexts the browser keeps."""
        from agentlearn_web.browser.pool import default_walkers

        return self.browsers.walkers if self.browsers else default_walkers()

    def pages_seen(self, trajectory: Trajectory) -> Iterable[str]:
        """Return the text of the pages that the walk saw: titles, names and texts, without refs and our own words."""
        from agentlearn_web.observation import site_words

        return (site_words(step.content) for step in trajectory.steps if isinstance(step, ToolResult))

    def for_lessons(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory without the lines of pages that a person could not see."""
        from agentlearn_web.observation import without_unseen

        return without_unseen(trajectory)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        """Serve the sites, start the browser and log in; yields the domain that uses them.

        Raises MissingExtra, and ConfigError when the browser does not start or the login fails.
        """
        from agentlearn_web.browser.pool import open_browsers
        from agentlearn_web.browser.walk_settings import WalkSettings
        from agentlearn_web.sessions import SiteAccess

        access = self.access or SiteAccess()
        if access.upstream is not None:
            await access.upstream.require()
        settings = WalkSettings() if self.acts is None else WalkSettings(acts=self.acts)
        with access.browser_options(settings) as options:
            demo = find_demo(self.name)
            sites = nullcontext(self.served) if demo is None else demo.serve_sites()
            async with sites as served, open_browsers(options) as browsers:
                access = replace(access, session=await access.begin(browsers, served))
                yield self._with(served=served, browsers=browsers, access=access)

    def with_sites(self, sites: "SiteOptions") -> Self:
        """Return the same domain, whose walks reach sites like that. Reads the files. Raises ConfigError."""
        from agentlearn_web.sessions import SiteAccess

        return self._with(access=SiteAccess.read(sites))

    def with_judge(self, judge: JudgeModel) -> Self:
        """Return the same domain with a model that judges answers in free text."""
        return self._with(judge=judge)

    def with_reward(self, reward: str) -> Self:
        """Return the same domain with one of its `rewards`. Raises ConfigError for an unknown reward."""
        if reward not in self.rewards:
            known = " or ".join(map(repr, self.rewards))
            raise ConfigError(f"the web domain has no reward {reward!r}; choose {known}", code="bad_reward")
        return self._with(reward=reward)

    def with_acts(self, acts: Iterable[str]) -> Self:
        """Return the same domain, whose walks offer these acts only. Raises ConfigError for an unknown act.

        `upload` is offered only with tasks that name files, `screenshot` only to models that accept images.
        """
        from agentlearn_web.browser.walk_settings import ACTS

        chosen = frozenset(acts)
        if unknown := sorted(chosen - ACTS):
            known = ", ".join(sorted(ACTS))
            raise ConfigError(f"a walk has no act {unknown[0]!r}; choose from {known}")
        return self._with(acts=chosen)

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> tuple[Task, ...]:
        """Return questions about generated sites. No two splits share a site. Default sizes: 24, 16 and 30."""
        return demo_of(self.name).tasks(split, seed=seed, limit=checked_limit(limit))

    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> tuple[Task, ...]:
        """Return tasks from a file, each with a start address. Raises DataError with file, line and next step."""
        from agentlearn_web.task_reader import read_walk_tasks

        return read_walk_tasks(path, split=split, limit=checked_limit(limit), columns=self.data_columns())

    def with_columns(self, columns: "ColumnChoice") -> Self:
        """Return the same domain, which reads these columns of files."""
        return self._with(columns=columns)

    def data_columns(self) -> "Columns":
        """Return the column names of known sources, or those that the user chose."""
        from agentlearn_web.task_reader import COLUMNS

        return replace(COLUMNS, chosen=self.columns)

    def start_and_path(self, row: "SourceRow") -> "StartAndPath":
        """Return a row's start address and the addresses on the known path. Raises ValueError without a start."""
        from agentlearn_web.task_reader import way_of

        return way_of(row)

    def agent(self) -> "Agent[WalkDeps, Answer]":
        """Return the walker; its deps are the value that `open` yields."""
        from agentlearn_web.act_tools import web_agent

        return web_agent()

    def prompts(self) -> tuple[PromptRef, ...]:
        """Return the prompts of the agent and of the judge of answers in free text."""
        from agentlearn.prompts import load_prompt

        used = (("walk", 1), ("judge", 1))
        return tuple(load_prompt(name, version, package="agentlearn_web.prompts").ref for name, version in used)

    def question(self, task: Task) -> str:
        """Return the start page, the files that may be uploaded, and the question."""
        from agentlearn_web.browser.walk_settings import task_files

        files = ", ".join(task_files(task.fields))
        known = (f"Start page: {task.start}" if task.start else "", f"Files to upload: {files}" if files else "")
        return "\n\n".join(filter(None, [*known, task.problem]))

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator["WalkDeps"]:
        """Open a walk in a fresh browser context. Raises ToolError when no browser is running or it opens none."""
        from agentlearn_web.act_tools import WalkDeps
        from agentlearn_web.browser.walk_settings import task_files

        if self.browsers is None:
            raise ToolError("the web domain has no browser; open rollouts inside `domain.running()`")
        nonce, files = content_hash("fence", context.seed)[:16], task_files(context.task.fields)
        session = None if self.access is None else self.access.session
        places = self.places(context.task)
        async with self.browsers.walk(places, record=context.record, session=session, files=files) as walk:
            yield WalkDeps(walk, nonce)

    def places(self, task: Task) -> "AccessPolicy":
        """Return where a task's walk may go, see `walk_policy`."""
        from agentlearn_web.boundary.access_policy import walk_policy

        return walk_policy(task.start, self.access.allowed if self.access else frozenset(), self.served)

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict | Awaitable[Verdict]:
        """Compare the answer with the expected one as values, lists and words.

        For tasks that were not generated here, the judge decides where this comparison proves nothing.
        """
        from agentlearn_web.verify import verify_walk

        return verify_walk(task, trajectory, self.judge, shaped=self.reward == "path", judged=self.reward == "judged")

    def rollout_shape(self, data: str | None = None) -> RolloutShape:
        """Return the typical size of a walk: 7 turns, pages of 1,200 tokens. Tasks from `data` need a judge call."""
        return RolloutShape(
            turns=7,
            prompt=2_200,
            turn_out=120,
            tool_result=1_200,
            judged=data is not None,
            shipped={"sim:": RolloutShape(turns=5, prompt=2_200, turn_out=31, tool_result=450)},
        )

    def author_of(self, tool: str, place: str) -> Author:
        """Return the page's host, or our own code for a site that was generated and served here."""
        from urllib.parse import urlsplit

        host = urlsplit(place).hostname or ""
        return Author(kind="sandbox") if host in self.served else Author(kind="pages", name=host)

    def machine_checks(self) -> "Iterator[CheckResult]":
        """Check what walks need on this machine, for `agentlearn doctor`."""
        from agentlearn_web.browser.chromium import check_browser

        return check_browser()

    def answer_key(self, answer: str) -> str | None:
        """Return one text for all equal answers; None for an empty answer."""
        from agentlearn.answers.matching import answer_match_key

        return answer_match_key(answer)


domain = WebDomain()
