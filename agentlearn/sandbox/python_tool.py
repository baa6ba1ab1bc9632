"""The code tool: a stateful Python interpreter for pydantic-ai agents."""

from dataclasses import dataclass

from pydantic_ai import RunContext, Tool
from pydantic_ai.messages import ToolReturn

from agentlearn.sandbox import CodeResult, CodeStatus, Session
from agentlearn.types.trajectory import STATUS

TOOL = "run_python"
FAILED = "[run failed]"
"""First words of the text of every result whose status is not ok."""

_SILENT = "(the program printed nothing)"
_WHY: dict[CodeStatus, str] = {
    "error": "the program raised an error; variables set before it are kept",
    "timeout": "the program took too long and was stopped; variables of earlier calls may be lost, define them again",
    "oom": "the program used too much memory; variables of earlier calls may be lost, define them again",
    "killed": "the interpreter died; variables of earlier calls are lost, define them again",
    "state_lost": "the interpreter is gone and this program was not run; all variables are lost",
}


def render_result(result: CodeResult) -> str:
    """The text that the model reads: the output, or why the program failed and whether the variables are kept."""
    if result.status == "ok":
        return result.stdout.rstrip() or _SILENT
    parts = (f"{FAILED} {_WHY[result.status]}", result.error.strip(), result.stdout.rstrip())
    return "\n".join(part for part in parts if part)


def printed_value(rendering: str) -> str | None:
    """The last line of output in a text made by `render_result`; None if the program failed or printed nothing."""
    lines = [line.strip() for line in rendering.splitlines() if line.strip()]
    if not lines or lines[0].startswith((FAILED, _SILENT)):
        return None
    return lines[-1]


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
    reused = {"reused": True} if result.reused else {}
    return ToolReturn(render_result(result), metadata={STATUS: result.status, **reused})


def code_tool() -> Tool[CodeDeps]:
    """The tool `run_python`. Its calls run one after another because they share the interpreter's variables."""
    return Tool(run_python, name=TOOL, sequential=True)
