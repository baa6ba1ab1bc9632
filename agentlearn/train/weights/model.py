"""Loading a model for training: its weights, an adapter if wanted, and the reference for a divergence."""

import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.update.logprob_model import core_of
from agentlearn.train.weights.loading import LoadedModel, from_pretrained, load_tokenizer


def load_for_training(name: str, arguments: GradientArguments, *, device: str = "cpu") -> LoadedModel:
    """Load model, tokenizer and, if the arguments need one, reference, from a folder or a hub id.

    Trained weights are fp32; with dtype=bf16, frozen weights are bf16. Raises ConfigError when the model cannot be
    loaded, or when no layer has a name in `lora_targets`.
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
    tokenizer = load_tokenizer(name, code="bad_model")
    return LoadedModel(model=model, tokenizer=tokenizer, name=Path(name).name, reference=reference)


def load_reference_model(name: str, arguments: GradientArguments, *, device: str = "cpu") -> nn.Module:
    """Load the model as saved, frozen; in int8 if the arguments say `copy_int8`."""
    frozen = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
    model = _base(name, frozen).to(cast("Any", device)).eval().requires_grad_(False)
    return quantised(model) if arguments.reference == "copy_int8" else model


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
        with warnings.catch_warnings():  # peft uses attribute names that transformers has deprecated
            warnings.simplefilter("ignore", FutureWarning)
            return cast("nn.Module", get_peft_model(model, config))
    except ValueError as error:
        known = sorted({name.rpartition(".")[2] for name, one in model.named_modules() if isinstance(one, nn.Linear)})
        raise ConfigError(
            f"lora_targets={list(targets)} names no layer of {type(model).__name__} (its layers: {', '.join(known)})",
            code="unknown_lora_target",
        ) from error


def checkpoint_layers(model: PreTrainedModel) -> None:
    """Make layers store only their inputs, and recompute the rest in the backward pass."""
    older = model.gradient_checkpointing_enable  # the name before transformers 5.22
    getattr(model, "activation_checkpointing_enable", older)({"use_reentrant": False})


def weights_hash(model: nn.Module) -> str:
    """sha256 of the model's state dict: name, type, shape and bytes of each tensor, sorted by name."""
    return state_hash(model.state_dict())


def state_hash(weights: Mapping[str, Tensor]) -> str:
    """sha256 of a state dict: name, type, shape and bytes of each tensor, sorted by name."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


class Int8Linear(nn.Module):
    """A frozen linear layer with int8 weights and one scale per output."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        scale = weight.float().abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
        self.register_buffer("weight_int8", (weight.float() / scale).round().to(torch.int8))
        self.register_buffer("scale", scale.to(weight.dtype))
        bias = cast("Tensor | None", linear.bias)
        self.register_buffer("bias", None if bias is None else bias.detach())

    def forward(self, inputs: Tensor) -> Tensor:
        """The layer's outputs. Weights are dequantised in each call, which saves memory and costs time."""
        scale, bias = cast("Tensor", self.scale), cast("Tensor | None", self.bias)
        weight = cast("Tensor", self.weight_int8).to(scale.dtype) * scale
        return nn.functional.linear(inputs.to(scale.dtype), weight, bias)


def quantised(model: nn.Module) -> nn.Module:
    """Return the model with its linear layers in int8, except the output head. Embeddings are not changed."""
    core = core_of(model)
    head = core.get_output_embeddings()
    linears = [(name, one) for name, one in core.named_modules() if type(one) is nn.Linear and one is not head]
    for name, linear in linears:
        parent, _, own = name.rpartition(".")
        setattr(core.get_submodule(parent), own, Int8Linear(linear))
    return model


def _base(name: str, dtype: torch.dtype) -> PreTrainedModel:
    return cast("PreTrainedModel", from_pretrained(AutoModelForCausalLM, name, dtype=dtype))
