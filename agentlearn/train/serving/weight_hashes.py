"""Comparing the weights that a server computes with to the trainer's, by hashes.

Servers join tensors (queries, keys and values become one), store them in another number format, and may keep them
rearranged. So the trainer builds what the server should hold from its own tensors and hashes that.

Two implementations of a model never agree exactly. So not values but changes are compared: how log-probabilities of a
probe prompt changed in the trainer, and how they changed in the server. A server that still uses the old weights shows
no change, and a constant difference between the implementations cancels. A single tensor that was not loaded is noticed
only if its part of the change is above the noise.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentlearn.errors import EndpointError
from agentlearn.train.serving.worker_extension import LOOKED_UP, described, unordered_hash


@dataclass(frozen=True, slots=True)
class _ServedTensor:
    """A tensor that a server computes with."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    sha256: str
    finite: bool


@dataclass(frozen=True, slots=True)
class WeightsReport:
    """All tensors of a served model, as its worker describes them."""

    tensors: tuple[_ServedTensor, ...]
    dtype: torch.dtype
    """Number format of the served model."""
    packed: Mapping[str, Sequence[str]]
    """Names of the modules that are joined in one served module, by its name."""
    shards: int
    """Number of processes that the model is split over."""

    @property
    def whole(self) -> bool:
        """Whether each tensor is in one piece."""
        return self.shards == 1

    @property
    def not_finite(self) -> tuple[str, ...]:
        """Names of tensors with a value that is not a finite number."""
        return tuple(one.name for one in self.tensors if not one.finite)


@dataclass(frozen=True, slots=True)
class WeightsComparison:
    """How a server's tensors compare to the trainer's."""

    equal: tuple[str, ...]
    """Served tensors with the trainer's values."""
    different: tuple[str, ...]
    """Served tensors with other values, or that the trainer has no values for."""
    unknown: tuple[str, ...]
    """Those of the different ones whose name tells nothing about which of the trainer's tensors they hold."""
    absent: tuple[str, ...]
    """The trainer's tensors that no served tensor holds."""


def weights_report_of(answer: object) -> WeightsReport:
    """Read a worker's answer. Raises EndpointError when it is something else."""
    try:
        said: Any = answer
        return WeightsReport(
            tensors=tuple(
                _ServedTensor(name, tuple(one["shape"]), _dtype(one["dtype"]), one["sha256"], bool(one["finite"]))
                for name, one in said["tensors"].items()
            ),
            dtype=_dtype(said["dtype"]),
            packed={name: tuple(parts) for name, parts in said["packed"].items()},
            shards=int(said["shards"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EndpointError(
            "the server describes its weights in a form that is not known; use the same version of agentlearn for the"
            " server and for training",
            code="sync_refused",
        ) from error


def compare_weights(
    report: WeightsReport,
    weights: Mapping[str, Tensor],
    unordered: Callable[[Sequence[str]], Mapping[str, str]] = lambda _names: {},
) -> WeightsComparison:
    """Compare each served tensor with what the trainer's weights give for it.

    unordered: hashes of served tensors, by name, that do not depend on the order of values. Called for the tensors that
    differ, which a server may hold rearranged.
    """
    own = _OwnWeights(weights, report)
    left = [one for one in report.tensors if not own.holds(one)]
    rearranged = unordered([one.name for one in left]) if left else {}
    different = tuple(one.name for one in left if not own.holds_unordered(one, rearranged.get(one.name)))
    return WeightsComparison(
        equal=tuple(one.name for one in report.tensors if one.name not in different),
        different=different,
        unknown=tuple(name for name in different if not own.parts_of(name)),
        absent=own.unused(),
    )


class _OwnWeights:
    """The trainer's weights, and which of them were found in a server."""

    def __init__(self, weights: Mapping[str, Tensor], report: WeightsReport) -> None:
        self._weights = weights
        self._packed = report.packed
        self._dtype = report.dtype
        self._used: set[str] = set()
        self._by_hash: dict[str, str] | None = None

    def holds(self, served: _ServedTensor) -> bool:
        """Whether a served tensor has the values of the trainer's tensors of its name, or of any one tensor."""
        if names := self.parts_of(served.name):
            self._used.update(names)  # if it is different it is not reported as absent too
            return any(described(one)["sha256"] == served.sha256 for one in self._as_served(names, served.dtype))
        if self._by_hash is None:
            self._by_hash = {described(one.to(served.dtype))["sha256"]: name for name, one in self._weights.items()}
        if (other := self._by_hash.get(served.sha256)) is not None:
            self._used.add(other)
        return other is not None

    def holds_unordered(self, served: _ServedTensor, found: str | None) -> bool:
        """Whether a served tensor has the right values in another order."""
        names = self.parts_of(served.name)
        return bool(found and names) and any(
            one.numel() == math.prod(served.shape) and unordered_hash(one) == found
            for one in self._as_served(names, served.dtype)
        )

    def unused(self) -> tuple[str, ...]:
        """Names of tensors found nowhere, except those with the same values as one that was found."""
        left = [name for name in self._weights if name not in self._used]
        known = {described(self._weights[name])["sha256"] for name in self._used} if left else set[str]()
        return tuple(name for name in left if described(self._weights[name])["sha256"] not in known)

    def parts_of(self, served: str) -> tuple[str, ...]:
        """Names of the tensors that a served tensor consists of; empty when there are none of its name."""
        name = served.removesuffix(LOOKED_UP)
        if name in self._weights:
            return (name,)
        path, _, own = name.rpartition(".")
        before, _, module = path.rpartition(".")
        parts = tuple(f"{before}.{part}.{own}" for part in self._packed.get(module, ()))
        return parts if all(part in self._weights for part in parts) else ()

    def _as_served(self, names: Sequence[str], dtype: torch.dtype) -> list[Tensor]:
        """The joined tensors in the server's number format: converted at once, and by way of the model's format."""
        whole = torch.cat([self._weights[name] for name in names]) if len(names) > 1 else self._weights[names[0]]
        direct = whole.to(dtype)
        return [direct] if dtype == self._dtype else [whole.to(self._dtype).to(dtype), direct]


def not_finite(weights: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Names of tensors with a value that is not a finite number."""
    return tuple(
        name for name, one in weights.items() if one.is_floating_point() and not bool(torch.isfinite(one).all())
    )


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if isinstance(found, torch.dtype):
        return found
    raise ValueError(name)


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
class _OwnLogprobs:
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

    own: _OwnLogprobs
    served: Logprobs


def judge_change(before: Probed, now: Probed, *, repeat_noise: float = 0.0) -> ChangeVerdict:
    """Whether the server changed as the trainer did between two times.

    before: a time at which the server was known to use the trainer's weights. repeat_noise: standard deviation of a
    served log-probability when nothing changes. `unknown` when the trainer's change is not clearly above the noise.
    """
    own, served = now.own.exact - before.own.exact, now.served - before.served
    rounded = now.own.rounded - before.own.rounded
    if not np.isfinite(own).all() or not np.isfinite(served).all():
        return "other"
    # Even a change of the weights that is far too small to be measured makes all later rounding fall differently. A
    # server that shows no change at all, where the trainer's own rounding makes one plain to see, has the old weights.
    plain = float(np.mean(rounded != 0)) > SHARE and _size(rounded) > max(POWER * repeat_noise, _SMALLEST_NOISE)
    if plain and _size(served) <= 2 * repeat_noise:
        return "other"
    # The error of one token's change: in float32, the difference between the two implementations at the earlier time
    # bounds it. Else it is what rounding does to the change.
    is_float32 = before.own.exact is before.own.rounded
    error = before.served - before.own.exact if is_float32 else rounded - own
    noise = max(_size(error), repeat_noise, _SMALLEST_NOISE)
    size = float(np.linalg.norm(own))
    if size < POWER * noise:
        return "unknown"
    share = float(served @ own) / size**2
    if share <= SHARE or (is_float32 and _size(served - own) > 2 * POWER * noise):
        return "other"
    return "new"


def _size(change: Logprobs) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(change**2)))


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

    def logprobs(self, weights: Mapping[str, Tensor], probe: Sequence[int]) -> _OwnLogprobs:
        """Log-probabilities with these weights. Blocks."""
        self._copy.load_state_dict({name: one.to(self._dtype).float() for name, one in weights.items()})
        exact = network_logprobs(self._copy, probe)
        if self._dtype == torch.float32:
            return _OwnLogprobs(exact, exact)
        with torch.autocast("cpu", dtype=self._dtype, cache_enabled=False):
            return _OwnLogprobs(exact, network_logprobs(self._copy, probe))
