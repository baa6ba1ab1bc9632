"""The domain's pydantic-ai agent: one Python tool, and a final text with its answer in a box."""

from functools import cache

from pydantic_ai import Agent, TextOutput

from agentlearn.domain.base import Answer
from agentlearn.prompts import Prompt, load_prompt
from agentlearn.sandbox.python_tool import CodeDeps, code_tool
from agentlearn_math.answers import boxed

MathDeps = CodeDeps
"""What the agent's tool works with."""


def solve_prompt() -> Prompt:
    """The words the agent is instructed with."""
    return load_prompt("solve", 1, package="agentlearn_math.prompts")


async def boxed_answer(text: str) -> Answer:
    """The final text with the content of its last box; no answer where there is no box."""
    return Answer(text=text, answer=boxed(text) or None)


@cache
def math_agent() -> Agent[MathDeps, Answer]:
    """The agent, without a model and without lessons."""
    return Agent(
        deps_type=MathDeps,
        output_type=TextOutput(boxed_answer),
        instructions=solve_prompt().text,
        name="math",
        tools=[code_tool()],
    )
