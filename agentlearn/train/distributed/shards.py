"""Weights and optimiser state that FSDP2 shards over processes: gathered for a checkpoint, and sharded again.

Every process must call each function. The gathered result is on the CPU of the first process only.
"""

from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

_GATHER = StateDictOptions(full_state_dict=True, cpu_offload=True)
_SHARD = StateDictOptions(full_state_dict=True)


def is_sharded(model: nn.Module) -> bool:
    """Whether the weights are sharded over several processes."""
    return any(isinstance(one, DTensor) for one in model.parameters())


def gather_weights(model: nn.Module) -> dict[str, Tensor]:
    """Gather the weights, by parameter name."""
    return cast("dict[str, Tensor]", get_model_state_dict(model, options=_GATHER))


def gather_optimizer(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Gather the optimiser state, by parameter name."""
    return get_optimizer_state_dict(model, _plain(optimizer), options=_GATHER)


def shard_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> tuple[list[str], list[str]]:
    """Shard full weights over the processes; returns the names that were missing and those that were unknown."""
    options = StateDictOptions(full_state_dict=True, strict=False)
    found = set_model_state_dict(model, dict(weights), options=options)
    return list(found.missing_keys), list(found.unexpected_keys)


def shard_optimizer(model: nn.Module, optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    """Shard an optimiser state from `gather_optimizer` over the processes."""
    set_optimizer_state_dict(model, _plain(optimizer), dict(state), options=_SHARD)


def _plain(optimizer: Optimizer) -> Optimizer:
    """The optimiser inside accelerate's wrapper."""
    return cast("Optimizer", getattr(optimizer, "optimizer", optimizer))
