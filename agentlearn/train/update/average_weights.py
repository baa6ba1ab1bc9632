"""A moving average of the trained weights, in fp32: a teacher that follows the student slowly."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from agentlearn.train.distributed.shards import forget_gathered, like_sharded, whole_tensor


class AverageWeights:
    """average <- (1 - rate) average + rate weights, for each trainable weight of a model, shards included."""

    def __init__(self, model: nn.Module, rate: float) -> None:
        """model: sharded as a whole, if at all. rate: share of the present weights in an update, above 0, at most 1."""
        self._model = model
        self._rate = rate
        self._averages = {name: one.detach().float().clone() for name, one in self._trained.items()}

    @property
    def _trained(self) -> dict[str, nn.Parameter]:
        """The trainable weights by name; of sharded ones, this process's shards."""
        forget_gathered(self._model)
        return {name: one for name, one in self._model.named_parameters() if one.requires_grad}

    @torch.no_grad()
    def update(self) -> None:
        """Move the averages towards the present weights."""
        trained = self._trained
        for name, average in self._averages.items():
            average.lerp_(trained[name].float(), self._rate)

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Give the model the averages as its weights inside the block."""
        with torch.no_grad():
            present = {name: one.detach().clone() for name, one in self._trained.items()}
            self._give(self._averages)
        try:
            yield
        finally:
            with torch.no_grad():
                self._give(present)

    def state_dict(self) -> dict[str, Tensor]:
        """The averages by name, whole and on the CPU. With sharded weights every process must call this."""
        return {name: whole_tensor(average).cpu() for name, average in self._averages.items()}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore averages from `state_dict`, which every process needs to give."""
        for name, average in self._averages.items():
            average.copy_(like_sharded(state[name].to(average.device), average))

    def _give(self, weights: Mapping[str, Tensor]) -> None:
        for name, one in self._trained.items():
            one.copy_(weights[name])
        forget_gathered(self._model)
