"""`agentlearn domain`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption
from agentlearn.cli.output import console, print_json
from agentlearn.errors import AgentlearnError
from agentlearn.text import block, visible_line

if TYPE_CHECKING:
    from agentlearn.domain.contract import Promise

_MARKS = {"ok": "ok      ", "broken": "BROKEN  ", "untested": "untested"}


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
    if json:
        print_json({"broken": broken, "promises": [one.model_dump(mode="json") for one in promises]})
    else:
        _print(promises)
    if broken:
        raise AgentlearnError(f"{reference}: {broken} of {len(promises)} promises are broken", code="broken_promise")


def _print(promises: "Sequence[Promise]") -> None:
    out = console()
    width = max(len(one.name) for one in promises)
    for one in promises:
        out.print(block(visible_line(one.words), f"  {_MARKS[one.state]}  {one.name.ljust(width)}  "))
