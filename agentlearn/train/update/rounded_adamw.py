"""AdamW for weights that are kept in bf16 only, without a copy in fp32.

bf16 has 8 bits of precision. An update of a usual size is less than half the distance to the next number, so that
rounding to the nearest one would change nothing. Here a weight is rounded up or down by chance, so that its mean is the
exact result, and small updates add up. The same seed and step give the same rounding.
"""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from agentlearn.train.distributed.sharding import forget_gathered, like_sharded, whole_tensor


class RoundedAdamW(torch.optim.Optimizer):
    """AdamW with decoupled decay, means in fp32, and stochastic rounding of the new weights to bf16."""

    def __init__(
        self, groups: Iterable[dict[str, Any]], *, lr: float, betas: tuple[float, float], eps: float, seed: int
    ) -> None:
        """groups: with `params` and `weight_decay`, as for torch's AdamW. seed: of the rounding."""
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "seed": seed, "steps": 0, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Change the weights that have a gradient."""
        assert closure is None, "a loss is never computed again"
        for number, group in enumerate(self.param_groups):
            chance: dict[torch.device, torch.Generator] = {}
            for weight in cast("list[nn.Parameter]", group["params"]):
                if weight.grad is None:
                    continue
                local = _local(weight)
                if local.device not in chance:
                    chance[local.device] = torch.Generator(local.device)
                    # All of them change its low 32 bits: torch uses no others on a CPU.
                    mixed = np.random.SeedSequence((group["seed"], group["steps"], number)).generate_state(1, np.uint64)
                    chance[local.device].manual_seed(int(mixed[0]))
                self._change(weight, group, chance[local.device])
            group["steps"] += 1

    def load_state_dict(self, state_dict: Any) -> None:
        """Restore a state. torch would round the means to the format of the weights; they stay in fp32."""
        super().load_state_dict(state_dict)
        saved = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        own = chain.from_iterable(group["params"] for group in self.param_groups)
        for name, weight in zip(saved, own, strict=True):
            kept = cast("Mapping[str, Tensor]", state_dict["state"].get(name, {}))
            self.state[weight].update({key: value.to(weight.device, copy=True) for key, value in kept.items()})

    def _change(self, weight: nn.Parameter, group: Mapping[str, Any], chance: torch.Generator) -> None:
        state = self.state[weight]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(weight, dtype=torch.float32)
            state["exp_avg_sq"] = torch.zeros_like(weight, dtype=torch.float32)
        state["step"] += 1
        done = float(state["step"])
        assert weight.grad is not None
        grad, mean, square = _local(weight.grad).float(), _local(state["exp_avg"]), _local(state["exp_avg_sq"])
        first, second = group["betas"]
        mean.lerp_(grad, 1 - first)
        square.mul_(second).addcmul_(grad, grad, value=1 - second)
        scale = (square.sqrt() / (1 - second**done) ** 0.5).add_(group["eps"])
        exact = _local(weight).float().mul_(1 - group["lr"] * group["weight_decay"])
        exact.addcdiv_(mean, scale, value=-group["lr"] / (1 - first**done))
        _local(weight).copy_(rounded_to_bf16(exact, chance))


def rounded_to_bf16(exact: Tensor, chance: torch.Generator) -> Tensor:
    """Round fp32 to one of the two next bf16 numbers; each is as likely as the exact number is near to it."""
    noise = torch.randint(0, 2**16, exact.shape, dtype=torch.int32, device=exact.device, generator=chance)
    return (exact.contiguous().view(torch.int32) + noise).bitwise_and_(-(2**16)).view(torch.float32).bfloat16()


def _local(tensor: Tensor) -> Tensor:
    """This process's part of a tensor."""
    part = getattr(tensor, "to_local", None)
    return tensor.detach() if part is None else part().detach()


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
