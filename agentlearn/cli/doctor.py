"""`agentlearn doctor`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agentlearn.cli.output import console, print_json
from agentlearn.errors import AgentlearnError

_MARKS = {"ok": "ok     ", "missing": "missing", "broken": "BROKEN ", "note": "note   "}


def doctor(
    *,
    store: Annotated[Path, Parameter(help="Directory of everything kept.")] = Path(".agentlearn"),
    json: Annotated[bool, Parameter(negative="", help="Print one JSON object.")] = False,
) -> None:
    """Say what works here, and the line that mends what does not."""
    from agentlearn.doctor import examine

    findings = examine(store)
    broken = sum(finding.state == "broken" for finding in findings)
    if json:
        print_json({"broken": broken, "findings": [finding.model_dump(mode="json") for finding in findings]})
    else:
        out = console()
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            out.print(f"  {_MARKS[finding.state]}  {finding.what.ljust(width)}  {finding.words}")
            if finding.mend:
                out.print(f"  {' ' * (width + 11)}{finding.mend}")
    if broken:
        raise AgentlearnError(f"{broken} of {len(findings)} checks found something broken", code="doctor")
