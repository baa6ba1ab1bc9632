"""`agentlearn doctor`."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from agentlearn.cli.ask import allow
from agentlearn.cli.output import console, print_json
from agentlearn.errors import AgentlearnError
from agentlearn.models.endpoint import is_paid

if TYPE_CHECKING:
    from agentlearn.doctor import CheckResult

_MARKS = {"ok": "ok     ", "missing": "missing", "broken": "BROKEN ", "note": "note   "}


def doctor(
    *,
    model: Annotated[str | None, Parameter(help="Ask this model too what it can do: three small calls.")] = None,
    store: Annotated[Path, Parameter(help="Directory of everything kept.")] = Path(".agentlearn"),
    yes: Annotated[bool, Parameter(negative="", help="Spend without asking.")] = False,
    json: Annotated[bool, Parameter(negative="", help="Print one JSON object.")] = False,
) -> None:
    """Say what works here, and the line that mends what does not."""
    from agentlearn.doctor import check_machine

    # Whoever says no to the costs is told nothing, so the question comes first.
    asked = _probed(model, yes=yes) if model is not None else ()
    findings = (*check_machine(store), *asked)
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


def _probed(model: str, *, yes: bool) -> "tuple[CheckResult, ...]":
    from agentlearn.doctor.model_probe import probe, probe_words

    if is_paid(model):
        allow(probe_words(model), yes=yes)
    return asyncio.run(probe(model))
