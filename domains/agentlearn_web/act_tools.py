"""The acts of a walk as pydantic-ai tools, in the words that a model reads."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic_ai import Agent, ModelRetry, RunContext, Tool, ToolDefinition, ToolOutput
from pydantic_ai.messages import BinaryContent, ToolReturn
from pydantic_ai.models import Model

from agentlearn.domain.base import Answer
from agentlearn.prompts import load_prompt
from agentlearn.text.secret_values import without_secrets
from agentlearn.types.trajectory import PLACE, STATUS
from agentlearn_web.browser.acts.pointer import ClickKind, Direction
from agentlearn_web.browser.walk import Walk
from agentlearn_web.browser.walk_settings import SCREENSHOT, UPLOAD
from agentlearn_web.observation import PageObservation, page_key, parse_observation, render_observation


@dataclass(frozen=True, slots=True)
class WalkDeps:
    """The agent's deps: the open walk that its tools use."""

    walk: Walk
    nonce: str
    """Marks the fence around text from sites."""


_Context = RunContext[WalkDeps]


def _shown(ctx: _Context, observation: PageObservation, picture: BinaryContent | None = None) -> ToolReturn:
    """Return an observation as a tool result, with the picture that belongs to it.

    Without the secrets of the session, which a page may repeat.
    """
    text = without_secrets(render_observation(observation, ctx.deps.nonce))
    metadata = {STATUS: observation.status, PLACE: parse_observation(text).url}
    return ToolReturn(text, content=None if picture is None else [picture], metadata=metadata)


class _Acts:
    """The acts, as a model reads them."""

    @staticmethod
    async def open(ctx: _Context, url: str) -> ToolReturn:
        """Open an address in the current tab.

        Args:
            url: The address, such as https://example.org/people.
        """
        return _shown(ctx, await ctx.deps.walk.open(url))

    @staticmethod
    async def click(ctx: _Context, ref: str, kind: ClickKind = "single") -> ToolReturn:
        """Click a link, a button or another element.

        Args:
            ref: Its ref as shown last, such as t1:e5.
            kind: A double click edits or opens something on some pages, and a right click opens a page's own menu.
        """
        return _shown(ctx, await ctx.deps.walk.click(ref, kind))

    @staticmethod
    async def type(ctx: _Context, ref: str, text: str, submit: bool = False) -> ToolReturn:
        """Fill a field with a text, or choose an option of a list by its name.

        Args:
            ref: The field's ref as shown last, such as t1:e5.
            text: What to write; it takes the place of what was there.
            submit: Whether to press Enter afterwards.
        """
        return _shown(ctx, await ctx.deps.walk.type(ref, text, submit=submit))

    @staticmethod
    async def choose(ctx: _Context, ref: str, options: list[str]) -> ToolReturn:
        """Choose one or more options of a list; no others stay chosen.

        Args:
            ref: The list's ref.
            options: Their names.
        """
        return _shown(ctx, await ctx.deps.walk.choose(ref, options))

    @staticmethod
    async def press(ctx: _Context, keys: str = "", ref: str | None = None, text: str = "") -> ToolReturn:
        """Press keys, where `type` is not enough: searches that react to each letter, menus, games.

        Args:
            keys: Such as "ArrowDown Enter" or "Control+a Delete".
            ref: What gets the keys; left out, what has the focus.
            text: Typed key by key before the keys, after what stands there.
        """
        return _shown(ctx, await ctx.deps.walk.press(keys, ref, text))

    @staticmethod
    async def hover(ctx: _Context, ref: str) -> ToolReturn:
        """Move the mouse over an element, to open a menu or a hint.

        Args:
            ref: Its ref.
        """
        return _shown(ctx, await ctx.deps.walk.hover(ref))

    @staticmethod
    async def drag(ctx: _Context, ref: str, to: str) -> ToolReturn:
        """Drag an element with the mouse and drop it on another one.

        Args:
            ref: What to drag.
            to: The ref of where to drop it.
        """
        return _shown(ctx, await ctx.deps.walk.drag(ref, to))

    @staticmethod
    async def scroll(ctx: _Context, direction: Direction, ref: str | None = None) -> ToolReturn:
        """Scroll a page or list that loads more as it is scrolled. For other long pages, use `more` and `find`.

        Args:
            direction: Where to.
            ref: An element in the part that scrolls; left out, the page.
        """
        return _shown(ctx, await ctx.deps.walk.scroll(direction, ref))

    @staticmethod
    async def upload(ctx: _Context, ref: str, files: list[str]) -> ToolReturn:
        """Give files of the task to the page.

        Args:
            ref: The file field, or the button that asks for a file.
            files: Their names as the task gives them.
        """
        return _shown(ctx, await ctx.deps.walk.upload(ref, files))

    @staticmethod
    async def dialog(ctx: _Context, accept: bool, text: str | None = None) -> ToolReturn:
        """Say how the next dialog is answered, before the act that opens it. Otherwise it is dismissed.

        Args:
            accept: Whether it is accepted.
            text: What to answer if it asks for a text.
        """
        return _shown(ctx, await ctx.deps.walk.dialog(accept, text))

    @staticmethod
    async def back(ctx: _Context) -> ToolReturn:
        """Go back to the page before this one in the current tab."""
        return _shown(ctx, await ctx.deps.walk.back())

    @staticmethod
    async def find(ctx: _Context, text: str, regex: bool = False) -> ToolReturn:
        """Search the whole page, also the parts that were not shown yet.

        Args:
            text: What to look for; case does not matter.
            regex: Whether it is a regular expression.
        """
        return _shown(ctx, await ctx.deps.walk.find(text, regex))

    @staticmethod
    async def more(ctx: _Context, page: int | None = None) -> ToolReturn:
        """See the next part of a long page.

        Args:
            page: Which part, from 1; left out, the one after the part shown last.
        """
        return _shown(ctx, await ctx.deps.walk.more(page))

    @staticmethod
    async def wait(ctx: _Context, text: str | None = None, seconds: float | None = None) -> ToolReturn:
        """Wait for something that appears late.

        Args:
            text: Wait until the page holds this text.
            seconds: The longest time to wait, from 0 to 30; left out, 10.
        """
        return _shown(ctx, await ctx.deps.walk.wait(text, seconds))

    @staticmethod
    async def screenshot(ctx: _Context) -> ToolReturn:
        """See a picture of what the window shows, with refs drawn on it: for drawings, maps and charts."""
        taken = await ctx.deps.walk.screenshot()
        picture = BinaryContent(taken.picture, media_type=taken.media_type) if taken.picture else None
        return _shown(ctx, taken.view, picture)

    @staticmethod
    async def tabs(ctx: _Context, select: str | None = None, close: str | None = None) -> ToolReturn:
        """Look at the open tabs, go to one of them, or close one.

        Args:
            select: The tab to go to, such as t2.
            close: The tab to close.
        """
        return _shown(ctx, await ctx.deps.walk.tabs(select=select, close=close))


def _walker_tools() -> list[Tool[WalkDeps]]:
    """Return the acts as tools. They run one after the other, because each one changes the page for the next.

    A model is offered those that the walk's settings name; `upload` only with a task that names files, and `screenshot`
    only if the model accepts images.
    """
    acts = (act.__func__ for act in vars(_Acts).values() if isinstance(act, staticmethod))
    return [Tool(act, sequential=True, prepare=_if_offered) for act in acts]


def _if_offered(ctx: _Context, tool: ToolDefinition) -> ToolDefinition | None:
    offered = tool.name in ctx.deps.walk.settings.acts
    if tool.name == UPLOAD:
        offered = offered and bool(ctx.deps.walk.files)
    if tool.name == SCREENSHOT:
        offered = offered and isinstance(ctx.model, Model) and ctx.model.profile.get("supports_image_input", True)
    return tool if offered else None


async def _answer(ctx: _Context, answer: str, url: str) -> Answer:
    """Hand in the answer and end the walk.

    Args:
        answer: The answer, as short as the question allows; "not found" if there is none.
        url: The address of the visited page that supports it; empty if there is none.
    """
    visited = ctx.deps.walk.visited
    if url.strip() and page_key(url) not in map(page_key, visited):
        last = ", ".join(visited[-3:]) or "you have opened none yet"
        raise ModelRetry(f"You have not visited {url!r}. Give the address of a page that you saw: {last}.")
    return Answer(text=f"{answer.strip()}\n\n{url.strip()}".strip(), answer=answer.strip() or None)


@cache
def web_agent() -> Agent[WalkDeps, Answer]:
    """Return the agent, without a model and without lessons."""
    output: Any = ToolOutput(_answer, name="answer", max_retries=2)
    instructions = load_prompt("walk", 1, package="agentlearn_web.prompts").text
    return Agent(deps_type=WalkDeps, output_type=output, instructions=instructions, name="web", tools=_walker_tools())
