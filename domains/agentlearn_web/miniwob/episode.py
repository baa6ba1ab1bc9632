"""One episode on a page: begun with a seed, its reward read from the page, none of which a view tells.

Links and icons that the pages only draw get the role and the name that they lack, since a walker reads no pixels. The
reward counts on the document in which the episode was begun, and once: a page that is opened anew, or begun anew
from its own start button, has none.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from agentlearn.errors import ToolError

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
)
"""What the pages draw as links and icons and do not name: selector, role, name."""
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
  name();
  new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
  globalThis.agentlearnEpisode = mark;
}"""
_REWARD_JS = """(mark) => globalThis.agentlearnEpisode === mark && WOB_DONE_GLOBAL ? WOB_RAW_REWARD_GLOBAL : null"""


@dataclass(frozen=True, slots=True)
class Episode:
    """An episode that was begun."""

    page: "Page"
    mark: str
    """Nothing on the page knows it before the episode begins, and a page opened anew does not have it."""

    async def reward(self) -> float | None:
        """What the page says once the episode has ended, -1..1; None before. Raises ToolError where it says nothing."""
        return await _ask_page(self.page, lambda: self.page.evaluate(_REWARD_JS, self.mark))


async def begin_episode(page: "Page", *, seed: int, mark: str) -> Episode:
    """Begin the episode of that seed on a page of MiniWoB++. Raises ToolError for another page, or one that hangs."""
    await _ask_page(page, lambda: page.wait_for_function(_READY_JS, timeout=READING_S * 1000))
    await _ask_page(page, lambda: page.evaluate(_BEGIN_JS, [seed, mark, _DAY_MS, UNNAMED_CONTROLS]))
    return Episode(page, mark)


def format_reward(reward: float | None) -> str:
    """The answer of a rollout: `reward 1`, `reward 0.5`, or `unfinished`."""
    return UNFINISHED if reward is None else f"reward {round(reward, 4):g}"


def parse_reward(answer: str) -> float | None:
    """What `format_reward` was made of, to four decimals; None for `unfinished`, and for any other text."""
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
        raise ToolError(f"the episode on {page.url} cannot be read: {first}", code="no_episode") from error
