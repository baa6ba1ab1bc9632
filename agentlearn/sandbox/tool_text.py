"""What the code tool's results look like to a model, and how a reader of that text finds the printed value."""

from agentlearn.sandbox.protocol import CodeResult, CodeStatus

TOOL = "run_python"
FAILED = "[run failed]"
"""Opens every result that is not the output of a program that ran to its end."""

_SILENT = "(the program printed nothing)"
_WHY: dict[CodeStatus, str] = {
    "error": "the program raised an error; variables set before it are kept",
    "timeout": "the program took too long and was stopped; variables of earlier calls may be lost, define them again",
    "oom": "the program used too much memory; variables of earlier calls may be lost, define them again",
    "killed": "the interpreter died; variables of earlier calls are lost, define them again",
    "state_lost": "the interpreter is gone and this program was not run; all variables are lost",
}


def rendered(result: CodeResult) -> str:
    """The result as the model reads it: what was printed, or why it failed and what became of the variables."""
    if result.status == "ok":
        return result.stdout.rstrip() or _SILENT
    parts = (f"{FAILED} {_WHY[result.status]}", result.error.strip(), result.stdout.rstrip())
    return "\n".join(part for part in parts if part)


def value_in(rendering: str) -> str | None:
    """The last line that a program printed; None when it failed or printed nothing."""
    lines = [line.strip() for line in rendering.splitlines() if line.strip()]
    if not lines or lines[0].startswith((FAILED, _SILENT)):
        return None
    return lines[-1]
