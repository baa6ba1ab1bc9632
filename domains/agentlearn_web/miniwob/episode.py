"""One episode on a MiniWoB++ page: started with a seed, its reward read from the page. Views show neither.

Pages are shown as they are. Only in a labelled episode do links, icons and handles that the pages draw without a name
get a role and a name. A reward counts only in the document in which the episode was started, and only once: a page that
is opened again, or restarted with its own start button, has no reward.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_ai import Agent, RunContext, ToolOutput

from agentlearn.domain.base import Answer
from agentlearn.errors import ToolError
from agentlearn.prompts import Prompt, load_prompt
from agentlearn_web.act_tools import WalkDeps, walker_tools
from agentlearn_web.browser.act_result import BrowserLost

if TYPE_CHECKING:
    from playwright.async_api import Page

T = TypeVar("T")
UNFINISHED = "unfinished"
READING_S = 10.0
_DAY_MS = 86_400_000
UNNAMED_CONTROLS = (
    (".alink", "link", ""),
    (".email-actions .trash", "button", "trash"),
    (".email-actions .star", "button", "star"),
    ("#open-search", "button", "search"),
    ("#close-email, #close-reply, #close-forward, #search-cancel", "button", "back"),
    ("#send-reply, #send-forward", "button", "send"),
    (".controls .reply", "button", "Reply"),
    (".controls .retweet", "button", "Retweet"),
    (".controls .like", "button", "Like"),
    (".controls .share", "button", "Share"),
    (".controls .more", "button", "More"),
    (".food-order .remove", "button", "remove"),
    (".food-order .add", "button", "add"),
    (".ui-resizable-se", "button", "resize"),
    (".black-circle", "img", "circle"),
    (".black-shape", "img", "item"),
)
"""Links, icons, handles and single shapes that the pages draw without naming them: selector, role, name."""
_READY_JS = """() => document.readyState === "complete" && typeof core === "object" && Boolean(core.cover_div)"""
_BEGIN_JS = """([seed, mark, limit, signs]) => {
  const style = document.createElement("style");
  style.textContent = "#reward-display, #click-canvas, #sync-task-cover { display: none !important; }";
  document.head.append(style);
  Math.seedrandom(String(seed));
  core.EPISODE_MAX_TIME = limit;
  core.countdownTimer = () => {};
  core.startEpisodeReal();
  core.startEpisode = () => {};
  core.startEpisodeReal = () => {};
  const name = () => {
    for (const [selector, role, label] of signs) {
      for (const one of document.querySelectorAll(`:is(${selector}):not([role])`)) {
        one.setAttribute("role", role);
        if (label) one.setAttribute("aria-label", label);
      }
    }
  };
  if (signs.length) {
    name();
    new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
  }
  globalThis.agentlearnEpisode = mark;
}"""
_REWARD_JS = """(mark) => globalThis.agentlearnEpisode === mark && WOB_DONE_GLOBAL ? WOB_RAW_REWARD_GLOBAL : null"""


@dataclass(frozen=True, slots=True)
class Episode:
    """A running episode."""

    page: "Page"
    mark: str
    """Secret that is set on the document when the episode starts. A page that is opened again does not have it."""

    async def reward(self) -> float | None:
        """Return the page's reward, -1..1; None before the episode has ended. Raises ToolError, BrowserLost."""
        return await _ask_page(self.page, lambda: self.page.evaluate(_REWARD_JS, self.mark))


async def begin_episode(page: "Page", *, seed: int, mark: str, labelled: bool = False) -> Episode:
    """Start the episode with that seed. Raises ToolError if the page is not a MiniWoB++ page, or hangs.

    labelled: whether unnamed links and icons get a role and a name.
    """
    signs = UNNAMED_CONTROLS if labelled else ()
    await _ask_page(page, lambda: page.wait_for_function(_READY_JS, timeout=READING_S * 1000))
    await _ask_page(page, lambda: page.evaluate(_BEGIN_JS, [seed, mark, _DAY_MS, signs]))
    return Episode(page, mark)


def format_reward(reward: float | None) -> str:
    """Return the answer of a rollout: `reward 1`, `reward 0.5`, or `unfinished`."""
    return UNFINISHED if reward is None else f"reward {round(reward, 4):g}"


def parse_reward(answer: str) -> float | None:
    """Return the reward that `format_reward` wrote, to four decimals; None for `unfinished` and any other text."""
    word, _, number = answer.partition(" ")
    try:
        return float(number) if word == "reward" else None
    except ValueError:
        return None


async def _ask_page(page: "Page", ask: Callable[[], Awaitable[T]]) -> T:
    from playwright.async_api import Error

    try:
        async with asyncio.timeout(READING_S):
            return await ask()
    except (Error, TimeoutError) as error:
        words = f"the page took longer than {READING_S:g} s" if isinstance(error, TimeoutError) else error.message
        first = words.strip().partition("\n")[0]
        browser = page.context.browser
        if browser is not None and not browser.is_connected():
            raise BrowserLost("the browser of this episode is gone; run the rollout again in a new browser") from error
        raise ToolError(f"the episode on {page.url} cannot be read: {first}", code="no_episode") from error


LEAVING = frozenset({"open", "back"})
"""Acts that the agent does not have, because they would leave the page and its episode."""


@dataclass(frozen=True, slots=True)
class EpisodeDeps(WalkDeps):
    """The agent's deps: the open walk, and the episode whose reward is read at the end."""

    episode: Episode


async def done(ctx: RunContext[EpisodeDeps], note: str) -> Answer:
    """Say that the task is finished, or that you cannot finish it.

    Args:
        note: What you did, in one sentence.
    """
    # The model's note is kept as text only: the answer is the page's reward.
    return Answer(text=note, answer=format_reward(await ctx.deps.episode.reward()))


def miniwob_prompt() -> Prompt:
    """Return the agent's instructions."""
    return load_prompt("miniwob", 1, package="agentlearn_web.prompts")


@cache
def miniwob_agent() -> Agent[EpisodeDeps, Answer]:
    """Return the agent, without a model and without lessons."""
    output: Any = ToolOutput(done, name="done")
    tools: Any = [tool for tool in walker_tools() if tool.name not in LEAVING]
    return Agent(
        deps_type=EpisodeDeps, output_type=output, instructions=miniwob_prompt().text, name="miniwob", tools=tools
    )
