"""Models without their weights: what another process needs to build the same model, and copies to be filled.

The first process reads a checkpoint. The others get its model with weights that take no memory (torch's device `meta`),
so that no process but the first ever holds all weights.
"""

import copy
from collections.abc import Callable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from agentlearn.train.distributed.shards import is_sharded, whole_tensor

_LAYOUTS: WeakKeyDictionary[nn.Module, nn.Module] = WeakKeyDictionary()
"""The layout of each sharded model."""


def layout_of(model: nn.Module) -> nn.Module:
    """Return a copy of the model whose weights are on the device `meta`. Buffers are copied, tied weights stay tied."""
    return _copied(model, lambda one: torch.empty_like(one, device="meta"))


def remember_layout(model: nn.Module, layout: nn.Module) -> None:
    """Keep the layout of a model that is about to be sharded, for `gather_model`."""
    _LAYOUTS[model] = layout


def gather_model(model: nn.Module) -> nn.Module | None:
    """Return a copy of a sharded model with all weights on the CPU, in the first process; None in the others.

    Every process must call it. Only one tensor besides the copy is held at a time.
    """
    assert is_sharded(model)
    main = torch.distributed.get_rank() == 0
    whole = _copied(_LAYOUTS[model], lambda one: torch.empty_like(one, device="cpu")) if main else None
    targets = {} if whole is None else {**dict(whole.named_parameters()), **dict(whole.named_buffers())}
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            full = whole_tensor(tensor.detach())
            if main:
                targets[name].copy_(full)
    return None if whole is None else whole.train(model.training)


def move_to_meta(model: nn.Module) -> None:
    """Drop the model's weights: put each on the device `meta`. Tied weights stay tied."""
    _replace_parameters(model, lambda one: torch.empty_like(one, device="meta"))


def allocate(model: nn.Module, device: torch.device) -> None:
    """Give weights on the device `meta` memory on this device, without values, and move all others there."""

    def allocated(tensor: Tensor) -> Tensor:
        return torch.empty_like(tensor, device=device) if tensor.is_meta else tensor.to(device)

    _replace_parameters(model, allocated)
    for module in model.modules():  # `to_empty` would drop the values of buffers
        for name, one in module.named_buffers(recurse=False, remove_duplicate=False):
            setattr(module, name, allocated(one))


def _replace_parameters(model: nn.Module, new: Callable[[Tensor], Tensor]) -> None:
    """Give the model other weights. Tied weights stay tied."""
    made: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, one in module.named_parameters(recurse=False, remove_duplicate=False):
            if id(one) not in made:
                made[id(one)] = _parameter(one, new(one))
            setattr(module, name, made[id(one)])


def _copied(model: nn.Module, new: Callable[[Tensor], Tensor]) -> nn.Module:
    """Copy the model with other weights, which are not copied first."""
    return copy.deepcopy(model, {id(one): _parameter(one, new(one)) for one in model.parameters()})


def _parameter(of: nn.Parameter, tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor.detach(), requires_grad=of.requires_grad)
