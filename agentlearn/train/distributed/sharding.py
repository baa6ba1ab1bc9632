"""The processes that train together under `torchrun`, and sharding of a model's weights over them with FSDP2.

Every process gets all rows of a batch and computes its share. Gradients are summed, not averaged, because each row's
weight already includes the denominator over all processes.

`ShardingAccelerator` has the methods of `accelerate.Accelerator` that the updater uses. accelerate itself offers FSDP2
on GPUs only. Every process must call each function, because the processes exchange tensors in it. What is gathered is
on the CPU of the first process only.

The first process reads a checkpoint. The others get its model with weights that take no memory (torch's device `meta`),
so that no process but the first ever holds all weights.
"""

import copy
import gc
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer
from transformers.modeling_layers import GradientCheckpointingLayer

from agentlearn.errors import ConfigError
from agentlearn.train.update.logprob_model import LogprobModel

Reduction = Literal["sum", "min", "max"]


class _OneProcess:
    """The methods of `accelerate.Accelerator` that the updater uses, for a process that holds all weights alone."""

    gradient_accumulation_steps = 1
    num_processes = 1
    process_index = 0

    def prepare(self, module: Any, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Return both, ready for training."""
        return module, optimizer

    def unwrap_model(self, module: nn.Module) -> nn.Module:
        """Return the module that was passed to `prepare`."""
        return module

    def free_memory(self) -> None:
        """Free what is no longer used."""
        gc.collect()

    def no_sync(self, module: nn.Module) -> AbstractContextManager[None]:
        """Inside the block, gradients are not exchanged."""
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Compute gradients, which are averaged over the processes."""
        loss.backward()

    def clip_grad_norm_(self, parameters: Iterable[nn.Parameter], bound: float) -> Tensor:
        """Scale the gradient down to `bound`; returns its norm before."""
        return torch.nn.utils.clip_grad_norm_(parameters, bound)


class Processes:
    """The group of training processes, and this process's place in it."""

    def __init__(self, accelerator: Any = None) -> None:
        """accelerator: an `accelerate.Accelerator`; None: a single process."""
        self._accelerator: Any = accelerator or _OneProcess()
        if (steps := self._accelerator.gradient_accumulation_steps) != 1:
            raise ConfigError(
                f"the accelerator accumulates over {steps} steps, but micro-batches are already summed here; create it"
                " with gradient_accumulation_steps=1"
            )

    @property
    def count(self) -> int:
        """Number of processes, at least 1."""
        return cast("int", self._accelerator.num_processes)

    @property
    def rank(self) -> int:
        """Number of this process, 0 to count - 1."""
        return cast("int", self._accelerator.process_index)

    def prepare(self, module: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Return both, wrapped for several processes."""
        return cast("tuple[nn.Module, Optimizer]", self._accelerator.prepare(module, optimizer))

    def unwrap(self, module: nn.Module) -> nn.Module:
        """Return the module that was passed to `prepare`."""
        return cast("nn.Module", self._accelerator.unwrap_model(module))

    def release(self) -> None:
        """Free accelerate's wrappers. Call this before the connection between the processes is closed.

        Otherwise torch would wait for its threads for ever when the wrapper is freed last.
        """
        self._accelerator.free_memory()

    def accumulating(self, module: nn.Module, *, last: bool) -> AbstractContextManager[Any]:
        """Context for the passes of one micro-batch. Gradients are exchanged only in the last one."""
        return nullcontext() if last else cast("AbstractContextManager[Any]", self._accelerator.no_sync(module))

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of this process's share of the loss. accelerate averages over processes."""
        self._accelerator.backward(loss * self.count if self.count > 1 else loss)

    def clip_gradients(self, parameters: Iterable[nn.Parameter], max_norm: float | None) -> float:
        """Scale the gradient down to `max_norm`; returns its norm before."""
        norm = self._accelerator.clip_grad_norm_(parameters, float("inf") if max_norm is None else max_norm)
        return float(whole_tensor(norm))

    def all_reduce(self, values: Tensor, reduction: Reduction) -> Tensor:
        """Combine the values of all processes, element by element."""
        if self.count > 1:
            values = values.clone()
            torch.distributed.all_reduce(values, op=getattr(torch.distributed.ReduceOp, reduction.upper()))
        return values


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


_LAYOUTS: WeakKeyDictionary[nn.Module, nn.Module] = WeakKeyDictionary()
"""The layout of each sharded model."""


def layout_of(model: nn.Module) -> nn.Module:
    """Return a copy of the model whose weights are on the device `meta`. Buffers are copied, tied weights stay tied."""
    return _copied(model, lambda one: torch.empty_like(one, device="meta"))


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


def _allocate(model: nn.Module, device: torch.device) -> None:
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


class ShardingAccelerator(_OneProcess):
    """One of several processes that hold a share of each weight."""

    def __init__(self, device: torch.device, *, bf16: bool = False) -> None:
        """device: of this process. bf16: exchange weights in bf16; gradients are always summed in fp32.

        The process group must exist.
        """
        self.device = device
        self.num_processes = torch.distributed.get_world_size()
        self.process_index = torch.distributed.get_rank()
        formats: dict[str, Any] = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32} if bf16 else {}
        self._precision = MixedPrecisionPolicy(**formats)

    def prepare(self, module: LogprobModel, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Shard the model in place, with the weights of the first process; the optimiser gets the shards.

        Each transformer layer is gathered by itself when it is computed. What is in no layer, such as embeddings and
        head, is gathered for a whole pass.
        """
        names = {one: name for name, one in module.named_parameters()}
        weights = dict(module.state_dict()) if self.process_index == 0 else {}
        _LAYOUTS[module.model] = layout_of(module.model)  # for `gather_model`
        move_to_meta(module)
        mesh = init_device_mesh(self.device.type, (self.num_processes,))
        layers = [one for one in module.model.modules() if isinstance(one, GradientCheckpointingLayer)]
        for layer in reversed(layers):  # inner ones first
            fully_shard(layer, mesh=mesh, mp_policy=self._precision)
        fully_shard(module, mesh=mesh, mp_policy=self._precision)
        _allocate(module, self.device)
        shard_weights(module, weights)
        sharded = dict(module.named_parameters())
        for group in optimizer.param_groups:
            group["params"] = [sharded[names[one]] for one in group["params"]]
        return module, optimizer

    @contextmanager
    def no_sync(self, module: nn.Module) -> Generator[None]:
        """Inside the block, gradients are kept whole and not exchanged."""
        sharded = cast("FSDPModule", module)
        sharded.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            sharded.set_requires_gradient_sync(True)
