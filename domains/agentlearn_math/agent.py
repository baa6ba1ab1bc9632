"""The pydantic-ai agent of the math domain: one Python tool, and a final text with its answer in a box."""

from functools import cache

from pydantic_ai import Agent, TextOutput

from agentlearn.answers.reply import boxed
from agentlearn.domain.base import Answer
from agentlearn.prompts import Prompt, load_prompt
from agentlearn.sandbox.python_tool import CodeDeps, code_tool


def solve_prompt() -> Prompt:
    """Return the agent's instructions."""
    return load_prompt("solve", 1, package="agentlearn_math.prompts")


async def boxed_answer(text: str) -> Answer:
    """Return the final text with the content of its last box; without a box there is no answer."""
    return Answer(text=text, answer=boxed(text) or None)


@cache
def math_agent() -> Agent[CodeDeps, Answer]:
    """Return the agent, without a model and without lessons."""
    return Agent(
        deps_type=CodeDeps,
        output_type=TextOutput(boxed_answer),
        instructions=solve_prompt().text,
        name="math",
        tools=[code_tool()],
    )
