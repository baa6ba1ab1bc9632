"""`local:DIRECTORY` as an endpoint: a transformers model or adapter in this process, served on loopback.

A trainer in the same process may change its weights inside `engine.paused()`. Importing this module needs no torch;
opening the endpoint does.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.serving.chat_service import ChatService
from agentlearn.serving.service_thread import serve_in_thread
from agentlearn.train.weights.loading import LoadedModel, from_pretrained, load_tokenizer

if TYPE_CHECKING:
    from agentlearn.train.engine.template_abilities import TemplateAbilities
    from agentlearn.train.engine.torch_engine import TorchEngine

TRAIN_EXTRA = "pip install 'agentlearn-lib[train]'"
NEEDED = ("torch", "transformers", "jinja2")
"""Modules that serving a local model needs."""
_GPU_SHARE = 0.3
"""Share of a GPU's free memory for keys and values. The rest is for training."""


@dataclass(frozen=True, slots=True, eq=False)
class LocalService:
    """A model that this process serves."""

    base_url: str
    model: str
    engine: "TorchEngine"
    network: Any
    """The torch model that is served."""
    tokenizer: Any
    abilities: "TemplateAbilities"
    """What the model's chat template can hold."""
    simulated: bool = False

    def check_chat(self, *, tools: bool) -> tuple[str, ...]:
        """Return notes on the chat template. Raises ConfigError when it cannot hold what is needed."""
        return self.abilities.check(self.model, tools=tools)

    def weights_sha256(self) -> str:
        """Hash of the current weights. Blocks."""
        from agentlearn.train.weights.model import weights_hash

        return weights_hash(self.network)


@asynccontextmanager
async def local_endpoint(directory: str, *, seed: int = 0) -> AsyncGenerator[LocalService]:
    """Serve the model in a directory while the block runs.

    seed: for requests without a seed. Raises MissingExtra without torch, ConfigError when there is no usable model.
    """
    _model_folder(directory)
    need_extra(f"the endpoint 'local:{directory}'")
    loaded = await asyncio.to_thread(load_for_serving, directory)
    async with serve_model(loaded, seed=seed) as service:
        yield service


def need_extra(feature: str, *modules: str) -> None:
    """Raise MissingExtra when a module in `NEEDED` or `modules` is not installed."""
    missing = [name for name in (*NEEDED, *modules) if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"{feature} needs {', '.join(missing)}: {TRAIN_EXTRA}")


def load_for_serving(directory: str, *, dtype: str | None = None, device: str | None = None) -> LoadedModel:
    """Load the model and tokenizer in a directory, ready for sampling. Blocks.

    dtype: `float32` or `bfloat16`; None: the checkpoint's own on a GPU, float32 on a CPU. device: None: a GPU if there
    is one. Raises ConfigError when the model cannot be loaded or served.
    """
    import torch

    path = _model_folder(directory)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    chosen = getattr(torch, dtype) if dtype else ("auto" if device == "cuda" else torch.float32)
    network = from_pretrained(_model_class(path), str(path), dtype=chosen, attn_implementation="sdpa")
    network = network.to(device).eval()
    _check_attention(network, path)
    return LoadedModel(network, load_tokenizer(str(path)), path.resolve().name)


@asynccontextmanager
async def serve_model(
    loaded: LoadedModel, *, seed: int = 0, context: int | None = None, cache_bytes: int | None = None
) -> AsyncGenerator[LocalService]:
    """Serve a loaded model in its own threads while the block runs.

    context: largest number of tokens of prompt and answer; None: the model's own limit. cache_bytes: memory for keys
    and values. Raises ConfigError when the tokenizer cannot be used for chat.
    """
    from agentlearn.train.engine.chat_template import TemplateFormat
    from agentlearn.train.engine.torch_engine import CACHE_BYTES, TorchEngine

    network: Any = loaded.model
    chat = TemplateFormat(loaded.tokenizer, stop_ids=generation_ends(network.generation_config))
    limit = int(network.config.get_text_config().max_position_embeddings)
    engine = TorchEngine(
        network,
        stop_ids=chat.stop_ids,
        context=min(limit, context or limit),
        cache_bytes=cache_bytes or _gpu_cache_bytes(network) or CACHE_BYTES,
    )
    service = ChatService(engine, chat, model=loaded.name, seed=seed, served_by="agentlearn-local")
    with engine.running():
        async with serve_in_thread(service.serve) as url:
            yield LocalService(url, loaded.name, engine, network, loaded.tokenizer, chat.abilities)


def _model_folder(directory: str) -> Path:
    path = Path(directory).expanduser()
    if not path.is_dir():
        raise ConfigError(
            f"there is no directory {directory!r}; name one with a Hugging Face checkpoint, as in local:models/my-model"
            f" (from the hub: hf download OWNER/NAME --local-dir DIRECTORY)",
            code="no_model",
        )
    check_model_files(path, directory)
    return path


def check_model_files(path: Path, directory: str) -> None:
    """Raise ConfigError when a directory holds neither a model nor an adapter. directory: as the user wrote it."""
    if not any((path / name).is_file() for name in ("config.json", "adapter_config.json")):
        raise ConfigError(
            f"the directory {directory!r} holds no model: it has neither config.json nor adapter_config.json",
            code="no_model",
        )


def _model_class(path: Path) -> Any:
    """The class that loads this directory: of peft for an adapter, else of transformers."""
    if (path / "adapter_config.json").is_file():
        need_extra(f"the adapter in {str(path)!r}", "peft")
        from peft import AutoPeftModelForCausalLM

        return AutoPeftModelForCausalLM
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM


def _check_attention(network: Any, path: Path) -> None:
    """Raise ConfigError for layers whose state is not a plain key-value cache."""
    config = network.config.get_text_config()
    other = {kind for kind in getattr(config, "layer_types", None) or () if kind != "full_attention"}
    if other:
        raise ConfigError(
            f"the model in {str(path)!r} has layers of kind {', '.join(sorted(other))}, which local: cannot serve;"
            f" use --model vllm:{path}",
            code="unsupported_model",
        )


def generation_ends(config: Any) -> frozenset[int]:
    """The tokens that end an answer, from a model's generation config."""
    ends: Any = getattr(config, "eos_token_id", None)
    return frozenset(int(end) for end in (ends if isinstance(ends, list) else [ends]) if end is not None)


def _gpu_cache_bytes(network: Any) -> int:
    """Memory on the model's GPU for keys and values; 0 on a CPU."""
    import torch

    if network.device.type != "cuda":
        return 0
    free, _ = torch.cuda.mem_get_info(network.device)
    return int(free * _GPU_SHARE)
