"""`agentlearn lab`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import Parameter

from agentlearn.cli.interrupt import run_async
from agentlearn.cli.options import JsonOption
from agentlearn.cli.output import console, print_json
from agentlearn.config import DEFAULT_STORE
from agentlearn.domain.demo import lab_model
from agentlearn.errors import ConfigError
from agentlearn_demo.lab import MathLab, require_torch

if TYPE_CHECKING:
    from agentlearn_demo.lab.evaluation import ConditionScore
    from agentlearn_demo.lab.training import TrainingProgress

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
    lab = cast("MathLab", lab_model(name))
    if tokens is not None and tokens < 1:
        raise ConfigError(f"--tokens is {tokens!r}; give at least 1")
    require_torch()
    from agentlearn_demo.lab.training import Recipe, build_lab_model
    from agentlearn_demo.lab.transformer import SHIPPED

    recipe = Recipe(seed=seed) if tokens is None else Recipe(tokens=tokens, seed=seed)
    folder = out or DEFAULT_STORE / "lab" / f"{name}-{recipe.key(name, lab.version)}"
    screen, started = console(), time.perf_counter()

    def report(progress: "TrainingProgress") -> None:
        share, passed_s = progress.tokens / recipe.tokens, time.perf_counter() - started
        screen.print(
            f"  {min(share, 1):4.0%}  step {progress.step}  {progress.tokens / 1e6:.2f} M tokens"
            f"  loss {progress.loss:.4f}  distance from the teacher {progress.teacher_kl:.4f}  {passed_s:.0f} s"
        )

    if recipe.is_built(lab, folder):
        screen.print(f"already built: {folder}")
    else:
        build_lab_model(lab, recipe, folder, report)
        screen.print(f"wrote {folder} in {time.perf_counter() - started:.0f} s")
    if exams:
        _print(_scores(name, folder / SHIPPED, exams, seed))


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
    scores = _scores(name, folder or lab_model(name).folder, exams, seed)
    if not json:
        _print(scores)
        return
    fields = ("number", "right", "standard_error", "expected")
    table = {one.condition: {field: getattr(one, field) for field in fields} for one in scores}
    print_json({condition: {"n": row.pop("number"), **row} for condition, row in table.items()})


def lab_export(
    folder: Annotated[Path, Parameter(help="Folder to write.")],
    /,
    *,
    name: LabName = NOVICE,
) -> None:
    """Write the shipped weights as a checkpoint for `local:` and for Hugging Face programs."""
    lab_model(name).export(folder)
    console().print(f"wrote {folder}")


def _scores(name: str, folder: Path, exams: int, seed: int) -> "list[ConditionScore]":
    from agentlearn_demo.lab.evaluation import evaluate_lab_model

    return run_async(lambda: evaluate_lab_model(name, folder, exams, seed))


def _print(scores: "list[ConditionScore]") -> None:
    screen = console()
    screen.print("  lessons       right      share  standard error  teacher")
    for one in scores:
        count = f"{one.right}/{one.number}"
        screen.print(
            f"  {one.condition:<11}{count:>9}  {one.share:8.1%}  {one.standard_error:14.1%}  {one.expected:7.1%}"
        )
