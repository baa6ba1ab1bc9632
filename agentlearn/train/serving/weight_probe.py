"""Judging by log-probabilities whether a server uses the new weights. Used where its tensors cannot be compared.

Two implementations of a model never agree exactly. So not values but changes are compared: how log-probabilities of a
probe prompt changed in the trainer, and how they changed in the server. A server that still uses the old weights shows
no change, and a constant difference between the implementations cancels. A single tensor that was not loaded is noticed
only if its part of the change is above the noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

PROBE_TOKENS = 64
POWER = 8.0
"""How many times the noise of one token the whole change must be, before anything is concluded from it."""
SHARE = 0.5
"""Share of the trainer's change that a server must show: 0 with the old weights, 1 with the new ones."""
ROUNDINGS = 4.0
"""How many times the measured rounding of its number format a server's log-probabilities may be off."""
_FLOAT32_LIMIT = 0.02
_HALF_LIMIT = 0.06
"""The least limit for 16-bit formats. Two implementations in the same format differ by this much too."""
_SMALLEST_NOISE = 1e-7

Logprobs = NDArray[np.float64]
ChangeVerdict = Literal["new", "other", "unknown"]


@dataclass(frozen=True, slots=True)
class OwnLogprobs:
    """The trainer's log-probability of each probe token except the first."""

    exact: Logprobs
    """With weights in the server's number format, computed in float32."""
    rounded: Logprobs
    """The same, computed in the server's number format."""

    @property
    def rounding(self) -> float:
        """Mean difference that the number format makes, in nats."""
        return float(np.abs(self.rounded - self.exact).mean())

    @property
    def limit(self) -> float:
        """Largest mean difference in nats between a server that uses these weights and the trainer."""
        return max(_FLOAT32_LIMIT, ROUNDINGS * self.rounding)


@dataclass(frozen=True, slots=True)
class Probed:
    """Log-probabilities of the probe in trainer and server at one time."""

    own: OwnLogprobs
    served: Logprobs


def judge_change(before: Probed, now: Probed, *, repeat_noise: float = 0.0) -> ChangeVerdict:
    """Whether the server changed as the trainer did between two times.

    before: a time at which the server was known to use the trainer's weights. repeat_noise: standard deviation of a
    served log-probability when nothing changes. `unknown` when the trainer's change is not clearly above the noise.
    """
    own = now.own.exact - before.own.exact
    served = now.served - before.served
    if not np.isfinite(own).all() or not np.isfinite(served).all():
        return "other"
    if _stands_still(now.served - before.served, now.own.rounded - before.own.rounded, repeat_noise):
        return "other"
    noise = max(_noise(before, now), repeat_noise, _SMALLEST_NOISE)
    size = float(np.linalg.norm(own))
    if size < POWER * noise:
        return "unknown"
    share = float(served @ own) / size**2
    off = float(np.sqrt(np.mean((served - own) ** 2)))
    if share <= SHARE or (_is_float32(before) and off > 2 * POWER * noise):
        return "other"
    return "new"


def probe_ids(network: Any, *, context: int | None = None) -> list[int]:
    """Random tokens of the whole vocabulary, always the same. Unlikely tokens show changed weights best."""
    size = int(network.get_input_embeddings().weight.shape[0])
    count = PROBE_TOKENS if context is None else min(PROBE_TOKENS, context - 1)
    return np.random.default_rng(0).integers(0, size, count).tolist()


def network_logprobs(network: Any, probe: Sequence[int]) -> Logprobs:
    """The network's log-probability of each probe token except the first."""
    ids = torch.tensor([list(probe)], device=network.device)
    was_training = network.training
    network.eval()
    try:
        with torch.no_grad():
            logits = network(input_ids=ids).logits[0, :-1].float()
    finally:
        network.train(was_training)
    logprobs = torch.log_softmax(logits, dim=-1).gather(1, ids[0, 1:, None])[:, 0]
    return logprobs.double().cpu().numpy()


def rounding_limit(network: Any, probe: Sequence[int], own: Logprobs, dtype: torch.dtype) -> float:
    """Largest mean difference in nats between a server with the network's weights and the network.

    own: the network's log-probabilities of the probe. dtype: number format of the server. Its rounding is measured on
    the network, where only products are rounded, so that a server may be off by several times as much.
    """
    if dtype == torch.float32:
        return _FLOAT32_LIMIT
    with torch.autocast(network.device.type, dtype=dtype, cache_enabled=False):
        rounded = network_logprobs(network, probe)
    return max(_HALF_LIMIT, 2 * ROUNDINGS * float(np.abs(rounded - own).mean()))


class ProbeModel:
    """A copy of the network on the CPU that computes what a server with its weights should answer.

    The copy is needed because a server merges adapters and rounds the result, so that small changes may vanish.
    """

    def __init__(self, network: Any, dtype: torch.dtype) -> None:
        from transformers.initialization import no_init_weights

        base = network.get_base_model() if hasattr(network, "get_base_model") else network
        config = type(base.config).from_dict(base.config.to_dict())
        config.tie_word_embeddings = False
        with no_init_weights():
            self._copy: Any = type(base)(config).float().eval()
        self._dtype = dtype

    def logprobs(self, weights: Mapping[str, Tensor], probe: Sequence[int]) -> OwnLogprobs:
        """Log-probabilities with these weights. Blocks."""
        self._copy.load_state_dict({name: one.to(self._dtype).float() for name, one in weights.items()})
        exact = network_logprobs(self._copy, probe)
        if self._dtype == torch.float32:
            return OwnLogprobs(exact, exact)
        with torch.autocast("cpu", dtype=self._dtype, cache_enabled=False):
            return OwnLogprobs(exact, network_logprobs(self._copy, probe))


def _stands_still(served: Logprobs, own: Logprobs, repeat_noise: float) -> bool:
    """Whether the server shows no change at all, where the trainer's own rounding makes one plain to see.

    Even a change of the weights that is far too small to be measured makes all later rounding fall differently.
    """
    moved = float(np.sqrt(np.mean(own**2)))
    stood = float(np.sqrt(np.mean(served**2)))
    changed = float(np.mean(own != 0)) > SHARE and moved > max(POWER * repeat_noise, _SMALLEST_NOISE)
    return changed and stood <= 2 * repeat_noise


def _is_float32(probed: Probed) -> bool:
    return probed.own.exact is probed.own.rounded


def _noise(before: Probed, now: Probed) -> float:
    """Standard deviation of the error of one token's change.

    In float32, the difference between the two implementations at the earlier time bounds it. Else it is what rounding
    does to the change.
    """
    if _is_float32(before):
        error = before.served - before.own.exact
    else:
        error = (now.own.rounded - before.own.rounded) - (now.own.exact - before.own.exact)
    return float(np.sqrt(np.mean(error**2)))
