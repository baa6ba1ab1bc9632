"""The code tool: a stateful Python interpreter for pydantic-ai agents."""

from dataclasses import dataclass

from pydantic_ai import RunContext, Tool
from pydantic_ai.messages import ToolReturn

from agentlearn.sandbox.protocol import Session
from agentlearn.sandbox.tool_text import TOOL, render_result
from agentlearn.types.trajectory import STATUS


@dataclass(frozen=True, slots=True)
class CodeDeps:
    """An agent's deps for the code tool."""

    session: Session


async def run_python(ctx: RunContext[CodeDeps], code: str) -> ToolReturn:
    """Run a Python program and return what it printed.

    Args:
        code: A complete program that prints its result. Variables of earlier calls are still defined.
    """
    result = await ctx.deps.session.run(code)
    return ToolReturn(render_result(result), metadata={STATUS: result.status})


def code_tool() -> Tool[CodeDeps]:
    """The tool `run_python`. Its calls run one after another because they share the interpreter's variables."""
    return Tool(run_python, name=TOOL, sequential=True)
