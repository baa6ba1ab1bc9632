"""Loading a model for training: its weights, an adapter if wanted, and the reference for a divergence."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from agentlearn.train.arguments import GradientArguments
from agentlearn.train.distributed.sharding import whole_tensor
from agentlearn.train.update.logprob_model import check_head, core_of
from agentlearn.train.weights.adapter import attach_adapter, check_adapter, continue_adapter, with_adapter
from agentlearn.train.weights.adapter_settings import check_adapter_settings
from agentlearn.train.weights.loading import LoadedModel, load_base, quantised_weights, tokenizer_of
from agentlearn.train.weights.model_source import find_source


def load_for_training(name: str, arguments: GradientArguments, *, device: str = "cpu") -> LoadedModel:
    """Load model, tokenizer and, if the arguments need one, reference, from a folder or a hub id.

    An adapter is trained on; a model gets a new adapter if `lora_rank` is above 0. Trained weights are fp32, or bf16
    without master_weights; with dtype=bf16, frozen weights are bf16. The model's own dropout is turned off. Raises
    ConfigError when the model or its tokenizer cannot be loaded, when the arguments do not fit the adapter, or when the
    trainer would not compute the model's own probabilities.
    """
    torch.manual_seed(arguments.seed)
    source = find_source(name)
    adapted = arguments.lora_rank > 0 or source.adapter is not None
    if source.adapter is not None:
        check_adapter(source)
    check_adapter_settings(source, arguments)
    tokenizer = tokenizer_of(source)
    frozen = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
    trained = torch.float32 if arguments.master_weights else torch.bfloat16
    base = cast("PreTrainedModel", load_base(source, dtype=frozen if adapted else trained, device=device))
    _refuse_quantised(base, name)
    _without_dropout(base)
    if source.adapter is not None:
        model: nn.Module = continue_adapter(base, source, arguments)
    else:
        model = with_adapter(base, arguments) if adapted else base
    check_head(model)
    reference = None
    if arguments.reference in ("copy", "copy_int8"):
        reference = load_reference_model(name, arguments, device=device)
    if arguments.gradient_checkpointing:
        checkpoint_layers(base)
    return LoadedModel(model=model, tokenizer=tokenizer, name=Path(name).name, reference=reference)


def load_reference_model(name: str, arguments: GradientArguments, *, device: str = "cpu") -> nn.Module:
    """Load the model as saved, its adapter included, and freeze it; in int8 if the arguments say `copy_int8`."""
    frozen = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
    source = find_source(name)
    model = cast("nn.Module", load_base(source, dtype=frozen, device=device))
    if source.adapter is not None:
        model = attach_adapter(cast("PreTrainedModel", model), source)
        if arguments.reference == "copy_int8":
            model = cast("nn.Module", cast("Any", model).merge_and_unload())
    model = model.eval().requires_grad_(False)
    return quantised(model) if arguments.reference == "copy_int8" else model


def _refuse_quantised(model: PreTrainedModel, name: str) -> None:
    if getattr(model, "is_quantized", False) or getattr(model.config, "quantization_config", None) is not None:
        raise quantised_weights(name)


def _without_dropout(model: PreTrainedModel) -> None:
    """Turn off the model's own dropout: with it, the trainer's probabilities would not be those of the sampler."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in vars(module).items():
            if "drop" in name and isinstance(value, float):
                setattr(module, name, 0.0)


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
