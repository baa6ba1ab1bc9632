"""The web agent: the acts of a walk as pydantic-ai tools, and an answer with the address that supports it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic_ai import Agent, ModelRetry, RunContext, Tool, ToolOutput
from pydantic_ai.messages import ToolReturn

from agentlearn.domain.base import Answer
from agentlearn.prompts import Prompt, load_prompt
from agentlearn.types.trajectory import STATUS
from agentlearn_web.browser.walk import Walk
from agentlearn_web.observation import PageObservation, render_observation
from agentlearn_web.page_key import same_page

NOT_FOUND = "not found"


@dataclass(frozen=True, slots=True)
class WalkDeps:
    """The agent's deps: the open walk that its tools use."""

    walk: Walk
    nonce: str
    """Marks the fence around text from sites."""

    def tool_return(self, observation: PageObservation) -> ToolReturn:
        """Return an observation as a tool result."""
        return ToolReturn(render_observation(observation, self.nonce), metadata={STATUS: observation.status})


WalkRunContext = RunContext[WalkDeps]


async def open_(ctx: WalkRunContext, url: str) -> ToolReturn:
    """Open an address in the current tab.

    Args:
        url: The address, such as https://example.org/people.
    """
    return ctx.deps.tool_return(await ctx.deps.walk.open(url))


async def click(ctx: WalkRunContext, ref: str) -> ToolReturn:
    """Click a link, a button or another element.

    Args:
        ref: Its ref as shown last, such as t1:e5.
    """
    return ctx.deps.tool_return(await ctx.deps.walk.click(ref))


async def type_(ctx: WalkRunContext, ref: str, text: str, submit: bool = False) -> ToolReturn:
    """Fill a field with a text, or choose an option of a list by its name.

    Args:
        ref: The field's ref as shown last, such as t1:e5.
        text: What to write; it takes the place of what was there.
        submit: Whether to press Enter afterwards.
    """
    return ctx.deps.tool_return(await ctx.deps.walk.type(ref, text, submit=submit))


async def back(ctx: WalkRunContext) -> ToolReturn:
    """Go back to the page before this one in the current tab."""
    return ctx.deps.tool_return(await ctx.deps.walk.back())


async def find(ctx: WalkRunContext, text: str) -> ToolReturn:
    """Search the whole page, also the parts that were not shown yet.

    Args:
        text: What to look for; case does not matter.
    """
    return ctx.deps.tool_return(await ctx.deps.walk.find(text))


async def more(ctx: WalkRunContext, page: int | None = None) -> ToolReturn:
    """See the next part of a long page.

    Args:
        page: Which part, from 1; left out, the one after the part shown last.
    """
    return ctx.deps.tool_return(await ctx.deps.walk.more(page))


async def tabs(ctx: WalkRunContext, select: str | None = None, close: str | None = None) -> ToolReturn:
    """Look at the open tabs, go to one of them, or close one.

    Args:
        select: The tab to go to, such as t2.
        close: The tab to close.
    """
    return ctx.deps.tool_return(await ctx.deps.walk.tabs(select=select, close=close))


async def answer(ctx: WalkRunContext, answer: str, url: str) -> Answer:
    """Hand in the answer and end the walk.

    Args:
        answer: The answer, as short as the question allows; "not found" if there is none.
        url: The address of the visited page that supports it; empty if there is none.
    """
    visited = ctx.deps.walk.visited
    if url.strip() and not any(same_page(url, one) for one in visited):
        raise ModelRetry(f"You have not visited {url!r}. Give the address of a page that you saw: {_last(visited)}.")
    return Answer(text=f"{answer.strip()}\n\n{url.strip()}".strip(), answer=answer.strip() or None)


def _last(visited: tuple[str, ...]) -> str:
    return ", ".join(visited[-3:]) or "you have opened none yet"


_ACTS: tuple[tuple[str, Callable[..., Awaitable[ToolReturn]]], ...] = (
    ("open", open_),
    ("click", click),
    ("type", type_),
    ("back", back),
    ("find", find),
    ("more", more),
    ("tabs", tabs),
)


def walker_tools() -> list[Tool[WalkDeps]]:
    """Return the acts as tools. They run one after the other, because each one changes the page for the next."""
    return [Tool(act, name=name, sequential=True) for name, act in _ACTS]


def walk_prompt() -> Prompt:
    """Return the agent's instructions."""
    return load_prompt("walk", 1, package="agentlearn_web.prompts")


@cache
def web_agent() -> Agent[WalkDeps, Answer]:
    """Return the agent, without a model and without lessons."""
    output: Any = ToolOutput(answer, name="answer", max_retries=2)
    return Agent(
        deps_type=WalkDeps, output_type=output, instructions=walk_prompt().text, name="web", tools=walker_tools()
    )
