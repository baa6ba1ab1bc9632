"""What a training run will do, for `train --dry-run`. Nothing heavy is loaded: no torch, no weights, no network."""

import json
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentlearn.config import LAB
from agentlearn.config.model_folders import model_path
from agentlearn.domain.base import Domain
from agentlearn.domain.custom.own_functions import check_function
from agentlearn.domain.demo import lab_model
from agentlearn.errors import AgentlearnError, ConfigError, StoreError
from agentlearn.learning.costs import (
    HELD_OUT,
    RolloutSize,
    StageEstimate,
    assumed_shape,
    measured_run,
    refuse_unpriced,
    usual_shape,
    with_replies,
)
from agentlearn.learning.open_run import TaskCounts, TaskSets, TaskSize, domain_of, local_sets
from agentlearn.library import LibraryStore
from agentlearn.models.call_settings import context_of
from agentlearn.prompts import load_prompt
from agentlearn.store import read_store
from agentlearn.train.engine.attention import AttentionLayout, PromptTokens
from agentlearn.train.memory import size_words, stored_size
from agentlearn.train.serving.local import need_extra
from agentlearn.train.serving.vllm import require_vllm
from agentlearn.train.settings import TrainSettings, require_trackers
from agentlearn.train.update.sequences import library_to_distil
from agentlearn.train.weights.loading import (
    ModelSource,
    check_tokenizer_files,
    quantised_weights,
    read_config,
)
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.value import Value

LATER = "its memory, its chat template, and that sampler and trainer compute the same probabilities"
"""What is checked only when the model is loaded, in words."""


def _check_planned_model(settings: TrainSettings) -> None:
    """Raise ConfigError for a model that the run would refuse, as far as its files and the settings say."""
    if settings.model.startswith(LAB):
        lab_model(settings.model.removeprefix(LAB))
        ModelSource(settings.model, settings.model).check_adapter_settings(settings.gradient)
        return
    source = ModelSource.find(settings.model, ask_hub=False)
    base = Path(source.base)
    if base.is_dir():
        config = read_config(base)
        with suppress(ImportError):  # not installed, or another version; so that torch is not imported
            from transformers.models.auto.auto_mappings import CONFIG_MAPPING_NAMES

            source.check_model_type(config, {*CONFIG_MAPPING_NAMES, "gpt-sw3"})  # which has the module of GPT-2
        if config.get("quantization_config"):
            raise quantised_weights(source.name)
        if settings.sampler == "local":
            AttentionLayout.check_config(config)
    if model_path(settings.model).is_dir():  # a hub id may be an adapter
        source.check_adapter_settings(settings.gradient)
    if (place := Path(source.tokenizer)).is_dir():
        check_tokenizer_files(place)


def refuse_unreadable(
    settings: TrainSettings, domain: Domain, sets: TaskSets, tokens: PromptTokens, *libraries: Library | None
) -> None:
    """Raise ConfigError for prompts that the model cannot read. libraries: with lessons that it or a teacher reads."""
    words = [settings.instructions or ""]
    for ref in domain.prompts():
        package, _, name = ref.name.partition(":")
        with suppress(ConfigError, ModuleNotFoundError, ValueError):  # what a person wrote is no file
            words.append(load_prompt(name, ref.version, package=package).text)
    lessons = {f"lesson {one.id!r}": one.lesson for library in libraries if library for one in library.experiences}
    problems = {f"task {one.source or one.id!r}": one.problem for one in (*sets.train, *sets.test)}
    tokens.refuse_unreadable("\n".join(words), problems, lessons)


def refuse_own_judge(domain: Domain, settings: TrainSettings) -> None:
    """Raise ConfigError when the model in training would judge its own answers."""
    if domain.uses_judge and settings.reward == "judge":
        raise ConfigError(
            "the reward 'judge' would ask the model in training about its own answers, so it would learn to please"
            " itself; use another reward, or a function module:function that asks a model of your choice"
        )


def refuse_long_warmup(settings: TrainSettings, updates: int) -> None:
    """Raise ConfigError when the run ends before its learning rate has risen. updates: of the whole run."""
    steps, warmup = updates * settings.gradient.passes, settings.gradient.warmup_steps
    if warmup > steps:
        raise ConfigError(
            f"warmup_steps is {warmup}, but the run makes at most {steps} optimiser steps, so the learning rate would"
            f" never reach {settings.gradient.learning_rate:g}; give fewer warmup_steps, or more epochs"
        )


def refuse_unmeasured_margin(settings: TrainSettings, held_out: int) -> None:
    """Raise ConfigError when nothing would be measured that the margin could hold for. held_out: number of tasks."""
    if settings.margin is not None and not (settings.evaluate and held_out):
        raise ConfigError(
            f"margin is {settings.margin:g}, but no held-out task is measured, so no weights would be published; give"
            " --test-data with tasks that must not get worse, or leave the margin out"
        )


def context_note(settings: TrainSettings) -> str:
    """Return a note when answers may be longer than the model's context; empty when not, or when it is not known."""
    known = (context_of(settings.model), settings.vllm_max_context)
    context = min((one for one in known if one is not None), default=None)
    if context is None or settings.max_output_tokens < context:
        return ""
    return (
        f"max_output_tokens is {settings.max_output_tokens:,}, but the context of {settings.model!r} is {context:,}"
        " tokens for a prompt and its answer; longer answers are cut there"
    )


_PARTS = ("sampling", "updating", "synchronising")
_ALIKE = ("data", "reward", "tools", "sampler", "max_output_tokens", "max_turns", "library")
"""Settings in which an earlier run must be equal, so that its rollouts and times say something of this one."""
_TRAINED_BYTES, _FROZEN_BYTES = 16, 4
"""Bytes per weight: in fp32 with gradient and both moments of AdamW, and in fp32 alone."""


class TrainPlan(Value):
    """What a training run will do."""

    domain: str
    model: str
    """Endpoint that samples the rollouts: `local:` or `vllm:` and the model."""
    folder: str
    """Folder of the model; empty when it is not on this machine."""
    size_bytes: int | None
    """Bytes of the weights as stored; None when they are not on this machine."""
    parameters: int | None
    """Number of weights, where the files say it."""
    trained: str
    """What is trained, in words."""
    data: str
    """Source of the tasks, in words."""
    tasks: TaskCounts
    epochs: int
    batch_size: int
    group_size: int
    updates: int
    optimiser_steps: int
    """Most optimiser steps of the run. Minibatches without a row to train make none."""
    eval_rollouts: int
    """Rollouts per held-out task and measurement."""
    measurements: int
    """How often the held-out tasks are measured."""
    rollouts: int
    """Rollouts of the whole run, with those that measure."""
    stages: tuple[StageEstimate, ...]
    """`rollout`: rollouts to train on. `held out`: rollouts that measure."""
    basis: str
    """What the numbers of tokens rest on."""
    seconds: float | None
    """Expected time of the whole run; None when no run of this model on these tasks was measured here."""
    memory: str
    """What the update needs of memory, in words."""
    settings: dict[str, Any]
    """Every setting of the run."""
    refusals: tuple[str, ...]
    """Why the run would stop before it samples anything; empty when nothing is known against it."""
    notes: tuple[str, ...] = ()
    """What the run would say about its settings."""

    def lines(self) -> tuple[tuple[str, str], ...]:
        """Return the plan as pairs of label and text."""
        updates = f"{self.updates:,} updates of up to {self.batch_size} tasks"
        steps = f", {self.optimiser_steps:,} optimiser steps" if self.optimiser_steps != self.updates else ""
        run = {name: value for name, value in self.settings.items() if name != "gradient"}
        time, seconds = "", self.seconds or 0.0
        if self.seconds is not None:
            minutes = f"{round(seconds / 60)} minutes" if seconds <= 5400 else f"{seconds / 3600:.1f} hours"
            time = f"{max(1, round(seconds))} s" if seconds < 90 else minutes
        return (
            ("model", f"{self.model}, training {self.trained}"),
            ("weights", self._weights()),
            ("data", self.data),
            ("tasks", self.tasks.words(self.eval_rollouts)),
            ("rounds", f"{self.group_size} rollouts each, {self.epochs} epochs, {updates}{steps}"),
            *((one.stage, one.words()) for one in self.stages),
            ("total", f"about {self.rollouts:,} rollouts ({self.basis})"),
            *((("memory", self.memory),) if self.memory else ()),
            ("at the start", f"the run loads the model and checks {LATER}"),
            *((("time", f"about {time}, as that run took"),) if time else ()),
            ("settings", _assignments(run)),
            ("gradient", _assignments(self.settings["gradient"])),
            *(("note", one) for one in self.notes),
            *(("refused", one) for one in self.refusals),
        )

    def _weights(self) -> str:
        if self.size_bytes is None:
            return f"{self.settings['model']} is not a folder on this machine; it would be looked up on the hub"
        count = "" if self.parameters is None else f"{self.parameters:,} weights, "
        return f"{count}{size_words(self.size_bytes)} in {self.folder}"


def plan_training(settings: TrainSettings, *, lessons_exist: bool = True) -> TrainPlan:
    """Return what a run with these settings will do. Local tasks are read; nothing is downloaded, loaded or stored.

    lessons_exist: whether the library to distil is there yet. False: an earlier stage will learn it.

    Raises DataError or ConfigError when the tasks cannot be read, as the run would. All other reasons why the run would
    stop before it samples are `refusals`.
    """
    domain = domain_of(settings, imports_reward=False)
    sets, tokens = local_sets(settings, domain), PromptTokens.of_files(settings.model, settings.vllm_max_context)
    counts = TaskCounts.of(settings, domain, sets)
    updates = math.ceil(counts.train / settings.batch_size) * settings.epochs
    learning = counts.train * settings.epochs * settings.group_size
    during = (updates - 1) // settings.eval_every if settings.eval_every else 0  # after the last it is `after`
    measurements = 2 + during if settings.evaluate and counts.test else 0
    measuring = counts.test * settings.eval_rollouts * measurements
    size, basis, seconds = _expected(settings, counts.size, learning, measuring)
    library, refusals = _refusals(settings, domain, updates, counts.test, lessons_exist=lessons_exist)
    if sets is not None and tokens is not None:
        refusals += _raised(lambda: refuse_unreadable(settings, domain, sets, tokens, library))
    folder: Path | None = model_path(settings.model)
    if settings.model.startswith(LAB):
        try:
            folder = lab_model(settings.model.removeprefix(LAB)).folder
        except AgentlearnError:
            folder = None
    folder = folder if folder is not None and folder.is_dir() else None
    size_bytes, parameters = (None, None) if folder is None else stored_size(folder)
    rank, memory = settings.gradient.lora_rank, ""
    if parameters is not None:
        needed = size_words(parameters * (_FROZEN_BYTES if rank else _TRAINED_BYTES))
        memory = (
            f"about {needed} for {'the frozen weights' if rank else 'weights, gradients and optimiser'}; an update also"
            " needs memory for its tokens, which is measured when the model is loaded"
        )
    own, tests = f"{settings.domain}'s own tasks", " and ".join(settings.test_data)
    return TrainPlan(
        domain=settings.domain,
        model=settings.endpoint,
        folder="" if folder is None else str(folder),
        size_bytes=size_bytes,
        parameters=parameters,
        trained=f"an adapter of rank {rank}" if rank else "all weights",
        data=f"{settings.data or own}{f', held out from {tests}' if tests else ''}",
        tasks=counts,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        group_size=settings.group_size,
        updates=updates,
        optimiser_steps=updates * settings.gradient.passes,
        eval_rollouts=settings.eval_rollouts,
        measurements=measurements,
        rollouts=learning + measuring,
        stages=(
            size.times(learning, settings.endpoint, "rollout", library=library.tokens),
            size.times(measuring, settings.endpoint, HELD_OUT, library=library.tokens),
        ),
        basis=basis,
        seconds=seconds,
        memory=memory,
        settings=json.loads(settings.resolved()),
        refusals=refusals,
        notes=tuple(filter(None, (context_note(settings), "" if tokens is None else tokens.note))),
    )


def _expected(
    settings: TrainSettings, task: TaskSize, learning: int, measuring: int
) -> tuple[RolloutSize, str, float | None]:
    """Return the size of a rollout, what it rests on, and the time of the run if an earlier one was measured.

    learning, measuring: numbers of rollouts to train on, and of others.
    """
    shape, basis, _ = assumed_shape(with_replies(usual_shape(settings), task), settings.model, task)
    size = RolloutSize.of(shape)
    size = size.model_copy(update={"tokens_out": min(size.tokens_out, size.calls * settings.max_output_tokens)})
    try:
        with read_store(settings.store) as reader:
            alike = {name: getattr(settings, name) for name in _ALIKE}
            found = measured_run(reader, "train", settings.domain, settings.model, **alike)
            if found is None:
                return size, basis, None
            row, measured = found
            kept = reader.metrics(row.run)
            made = sum(one.phase.startswith("epoch") for one in reader.trajectories(row.run))
    except StoreError:
        return size, basis, None
    rate = {name: sum(values.get(f"seconds/{name}", 0.0) for values in kept.values()) / max(1, made) for name in _PARTS}
    each = f"{measured.calls:.1f} calls and {measured.tokens_out:,.0f} tokens of answers per rollout"
    seconds = learning * sum(rate.values()) + measuring * rate["sampling"]
    return measured, f"as run {row.run[:8]} had: {each}", seconds if made and kept else None


def _refusals(
    settings: TrainSettings, domain: Domain, updates: int, held_out: int, *, lessons_exist: bool
) -> tuple[Library, tuple[str, ...]]:
    """Return the lessons in every prompt, and every reason why the run would stop before it samples anything."""
    library = EMPTY_LIBRARY

    def load() -> None:
        nonlocal library
        library = LibraryStore(settings.store / "libraries").load(settings.library)

    def own_functions() -> None:
        # Not imported: a plan runs no code of a recipe.
        for name, what in settings.gradient.own_functions:
            check_function(name, what)

    found = _raised(
        lambda: need_extra("training weights", "peft", "accelerate"),
        lambda: require_trackers(settings.report_to),
        lambda: require_vllm(settings.model) if settings.sampler == "vllm" else None,
        lambda: refuse_unpriced((settings.endpoint,), settings.max_cost_usd),
        load,
        lambda: library_to_distil(settings, LibraryStore(settings.store / "libraries")) if lessons_exist else None,
        lambda: _check_planned_model(settings),
        own_functions,
        lambda: refuse_own_judge(domain, settings),
        lambda: refuse_long_warmup(settings, updates),
        lambda: refuse_unmeasured_margin(settings, held_out),
    )
    return library, found


def _raised(*checks: Callable[[], object]) -> tuple[str, ...]:
    """Return what these checks refuse."""
    found = list[str]()
    for check in checks:
        try:
            check()
        except AgentlearnError as error:
            found.append(str(error))
    return tuple(found)


def _assignments(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
