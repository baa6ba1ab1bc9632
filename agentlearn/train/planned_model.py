"""What can be known of the model of a training run before it is loaded. Nothing here imports torch or asks the hub."""

from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

from agentlearn.config import LAB
from agentlearn.config.model_folders import model_path
from agentlearn.domain.base import Domain
from agentlearn.errors import ConfigError
from agentlearn.lab.contract import announced_lab
from agentlearn.models.answer_limit import context_of
from agentlearn.train.engine.attention import check_attention_config
from agentlearn.train.settings import TrainSettings
from agentlearn.train.weights.adapter_settings import check_adapter_settings
from agentlearn.train.weights.loading import check_model_type, check_tokenizer_files, quantised_weights, tokenizer_place
from agentlearn.train.weights.model_source import ModelSource, find_source, read_model_config

LATER = "its memory, its chat template, and that sampler and trainer compute the same probabilities"
"""What is checked only when the model is loaded, in words."""


def check_planned_model(settings: TrainSettings) -> None:
    """Raise ConfigError for a model that the run would refuse, as far as its files and the settings say."""
    if settings.model.startswith(LAB):
        announced_lab(settings.model.removeprefix(LAB))
        check_adapter_settings(ModelSource(settings.model, settings.model), settings.gradient)
        return
    source = find_source(settings.model, ask_hub=False)
    base = Path(source.base)
    if base.is_dir():
        _check_config(source, base, sampled_here=settings.sampler == "local")
    if model_path(settings.model).is_dir():  # a hub id may be an adapter
        check_adapter_settings(source, settings.gradient)
    if (place := Path(tokenizer_place(source))).is_dir():
        check_tokenizer_files(place)


def refuse_own_judge(domain: Domain, settings: TrainSettings) -> None:
    """Raise ConfigError when the model in training would judge its own answers."""
    if domain.uses_judge and settings.reward == "judge":
        raise ConfigError(
            "the reward 'judge' would ask the model in training about its own answers, so it would learn to please"
            " itself; use another reward, or a function module:function that asks a model of your choice",
            code="contradiction",
        )


def refuse_long_warmup(settings: TrainSettings, updates: int) -> None:
    """Raise ConfigError when the run ends before its learning rate has risen. updates: of the whole run."""
    steps, warmup = updates * settings.gradient.passes, settings.gradient.warmup_steps
    if warmup > steps:
        raise ConfigError(
            f"warmup_steps is {warmup}, but the run makes at most {steps} optimiser steps, so the learning rate would"
            f" never reach {settings.gradient.learning_rate:g}; give fewer warmup_steps, or more epochs",
            code="contradiction",
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


def _check_config(source: ModelSource, base: Path, *, sampled_here: bool) -> None:
    config = read_model_config(base)
    if known := _known_types():
        check_model_type(source, config, known)
    if config.get("quantization_config"):
        raise quantised_weights(source.name)
    if sampled_here:
        check_attention_config(config)


def _known_types() -> Collection[str]:
    """The types of models that transformers knows; empty when it cannot be told without importing torch."""
    if find_spec("transformers") is None:
        return ()
    try:
        from transformers.models.auto.auto_mappings import CONFIG_MAPPING_NAMES
    except ImportError:  # another version of transformers
        return ()
    return {*CONFIG_MAPPING_NAMES, "gpt-sw3"}  # which has the module of GPT-2
