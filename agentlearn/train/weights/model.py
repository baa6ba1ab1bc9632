"""Models to train: loaded by path or hub id, with an adapter if asked, and the copy that a divergence is taken from."""

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.update.logprob_model import core_of
from agentlearn.train.weights.quiet import quiet


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """What a run trains and asks."""

    model: nn.Module
    """A causal language model, inside of peft's wrapper where it has an adapter."""
    tokenizer: PreTrainedTokenizerBase
    reference: nn.Module | None
    """The model as it was loaded; None where no copy is asked for."""


def load(name: str, arguments: GradientArguments, *, device: str = "cpu") -> LoadedModel:
    """Model, tokenizer and, if asked for, reference, from a folder or a hub id.

    Weights that train are fp32; with dtype=bf16 those that do not are bf16. Raises ConfigError where nothing can be
    loaded, or an adapter finds no layer of the names in `lora_targets`.
    """
    torch.manual_seed(arguments.seed)
    frozen = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
    base = _base(name, frozen if arguments.lora_rank else torch.float32).to(cast("Any", device))
    reference = None
    if arguments.reference in ("copy", "copy_int8"):
        reference = load_reference_model(name, arguments, device=device)
    model: nn.Module = with_adapter(base, arguments) if arguments.lora_rank else base
    if arguments.gradient_checkpointing:
        checkpoint_layers(base)
    return LoadedModel(model=model, tokenizer=_tokenizer(name), reference=reference)


def load_reference_model(name: str, arguments: GradientArguments, *, device: str = "cpu") -> nn.Module:
    """The model as it stands in the folder, never trained; in int8 where the arguments say `copy_int8`."""
    frozen = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
    model = _base(name, frozen).to(cast("Any", device)).eval().requires_grad_(False)
    return quantised(model) if arguments.reference == "copy_int8" else model


def with_adapter(model: PreTrainedModel, arguments: GradientArguments) -> nn.Module:
    """The model with a fresh LoRA adapter, the only weights that train. At first it changes nothing."""
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
        with warnings.catch_warnings():  # peft asks the model by names that transformers has given up
            warnings.simplefilter("ignore", FutureWarning)
            return cast("nn.Module", get_peft_model(model, config))
    except ValueError as error:
        known = sorted({name.rpartition(".")[2] for name, one in model.named_modules() if isinstance(one, nn.Linear)})
        raise ConfigError(
            f"lora_targets={list(targets)} names no layer of {type(model).__name__} (its layers: {', '.join(known)})",
            code="unknown_lora_target",
        ) from error


def checkpoint_layers(model: PreTrainedModel) -> None:
    """From now on layers keep their inputs only, and are computed again in the backward pass."""
    older = model.gradient_checkpointing_enable  # the name before transformers 5.22
    getattr(model, "activation_checkpointing_enable", older)({"use_reentrant": False})


def weights_hash(model: nn.Module) -> str:
    """sha256 over all weights and buffers that are saved, by sorted name: name, type, shape and bytes of each."""
    return hash_of(model.state_dict())


def hash_of(weights: Mapping[str, Tensor]) -> str:
    """The same of weights by name."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


class Int8Linear(nn.Module):
    """A frozen linear layer whose weights are int8 with one scale for each output."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        scale = weight.float().abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
        self.register_buffer("weight_int8", (weight.float() / scale).round().to(torch.int8))
        self.register_buffer("scale", scale.to(weight.dtype))
        bias = cast("Tensor | None", linear.bias)
        self.register_buffer("bias", None if bias is None else bias.detach())

    def forward(self, inputs: Tensor) -> Tensor:
        """The layer's outputs; its weights are made anew for each call, which costs time and spares memory."""
        scale, bias = cast("Tensor", self.scale), cast("Tensor | None", self.bias)
        weight = cast("Tensor", self.weight_int8).to(scale.dtype) * scale
        return nn.functional.linear(inputs.to(scale.dtype), weight, bias)


def quantised(model: nn.Module) -> nn.Module:
    """The model with the linear layers of its body in int8; the head and the embeddings stay as they are."""
    core = core_of(model)
    head = core.get_output_embeddings()
    linears = [(name, one) for name, one in core.named_modules() if type(one) is nn.Linear and one is not head]
    for name, linear in linears:
        parent, _, own = name.rpartition(".")
        setattr(core.get_submodule(parent), own, Int8Linear(linear))
    return model


def _base(name: str, dtype: torch.dtype) -> PreTrainedModel:
    try:
        with quiet():
            return cast("PreTrainedModel", AutoModelForCausalLM.from_pretrained(name, dtype=dtype))
    except (OSError, ValueError) as error:
        said = f"{_what(name)} holds no causal language model: {_first_line(error)}"
        raise ConfigError(said, code="bad_model") from error


def _tokenizer(name: str) -> PreTrainedTokenizerBase:
    try:
        return cast("PreTrainedTokenizerBase", AutoTokenizer.from_pretrained(name))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{_what(name)} holds no tokenizer: {_first_line(error)}", code="bad_model") from error


def _what(name: str) -> str:
    return f"the folder {name!r}" if Path(name).exists() else f"{name!r}, neither a folder nor to be had from the hub,"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
