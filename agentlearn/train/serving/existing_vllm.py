"""A vLLM server that somebody else started on this machine, as the sampler of a training run.

It gets new weights by the path of a folder. Before anything is sampled it is checked: it must be able to replace its
weights, serve the same model with the same vocabulary, and report log-probabilities as training needs them.
"""

import asyncio
import json
import shlex
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import torch

from agentlearn.errors import ConfigError, EndpointError
from agentlearn.train.serving.vllm import EXTENSION, VllmService, token_service
from agentlearn.train.serving.weight_sync import WeightTransfer, save_served
from agentlearn.train.weights.loading import LoadedModel

_WAIT_S = 60.0
_SAMPLE = "Zebra 4711: if x == 'ä' then {\"k\": [1, 2]} 日本語"
"""Text whose tokens two vocabularies hardly ever agree on."""
_SHAPE = (
    *("model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim"),
)
"""Fields of a model's configuration that must be equal."""


@asynccontextmanager
async def existing_vllm(
    base_url: str, model: str, loaded: LoadedModel, *, seed: int, limit: int | None = None
) -> AsyncGenerator[VllmService]:
    """The server as a service whose weights `sync` replaces, while the block runs. The server is not ended.

    base_url: its address, which ends in /v1. model: folder or hub id of the model in training. limit: largest context
    with the trainer's probabilities; None: any. Raises ConfigError for a server that cannot be used, EndpointError when
    it does not answer.
    """
    start = start_command(model) + ("" if limit is None else f" --max-model-len {limit}")
    async with httpx2.AsyncClient(timeout=_WAIT_S, trust_env=False) as http:
        name, context = await _served_model(http, base_url, start)
        config = await _config(http, base_url, start)
        _check_config(base_url, config, start)
        if limit is not None and (context is None or context > limit):
            raise ConfigError(
                f"the server at {base_url!r} serves a context of {context} tokens, and beyond {limit} tokens this model"
                f" uses other position frequencies than in training; start it with: {start}",
                code="other_server_settings",
            )
        _check_shape(base_url, config, loaded)
        await _check_vocabulary(http, base_url, name, loaded)
    cpu = str(cast("Any", config.get("device_config") or {}).get("device_type")) == "cpu"
    with tempfile.TemporaryDirectory(prefix="agentlearn-sent-") as temporary:
        folder = Path(temporary) / loaded.name
        await asyncio.to_thread(save_served, loaded.model, folder, tokenizer=loaded.tokenizer)
        transfer = WeightTransfer(
            base_url, name, folder, started_from_folder=False, dtype=_dtype(config), context=context
        )
        async with token_service(base_url, name, str(folder), seed, cpu=cpu) as (front, abilities):
            yield VllmService(front, name, None, base_url, folder, transfer, abilities=abilities)


def start_command(model: str) -> str:
    """The command that starts a server which training can use."""
    words = shlex.join(
        [
            *("vllm", "serve", model, "--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"),
            *("--worker-extension-cls", EXTENSION),
        ]
    )
    return f"VLLM_SERVER_DEV_MODE=1 {words}"


async def _served_model(http: httpx2.AsyncClient, base_url: str, start: str) -> tuple[str, int | None]:
    """Name and context length of the model that it serves."""
    try:
        answer = await http.get(f"{base_url}/models")
        card = answer.json()["data"][0]
        context = card.get("max_model_len")
        return str(card["id"]), None if context is None else int(context)
    except httpx2.HTTPError as error:
        why = str(error) or type(error).__name__
        raise EndpointError(
            f"no server answers at {base_url!r}: {why}; start one with: {start}", code="endpoint_unreachable"
        ) from error
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"the server at {base_url!r} is not vLLM; start one with: {start}", code="not_vllm"
        ) from error


async def _config(http: httpx2.AsyncClient, base_url: str, start: str) -> Mapping[str, Any]:
    """The server's own configuration, which it tells only where its weights can be replaced too."""
    try:
        answer = await http.get(f"{base_url.removesuffix('/v1')}/server_info", params={"config_format": "json"})
        config = answer.json()["vllm_config"] if answer.status_code == 200 else None
    except httpx2.HTTPError as error:
        why = str(error) or type(error).__name__
        raise EndpointError(
            f"the server at {base_url!r} does not answer: {why}", code="endpoint_unreachable"
        ) from error
    except (ValueError, KeyError, TypeError):
        config = None
    if not isinstance(config, Mapping) or not isinstance(cast("Any", config).get("model_config"), Mapping):
        raise ConfigError(
            f"the weights of the server at {base_url!r} cannot be replaced; start it with: {start}", code="no_reload"
        )
    return cast("Mapping[str, Any]", config)


def _check_config(base_url: str, config: Mapping[str, Any], start: str) -> None:
    model = cast("Mapping[str, Any]", config["model_config"])
    if model.get("logprobs_mode") != "processed_logprobs":
        what = f"reports log-probabilities as {model.get('logprobs_mode')!r} and not at the sampling temperature"
    elif model.get("generation_config") != "vllm":
        what = "samples with the model's own defaults, such as top_p"
    elif model.get("quantization") is not None:
        what = f"holds quantised weights ({model.get('quantization')!r})"
    else:
        return
    raise ConfigError(f"the server at {base_url!r} {what}; start it with: {start}", code="other_server_settings")


def _check_shape(base_url: str, config: Mapping[str, Any], loaded: LoadedModel) -> None:
    """Refuse a server of another model, by the configuration in the folder that it was started with, if there is one.

    A folder that an earlier run sent is gone; the server then still has that run's model, and a transfer says more.
    """
    try:
        served = json.loads((Path(str(config["model_config"]["model"])) / "config.json").read_text())
    except (OSError, ValueError):
        return
    network = cast("Any", loaded.model)
    own = (network.get_base_model() if hasattr(network, "get_base_model") else network).config.to_dict()
    for field in _SHAPE:
        if field in served and field in own and served[field] != own[field]:
            raise ConfigError(
                f"the server at {base_url!r} serves another model than {loaded.name!r}: its {field} is"
                f" {served[field]!r}, not {own[field]!r}; start it with the model that is trained",
                code="other_model",
            )


async def _check_vocabulary(http: httpx2.AsyncClient, base_url: str, name: str, loaded: LoadedModel) -> None:
    asked = {"model": name, "prompt": _SAMPLE, "add_special_tokens": False}
    try:
        answer = await http.post(f"{base_url.removesuffix('/v1')}/tokenize", json=asked)
        theirs = [int(one) for one in answer.json()["tokens"]]
    except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
        raise EndpointError(f"the server at {base_url!r} does not tokenize a text", code="engine_failed") from error
    ours = list(cast("Any", loaded.tokenizer).encode(_SAMPLE, add_special_tokens=False))
    if theirs != ours:
        raise ConfigError(
            f"the server at {base_url!r} has another vocabulary than {loaded.name!r}; start it with the model that is"
            " trained",
            code="other_model",
        )


def _dtype(config: Mapping[str, Any]) -> torch.dtype | None:
    found = getattr(torch, str(config["model_config"].get("dtype")).removeprefix("torch."), None)
    return found if isinstance(found, torch.dtype) else None
