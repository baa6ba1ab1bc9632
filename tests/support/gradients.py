"""The gradient that `Updater.step` gives to the optimiser."""

from collections.abc import Sequence
from typing import Any, NoReturn

from torch import Tensor

from agentlearn.train.update.sequences import TrainingRow
from agentlearn.train.update.updater import Updater


class _Stop(Exception):
    """Raised instead of the optimiser step."""


def gradients(updater: Updater, rows: Sequence[TrainingRow]) -> dict[str, Tensor]:
    """Return the gradient by weight name that one optimiser step over all rows would use, without clipping.

    Neither the weights nor the updater's counts change.
    """
    optimizer: Any = getattr(updater.optimizer, "optimizer", updater.optimizer)  # inside accelerate's wrapper
    arguments = updater.arguments
    updater.arguments = arguments.model_copy(update={"max_grad_norm": None, "iterations": 1, "minibatches": 1})

    def stop(*_: object) -> NoReturn:
        raise _Stop

    hook = optimizer.register_step_pre_hook(stop)
    found: dict[str, Tensor] = {}
    try:
        updater.step(rows)
    except _Stop:
        named = updater.model.named_parameters()
        found = {name: one.grad.detach().clone() for name, one in named if one.grad is not None}
    finally:
        hook.remove()
        updater.arguments = arguments
        updater.optimizer.zero_grad(set_to_none=True)
    return found
