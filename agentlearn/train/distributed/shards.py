"""Weights and optimiser state that FSDP2 shards over processes: gathered tensor by tensor, and sharded again.

Every process must call each function, because the processes exchange tensors in it. What is gathered is on the CPU of
the first process only.
"""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

_GATHER = StateDictOptions(full_state_dict=True, cpu_offload=True)
_SPREAD = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True, strict=False)


def is_sharded(model: nn.Module) -> bool:
    """Whether the weights are sharded over several processes."""
    return any(isinstance(one, FSDPModule) for one in model.modules())


def whole_tensor(tensor: Tensor) -> Tensor:
    """Return the whole of a tensor that may be sharded. Every process gets it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def forget_gathered(model: nn.Module) -> None:
    """Keep only this process's shards: parameters are shards then, and the next forward pass gathers them again."""
    for one in model.modules():
        if isinstance(one, FSDPModule):
            one.reshard()


def like_sharded(whole: Tensor, example: Tensor) -> Tensor:
    """Return the tensor, sharded as the example is. Every process gives the whole tensor."""
    if not isinstance(example, DTensor):
        return whole
    return distribute_tensor(whole, example.device_mesh, example.placements)


def gather_weights(model: nn.Module, *, trained_only: bool = False) -> dict[str, Tensor]:
    """Gather the weights by name; empty in all processes but the first. Tied weights are one tensor.

    trained_only: leave out frozen weights and buffers, so that only the adapter of a model is gathered.
    """
    main = torch.distributed.get_rank() == 0
    gathered: dict[str, Tensor] = {}
    first_names: dict[int, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if trained_only and not tensor.requires_grad:
            continue
        first = first_names.setdefault(id(tensor), name)
        whole = whole_tensor(tensor.detach()) if first == name else None
        if main:
            gathered[name] = gathered[first] if whole is None else whole.cpu()
    return gathered


def gather_optimizer(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Gather the optimiser state, by parameter name."""
    return get_optimizer_state_dict(model, _plain(optimizer), options=_GATHER)


def shard_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Spread the weights of the first process over all processes; the others give an empty mapping.

    Names that the model does not have are ignored, and its other weights are kept.
    """
    set_model_state_dict(model, dict(weights), options=_SPREAD)


def shard_optimizer(model: nn.Module, optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    """Spread an optimiser state from `gather_optimizer`, which only the first process needs to give."""
    given = dict(state) if torch.distributed.get_rank() == 0 else {}
    set_optimizer_state_dict(model, _plain(optimizer), given, options=_SPREAD)


def _plain(optimizer: Optimizer) -> Optimizer:
    """The optimiser inside accelerate's wrapper."""
    return cast("Optimizer", getattr(optimizer, "optimizer", optimizer))
