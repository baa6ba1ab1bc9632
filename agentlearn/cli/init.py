"""`agentlearn init`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agentlearn.cli.output import console


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
