"""`agentlearn solve`."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from agentlearn.cli.ask import allow
from agentlearn.cli.output import console, print_json
from agentlearn.config import default_model, is_lab
from agentlearn.errors import RolloutError
from agentlearn.models.endpoint import is_paid, is_simulated

if TYPE_CHECKING:
    from agentlearn.rollout.solve import SolveSettings
    from agentlearn.types.trajectory import Trajectory


def solve(
    domain: Annotated[str, Parameter(help="An installed domain, such as 'math'.")],
    problem: Annotated[str, Parameter(help="The problem, in quotes.")],
    /,
    *,
    library: Annotated[str, Parameter(help="Lessons to show: NAME, NAME@VERSION, a file, or none.")] = "none",
    model: Annotated[
        str | None, Parameter(help="Endpoint. [default: the domain's lab model, else sim:novice, simulated]")
    ] = None,
    seed: Annotated[int, Parameter(help="Seed of what is drawn.")] = 0,
    url: Annotated[str, Parameter(help="Where the work begins, such as a site's address, for 'web'.")] = "",
    record: Annotated[
        Path | None, Parameter(help="Folder for screenshots of each step and a trace, where the domain makes them.")
    ] = None,
    sandbox: Annotated[str | None, Parameter(help="Where code of the model runs. [default: zygote, isolated]")] = None,
    store: Annotated[Path, Parameter(help="Directory of everything kept.")] = Path(".agentlearn"),
    yes: Annotated[bool, Parameter(negative="", help="Spend without asking.")] = False,
    json: Annotated[bool, Parameter(negative="", help="Print one JSON object.")] = False,
) -> None:
    """Solve one problem, with the steps shown."""
    from agentlearn.rollout.solve import SolveSettings
    from agentlearn.rollout.transcript import transcript

    model = model or default_model(domain)
    if is_paid(model):
        allow(f"{model} may cost money (one rollout, a few thousand tokens)", yes=yes)
    settings = SolveSettings(
        domain=domain,
        problem=problem,
        library=library,
        model=model,
        seed=seed,
        start=url,
        record=record,
        sandbox=sandbox,
        store=store,
    )
    trajectory = _run(settings)
    if json:
        print_json(trajectory)
    else:
        out = console()
        out.print(f"model {model}{_what(model)} · library {library}")
        out.print(transcript(trajectory.steps))
        out.print(f"answer: {trajectory.answer if trajectory.answer is not None else 'none'}")
        out.print(f"rollout {trajectory.id}")
        if record is not None:
            out.print(_recorded(record / trajectory.id))
    if trajectory.failure is not None:
        raise RolloutError(f"the rollout failed: {trajectory.failure.message}", code=trajectory.failure.code)


def _recorded(folder: Path) -> str:
    """What the rollout's tools left there."""
    files = sorted(one.name for one in folder.glob("*")) if folder.is_dir() else []
    if not files:
        return "recorded nothing: the domain has nothing to record, or could not"
    replay = f"; replay it with  playwright show-trace {folder / 'trace.zip'}" if "trace.zip" in files else ""
    return f"recorded {len(files)} files in {folder}{replay}"


def _what(model: str) -> str:
    if is_simulated(model):
        return " (simulated)"
    return " (a real but tiny transformer)" if is_lab(model) else ""


def _run(settings: "SolveSettings") -> "Trajectory":
    from agentlearn.rollout.solve import solve as solve_one

    return asyncio.run(solve_one(settings))
