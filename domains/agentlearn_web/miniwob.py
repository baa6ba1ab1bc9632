"""MiniWoB++ as a domain: small pages with one task each; the agent acts in a browser and the page gives the reward.

Pages are shown as they are. Only in a labelled episode do links, icons and handles that the pages draw without a name
get a role and a name. A reward counts only in the document in which the episode was started, and only once: a page that
is opened again, or restarted with its own start button, has no reward. Views show neither reward nor clock.
"""

import asyncio
import mimetypes
import re
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from importlib.util import find_spec
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import unquote

from agentlearn.domain.base import Answer, CheckResult, RolloutContext, checked_limit
from agentlearn.errors import ConfigError, DataError, MissingExtra, ToolError
from agentlearn.types.author import Author, AuthorKind
from agentlearn.types.ids import content_hash, derive_seed
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import PromptRef, Trajectory, Verdict
from agentlearn_web import BrowserDomain

if TYPE_CHECKING:
    from playwright.async_api import Page
    from pydantic_ai import Agent

    from agentlearn_web.boundary.access_policy import HostPort
    from agentlearn_web.browser.walk import Walk

__all__ = ["MiniwobDomain", "domain", "variant"]

PAGES = (
    "book-flight", "book-flight-nodelay", "button-delay", "buy-ticket", "choose-date", "choose-date-easy",
    "choose-date-medium", "choose-date-nodelay", "choose-list", "click-button", "click-button-sequence",
    "click-checkboxes", "click-checkboxes-large", "click-checkboxes-soft", "click-checkboxes-transfer",
    "click-collapsible", "click-collapsible-nodelay", "click-dialog", "click-dialog-2", "click-menu", "click-menu-2",
    "click-option", "click-pie", "click-pie-nodelay", "click-tab", "click-test", "click-scroll-list", "click-test-2",
    "click-test-transfer", "click-widget", "drag-box", "drag-items", "drag-items-grid", "drag-sort-numbers",
    "enter-date", "enter-password", "enter-text", "enter-text-2", "enter-text-dynamic", "enter-time", "find-greatest",
    "find-word", "focus-text", "focus-text-2", "form-sequence", "form-sequence-2", "form-sequence-3",
    "generate-number", "guess-number", "login-user", "login-user-popup", "multi-layouts", "multi-orderings",
    "navigate-tree", "odd-or-even", "phone-book", "read-table", "read-table-2", "scroll-text", "scroll-text-2",
    "search-engine", "sign-agreement", "simple-algebra", "simple-arithmetic", "stock-market", "terminal",
    "text-transform", "unicode-test", "use-autocomplete", "use-autocomplete-nodelay", "use-slider", "use-slider-2",
    "use-spinner",
)  # fmt: skip
"""Pages that can be done as they are: by the acts of a walk, without pixels."""
LABELLED_PAGES = (
    "click-collapsible-2", "click-collapsible-2-nodelay", "click-link", "click-tab-2", "click-tab-2-easy",
    "click-tab-2-hard", "click-tab-2-medium", "drag-circle", "drag-single-shape", "email-inbox", "email-inbox-delete",
    "email-inbox-forward", "email-inbox-forward-nl", "email-inbox-forward-nl-turk", "email-inbox-important",
    "email-inbox-nl-turk", "email-inbox-noscroll", "email-inbox-reply", "email-inbox-star-reply", "order-food",
    "resize-textarea", "social-media", "social-media-all", "social-media-some",
)  # fmt: skip
"""Pages with links, icons or handles that are drawn without a role and a name; tasks of `miniwob:labelled` only. What
the other pages of the package need is written in docs/web.md."""
EXTRA = "pip install 'agentlearn-lib[web]' && pip install --no-deps 'miniwob>=1.1,<2'"
"""Without the package's requirements: Selenium, gymnasium and Pillow, which its pages do not need."""
SITE = "miniwob.test"
_LABELLED = "labelled"
"""Name of the variant whose pages get labels. Its figures do not compare with published ones."""
_SIZES: dict[Split, int] = {"train": 40, "validation": 20, "test": 40}
_EPISODES = 30_000
"""Upper limit of generated episode numbers. The number modulo three determines the split."""
_PROBLEM = re.compile(r"MiniWoB ([a-z0-9-]+), episode (\d{1,9})")
_LEAVING = frozenset({"open", "back"})
"""Acts that the agent does not have, because they would leave the page and its episode."""
_READING_S = 10.0
_READY_JS = """() => document.readyState === "complete" && typeof core === "object" && Boolean(core.cover_div)"""
_REWARD_JS = """(mark) => globalThis.agentlearnEpisode === mark && WOB_DONE_GLOBAL ? WOB_RAW_REWARD_GLOBAL : null"""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class EpisodeDeps:
    """The agent's deps: those of a walk, see `WalkDeps`, and the mark of its episode."""

    walk: "Walk"
    nonce: str
    mark: str
    """Secret that is set on the document when the episode starts. A page that is opened again does not have it."""

    async def reward(self) -> float | None:
        """Return the page's reward, -1..1; None before the episode has ended. Raises ToolError, BrowserLost."""
        return await _ask(self.walk.page, self.walk.page.evaluate(_REWARD_JS, self.mark))


class MiniwobDomain(BrowserDomain):
    """Tasks on MiniWoB++'s small pages, unaltered unless they are labelled."""

    name: str = "miniwob"
    description: str = "tasks on MiniWoB++'s small pages, done in a real Chromium and rewarded by the page"
    reasons_by: AuthorKind = "person"

    def __init__(self, *, labelled: bool = False) -> None:
        """Make the domain. labelled: whether unnamed links and icons of the pages get a role and a name."""
        super().__init__()
        self.labelled = labelled
        if labelled:
            self.name = f"miniwob:{_LABELLED}"
            self.description = f"{type(self).description}; unnamed links and icons get labels"
        self.pages = (*PAGES, *LABELLED_PAGES) if labelled else PAGES

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        """Serve the pages and start the browser; yields the domain that uses them. Raises MissingExtra, ConfigError."""
        from agentlearn_web.browser.pool import open_browsers

        async with _serve_miniwob(_miniwob_folder()) as served, open_browsers() as browsers:
            yield self._with(served=served, browsers=browsers)

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> tuple[Task, ...]:
        """Return the split's episodes: in each round one of each page, in a shuffled order.

        No two splits share an episode, for any seeds. Default sizes: 40, 20 and 40.
        """
        size = _SIZES[split] if checked_limit(limit) is None else limit
        return tuple(self.task(*one, split=split) for one in islice(self._episodes(split, seed), size))

    def _episodes(self, split: Split, seed: int) -> Iterator[tuple[str, int]]:
        rng, seen = Random(derive_seed("miniwob", split, seed)), set[tuple[str, int]]()
        for _ in count():
            for page in rng.sample(self.pages, len(self.pages)):
                episode = rng.randrange(_EPISODES // 3) * 3 + list(_SIZES).index(split)
                if (page, episode) not in seen:
                    seen.add((page, episode))
                    yield page, episode

    def task(self, page: str, episode: int, *, split: Split = "train", source: str = "generated") -> Task:
        """Return the task of one episode."""
        problem = f"MiniWoB {page}, episode {episode}"
        return Task.of(self.name, problem, "reward 1", family=page, split=split, source=source, start=_page_url(page))

    def episode(self, task: Task) -> tuple[str, int]:
        """Return page and number of a task's episode. Raises DataError if the task does not name an episode."""
        match = _PROBLEM.fullmatch(task.problem.strip())
        if match is None or match[1] not in self.pages:
            raise DataError(
                f"{task.source or task.id} has the problem {task.problem!r}; name a page and an episode, such as"
                " 'MiniWoB click-button, episode 17'",
                code="no_episode",
            )
        return match[1], int(match[2])

    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> tuple[Task, ...]:
        """Return the episodes in a file's column `problem`. Raises DataError with file, line and next step."""
        from agentlearn.data import read_tasks

        limit = checked_limit(limit)
        found = read_tasks(path, domain=self.name, split=split, limit=limit, answer_required=False)
        return tuple(self.task(*self.episode(one), split=split, source=one.source) for one in found)

    def agent(self) -> "Agent[EpisodeDeps, Answer]":
        """Return the agent; its deps are the value that `open` yields."""
        return _agent()

    def prompts(self) -> tuple[PromptRef, ...]:
        """Return the prompt of the agent."""
        from agentlearn.prompts import load_prompt

        return (load_prompt("miniwob", 1, package="agentlearn_web.prompts").ref,)

    def question(self, task: Task) -> str:
        """Return a message that says which page is open."""
        return f"{task.problem}. The page is open in tab t1; its instruction stands on it."

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator[EpisodeDeps]:
        """Open the task's page in a fresh browser context and start its episode. Raises ToolError."""
        from agentlearn_web.boundary.access_policy import AccessPolicy

        if self.browsers is None:
            raise ToolError("the miniwob domain has no browser; open rollouts inside `domain.running()`")
        page, episode = self.episode(context.task)
        nonce, mark = content_hash("fence", context.seed)[:16], content_hash("episode", context.seed)
        places = AccessPolicy(public=False, served=self.served)
        async with self.browsers.walk(places, record=context.record) as walk:
            seen = await walk.open(_page_url(page))
            if seen.status != "ok":
                raise ToolError(f"the page {page!r} did not open: {seen.note}", code="no_episode")
            begin = (files("agentlearn_web") / "miniwob.js").read_text("utf-8")
            await _ask(walk.page, walk.page.wait_for_function(_READY_JS, timeout=_READING_S * 1000))
            await _ask(walk.page, walk.page.evaluate(begin, [episode, mark, self.labelled]))
            await walk.tabs()  # take a new view: the last one shows the page before the episode started
            yield EpisodeDeps(walk, nonce, mark)

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict:
        """Return the page's reward as a verdict: 1 is correct, between 0 and 1 is partial."""
        if trajectory.answer is None:
            return Verdict(status="no_answer", reward=0.0)
        word, _, number = trajectory.answer.partition(" ")
        reward = None
        with suppress(ValueError):
            reward = float(number) if word == "reward" else None  # as `_agent` writes it
        if reward is None:
            return Verdict(status="incorrect", reward=0.0, reason="the episode was not brought to its end")
        if reward >= 1:
            return Verdict(status="correct", reward=1.0)
        return Verdict(status="partial" if reward > 0 else "incorrect", reward=max(reward, 0.0))

    def author_of(self, tool: str, place: str) -> Author:
        """Return the project that wrote the pages."""
        return Author(kind="pages", name="miniwob")

    def machine_checks(self) -> Iterator[CheckResult]:
        """Check whether the pages are installed, for `agentlearn doctor`. The web domain checks the browser."""
        try:
            _miniwob_folder()
        except MissingExtra:
            words = "not installed; the tasks are its pages"
            yield CheckResult(what="miniwob", state="missing", words=words, mend=EXTRA)
        else:
            words = f"{len(PAGES)} of its pages are tasks, {len(LABELLED_PAGES)} more with labels"
            yield CheckResult(what="miniwob", state="ok", words=words)

    def answer_key(self, answer: str) -> str | None:
        """Return None: a reward is not an answer to vote on."""
        return None


def variant(name: str) -> MiniwobDomain:
    """Return the domain `miniwob:NAME`; the only NAME is `labelled`. Raises ConfigError."""
    if name != _LABELLED:
        raise ConfigError(f"there is no domain 'miniwob:{name}'; use 'miniwob' or 'miniwob:{_LABELLED}'")
    return MiniwobDomain(labelled=True)


@cache
def _agent() -> "Agent[EpisodeDeps, Answer]":
    """Return the agent, without a model and without lessons."""
    from pydantic_ai import Agent, RunContext, ToolOutput

    from agentlearn.prompts import load_prompt
    from agentlearn_web.act_tools import walker_tools

    async def done(ctx: RunContext[EpisodeDeps], note: str) -> Answer:
        """Say that the task is finished, or that you cannot finish it.

        Args:
            note: What you did, in one sentence.
        """
        # The model's note is kept as text only: the answer is the page's reward.
        reward = await ctx.deps.reward()
        return Answer(text=note, answer="unfinished" if reward is None else f"reward {round(reward, 4):g}")

    output: Any = ToolOutput(done, name="done")
    tools: Any = [tool for tool in walker_tools() if tool.name not in _LEAVING]
    instructions = load_prompt("miniwob", 1, package="agentlearn_web.prompts").text
    return Agent(deps_type=EpisodeDeps, output_type=output, instructions=instructions, name="miniwob", tools=tools)


async def _ask(page: "Page", answer: Awaitable[_T]) -> _T:
    """Return what a page answers. Raises ToolError if it is not a MiniWoB++ page, or hangs; BrowserLost."""
    from playwright.async_api import Error

    from agentlearn_web.browser.walk_settings import BrowserLost

    try:
        async with asyncio.timeout(_READING_S):
            return await answer
    except (Error, TimeoutError) as error:
        words = f"the page took longer than {_READING_S:g} s" if isinstance(error, TimeoutError) else error.message
        first = words.strip().partition("\n")[0]
        browser = page.context.browser
        if browser is not None and not browser.is_connected():
            raise BrowserLost("the browser of this episode is gone; run the rollout again in a new browser") from error
        raise ToolError(f"the episode on {page.url} cannot be read: {first}", code="no_episode") from error


def _miniwob_folder() -> Path:
    """Return the folder with all pages in the installed package. Raises MissingExtra.

    Does not import the package, because that needs gymnasium and Selenium.
    """
    spec = find_spec("miniwob")
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place) / "html"
        if (folder / "core" / "core.js").is_file():
            return folder
    raise MissingExtra(f"the miniwob domain needs the package miniwob, which is not installed: {EXTRA}")


def _page_url(page: str) -> str:
    """Return the address of a page."""
    return f"http://{SITE}/miniwob/{page}.html"


def _files(folder: Path) -> Mapping[str, Path]:
    """Return every file by its request path."""
    return {f"/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.is_file()}


@asynccontextmanager
async def _serve_miniwob(folder: Path) -> "AsyncGenerator[Mapping[str, HostPort]]":
    """Serve the folder while the block runs. Yields the site's name and loopback address, for `AccessPolicy.served`."""
    from agentlearn.serving.http11 import HOST, HttpRequest, HttpResponse, listening

    known = _files(folder)

    @lru_cache(maxsize=512)
    def respond(path: str) -> HttpResponse:
        file = known.get(path)
        if file is None:
            return HttpResponse(404, b"no such page\n", content_type="text/plain")
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        if kind.startswith("text/"):
            kind += "; charset=utf-8"
        return HttpResponse(200, file.read_bytes(), content_type=kind)

    async def app(request: HttpRequest) -> HttpResponse:
        return respond(unquote(request.path))

    async with listening(app) as port:
        yield {SITE: (HOST, port)}


domain = MiniwobDomain()
