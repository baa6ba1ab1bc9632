"""`agentlearn doctor`, `init`, `domain` and `--install-completion`: begin, and check what is there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, StoreOption, YesOption
from agentlearn.cli.output import console, print_result
from agentlearn.config import DEFAULT_STORE, CallOptions
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.text import block, visible_line

if TYPE_CHECKING:
    from agentlearn.doctor import CheckResult

_CHECK_MARKS = {"ok": "ok     ", "missing": "missing", "broken": "BROKEN ", "note": "note   "}


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
    width, lines = max(len(visible_line(finding.what)) for finding in findings), list[str]()
    for finding in findings:
        what = f"  {_CHECK_MARKS[finding.state]}  {visible_line(finding.what).ljust(width)}  "
        lines.append(block(visible_line(finding.words), what))
        lines += [f"{' ' * len(what)}{finding.mend}"] if finding.mend else []
    document = {"broken": broken, "findings": [finding.model_dump(mode="json") for finding in findings]}
    print_result(document, lines, json=json)
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


def init(
    domain: Annotated[str, Parameter(help="An installed domain.")] = "math",
    /,
    *,
    out: Annotated[Path, Parameter(help="File to write.")] = Path("recipe.yaml"),
) -> None:
    """Write a recipe with the most important settings, each explained."""
    from agentlearn.domain.templates import write_recipe

    write_recipe(domain, out)
    console().print(f"wrote {out}; run it with: agentlearn learn {out}")


_PROMISE_MARKS = {"ok": "ok      ", "broken": "BROKEN  ", "untested": "untested"}


def domain_new(
    name: Annotated[str, Parameter(help="Name of the domain, such as 'prices'.")],
    /,
    *,
    directory: Annotated[Path | None, Parameter(name="--dir", help="Folder to write. [default: ./NAME]")] = None,
) -> None:
    """Write a small domain package with its contract tests."""
    from agentlearn.domain.templates import new_domain

    folder = directory if directory is not None else Path(name)
    out = console()
    for path in new_domain(name, folder):
        out.print(f"  {path}")
    out.print(f"install and check it: pip install -e {folder} && agentlearn domain check {name}")


def domain_check(
    reference: Annotated[str, Parameter(help="An installed domain, or package.module:attribute.")],
    /,
    *,
    data: Annotated[Path | None, Parameter(help="Task file, for a domain without tasks.")] = None,
    json: JsonOption = False,
) -> None:
    """Check every promise that a domain makes. Costs nothing: a stand-in answers instead of a model."""
    from agentlearn.domain.contract import check_domain_sync, domain_at

    promises = check_domain_sync(domain_at(reference), data=data)
    broken = sum(one.state == "broken" for one in promises)
    width = max(len(one.name) for one in promises)
    marks = [f"  {_PROMISE_MARKS[one.state]}  {one.name.ljust(width)}  " for one in promises]
    lines = [block(visible_line(one.words), mark) for one, mark in zip(promises, marks, strict=True)]
    document = {"broken": broken, "promises": [one.model_dump(mode="json") for one in promises]}
    print_result(document, lines, json=json)
    if broken:
        raise AgentlearnError(f"{reference}: {broken} of {len(promises)} promises are broken", code="broken_promise")


def install_completion(
    *,
    shell: Annotated[
        Literal["bash", "zsh", "fish"] | None, Parameter(help="Default: the shell that you are using.")
    ] = None,
) -> None:
    """Install completion of commands and options for your shell."""
    from cyclopts.completion.detect import ShellDetectionError

    from agentlearn.cli.app import build

    try:
        path = build().install_completion(shell=shell)
    except ShellDetectionError as error:
        raise ConfigError(
            "your shell is not known; give one: agentlearn --install-completion --shell bash", code="unknown_shell"
        ) from error
    console().print(f"wrote {path}; start a new shell to use it")
