"""The processes that train together, by accelerate under `torchrun`; or this one alone.

Every process is given all rows of a batch and takes its part of them. Gradients are summed, not averaged: each row's
weight already has the denominator of all processes in it.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from agentlearn.errors import ConfigError

Reduction = Literal["sum", "min", "max"]


class Processes:
    """How many there are, which one this is, and what they do together."""

    def __init__(self, accelerator: Any = None) -> None:
        """accelerator: an `accelerate.Accelerator`; None: this process alone."""
        self._accelerator = accelerator
        if accelerator is not None and accelerator.gradient_accumulation_steps != 1:
            raise ConfigError(
                f"the accelerator accumulates over {accelerator.gradient_accumulation_steps} steps, but micro-batches "
                "are summed here already; make it with gradient_accumulation_steps=1",
                code="accumulated_twice",
            )

    @property
    def count(self) -> int:
        """At least 1."""
        return 1 if self._accelerator is None else cast("int", self._accelerator.num_processes)

    @property
    def rank(self) -> int:
        """0 to count - 1."""
        return 0 if self._accelerator is None else cast("int", self._accelerator.process_index)

    def prepare(self, module: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Both, wrapped for several processes."""
        if self._accelerator is None:
            return module, optimizer
        wrapped, stepping = self._accelerator.prepare(module, optimizer)
        return cast("nn.Module", wrapped), cast("Optimizer", stepping)

    def unwrapped(self, module: nn.Module) -> nn.Module:
        """What `prepare` was given."""
        return module if self._accelerator is None else cast("nn.Module", self._accelerator.unwrap_model(module))

    def disband(self) -> None:
        """Let go of what accelerate wraps around models, before the connection between the processes is given up.

        torch waits for its threads when the last of both goes, and would wait for ever if that is the wrapper.
        """
        if self._accelerator is not None:
            self._accelerator.free_memory()

    def accumulating(self, module: nn.Module, *, last: bool) -> AbstractContextManager[Any]:
        """Around the passes of one micro-batch: gradients are exchanged in the last one only."""
        if self._accelerator is None or last:
            return nullcontext()
        return cast("AbstractContextManager[Any]", self._accelerator.no_sync(module))

    def backward(self, loss: Tensor) -> None:
        """Adds the gradient of this process's share of the loss."""
        if self._accelerator is None:
            loss.backward()
        else:  # accelerate's engines take the mean over processes
            self._accelerator.backward(loss * self.count)

    def shorten(self, parameters: Iterable[nn.Parameter], longest: float | None) -> float:
        """Scales the gradient down to a length; returns the length it had."""
        bound = float("inf") if longest is None else longest
        if self._accelerator is None:
            return float(torch.nn.utils.clip_grad_norm_(parameters, bound))
        norm = self._accelerator.clip_grad_norm_(parameters, bound)
        full = getattr(norm, "full_tensor", None)
        return float(norm if full is None else full())

    def together(self, values: Tensor, reduction: Reduction) -> Tensor:
        """Over all processes, element by element."""
        if self.count == 1:
            return values
        operation = {"sum": "SUM", "min": "MIN", "max": "MAX"}[reduction]
        values = values.clone()
        torch.distributed.all_reduce(values, op=getattr(torch.distributed.ReduceOp, operation))
        return values
