"""The MiniWoB++ agent: the acts of a walk on one page that is already open, and `done` at the end."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic_ai import Agent, RunContext, ToolOutput

from agentlearn.domain.base import Answer
from agentlearn.prompts import Prompt, load_prompt
from agentlearn_web.act_tools import WalkDeps, walker_tools
from agentlearn_web.miniwob.episode import Episode, format_reward

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
