"""`agentlearn train`."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from agentlearn.cli.interrupt import on_interrupt
from agentlearn.cli.output import console, print_json, show_logs
from agentlearn.cli.train_page import write_train_page
from agentlearn.cli.train_progress import TrainProgress
from agentlearn.config import DEFAULT_STORE, LAB, default_model, packaged_recipe, read_recipe
from agentlearn.errors import ConfigError, Interrupted
from agentlearn.train.report import TrainReport
from agentlearn.train.settings import TrainSettings, train_settings
from agentlearn.types.ids import RunId

LAB_RECIPE = "train-lab"
"""The recipe with which a domain's own lab model is trained."""


def train(
    what: Annotated[str | None, Parameter(help="A domain (math) or a recipe (.yaml, math/train).")] = None,
    /,
    *,
    model: Annotated[str | None, Parameter(help="Folder or hub id of a causal language model, or an adapter.")] = None,
    sampler: Annotated[
        Literal["local", "vllm"] | None, Parameter(help="Who draws the rollouts. [default: local]")
    ] = None,
    library: Annotated[str | None, Parameter(help="Lessons that stand in every prompt. [default: none]")] = None,
    name: Annotated[str | None, Parameter(help="Name of the resulting weights. [default: the domain's]")] = None,
    data: Annotated[str | None, Parameter(help="Tasks to learn from: a file, hf:NAME or gym:TASK.")] = None,
    test_data: Annotated[
        list[str] | None, Parameter(negative="", help="Held-out tasks, likewise; may be repeated.")
    ] = None,
    reward: Annotated[
        str | None, Parameter(help="For a task file: exact, number, choice, contains, judge, or module:function.")
    ] = None,
    tools: Annotated[Literal["none", "python"] | None, Parameter(help="For a task file. [default: none]")] = None,
    limit: Annotated[int | None, Parameter(help="Tasks read at most.")] = None,
    epochs: Annotated[int | None, Parameter(help="Passes over the tasks. [default: 3]")] = None,
    batch_size: Annotated[int | None, Parameter(help="Tasks per update. [default: 8]")] = None,
    group_size: Annotated[int | None, Parameter(help="Rollouts per task, G. [default: 8]")] = None,
    temperature: Annotated[float | None, Parameter(help="Of rollouts and training alike. [default: 1]")] = None,
    answer_tokens: Annotated[int | None, Parameter(help="Tokens of one answer at most. [default: 1024]")] = None,
    loss: Annotated[
        Literal["grpo", "dr_grpo", "bnpo", "dapo", "cispo", "gspo"] | None, Parameter(help="[default: dapo]")
    ] = None,
    learning_rate: Annotated[float | None, Parameter(help="[default: 1e-6]")] = None,
    lora_rank: Annotated[int | None, Parameter(help="Train an adapter of this rank. [default: 0, all weights]")] = None,
    set_: Annotated[
        list[str] | None,
        Parameter(name="--set", negative="", help="Any other setting of the update, as in kl=k3; may be repeated."),
    ] = None,
    seed: Annotated[int | None, Parameter(help="Seed of everything that is drawn. [default: 0]")] = None,
    concurrency: Annotated[int | None, Parameter(help="Model calls in flight at once. [default: 32]")] = None,
    eval_rollouts: Annotated[int | None, Parameter(help="Rollouts per held-out task. [default: 4]")] = None,
    eval_every: Annotated[
        int | None, Parameter(help="Measure after every so many updates too. [default: 0, before and after alone]")
    ] = None,
    no_eval: Annotated[bool, Parameter(negative="", help="Do not measure on held-out tasks.")] = False,
    save_every: Annotated[int | None, Parameter(help="Updates between two checkpoints. [default: 20]")] = None,
    sandbox: Annotated[str | None, Parameter(help="Where code of the model runs. [default: zygote, isolated]")] = None,
    max_minutes: Annotated[float | None, Parameter(help="Stop after this time.")] = None,
    resume: Annotated[str | None, Parameter(help="Go on with an interrupted run, by its id.")] = None,
    store: Annotated[Path | None, Parameter(help="Directory of everything kept. [default: .agentlearn]")] = None,
    json: Annotated[bool, Parameter(negative="", help="Print one JSON object.")] = False,
    log: Annotated[str, Parameter(help="Level of events on stderr: debug, info, warning, error.")] = "error",
) -> None:
    """Train the weights of a local model on rollouts (gradient GRPO), and measure what that is worth."""
    given = {
        "model": model,
        "sampler": sampler,
        "library": library,
        "name": name,
        "data": data,
        "test_data": test_data,
        "reward": reward,
        "tools": tools,
        "limit": limit,
        "epochs": epochs,
        "batch_size": batch_size,
        "group_size": group_size,
        "temperature": temperature,
        "answer_tokens": answer_tokens,
        "seed": seed,
        "concurrency": concurrency,
        "eval_rollouts": eval_rollouts,
        "eval_every": eval_every,
        "evaluate": False if no_eval else None,
        "save_every": save_every,
        "sandbox": sandbox,
        "max_minutes": max_minutes,
        "store": store,
    }
    of_update = {"loss": loss, "learning_rate": learning_rate, "lora_rank": lora_rank}
    fields = {key: value for key, value in given.items() if value is not None}
    gradient = {key: value for key, value in of_update.items() if value is not None} | _pairs(set_ or ())
    settings, run = _settings(what, resume, fields, gradient)
    show_logs(log)
    if _follows(settings):
        return
    out = console(to_stderr=json)
    report = _run(settings, TrainProgress(settings, out), run)
    out.print(f"  report        {write_train_page(report, settings)}")
    if json:
        print_json(report)


def _follows(settings: TrainSettings) -> bool:
    """Whether this is not the first process of `torchrun`; if so it has done its part when this returns."""
    if int(os.environ.get("RANK", "0")) == 0:
        return False
    from agentlearn.train.run import follow_training

    follow_training(settings)
    return True


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key or not value:
            raise ConfigError(f"--set {text!r} is no setting; write it as in --set kl=k3", code="bad_setting")
        pairs[key.strip()] = value.strip()
    return pairs


def _settings(
    what: str | None, resume: str | None, given: Mapping[str, Any], gradient: Mapping[str, Any]
) -> tuple[TrainSettings, RunId | None]:
    """The settings of a new run, or of the one that is resumed, and its id."""
    if resume is not None:
        from agentlearn.train.resume import resumed_train_settings

        if what is not None or gradient:
            raise ConfigError(
                f"--resume goes on with what run {resume!r} was begun with; leave out everything else",
                code="fixed_setting",
            )
        run, settings = resumed_train_settings(resume, given.get("store", DEFAULT_STORE), given)
        return settings, run
    if what is None:
        raise ConfigError(
            "say what to train on: a domain (agentlearn train math --model PATH) or a recipe", code="no_task"
        )
    path = _recipe(what, given)
    fields: dict[str, Any] = read_recipe(path) if path is not None else {"domain": what}
    of_recipe: Mapping[str, Any] = fields.pop("gradient", None) or {}
    return train_settings({**fields, **given, "gradient": {**of_recipe, **gradient}}), None


def _recipe(what: str, given: Mapping[str, Any]) -> Path | None:
    """The recipe that is named; for a domain's own lab model the one that its package ships; else None."""
    path = packaged_recipe(what) or Path(what)
    if path.suffix in {".yaml", ".yml"}:
        return path
    if "model" not in given and default_model(what).startswith(LAB):
        return packaged_recipe(f"{what}/{LAB_RECIPE}")
    return None


def _run(settings: TrainSettings, progress: TrainProgress, resume: RunId | None) -> TrainReport:
    from agentlearn.train.serving.local import need_extra

    need_extra("training weights", "peft", "accelerate")
    from agentlearn.train.run import run_training

    async def run() -> TrainReport:
        with on_interrupt(progress.interrupt):
            return await run_training(settings, progress, resume=resume)

    with progress:
        try:
            return asyncio.run(run())
        except KeyboardInterrupt:
            if progress.call_context is not None:
                raise
            raise Interrupted("interrupted before the run began; nothing was done") from None
