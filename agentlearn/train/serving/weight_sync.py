"""Giving a trainer's weights to a server in another process: write them, have them loaded, prove that they are used.

A server that loads only a part of the weights, or none, shows no error. So each transfer is proven:

1. by hashes of all tensors that the server computes with, where its worker gives them (`worker_extension`);
2. elsewhere by the change of a probe prompt's log-probabilities, which must be that of the trainer (`weight_hashes`).

The served copy is never tied, because a server keeps the output weights of a tied checkpoint when it loads new ones.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import httpx2
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from agentlearn.errors import EndpointError, WeightsDiffer
from agentlearn.train.serving.weight_hashes import (
    Logprobs,
    Probed,
    ProbeModel,
    WeightsComparison,
    WeightsReport,
    compare_weights,
    judge_change,
    network_logprobs,
    not_finite,
    probe_ids,
    rounding_limit,
    weights_report_of,
)
from agentlearn.train.serving.worker_extension import EXTENSION, METHOD
from agentlearn.train.weights.loading import no_progress_bars

UNPROVEN_LIMIT = 500
"""Transfers in a row that may be too small to be judged, where tensors cannot be compared."""
_WEIGHTS = "model.safetensors"
_WAIT_S = 600.0
_SHOWN = 3

Proof = Literal["hashes", "change", "rounding", "none yet"]
"""How it is known that a server uses the weights.

hashes: all its tensors are equal to the trainer's. change: its log-probabilities changed as the trainer's did.
rounding: they differ only by rounding. none yet: the change since the last proof was too small to be judged.
"""


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
    _proven: Probed | None = None
    """The probe when the weights were last proven, where tensors cannot be compared."""
    _unproven: int = 0
    _repeat_noise: float = 0.0
    _limit: float | None = None
    _probe_model: ProbeModel | None = field(default=None, repr=False)

    async def send(self, network: Any) -> WeightSyncCheck:
        """Make the server use the network's weights, and prove it.

        Raises WeightsDiffer when the server does not use them or they are not finite, EndpointError when it refuses.
        """
        weights = await asyncio.to_thread(served_state, network)
        if broken := not_finite(weights):
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
                equal = len(found.equal)
        probe = probe_ids(network, context=self.context)
        served = await self._served_logprobs(http, probe)
        if report is not None and report.whole and not self._other_form:
            own = await asyncio.to_thread(network_logprobs, network, probe)
            off = float(np.abs(served - own).mean())  # equal tensors can still be used wrongly
            if self._limit is None or not off <= self._limit:  # the rounding of a trained model may have grown
                self._limit = await asyncio.to_thread(rounding_limit, network, probe, own, self.dtype or network.dtype)
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
        served: Logprobs,
    ) -> tuple[Proof, Logprobs]:
        """Check the log-probabilities, and compare their change since the last proof with the trainer's."""
        if self._probe_model is None:
            self._probe_model = await asyncio.to_thread(ProbeModel, network, self.dtype or network.dtype)
        own = await asyncio.to_thread(self._probe_model.logprobs, weights, probe)
        now, before = Probed(own, served), self._proven
        self._limit = own.limit
        self._refuse_far(float(np.abs(served - own.exact).mean()))
        if before is None:
            await _post(http, f"{self._root}/reset_prefix_cache", {})
            self._repeat_noise = float(np.std(await self._served_logprobs(http, probe) - served))
            self._proven = now
            return "rounding", own.exact
        match judge_change(before, now, repeat_noise=self._repeat_noise):
            case "other":
                raise WeightsDiffer(
                    f"the server of {self.model!r} does not use the trained weights: its log-probabilities of a probe"
                    f" prompt did not change as the trainer's did; {_RESTART}"
                )
            case "new":
                self._proven, self._unproven = now, 0
                return "change", own.exact
            case "unknown":
                # A transfer that changes nothing in the server's number format is right.
                self._unproven += not np.array_equal(before.own.exact, own.exact)
                if self._unproven > UNPROVEN_LIMIT:
                    raise WeightsDiffer(
                        f"it cannot be told whether the server of {self.model!r} uses the trained weights:"
                        f" {UNPROVEN_LIMIT} transfers changed its log-probabilities by less than rounding does; start"
                        f" the server with --worker-extension-cls {EXTENSION}, so that weights are compared, or with"
                        " --dtype float32",
                        code="not_proven",
                    )
                return "none yet", own.exact

    def _refuse_far(self, off: float) -> None:
        if self._limit is None or not off <= self._limit:
            raise WeightsDiffer(
                f"the server of {self.model!r} does not use the trained weights: log-probabilities of a probe prompt"
                f" differ by {off:.3g} nats on average (up to {self._limit or 0:.2g} is rounding); {_RESTART}"
            )

    async def _compare(
        self, http: httpx2.AsyncClient, report: WeightsReport, weights: Mapping[str, Tensor]
    ) -> WeightsComparison:
        found = await asyncio.to_thread(compare_weights, report, weights)
        doubtful = [name for name in found.different if name not in self._other_form]
        if not doubtful:
            return found
        body = {"method": METHOD, "kwargs": {"unordered": doubtful}}
        answer = await _post(http, f"{self._root}/collective_rpc", body)
        try:
            said = {name: str(one["sha256"]) for name, one in cast("Any", answer)["results"][0]["tensors"].items()}
        except (KeyError, IndexError, TypeError) as error:
            raise EndpointError(f"the server of {self.model!r} sends no hashes", code="sync_refused") from error
        return await asyncio.to_thread(compare_weights, report, weights, lambda _names: said)

    async def _report(self) -> WeightsReport | None:
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
        reports = [weights_report_of(one) for one in results or (None,)]
        for report in reports:
            if broken := report.not_finite:
                raise WeightsDiffer(
                    f"the server of {self.model!r} has weights that are not finite, in {_some(broken)}; {_RESTART}"
                )
        return reports[0]

    async def _served_logprobs(self, http: httpx2.AsyncClient, probe: Sequence[int]) -> Logprobs:
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


def save_served(
    network: Any, folder: Path, *, tokenizer: Any = None, weights: Mapping[str, Tensor] | None = None
) -> None:
    """Write a checkpoint with untied output weights and merged adapters. The weights file is replaced atomically.

    tokenizer: also saved if given. weights: the network's `served_state`, if it was computed before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    base = network.get_base_model() if hasattr(network, "get_base_model") else network
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
    base = network.get_base_model() if hasattr(network, "get_base_model") else network
    deltas = _deltas(base)
    state: dict[str, Tensor] = {}
    with torch.no_grad():
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

    base = network.get_base_model() if hasattr(network, "get_base_model") else network
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
    base = network.get_base_model() if hasattr(network, "get_base_model") else network
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


def _deltas(base: Any) -> Mapping[str, Tensor]:
    """The sum of the active adapters' changes to each weight, by the weight's name."""
    deltas: dict[str, Tensor] = {}
    with torch.no_grad():
        for name, module in base.named_modules():
            if hasattr(module, "get_delta_weight"):
                added = [module.get_delta_weight(one) for one in module.active_adapters if one in module.lora_A]
                if added:
                    deltas[f"{name}.weight"] = torch.stack(added).sum(dim=0)
    return deltas


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
        raise EndpointError(f"{url} refused with status {answer.status_code}: {said}", code="sync_refused")
    return answer.json() if answer.content else None
