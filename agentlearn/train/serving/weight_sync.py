"""Giving a trainer's weights to a server in another process: write them, have them loaded, prove that they are used.

A server that loads only a part of the weights, or none, shows no error. So each transfer is proven:

1. by hashes of all tensors that the server computes with, where its worker gives them (`worker_extension`);
2. elsewhere by the change of a probe prompt's log-probabilities, which must be that of the trainer.

Servers join tensors (queries, keys and values become one), store them in another number format, and may keep them
rearranged. So the trainer builds what the server should hold from its own tensors and hashes that.

Two implementations of a model never agree exactly. So not values but changes are compared: how log-probabilities of a
probe prompt changed in the trainer, and how they changed in the server. A server that still uses the old weights shows
no change, and a constant difference between the implementations cancels. A single tensor that was not loaded is noticed
only if its part of the change is above the noise.

The served copy is never tied, because a server keeps the output weights of a tied checkpoint when it loads new ones.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import httpx2
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from agentlearn.errors import EndpointError, WeightsDiffer
from agentlearn.train.serving.worker_extension import EXTENSION, LOOKED_UP, METHOD, described, unordered_hash
from agentlearn.train.weights.loading import no_progress_bars

UNPROVEN_LIMIT = 500
"""Transfers in a row that may be too small to be judged, where tensors cannot be compared."""
_WEIGHTS = "model.safetensors"
_WAIT_S = 600.0
_SHOWN = 3
_PROBE_TOKENS = 64
_POWER = 8.0
"""How many times the noise of one token the whole change must be, before anything is concluded from it."""
_SHARE = 0.5
"""Share of the trainer's change that a server must show: 0 with the old weights, 1 with the new ones."""
_ROUNDINGS = 4.0
"""How many times the measured rounding of its number format a server's log-probabilities may be off."""
_FLOAT32_LIMIT = 0.02
_HALF_LIMIT = 0.06
"""The least limit for 16-bit formats. Two implementations in the same format differ by this much too."""
_SMALLEST_NOISE = 1e-7

_Logprobs = NDArray[np.float64]

Proof = Literal["hashes", "change", "rounding", "none yet"]
"""How it is known that a server uses the weights.

hashes: all its tensors are equal to the trainer's. change: its log-probabilities changed as the trainer's did.
rounding: they differ only by rounding. none yet: the change since the last proof was too small to be judged.
"""


@dataclass(frozen=True, slots=True)
class _ServedTensor:
    """A tensor that a server computes with."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    sha256: str
    finite: bool


@dataclass(frozen=True, slots=True)
class _WeightsReport:
    """All tensors of a served model, as its worker describes them."""

    tensors: tuple[_ServedTensor, ...]
    dtype: torch.dtype
    """Number format of the served model."""
    packed: Mapping[str, Sequence[str]]
    """Names of the modules that are joined in one served module, by its name."""
    whole: bool
    """Whether each tensor is in one piece: the model is in one process."""

    @classmethod
    def read(cls, answer: Any) -> "_WeightsReport":
        """Read a worker's answer. Raises EndpointError when it is something else."""

        def dtype(name: str) -> torch.dtype:
            if isinstance(found := getattr(torch, name, None), torch.dtype):
                return found
            raise ValueError(name)

        try:
            return cls(
                tensors=tuple(
                    _ServedTensor(name, tuple(one["shape"]), dtype(one["dtype"]), one["sha256"], bool(one["finite"]))
                    for name, one in answer["tensors"].items()
                ),
                dtype=dtype(answer["dtype"]),
                packed={name: tuple(parts) for name, parts in answer["packed"].items()},
                whole=int(answer["shards"]) == 1,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EndpointError(
                "the server describes its weights in a form that is not known; use the same version of agentlearn for"
                " the server and for training",
                code="engine_failed",
            ) from error


@dataclass(frozen=True, slots=True)
class _WeightsComparison:
    """How a server's tensors compare to the trainer's."""

    equal: int
    """Number of served tensors with the trainer's values."""
    different: tuple[str, ...]
    """Served tensors with other values, or that the trainer has no values for."""
    unknown: tuple[str, ...]
    """Those of the different ones whose name tells nothing about which of the trainer's tensors they hold."""
    absent: tuple[str, ...]
    """The trainer's tensors that no served tensor holds."""


class _OwnWeights:
    """The trainer's weights, and which of them were found in a server."""

    def __init__(self, weights: Mapping[str, Tensor], report: _WeightsReport) -> None:
        self._weights = weights
        self._report = report
        self._used: set[str] = set()
        self._by_hash: dict[str, str] | None = None

    def compared(self, rearranged: Mapping[str, str]) -> _WeightsComparison:
        """Compare each served tensor with what these weights give for it.

        rearranged: hashes of served tensors, by name, that do not depend on the order of values. A server may hold
        tensors rearranged.
        """
        left = [one for one in self._report.tensors if not self._holds(one)]
        different = tuple(one.name for one in left if not self._holds_unordered(one, rearranged.get(one.name)))
        missing = [name for name in self._weights if name not in self._used]
        known = {described(self._weights[name])["sha256"] for name in self._used} if missing else set[str]()
        return _WeightsComparison(
            equal=len(self._report.tensors) - len(different),
            different=different,
            unknown=tuple(name for name in different if not self._parts_of(name)),
            # Found nowhere, and without the values of one that was found.
            absent=tuple(name for name in missing if described(self._weights[name])["sha256"] not in known),
        )

    def _holds(self, served: _ServedTensor) -> bool:
        """Whether a served tensor has the values of the trainer's tensors of its name, or of any one tensor."""
        if names := self._parts_of(served.name):
            self._used.update(names)  # if it is different it is not reported as absent too
            return any(described(one)["sha256"] == served.sha256 for one in self._as_served(names, served.dtype))
        if self._by_hash is None:
            self._by_hash = {described(one.to(served.dtype))["sha256"]: name for name, one in self._weights.items()}
        if (other := self._by_hash.get(served.sha256)) is not None:
            self._used.add(other)
        return other is not None

    def _holds_unordered(self, served: _ServedTensor, found: str | None) -> bool:
        """Whether a served tensor has the right values in another order."""
        names = self._parts_of(served.name)
        return bool(found and names) and any(
            one.numel() == math.prod(served.shape) and unordered_hash(one) == found
            for one in self._as_served(names, served.dtype)
        )

    def _parts_of(self, served: str) -> tuple[str, ...]:
        """Names of the tensors that a served tensor consists of; empty when there are none of its name."""
        name = served.removesuffix(LOOKED_UP)
        if name in self._weights:
            return (name,)
        path, _, own = name.rpartition(".")
        before, _, module = path.rpartition(".")
        parts = tuple(f"{before}.{part}.{own}" for part in self._report.packed.get(module, ()))
        return parts if all(part in self._weights for part in parts) else ()

    def _as_served(self, names: Sequence[str], dtype: torch.dtype) -> list[Tensor]:
        """The joined tensors in the server's number format: converted at once, and by way of the model's format."""
        whole = torch.cat([self._weights[name] for name in names]) if len(names) > 1 else self._weights[names[0]]
        direct, model = whole.to(dtype), self._report.dtype
        return [direct] if dtype == model else [whole.to(model).to(dtype), direct]


def _size(change: _Logprobs) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(change**2)))


@dataclass(frozen=True, slots=True)
class _Probed:
    """Log-probabilities of each probe token except the first, in trainer and server at one time."""

    exact: _Logprobs
    """The trainer's, with weights in the server's number format, computed in float32."""
    rounded: _Logprobs
    """The same, computed in the server's number format."""
    served: _Logprobs

    @property
    def limit(self) -> float:
        """Largest mean difference in nats between a server that uses these weights and the trainer."""
        return max(_FLOAT32_LIMIT, _ROUNDINGS * float(np.abs(self.rounded - self.exact).mean()))

    def change_since(self, before: "_Probed", repeat_noise: float) -> Literal["new", "other", "unknown"]:
        """Whether the server changed as the trainer did between two times.

        before: a time at which the server was known to use the trainer's weights. repeat_noise: standard deviation of
        a served log-probability when nothing changes. `unknown` when the trainer's change is not clearly above the
        noise.
        """
        own, served, rounded = self.exact - before.exact, self.served - before.served, self.rounded - before.rounded
        if not np.isfinite(own).all() or not np.isfinite(served).all():
            return "other"
        # Even a change of the weights that is far too small to be measured makes all later rounding fall differently.
        # A server that shows no change at all, where the trainer's own rounding makes one plain to see, has the old
        # weights.
        plain = float(np.mean(rounded != 0)) > _SHARE and _size(rounded) > max(_POWER * repeat_noise, _SMALLEST_NOISE)
        if plain and _size(served) <= 2 * repeat_noise:
            return "other"
        # The error of one token's change: in float32, the difference between the two implementations at the earlier
        # time bounds it. Else it is what rounding does to the change.
        is_float32 = before.exact is before.rounded
        error = before.served - before.exact if is_float32 else rounded - own
        noise = max(_size(error), repeat_noise, _SMALLEST_NOISE)
        size = float(np.linalg.norm(own))
        if size < _POWER * noise:
            return "unknown"
        share = float(served @ own) / size**2
        if share <= _SHARE or (is_float32 and _size(served - own) > 2 * _POWER * noise):
            return "other"
        return "new"


def _network_logprobs(network: Any, probe: Sequence[int]) -> _Logprobs:
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


def _rounding_limit(network: Any, probe: Sequence[int], own: _Logprobs, dtype: torch.dtype) -> float:
    """Largest mean difference in nats between a server with the network's weights and the network.

    own: the network's log-probabilities of the probe. dtype: number format of the server. Its rounding is measured on
    the network, where only products are rounded, so that a server may be off by several times as much.
    """
    if dtype == torch.float32:
        return _FLOAT32_LIMIT
    with torch.autocast(network.device.type, dtype=dtype, cache_enabled=False):
        rounded = _network_logprobs(network, probe)
    return max(_HALF_LIMIT, 2 * _ROUNDINGS * float(np.abs(rounded - own).mean()))


class _ProbeModel:
    """A copy of the network on the CPU that computes what a server with its weights should answer.

    The copy is needed because a server merges adapters and rounds the result, so that small changes may vanish.
    """

    def __init__(self, network: Any, dtype: torch.dtype) -> None:
        from transformers.initialization import no_init_weights

        base = _base_of(network)
        config = type(base.config).from_dict(base.config.to_dict())
        config.tie_word_embeddings = False
        with no_init_weights():
            self._copy: Any = type(base)(config).float().eval()
        self._dtype = dtype

    def probed(self, weights: Mapping[str, Tensor], probe: Sequence[int], served: _Logprobs) -> _Probed:
        """Compute the probe with these weights. served: the server's log-probabilities. Blocks."""
        self._copy.load_state_dict({name: one.to(self._dtype).float() for name, one in weights.items()})
        exact = rounded = _network_logprobs(self._copy, probe)
        if self._dtype != torch.float32:
            with torch.autocast("cpu", dtype=self._dtype, cache_enabled=False):
                rounded = _network_logprobs(self._copy, probe)
        return _Probed(exact, rounded, served)


@dataclass(frozen=True, slots=True)
class WeightSyncCheck:
    """What is known after weights were given to a server."""

    proof: Proof
    tensors: int
    """Number of served tensors that are equal to the trainer's; 0 where they cannot be compared."""
    mean_difference: float
    """Mean absolute difference of log-probabilities on the probe prompt, in nats per token."""
    largest_difference: float
    """Largest absolute difference of one token, in nats."""


@dataclass(slots=True, eq=False)
class WeightTransfer:
    """Gives weights to one server, and remembers what was proven last."""

    base_url: str
    """URL of the server's API, which ends in /v1."""
    model: str
    """Name of the model in requests."""
    folder: Path
    """Folder that weights are written to."""
    started_from_folder: bool = True
    """Whether the server loaded the weights in the folder when it started. Else it is told the folder's path."""
    dtype: torch.dtype | None = None
    """Number format of the served model, where known; None: the worker says it, or it is the trainer's."""
    context: int | None = None
    """Largest number of tokens of a prompt and its answer; None: more than the probe has."""
    _first: bool = True
    _lacks_extension: bool = False
    _other_form: frozenset[str] = frozenset()
    """Served tensors whose values a server computes from the checkpoint's. They cannot be compared."""
    _proven: _Probed | None = None
    """The probe when the weights were last proven, where tensors cannot be compared."""
    _unproven: int = 0
    _repeat_noise: float = 0.0
    _limit: float | None = None
    _probe_model: _ProbeModel | None = field(default=None, repr=False)

    async def send(self, network: Any) -> WeightSyncCheck:
        """Make the server use the network's weights, and prove it.

        Raises WeightsDiffer when the server does not use them or they are not finite, EndpointError when it refuses.
        """
        weights = await asyncio.to_thread(served_state, network)
        if broken := [
            name for name, one in weights.items() if one.is_floating_point() and not bool(torch.isfinite(one).all())
        ]:
            raise WeightsDiffer(
                f"the trained weights of {self.model!r} have values that are not finite, in {_some(broken)}; continue"
                " from an earlier checkpoint with a lower learning rate"
            )
        async with httpx2.AsyncClient(timeout=_WAIT_S, trust_env=False) as http:
            first, self._first = self._first, False
            if first and self.started_from_folder:
                report = await self._report()
                if report is not None and report.whole:  # what differs from the file it started with has another form
                    started = await asyncio.to_thread(_written_before, self.folder, network, weights)
                    self._other_form = frozenset((await self._compare(http, report, started)).different)
            await asyncio.to_thread(save_served, network, self.folder, weights=weights)
            path = {} if self.started_from_folder else {"kwargs": {"weights_path": str(self.folder)}}
            await _post(http, f"{self._root}/collective_rpc", {"method": "reload_weights", **path})
            await _post(http, f"{self._root}/reset_prefix_cache", {})
            return await self._proof(http, network, weights, first=first)

    async def check(self, network: Any) -> WeightSyncCheck:
        """Prove that the server uses the network's weights, without giving it any. Raises as `send` does."""
        weights = await asyncio.to_thread(served_state, network)
        async with httpx2.AsyncClient(timeout=_WAIT_S, trust_env=False) as http:
            return await self._proof(http, network, weights)

    async def _proof(
        self, http: httpx2.AsyncClient, network: Any, weights: Mapping[str, Tensor], *, first: bool = False
    ) -> WeightSyncCheck:
        """first: whether these are the first weights, so that tensors of unknown names are not yet known."""
        report = await self._report()
        equal = 0
        if report is not None:
            self.dtype = report.dtype
            if report.whole:
                found = await self._compare(http, report, _compared_weights(network, weights))
                if first:
                    self._other_form |= frozenset(found.unknown)
                if different := [name for name in found.different if name not in self._other_form]:
                    raise WeightsDiffer(
                        f"the server of {self.model!r} does not use the trained weights: of its {len(report.tensors)}"
                        f" tensors, other values are in {_some(different)}; {_RESTART}"
                    )
                if found.absent and not self._other_form:
                    raise WeightsDiffer(
                        f"the server of {self.model!r} does not use all trained weights: it has nothing for"
                        f" {_some(found.absent)}; serve the model that is trained"
                    )
                equal = found.equal
        # Random tokens of the whole vocabulary, always the same. Unlikely tokens show changed weights best.
        vocabulary = int(network.get_input_embeddings().weight.shape[0])
        count = _PROBE_TOKENS if self.context is None else min(_PROBE_TOKENS, self.context - 1)
        probe: list[int] = np.random.default_rng(0).integers(0, vocabulary, count).tolist()
        served = await self._served_logprobs(http, probe)
        if report is not None and report.whole and not self._other_form:
            own = await asyncio.to_thread(_network_logprobs, network, probe)
            off = float(np.abs(served - own).mean())  # equal tensors can still be used wrongly
            if self._limit is None or not off <= self._limit:  # the rounding of a trained model may have grown
                self._limit = await asyncio.to_thread(_rounding_limit, network, probe, own, self.dtype or network.dtype)
            self._refuse_far(off)
            proof: Proof = "hashes"
        else:
            proof, own = await self._by_change(http, network, weights, probe, served)
        off = np.abs(served - own)
        return WeightSyncCheck(proof, equal, float(off.mean()), float(off.max()))

    async def _by_change(
        self,
        http: httpx2.AsyncClient,
        network: Any,
        weights: Mapping[str, Tensor],
        probe: Sequence[int],
        served: _Logprobs,
    ) -> tuple[Proof, _Logprobs]:
        """Check the log-probabilities, and compare their change since the last proof with the trainer's."""
        if self._probe_model is None:
            self._probe_model = await asyncio.to_thread(_ProbeModel, network, self.dtype or network.dtype)
        now = await asyncio.to_thread(self._probe_model.probed, weights, probe, served)
        before, self._limit = self._proven, now.limit
        self._refuse_far(float(np.abs(served - now.exact).mean()))
        if before is None:
            await _post(http, f"{self._root}/reset_prefix_cache", {})
            self._repeat_noise = float(np.std(await self._served_logprobs(http, probe) - served))
            self._proven = now
            return "rounding", now.exact
        match now.change_since(before, self._repeat_noise):
            case "other":
                raise WeightsDiffer(
                    f"the server of {self.model!r} does not use the trained weights: its log-probabilities of a probe"
                    f" prompt did not change as the trainer's did; {_RESTART}"
                )
            case "new":
                self._proven, self._unproven = now, 0
                return "change", now.exact
            case "unknown":
                # A transfer that changes nothing in the server's number format is right.
                self._unproven += not np.array_equal(before.exact, now.exact)
                if self._unproven > UNPROVEN_LIMIT:
                    raise WeightsDiffer(
                        f"it cannot be told whether the server of {self.model!r} uses the trained weights:"
                        f" {UNPROVEN_LIMIT} transfers changed its log-probabilities by less than rounding does; start"
                        f" the server with --worker-extension-cls {EXTENSION}, so that weights are compared, or with"
                        " --dtype float32"
                    )
                return "none yet", now.exact

    def _refuse_far(self, off: float) -> None:
        if self._limit is None or not off <= self._limit:
            raise WeightsDiffer(
                f"the server of {self.model!r} does not use the trained weights: log-probabilities of a probe prompt"
                f" differ by {off:.3g} nats on average (up to {self._limit or 0:.2g} is rounding); {_RESTART}"
            )

    async def _compare(
        self, http: httpx2.AsyncClient, report: _WeightsReport, weights: Mapping[str, Tensor]
    ) -> _WeightsComparison:
        found = await asyncio.to_thread(_OwnWeights(weights, report).compared, {})
        doubtful = [name for name in found.different if name not in self._other_form]
        if not doubtful:
            return found
        body = {"method": METHOD, "kwargs": {"unordered": doubtful}}
        answer = await _post(http, f"{self._root}/collective_rpc", body)
        try:
            said = {name: str(one["sha256"]) for name, one in cast("Any", answer)["results"][0]["tensors"].items()}
        except (KeyError, IndexError, TypeError) as error:
            raise EndpointError(f"the server of {self.model!r} sends no hashes", code="engine_failed") from error
        return await asyncio.to_thread(_OwnWeights(weights, report).compared, said)

    async def _report(self) -> _WeightsReport | None:
        """What the server's workers say about their weights; None when they cannot be asked.

        Asked on a connection of its own, because vLLM closes the connection after a method that a worker does not have.
        """
        if self._lacks_extension:
            return None
        async with httpx2.AsyncClient(timeout=_WAIT_S, trust_env=False) as http:
            answer = await _post(http, f"{self._root}/collective_rpc", {"method": METHOD}, may_lack=METHOD)
        if answer is None:
            self._lacks_extension = True
            return None
        results = cast("Any", answer).get("results") if isinstance(answer, Mapping) else None
        reports = [_WeightsReport.read(one) for one in results or (None,)]
        for report in reports:
            if broken := [one.name for one in report.tensors if not one.finite]:
                raise WeightsDiffer(
                    f"the server of {self.model!r} has weights that are not finite, in {_some(broken)}; {_RESTART}"
                )
        return reports[0]

    async def _served_logprobs(self, http: httpx2.AsyncClient, probe: Sequence[int]) -> _Logprobs:
        """The server's log-probability of each probe token except the first.

        Raises WeightsDiffer for NaN, EndpointError when it sends none.
        """
        body = {"model": self.model, "prompt": list(probe), "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
        answer = await _post(http, f"{self.base_url}/completions", body)
        try:
            given = cast("Any", answer)["choices"][0]["prompt_logprobs"]
            sent = [given[at][str(token)]["logprob"] for at, token in enumerate(probe) if at]
            found = np.array([np.nan if one is None else float(one) for one in sent])  # JSON has no NaN
        except (KeyError, IndexError, TypeError, ValueError) as error:
            words = f"the server of {self.model!r} sends no log-probabilities of a prompt"
            raise EndpointError(words, code="no_logprobs") from error
        if not np.isfinite(found).all():
            raise WeightsDiffer(
                f"the server of {self.model!r} computes log-probabilities that are not finite; {_RESTART}"
            )
        return found

    @property
    def _root(self) -> str:
        return self.base_url.removesuffix("/v1")


_RESTART = "restart the server, and see its log for weights that it did not load"


def _base_of(network: Any) -> Any:
    """The model without the wrapper of an adapter."""
    return network.get_base_model() if hasattr(network, "get_base_model") else network


def save_served(
    network: Any, folder: Path, *, tokenizer: Any = None, weights: Mapping[str, Tensor] | None = None
) -> None:
    """Write a checkpoint with untied output weights and merged adapters. The weights file is replaced atomically.

    tokenizer: also saved if given. weights: the network's `served_state`, if it was computed before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    base = _base_of(network)
    new = folder / f".{_WEIGHTS}.new"
    state = served_state(network) if weights is None else weights
    save_file(_checkpoint_state(network, state), new, metadata={"format": "pt"})
    new.replace(folder / _WEIGHTS)
    for stale in (*folder.glob("model-*.safetensors*"), folder / f"{_WEIGHTS}.index.json"):
        stale.unlink(missing_ok=True)
    config = type(base.config).from_dict(base.config.to_dict())
    config.tie_word_embeddings = False
    config.save_pretrained(folder)
    if base.generation_config is not None:
        base.generation_config.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)


def served_state(network: Any) -> Mapping[str, Tensor]:
    """The weights by their names in the model, with adapters merged and nothing shared."""
    base = _base_of(network)
    deltas, state = dict[str, Tensor](), dict[str, Tensor]()
    with torch.no_grad():
        for name, module in base.named_modules():
            if hasattr(module, "get_delta_weight"):
                added = [module.get_delta_weight(one) for one in module.active_adapters if one in module.lora_A]
                if added:
                    deltas[f"{name}.weight"] = torch.stack(added).sum(dim=0)
        for name, weights in base.state_dict(keep_vars=False).items():
            if "lora_" in name:
                continue
            plain = name.replace(".base_layer.", ".")
            delta = deltas.get(plain)
            whole = weights if delta is None else (weights.float() + delta.float()).to(weights.dtype)
            state[plain] = whole.detach().to("cpu", copy=True).contiguous()
    return state


def _checkpoint_state(network: Any, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The network's weights as a checkpoint holds them. weights: its `served_state`.

    transformers has other names than checkpoints for some architectures, and joins the experts of a layer.
    """
    from transformers.core_model_loading import revert_weight_conversion

    base = _base_of(network)
    with torch.no_grad():
        found = revert_weight_conversion(base, dict(weights))
    # A part of another tensor is copied into memory of its own.
    whole = {name: one.untyped_storage().nbytes() == one.numel() * one.element_size() for name, one in found.items()}
    return {
        name: one.contiguous() if whole[name] else one.clone(memory_format=torch.contiguous_format)
        for name, one in found.items()
    }


def _compared_weights(network: Any, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The weights by the names that a server has for them, without buffers such as masks, which it need not have.

    weights: the network's `served_state`. These are the names of the checkpoint, except for tensors that a checkpoint
    splits into several: these stay whole, as in servers.
    """
    base = _base_of(network)
    buffers = {name.replace(".base_layer.", ".") for name, _ in base.named_buffers()}
    names = {(one.data_ptr(), one.shape): name for name, one in _checkpoint_state(network, weights).items()}
    return {names.get((one.data_ptr(), one.shape), name): one for name, one in weights.items() if name not in buffers}


def _written_before(folder: Path, network: Any, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The weights in a folder that `save_served` wrote, by the names of `compared_weights`.

    weights: the network's `served_state`.
    """
    found = load_file(folder / _WEIGHTS)
    if found.keys() >= _compared_weights(network, weights).keys():
        return found
    from transformers import AutoModelForCausalLM

    del found
    with no_progress_bars():
        read: Any = cast("Any", AutoModelForCausalLM).from_pretrained(folder, dtype="auto", trust_remote_code=False)
    return _compared_weights(read, served_state(read))


def _some(names: Sequence[str]) -> str:
    """The first names of several, and their number."""
    shown = ", ".join(names[:_SHOWN])
    rest = len(names) - _SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


async def _post(
    http: httpx2.AsyncClient, url: str, body: Mapping[str, object], *, may_lack: str | None = None
) -> object:
    """The server's answer; None when it is empty, or when the server has no method of the name `may_lack`."""
    try:
        answer = await http.post(url, json=dict(body))
    except httpx2.HTTPError as error:
        why = str(error) or type(error).__name__
        raise EndpointError(f"the server at {url} cannot be reached: {why}", code="endpoint_unreachable") from error
    if answer.status_code != 200:
        if may_lack is not None and f"no attribute '{may_lack}'" in answer.text:
            return None
        said = " ".join(answer.text.split())[:300]
        raise EndpointError(f"{url} refused with status {answer.status_code}: {said}", code="engine_failed")
    return answer.json() if answer.content else None
