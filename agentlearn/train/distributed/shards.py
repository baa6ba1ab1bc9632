"""Weights and optimiser of a model that FSDP2 spreads over processes, gathered for a checkpoint and spread again.

Every process has to call each of these. The whole is on the CPU, and only in the first process.
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
_SPREAD = StateDictOptions(full_state_dict=True)


def in_shards(model: nn.Module) -> bool:
    """Whether this process holds only a part of the weights."""
    return any(isinstance(one, DTensor) for one in model.parameters())


def gathered_weights(model: nn.Module) -> dict[str, Tensor]:
    """By the names that the model itself gives them."""
    return cast("dict[str, Tensor]", get_model_state_dict(model, options=_GATHER))


def gathered_optimizer(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """By the names of the weights."""
    return get_optimizer_state_dict(model, _plain(optimizer), options=_GATHER)


def spread_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> tuple[list[str], list[str]]:
    """Puts whole weights into the shards; returns the names that were missing and those that were unknown."""
    options = StateDictOptions(full_state_dict=True, strict=False)
    found = set_model_state_dict(model, dict(weights), options=options)
    return list(found.missing_keys), list(found.unexpected_keys)


def spread_optimizer(model: nn.Module, optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    """Puts back what `gathered_optimizer` gave."""
    set_optimizer_state_dict(model, _plain(optimizer), dict(state), options=_SPREAD)


def _plain(optimizer: Optimizer) -> Optimizer:
    """Out of accelerate's wrapper."""
    return cast("Optimizer", getattr(optimizer, "optimizer", optimizer))
