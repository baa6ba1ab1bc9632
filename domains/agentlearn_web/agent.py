"""The web agent: the acts of a walk, and an answer with the address that supports it."""

from functools import cache
from typing import Any

from pydantic_ai import Agent, ModelRetry, ToolOutput

from agentlearn.domain.base import Answer
from agentlearn.prompts import Prompt, load_prompt
from agentlearn_web.act_tools import WalkDeps, WalkRunContext, walker_tools
from agentlearn_web.page_key import same_page

NOT_FOUND = "not found"
PROMPT_VERSION = 1
"""Version of the instructions, `prompts/walk/v1.md`."""


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


def walk_prompt() -> Prompt:
    """Return the agent's instructions."""
    return load_prompt("walk", PROMPT_VERSION, package="agentlearn_web.prompts")


@cache
def web_agent() -> Agent[WalkDeps, Answer]:
    """Return the agent, without a model and without lessons."""
    output: Any = ToolOutput(answer, name="answer", max_retries=2)
    return Agent(
        deps_type=WalkDeps, output_type=output, instructions=walk_prompt().text, name="web", tools=walker_tools()
    )
