"""`agentlearn doctor`."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, StoreOption, YesOption
from agentlearn.cli.output import console, print_json
from agentlearn.config import DEFAULT_STORE, CallOptions
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.text import block, visible_line

if TYPE_CHECKING:
    from agentlearn.doctor import CheckResult

_MARKS = {"ok": "ok     ", "missing": "missing", "broken": "BROKEN ", "note": "note   "}


def doctor(
    *,
    model: Annotated[str | None, Parameter(help="Also test what this model can do, with three small calls.")] = None,
    store: StoreOption = DEFAULT_STORE,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Check what works here, and print how to fix what does not."""
    from agentlearn.doctor import check_machine

    # ask about the costs before any check runs: a user who refuses them gets no report
    probed = _probe(model, yes=yes) if model is not None else ()
    findings = (*check_machine(store, _waits_for), *probed)
    broken = sum(finding.state == "broken" for finding in findings)
    if json:
        print_json({"broken": broken, "findings": [finding.model_dump(mode="json") for finding in findings]})
    else:
        out = console()
        width = max(len(visible_line(finding.what)) for finding in findings)
        for finding in findings:
            what = f"  {_MARKS[finding.state]}  {visible_line(finding.what).ljust(width)}  "
            out.print(block(visible_line(finding.words), what))
            if finding.mend:
                out.print(f"{' ' * len(what)}{finding.mend}")
    if broken:
        raise AgentlearnError(f"{broken} of {len(findings)} checks failed", code="doctor")


def _waits_for(what: str) -> None:
    console(to_stderr=True).print(f"agentlearn: still checking: {what}")


def _probe(model: str, *, yes: bool) -> "tuple[CheckResult, ...]":
    from agentlearn.cli.ask import ask
    from agentlearn.cli.interrupt import run_async
    from agentlearn.doctor.model_probe import probe, probe_words
    from agentlearn.domain.base import CheckResult
    from agentlearn.models.endpoint import check_endpoint, is_paid

    try:
        check_endpoint(model, CallOptions())
    except ConfigError as error:
        return (CheckResult(what=f"model {model}", state="broken", words=error.message),)
    if is_paid(model):
        ask(probe_words(model), yes=yes)
    return run_async(lambda: probe(model, waiting=_waits_for))
