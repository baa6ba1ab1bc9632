"""Comparing the weights that a server computes with to the trainer's, by hashes.

Servers join tensors (queries, keys and values become one), store them in another number format, and may keep them
rearranged. So the trainer builds what the server should hold from its own tensors and hashes that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from agentlearn.errors import EndpointError
from agentlearn.train.serving.worker_extension import LOOKED_UP, described, unordered_hash


@dataclass(frozen=True, slots=True)
class ServedTensor:
    """A tensor that a server computes with."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    sha256: str
    finite: bool


@dataclass(frozen=True, slots=True)
class WeightsReport:
    """All tensors of a served model, as its worker describes them."""

    tensors: tuple[ServedTensor, ...]
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
                ServedTensor(name, tuple(one["shape"]), _dtype(one["dtype"]), one["sha256"], bool(one["finite"]))
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
    different = [one for one in report.tensors if not own.holds(one)]
    rearranged = unordered([one.name for one in different]) if different else {}
    left = tuple(one.name for one in different if not own.holds_unordered(one, rearranged.get(one.name)))
    equal = tuple(one.name for one in report.tensors if one.name not in left)
    unknown = tuple(name for name in left if not own.parts_of(name))
    return WeightsComparison(equal=equal, different=left, unknown=unknown, absent=own.unused())


class _OwnWeights:
    """The trainer's weights, and which of them were found in a server."""

    def __init__(self, weights: Mapping[str, Tensor], report: WeightsReport) -> None:
        self._weights = weights
        self._packed = report.packed
        self._dtype = report.dtype
        self._used: set[str] = set()
        self._by_hash: dict[str, str] | None = None

    def holds(self, served: ServedTensor) -> bool:
        """Whether a served tensor has the values of the trainer's tensors of its name, or of any one tensor."""
        names = self.parts_of(served.name)
        if names and any(described(one)["sha256"] == served.sha256 for one in self._as_served(names, served.dtype)):
            self._used.update(names)
            return True
        if names:
            self._used.update(names)  # it is reported as different, not also as absent
            return False
        if (other := self._hashes(served.dtype).get(served.sha256)) is not None:
            self._used.add(other)
            return True
        return False

    def holds_unordered(self, served: ServedTensor, found: str | None) -> bool:
        """Whether a served tensor has the right values in another order."""
        names = self.parts_of(served.name)
        if found is None or not names:
            return False
        return any(
            one.numel() == _size(served.shape) and unordered_hash(one) == found
            for one in self._as_served(names, served.dtype)
        )

    def unused(self) -> tuple[str, ...]:
        """Names of tensors found nowhere, except those with the same values as one that was found."""
        left = [name for name in self._weights if name not in self._used]
        if not left:
            return ()
        found = {self._own_hash(name) for name in self._used if self._weights[name].numel()}
        return tuple(name for name in left if self._own_hash(name) not in found)

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

    def _hashes(self, dtype: torch.dtype) -> Mapping[str, str]:
        if self._by_hash is None:
            self._by_hash = {described(one.to(dtype))["sha256"]: name for name, one in self._weights.items()}
        return self._by_hash

    def _own_hash(self, name: str) -> str:
        return described(self._weights[name])["sha256"]


def not_finite(weights: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Names of tensors with a value that is not a finite number."""
    return tuple(
        name for name, one in weights.items() if one.is_floating_point() and not bool(torch.isfinite(one).all())
    )


def _size(shape: Sequence[int]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if isinstance(found, torch.dtype):
        return found
    raise ValueError(name)
