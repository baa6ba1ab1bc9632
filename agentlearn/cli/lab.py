"""`agentlearn lab`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from agentlearn.cli.interrupt import run_async
from agentlearn.cli.options import JsonOption
from agentlearn.cli.output import console, print_json
from agentlearn.config import DEFAULT_STORE
from agentlearn.errors import ConfigError

if TYPE_CHECKING:
    from agentlearn.lab.evaluation import ConditionScore
    from agentlearn.train.lab.training import TrainingProgress

NOVICE = "novice"
LabName = Annotated[str, Parameter(help="Name of the lab model.")]


def lab_build(
    name: LabName = NOVICE,
    /,
    *,
    out: Annotated[Path | None, Parameter(help="Folder to write. [default: .agentlearn/lab/NAME-KEY]")] = None,
    tokens: Annotated[
        int | None, Parameter(help="Training tokens. [default: as many as the shipped model has seen]")
    ] = None,
    seed: Annotated[int, Parameter(help="Seed of the corpus and of the initial weights.")] = 0,
    exams: Annotated[int, Parameter(help="Problems per condition in the evaluation at the end; 0: none.")] = 100,
) -> None:
    """Train a lab model from random weights and write its checkpoint. A model that is already built is kept."""
    from agentlearn.lab.checkpoint import SHIPPED
    from agentlearn.lab.contract import announced_lab
    from agentlearn.train.lab.build import build_lab_model, is_built, require_torch

    lab = announced_lab(name)
    if tokens is not None and tokens < 1:
        raise ConfigError(f"--tokens is {tokens!r}; give at least 1", code="out_of_range")
    require_torch()
    from agentlearn.train.lab.training import Recipe

    recipe = Recipe(seed=seed) if tokens is None else Recipe(tokens=tokens, seed=seed)
    folder = out or DEFAULT_STORE / "lab" / f"{name}-{recipe.key(lab)}"
    screen, started = console(), time.perf_counter()

    def report(progress: "TrainingProgress") -> None:
        share, passed_s = progress.tokens / recipe.tokens, time.perf_counter() - started
        screen.print(
            f"  {min(share, 1):4.0%}  step {progress.step}  {progress.tokens / 1e6:.2f} M tokens"
            f"  loss {progress.loss:.4f}  distance from the teacher {progress.teacher_kl:.4f}  {passed_s:.0f} s"
        )

    if is_built(lab, recipe, folder):
        screen.print(f"already built: {folder}")
    else:
        build_lab_model(lab, recipe, folder, report)
        screen.print(f"wrote {folder} in {time.perf_counter() - started:.0f} s")
    if exams:
        _print(run_async(lambda: _scores(name, folder / SHIPPED, exams, seed)))


def lab_check(
    name: LabName = NOVICE,
    /,
    *,
    folder: Annotated[Path | None, Parameter(help="Folder of the model. [default: the shipped one]")] = None,
    exams: Annotated[int, Parameter(help="Problems per condition.")] = 100,
    seed: Annotated[int, Parameter(help="Seed of the problems and of sampling.")] = 0,
    json: JsonOption = False,
) -> None:
    """Measure a lab model with and without lessons on problems it was not trained on. Its programs are executed."""
    from agentlearn.lab.contract import announced_lab

    lab = announced_lab(name)
    scores = run_async(lambda: _scores(name, folder or lab.folder, exams, seed))
    if json:
        names = ("right", "standard_error", "expected")
        print_json({one.condition: {"n": one.number} | {name: getattr(one, name) for name in names} for one in scores})
    else:
        _print(scores)


def lab_export(
    folder: Annotated[Path, Parameter(help="Folder to write.")],
    /,
    *,
    name: LabName = NOVICE,
) -> None:
    """Write the shipped weights as a checkpoint for `local:` and for Hugging Face programs."""
    from agentlearn.lab.contract import announced_lab
    from agentlearn.train.lab.build import export_lab_model

    export_lab_model(announced_lab(name), folder)
    console().print(f"wrote {folder}")


async def _scores(name: str, folder: Path, exams: int, seed: int) -> "list[ConditionScore]":
    from agentlearn.lab.contract import announced_lab
    from agentlearn.lab.evaluation import evaluate_lab_model

    return await evaluate_lab_model(announced_lab(name), folder, exams, seed)


def _print(scores: "list[ConditionScore]") -> None:
    screen = console()
    screen.print("  lessons       right      share  standard error  teacher")
    for one in scores:
        count = f"{one.right}/{one.number}"
        screen.print(
            f"  {one.condition:<11}{count:>9}  {one.share:8.1%}  {one.standard_error:14.1%}  {one.expected:7.1%}"
        )
