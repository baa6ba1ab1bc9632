"""Giving a trainer's weights to a server in another process: write them, have them loaded, check that they are used.

A server that loads only a part of the weights shows no error. This happens with models whose output weights are tied
to their embeddings. The served copy is therefore never tied, and log-probabilities of a probe prompt are compared after
every change.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx2
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from agentlearn.errors import EndpointError, WeightsDiffer

PROBE_TOKENS = 64
TOLERANCE = {torch.float32: 0.02}
"""Mean difference of log-probabilities, in nats, above which weights count as different, by number format."""
HALF_TOLERANCE = 0.06
"""The same limit for 16-bit formats."""
_WEIGHTS = "model.safetensors"
_WAIT_S = 600.0


@dataclass(frozen=True, slots=True)
class WeightSyncCheck:
    """How closely a server's log-probabilities match the trainer's."""

    mean_difference: float
    """Mean absolute difference on the probe prompt, in nats per token."""
    largest_difference: float
    """Largest absolute difference of one token, in nats."""


async def sync_weights(
    network: Any, folder: Path, base_url: str, model: str, *, tolerance: float | None = None
) -> WeightSyncCheck:
    """Save the weights to the folder, have the server load them and clear its cache, and verify that it uses them.

    Raises WeightsDiffer or EndpointError.
    """
    await asyncio.to_thread(save_served, network, folder)
    root = base_url.removesuffix("/v1")
    async with httpx2.AsyncClient(timeout=_WAIT_S, trust_env=False) as http:
        await _post(http, f"{root}/collective_rpc", {"method": "reload_weights"})
        await _post(http, f"{root}/reset_prefix_cache", {})
    return await verify_sync(network, base_url, model, tolerance=tolerance)


async def verify_sync(network: Any, base_url: str, model: str, *, tolerance: float | None = None) -> WeightSyncCheck:
    """Compare the server's log-probabilities of a probe prompt with the network's.

    tolerance: largest mean absolute difference in nats; None: by number format. Raises WeightsDiffer above it,
    EndpointError when the server sends no log-probabilities.
    """
    probe = probe_ids(network)
    theirs_T = await _served_logprobs(probe, base_url, model)
    ours_T = await asyncio.to_thread(_own_logprobs, network, probe)
    difference_T = np.abs(theirs_T - ours_T)
    found = WeightSyncCheck(float(difference_T.mean()), float(difference_T.max()))
    limit = tolerance if tolerance is not None else TOLERANCE.get(network.dtype, HALF_TOLERANCE)
    if not found.mean_difference <= limit:
        raise WeightsDiffer(
            f"the server of {model!r} does not use the trained weights: log-probabilities of a probe prompt differ by"
            f" {found.mean_difference:.3g} nats on average (up to {limit:g} is rounding); restart the server, and see"
            " its log for weights that it did not load",
        )
    return found


def probe_ids(network: Any) -> list[int]:
    """Random tokens of the whole vocabulary, always the same. Unlikely tokens show changed weights best."""
    size = int(network.get_input_embeddings().weight.shape[0])
    return np.random.default_rng(0).integers(0, size, PROBE_TOKENS).tolist()


def save_served(network: Any, folder: Path, *, tokenizer: Any = None) -> None:
    """Write a checkpoint with untied output weights and merged adapters. The weights file is replaced atomically.

    tokenizer: also saved if given.
    """
    folder.mkdir(parents=True, exist_ok=True)
    base = network.get_base_model() if hasattr(network, "get_base_model") else network
    new = folder / f".{_WEIGHTS}.new"
    save_file(dict(served_state(network)), new, metadata={"format": "pt"})
    new.replace(folder / _WEIGHTS)
    for stale in folder.glob("model-*.safetensors*"):
        stale.unlink()
    config = type(base.config).from_dict(base.config.to_dict())
    config.tie_word_embeddings = False
    config.save_pretrained(folder)
    if base.generation_config is not None:
        base.generation_config.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)


def served_state(network: Any) -> Mapping[str, Tensor]:
    """The weights by checkpoint name, with adapters merged and nothing shared."""
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
        head = base.get_output_embeddings()
        if head is not None:
            state.setdefault("lm_head.weight", head.weight.detach().to("cpu", copy=True).contiguous())
    return state


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


async def _served_logprobs(probe: Sequence[int], base_url: str, model: str) -> NDArray[np.float64]:
    """The server's log-probability of each probe token except the first."""
    body = {"model": model, "prompt": list(probe), "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
    async with httpx2.AsyncClient(timeout=_WAIT_S, trust_env=False) as http:
        answer = await _post(http, f"{base_url}/completions", body)
    try:
        given = cast("Any", answer)["choices"][0]["prompt_logprobs"]
        found = [float(given[at][str(token)]["logprob"]) for at, token in enumerate(probe) if at]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise EndpointError(
            f"the server of {model!r} sends no log-probabilities of a prompt", code="no_logprobs"
        ) from error
    return np.array(found)


def _own_logprobs(network: Any, probe: Sequence[int]) -> NDArray[np.float64]:
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


async def _post(http: httpx2.AsyncClient, url: str, body: Mapping[str, object]) -> object:
    try:
        answer = await http.post(url, json=dict(body))
    except httpx2.HTTPError as error:
        why = str(error) or type(error).__name__
        raise EndpointError(f"the server at {url} cannot be reached: {why}", code="endpoint_unreachable") from error
    if answer.status_code != 200:
        said = " ".join(answer.text.split())[:300]
        raise EndpointError(f"{url} refused with status {answer.status_code}: {said}", code="sync_refused")
    return answer.json() if answer.content else None
