"""Loading a model for training: its weights, an adapter if wanted, and the reference for a divergence.

An adapter is a new one, or one that was trained before and is trained on. Training, checkpoints and the weights given
to a server support plain LoRA on linear layers. Everything else that peft knows is refused by name, because one of them
would silently leave a part of it out.
"""

import hashlib
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.distributed.sharding import whole_tensor
from agentlearn.train.update.logprob_model import check_head
from agentlearn.train.weights.loading import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    LoadedModel,
    ModelSource,
    no_progress_bars,
    quantised_weights,
    read_config,
    refuse_bad_numbers,
    short,
)

_EXACT = {
    *("peft_type", "task_type", "base_model_name_or_path", "revision", "inference_mode", "peft_version"),
    *("r", "target_modules", "exclude_modules", "lora_alpha", "lora_dropout", "fan_in_fan_out", "use_rslora"),
    *("init_lora_weights", "layers_to_transform", "layers_pattern", "rank_pattern", "alpha_pattern"),
    *("auto_mapping", "megatron_core", "qalora_group_size", "runtime_config", "loftq_config"),
}
"""Settings of LoRA that may have any value. All others must have their default."""
_LINEAR = (nn.Linear, Conv1D)
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
        known = sorted({name.rpartition(".")[2] for name, one in model.named_modules() if isinstance(one, _LINEAR)})
        raise ConfigError(
            f"lora_targets={list(targets)} names no layer of {type(model).__name__} (its layers: {', '.join(known)})"
        ) from error
    _name_base(adapted, str(model.name_or_path))
    _check_layers(adapted, "lora_targets")
    return adapted


def attach_adapter(
    model: PreTrainedModel, source: ModelSource, *, trainable: bool = False, dropout: float = 0.0
) -> nn.Module:
    """Return the model with the adapter in `source.adapter`.

    dropout: on the inputs of a trainable adapter. Raises ConfigError when the adapter does not fit.
    """
    from peft import PeftConfig, PeftModel, get_peft_model_state_dict
    from safetensors import safe_open

    assert source.adapter is not None
    where = f"the adapter in {source.name!r}"
    try:
        config = PeftConfig.from_pretrained(str(source.adapter))
        if config.is_prompt_learning:
            kind = getattr(config.peft_type, "value", config.peft_type)
            raise ConfigError(  # noqa: TRY301
                f"{where} is of the type {kind}, which adds tokens to every prompt and cannot be used here; use a LoRA"
                " adapter"
            )
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
            f" {ADAPTER_CONFIG} to the model that it was trained on"
        ) from error
    _check_layers(cast("nn.Module", adapted), where)
    with safe_open(source.adapter / ADAPTER_WEIGHTS, framework="np") as file:
        held = set(file.keys())
    wanted = set(get_peft_model_state_dict(adapted, save_embedding_layers=False))
    if held != wanted:  # else a part of the adapter would be random, or left out
        raise ConfigError(
            f"the adapter in {source.name!r} does not fit the model {source.base!r}: {len(wanted - held)} of its"
            f" weights are missing and {len(held - wanted)} belong to no layer (first: {min(held ^ wanted)!r}); set"
            f" base_model_name_or_path in its {ADAPTER_CONFIG} to the model that it was trained on"
        )
    refuse_bad_numbers(adapted, where)
    _name_base(adapted, source.base)
    return cast("nn.Module", adapted)


def check_adapter(source: ModelSource) -> None:
    """Raise ConfigError when the adapter is not plain LoRA, which alone can be trained, merged and saved exactly."""
    from peft import LoraConfig

    assert source.adapter is not None
    given = read_config(source.adapter, ADAPTER_CONFIG)
    kind = given.get("peft_type")
    how = "use a LoRA adapter, or merge this one into its base model with peft's merge_and_unload and train that"
    if kind != "LORA":
        raise ConfigError(
            f"the adapter in {source.name!r} is of the type {kind!r}, which cannot be trained here; {how}"
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
            f"the adapter in {source.name!r} has {', '.join(other)[:200]}, which cannot be trained here exactly; {how}"
        )


def _check_layers(adapted: nn.Module, what: str) -> None:
    """Raise ConfigError for adapters on layers that are not linear, which a merged copy would leave out, and on the
    head."""
    head = cast("Any", adapted).get_base_model().get_output_embeddings()
    for name, module in adapted.named_modules():
        base = getattr(module, "base_layer", None)
        if base is not None and (module is head or not isinstance(base, _LINEAR)):
            why = "the model's head" if module is head else f"{type(base).__name__}, which is not linear"
            raise ConfigError(
                f"{what} has the layer {name.rpartition('.')[2]!r} ({why}); use an adapter on linear layers inside the"
                " model, such as q_proj and v_proj"
            )


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


def load_for_training(name: str, arguments: GradientArguments, *, device: str = "cpu") -> LoadedModel:
    """Load model, tokenizer and, if the arguments need one, reference, from a folder or a hub id.

    An adapter is trained on; a model gets a new adapter if `lora_rank` is above 0. Trained weights are fp32, or bf16
    without master_weights; with dtype=bf16, frozen weights are bf16. The model's own dropout is turned off. Raises
    ConfigError when the model or its tokenizer cannot be loaded, when the arguments do not fit the adapter, or when the
    trainer would not compute the model's own probabilities.
    """
    torch.manual_seed(arguments.seed)
    source = ModelSource.find(name)
    adapted = arguments.lora_rank > 0 or source.adapter is not None
    if source.adapter is not None:
        check_adapter(source)
    source.check_adapter_settings(arguments)
    tokenizer = source.load_tokenizer()
    base = cast("PreTrainedModel", source.load(dtype=_number_format(source, arguments), device=device))
    if getattr(base, "is_quantized", False) or getattr(base.config, "quantization_config", None) is not None:
        raise quantised_weights(name)
    for module in base.modules():  # with its own dropout, the trainer's probabilities would not be the sampler's
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for attribute, value in vars(module).items():
            if "drop" in attribute and isinstance(value, float):
                setattr(module, attribute, 0.0)
    if source.adapter is not None:
        # It keeps its own rank, alpha and layers, but not its dropout.
        model = attach_adapter(base, source, trainable=True, dropout=arguments.lora_dropout)
        for one in model.parameters():
            one.data = one.data.float() if one.requires_grad else one.data
    else:
        model = with_adapter(base, arguments) if adapted else cast("nn.Module", base)
    check_head(model)
    reference = None
    if arguments.reference == "copy":
        reference = load_reference_model(name, arguments, device=device)
    if arguments.gradient_checkpointing:
        checkpoint_layers(base)
    return LoadedModel(model, tokenizer, Path(name).name, reference, bf16=arguments.dtype == "bf16")


def load_reference_model(name: str, arguments: GradientArguments, *, device: str = "cpu") -> nn.Module:
    """Load the model as saved, its adapter included, and freeze it.

    It has the number format of the model in training, whose divergence from it is 0 at first.
    """
    source = ModelSource.find(name)
    model = cast("nn.Module", source.load(dtype=_number_format(source, arguments), device=device))
    if source.adapter is not None:
        model = attach_adapter(cast("PreTrainedModel", model), source)
    return model.eval().requires_grad_(False)


def _number_format(source: ModelSource, arguments: GradientArguments) -> torch.dtype:
    """Return the number format of a model without its adapter: frozen weights may be bf16, trained ones are fp32."""
    adapted = arguments.lora_rank > 0 or source.adapter is not None
    return torch.bfloat16 if arguments.dtype == "bf16" and (adapted or not arguments.master_weights) else torch.float32


def checkpoint_layers(model: PreTrainedModel) -> None:
    """Make layers store only their inputs, and recompute the rest in the backward pass."""
    older = model.gradient_checkpointing_enable  # the name before transformers 5.22
    getattr(model, "activation_checkpointing_enable", older)({"use_reentrant": False})


def weights_hash(model: nn.Module) -> str:
    """sha256 of the model's state dict: name, type, shape and bytes of each tensor, sorted by name.

    Sharded weights are gathered one by one; each process must call it, and gets the hash.
    """
    return state_hash(model.state_dict())


def state_hash(weights: Mapping[str, Tensor]) -> str:
    """sha256 of a state dict: name, type, shape and bytes of each tensor, sorted by name."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(whole_tensor(tensor).detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
