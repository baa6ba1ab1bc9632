"""The processes that train together under `torchrun`, connected by accelerate; or a single process.

Every process gets all rows of a batch and computes its share. Gradients are summed, not averaged, because each row's
weight already includes the denominator over all processes.
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
    """The group of training processes, and this process's place in it."""

    def __init__(self, accelerator: Any = None) -> None:
        """accelerator: an `accelerate.Accelerator`; None: a single process."""
        self._accelerator = accelerator
        if accelerator is not None and accelerator.gradient_accumulation_steps != 1:
            raise ConfigError(
                f"the accelerator accumulates over {accelerator.gradient_accumulation_steps} steps, but micro-batches "
                "are already summed here; create it with gradient_accumulation_steps=1",
                code="accumulated_twice",
            )

    @property
    def count(self) -> int:
        """Number of processes, at least 1."""
        return 1 if self._accelerator is None else cast("int", self._accelerator.num_processes)

    @property
    def rank(self) -> int:
        """Number of this process, 0 to count - 1."""
        return 0 if self._accelerator is None else cast("int", self._accelerator.process_index)

    def prepare(self, module: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Return both, wrapped for several processes."""
        if self._accelerator is None:
            return module, optimizer
        wrapped, wrapped_optimizer = self._accelerator.prepare(module, optimizer)
        return cast("nn.Module", wrapped), cast("Optimizer", wrapped_optimizer)

    def unwrap(self, module: nn.Module) -> nn.Module:
        """Return the module that was passed to `prepare`."""
        return module if self._accelerator is None else cast("nn.Module", self._accelerator.unwrap_model(module))

    def release(self) -> None:
        """Free accelerate's wrappers. Call this before the connection between the processes is closed.

        Otherwise torch would wait for its threads for ever when the wrapper is freed last.
        """
        if self._accelerator is not None:
            self._accelerator.free_memory()

    def accumulating(self, module: nn.Module, *, last: bool) -> AbstractContextManager[Any]:
        """Context for the passes of one micro-batch. Gradients are exchanged only in the last one."""
        if self._accelerator is None or last:
            return nullcontext()
        return cast("AbstractContextManager[Any]", self._accelerator.no_sync(module))

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of this process's share of the loss."""
        if self._accelerator is None:
            loss.backward()
        else:  # accelerate averages over processes
            self._accelerator.backward(loss * self.count)

    def clip_gradients(self, parameters: Iterable[nn.Parameter], max_norm: float | None) -> float:
        """Scale the gradient down to `max_norm`; returns its norm before."""
        bound = float("inf") if max_norm is None else max_norm
        if self._accelerator is None:
            return float(torch.nn.utils.clip_grad_norm_(parameters, bound))
        norm = self._accelerator.clip_grad_norm_(parameters, bound)
        full = getattr(norm, "full_tensor", None)
        return float(norm if full is None else full())

    def all_reduce(self, values: Tensor, reduction: Reduction) -> Tensor:
        """Combine the values of all processes, element by element."""
        if self.count == 1:
            return values
        operation = {"sum": "SUM", "min": "MIN", "max": "MAX"}[reduction]
        values = values.clone()
        torch.distributed.all_reduce(values, op=getattr(torch.distributed.ReduceOp, operation))
        return values
