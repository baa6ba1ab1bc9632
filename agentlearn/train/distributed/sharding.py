"""Sharding of a model's weights over processes with FSDP2, on GPUs and on the CPU.

It has the methods of `accelerate.Accelerator` that the updater uses. accelerate itself offers FSDP2 on GPUs only.
"""

import gc
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.optim import Optimizer
from transformers.modeling_layers import GradientCheckpointingLayer

from agentlearn.train.distributed.layout import allocate, layout_of, move_to_meta, remember_layout
from agentlearn.train.distributed.shards import shard_weights
from agentlearn.train.update.logprob_model import LogprobModel


class ShardingAccelerator:
    """One of several processes that hold a share of each weight."""

    gradient_accumulation_steps = 1

    def __init__(self, device: torch.device, *, bf16: bool = False) -> None:
        """device: of this process. bf16: exchange weights in bf16; gradients are always summed in fp32.

        The process group must exist.
        """
        self.device = device
        self.num_processes = torch.distributed.get_world_size()
        self.process_index = torch.distributed.get_rank()
        self._precision = (
            MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
            if bf16
            else MixedPrecisionPolicy()
        )

    def prepare(self, module: LogprobModel, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Shard the model in place, with the weights of the first process; the optimiser gets the shards.

        Each transformer layer is gathered by itself when it is computed. What is in no layer, such as embeddings and
        head, is gathered for a whole pass.
        """
        names = {one: name for name, one in module.named_parameters()}
        weights = dict(module.state_dict()) if self.process_index == 0 else {}
        remember_layout(module.model, layout_of(module.model))
        move_to_meta(module)
        mesh = init_device_mesh(self.device.type, (self.num_processes,))
        for layer in layers_of(module.model):
            fully_shard(layer, mesh=mesh, mp_policy=self._precision)
        fully_shard(module, mesh=mesh, mp_policy=self._precision)
        allocate(module, self.device)
        shard_weights(module, weights)
        sharded = dict(module.named_parameters())
        for group in optimizer.param_groups:
            group["params"] = [sharded[names[one]] for one in group["params"]]
        return module, optimizer

    def unwrap_model(self, module: nn.Module) -> nn.Module:
        """Return the module: it was sharded in place."""
        return module

    def free_memory(self) -> None:
        """Free what is no longer used."""
        gc.collect()

    @contextmanager
    def no_sync(self, module: nn.Module) -> Generator[None]:
        """Inside the block, gradients are kept whole and not exchanged."""
        sharded = cast("FSDPModule", module)
        sharded.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            sharded.set_requires_gradient_sync(True)

    def backward(self, loss: Tensor) -> None:
        """Compute gradients. They are averaged over the processes."""
        loss.backward()

    def clip_grad_norm_(self, parameters: Iterable[nn.Parameter], bound: float) -> Tensor:
        """Scale the gradient down to `bound`; returns its norm before."""
        return torch.nn.utils.clip_grad_norm_(parameters, bound)


def layers_of(model: nn.Module) -> Sequence[nn.Module]:
    """The transformer layers of a model, inner ones first. They are sharded one by one."""
    return [one for one in model.modules() if isinstance(one, GradientCheckpointingLayer)][::-1]
