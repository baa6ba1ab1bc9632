"""Adapters: a new one on a model, or one that was trained before and is trained on.

Training, checkpoints and the weights given to a server support plain LoRA on linear layers. Everything else that peft
knows is refused by name, because one of them would silently leave a part of it out.
"""

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.weights.adapter_settings import check_adapter_settings
from agentlearn.train.weights.loading import no_progress_bars, refuse_bad_numbers, short
from agentlearn.train.weights.model_source import ADAPTER_CONFIG, ADAPTER_WEIGHTS, ModelSource, read_adapter_config

_EXACT = {
    *("peft_type", "task_type", "base_model_name_or_path", "revision", "inference_mode", "peft_version"),
    *("r", "target_modules", "exclude_modules", "lora_alpha", "lora_dropout", "fan_in_fan_out", "use_rslora"),
    *("init_lora_weights", "layers_to_transform", "layers_pattern", "rank_pattern", "alpha_pattern"),
    *("auto_mapping", "megatron_core", "qalora_group_size", "runtime_config", "loftq_config"),
}
"""Settings of LoRA that may have any value. All others must have their default."""
_PLAIN_START = (True, False, "true", "false", "gaussian", "eva", "orthogonal")
"""Values of init_lora_weights that leave the base model as it is."""


def with_adapter(model: PreTrainedModel, arguments: GradientArguments) -> nn.Module:
    """Return the model with a new LoRA adapter, whose weights alone are trained. At first it changes no output."""
    from peft import LoraConfig, get_peft_model

    targets = arguments.lora_targets
    config = LoraConfig(
        r=arguments.lora_rank,
        lora_alpha=cast("int", arguments.lora_alpha),
        lora_dropout=arguments.lora_dropout,
        target_modules="all-linear" if targets == ("all-linear",) else list(targets),
        task_type="CAUSAL_LM",
    )
    try:
        with _quiet():
            adapted = cast("nn.Module", get_peft_model(model, config))
    except ValueError as error:
        known = sorted({name.rpartition(".")[2] for name, one in model.named_modules() if _is_linear(one)})
        raise ConfigError(
            f"lora_targets={list(targets)} names no layer of {type(model).__name__} (its layers: {', '.join(known)})",
            code="unknown_lora_target",
        ) from error
    _name_base(adapted, str(model.name_or_path))
    _check_layers(adapted, "lora_targets")
    return adapted


def continue_adapter(model: PreTrainedModel, source: ModelSource, arguments: GradientArguments) -> nn.Module:
    """Return the model with the adapter in `source.adapter`, whose weights alone are trained.

    The adapter keeps its own rank, alpha and layers, but not its dropout: `lora_dropout` is used instead.
    Raises ConfigError when the arguments ask for another rank, alpha or layers, and for an adapter of another kind.
    """
    check_adapter(source)
    check_adapter_settings(source, arguments)
    adapted = attach_adapter(model, source, trainable=True, dropout=arguments.lora_dropout)
    for one in adapted.parameters():
        one.data = one.data.float() if one.requires_grad else one.data
    return adapted


def attach_adapter(
    model: PreTrainedModel, source: ModelSource, *, trainable: bool = False, dropout: float = 0.0
) -> nn.Module:
    """Return the model with the adapter in `source.adapter`.

    dropout: on the inputs of a trainable adapter. Raises ConfigError when the adapter does not fit.
    """
    from peft import PeftConfig, PeftModel

    where = f"the adapter in {source.name!r}"
    try:
        config = PeftConfig.from_pretrained(str(source.adapter))
        _refuse_prompt_learning(config, where)
        config.inference_mode = not trainable
        if trainable:
            cast("Any", config).lora_dropout = dropout
        with _quiet():
            adapted = PeftModel.from_pretrained(model, str(source.adapter), is_trainable=trainable, config=config)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{where} does not fit the model {source.base!r}: {short(error)}; set base_model_name_or_path in its"
            f" {ADAPTER_CONFIG} to the model that it was trained on",
            code="bad_adapter",
        ) from error
    _check_layers(cast("nn.Module", adapted), where)
    _check_all_loaded(adapted, source)
    refuse_bad_numbers(adapted, where)
    _name_base(adapted, source.base)
    return cast("nn.Module", adapted)


def _refuse_prompt_learning(config: Any, where: str) -> None:
    if config.is_prompt_learning:
        kind = getattr(config.peft_type, "value", config.peft_type)
        raise ConfigError(
            f"{where} is of the type {kind}, which adds tokens to every prompt and cannot be used here; use a LoRA"
            " adapter",
            code="unsupported_adapter",
        )


def check_adapter(source: ModelSource) -> None:
    """Raise ConfigError when the adapter is not plain LoRA, which alone can be trained, merged and saved exactly."""
    from peft import LoraConfig

    assert source.adapter is not None
    given = read_adapter_config(source.adapter)
    kind = given.get("peft_type")
    how = "use a LoRA adapter, or merge this one into its base model with peft's merge_and_unload and train that"
    if kind != "LORA":
        raise ConfigError(
            f"the adapter in {source.name!r} is of the type {kind!r}, which cannot be trained here; {how}",
            code="unsupported_adapter",
        )
    plain = LoraConfig().to_dict()
    other = sorted(
        f"{name}={value!r}"
        for name, value in given.items()
        if name not in _EXACT and value != plain.get(name) and value not in (None, False, [], {})
    )
    if given.get("init_lora_weights", True) not in _PLAIN_START:
        other.append(f"init_lora_weights={given['init_lora_weights']!r}")
    if other:
        raise ConfigError(
            f"the adapter in {source.name!r} has {', '.join(other)[:200]}, which cannot be trained here exactly; {how}",
            code="unsupported_adapter",
        )


def has_adapter(model: nn.Module) -> bool:
    """Whether the model has an adapter of peft."""
    return hasattr(model, "peft_config")


def _check_layers(adapted: nn.Module, what: str) -> None:
    """Raise ConfigError for adapters on layers that are not linear, which a merged copy would leave out, and on the
    head."""
    head = cast("Any", adapted).get_base_model().get_output_embeddings()
    for name, module in adapted.named_modules():
        base = getattr(module, "base_layer", None)
        if base is not None and (module is head or not _is_linear(base)):
            why = "the model's head" if module is head else f"{type(base).__name__}, which is not linear"
            raise ConfigError(
                f"{what} has the layer {name.rpartition('.')[2]!r} ({why}); use an adapter on linear layers inside the"
                " model, such as q_proj and v_proj",
                code="unsupported_adapter",
            )


def _check_all_loaded(adapted: Any, source: ModelSource) -> None:
    """Raise ConfigError unless the adapter's file holds exactly the weights that the adapted model has."""
    from peft import get_peft_model_state_dict
    from safetensors import safe_open

    assert source.adapter is not None
    with safe_open(source.adapter / ADAPTER_WEIGHTS, framework="np") as file:
        held = set(file.keys())
    wanted = set(get_peft_model_state_dict(adapted, save_embedding_layers=False))
    if held != wanted:
        one = min(held ^ wanted)
        raise ConfigError(
            f"the adapter in {source.name!r} does not fit the model {source.base!r}: {len(wanted - held)} of its"
            f" weights are missing and {len(held - wanted)} belong to no layer (first: {one!r}); set"
            f" base_model_name_or_path in its {ADAPTER_CONFIG} to the model that it was trained on",
            code="bad_adapter",
        )


def _is_linear(layer: nn.Module) -> bool:
    return isinstance(layer, (nn.Linear, Conv1D))


def _name_base(adapted: nn.Module, base: str) -> None:
    """Record an absolute path of the base model, which holds wherever the adapter is saved."""
    folder = Path(base).expanduser()
    for config in cast("Any", adapted).peft_config.values():
        config.base_model_name_or_path = str(folder.resolve()) if folder.is_dir() else base


@contextmanager
def _quiet() -> Generator[None]:
    """Inside the block, no warning is shown: peft uses names that transformers has deprecated."""
    with warnings.catch_warnings(), no_progress_bars():
        warnings.simplefilter("ignore")
        yield
