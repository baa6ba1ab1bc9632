"""The entropy of a step's tokens: a bonus in the loss, constant or adaptive, and the choice of tokens to train.

Both are over all tokens of an optimiser step, so that micro-batches and the number of processes change nothing.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from agentlearn.train.arguments import GradientArguments


class EntropyBonus:
    """The mean entropy of a step's tokens times a coefficient, which is subtracted from the loss.

    With `entropy_target`, the coefficient changes after each step (adaptive entropy, arXiv:2505.22312).
    """

    def __init__(self, arguments: GradientArguments) -> None:
        self.coefficient = arguments.entropy_coef
        """The present coefficient."""
        self._arguments = arguments
        self._last = math.inf

    @property
    def used(self) -> bool:
        """Whether the loss can have a bonus, in this step or a later one."""
        return self._arguments.entropy_coef > 0 or self._adaptive

    @property
    def applied(self) -> float:
        """The coefficient of the next step: 0 while the entropy is above its target."""
        target = self._arguments.entropy_target
        return self.coefficient if target is None or self._last <= target else 0.0

    def share(self, entropy_N: Tensor, chosen_N: Tensor, step_tokens: float) -> Tensor:
        """Return a micro-batch's share of the bonus, a scalar. The shares of a step add up to its bonus.

        chosen_N: whether each token counts. step_tokens: number of tokens that count in the whole step.
        """
        return self.applied * (entropy_N * chosen_N).sum() / max(1.0, step_tokens)

    def step_made(self, entropy: float) -> None:
        """Adapt the coefficient after an optimiser step with this mean entropy of the tokens that count, in nats."""
        given = self._arguments
        if given.entropy_target is None:
            return
        change = given.entropy_coef_delta if entropy <= given.entropy_target else -given.entropy_coef_delta
        self.coefficient = min(max(self.coefficient + change, given.entropy_coef_min), given.entropy_coef_max)
        self._last = entropy

    def state_dict(self) -> dict[str, float]:
        """The state that later steps depend on."""
        return {"coefficient": self.coefficient, "last": self._last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        self.coefficient, self._last = float(state["coefficient"]), float(state["last"])

    @property
    def _adaptive(self) -> bool:
        return self._arguments.entropy_target is not None


def highest_entropies(entropy_N: Tensor, share: float) -> Tensor:
    """Return which tokens belong to this share with the highest entropy, 0 to 1; at least one does.

    entropy_N: of all tokens of the step. Source: arXiv:2506.01939.
    """
    if not len(entropy_N):
        return torch.zeros_like(entropy_N, dtype=torch.bool)
    ordered_N = entropy_N.sort().values
    place = (1 - share) * (len(ordered_N) - 1)
    below, above = ordered_N[math.floor(place)], ordered_N[math.ceil(place)]
    return entropy_N >= torch.lerp(below, above, place - math.floor(place))
