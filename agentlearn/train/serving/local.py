"""`local:DIRECTORY` as an endpoint: a transformers checkpoint or adapter in this process, served on loopback.

The weights are those of this process: a trainer beside it changes them inside `engine.paused()`. Importing the module
needs no torch; opening the endpoint does.
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
from agentlearn.train.serving.service_thread import apart

if TYPE_CHECKING:
    from agentlearn.train.engine.torch_engine import TorchEngine

TRAIN_EXTRA = "pip install 'agentlearn-lib[train]'"
NEEDED = ("torch", "transformers", "jinja2")
"""Modules without which no local model can be served."""
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tokenizer_config.json")
_GPU_SHARE = 0.3
"""Of a GPU's free memory, for keys and values: the rest is the trainer's."""


@dataclass(frozen=True, slots=True, eq=False)
class ServedCheckpoint:
    """A checkpoint in memory."""

    network: Any
    """The torch model, of transformers or peft."""
    tokenizer: Any
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class LocalService:
    """A model served by this process."""

    base_url: str
    model: str
    engine: "TorchEngine"
    network: Any
    """The very torch model that is served."""
    tokenizer: Any
    simulated: bool = False

    def weights_sha256(self) -> str:
        """Of the weights as they are now. Blocks."""
        from agentlearn.train.weights.model import weights_hash

        return weights_hash(self.network)


@asynccontextmanager
async def local_endpoint(directory: str, *, seed: int = 0) -> AsyncGenerator[LocalService]:
    """The checkpoint in that directory, served while the block runs.

    seed: of requests that send none. Raises MissingExtra without torch, ConfigError when there is no usable model.
    """
    _checked(directory)
    need_extra(f"the endpoint 'local:{directory}'")
    loaded = await asyncio.to_thread(load, directory)
    async with served(loaded, seed=seed) as service:
        yield service


def need_extra(feature: str, *modules: str) -> None:
    """Raises MissingExtra when torch and its kin, or one of these modules, cannot be imported."""
    missing = [name for name in (*NEEDED, *modules) if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"{feature} needs {', '.join(missing)}: {TRAIN_EXTRA}")


def load(directory: str, *, dtype: str | None = None, device: str | None = None) -> ServedCheckpoint:
    """The model and tokenizer of a directory, ready for sampling. Blocks.

    dtype: `float32` or `bfloat16`; None takes the checkpoint's own on a GPU, and float32 on a CPU. device: None takes
    a GPU where there is one. Raises ConfigError in words.
    """
    import torch

    path = _checked(directory)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    chosen = getattr(torch, dtype) if dtype else ("auto" if device == "cuda" else torch.float32)
    network = _network(path, chosen).to(device).eval()
    _check_attention(network, path)
    return ServedCheckpoint(network, load_tokenizer(path), path.resolve().name)


@asynccontextmanager
async def served(
    loaded: ServedCheckpoint, *, seed: int = 0, context: int | None = None, cache_bytes: int | None = None
) -> AsyncGenerator[LocalService]:
    """A loaded model, served while the block runs by threads of its own.

    context: tokens of prompt and answer; None takes the model's own limit. cache_bytes: for keys and values.
    Raises ConfigError when the tokenizer cannot be used for chat.
    """
    from agentlearn.train.engine.chat_template import TemplateFormat
    from agentlearn.train.engine.torch_engine import CACHE_BYTES, TorchEngine

    chat = TemplateFormat(loaded.tokenizer, stop_ids=generation_ends(loaded.network.generation_config))
    limit = int(loaded.network.config.get_text_config().max_position_embeddings)
    engine = TorchEngine(
        loaded.network,
        stop_ids=chat.stop_ids,
        context=min(limit, context or limit),
        cache_bytes=cache_bytes or _free_bytes(loaded.network) or CACHE_BYTES,
    )
    service = ChatService(engine, chat, model=loaded.name, seed=seed, served_by="agentlearn-local")
    with engine.running():
        async with apart(service.serve) as url:
            yield LocalService(url, loaded.name, engine, loaded.network, loaded.tokenizer)


def _checked(directory: str) -> Path:
    path = Path(directory).expanduser()
    if not path.is_dir():
        raise ConfigError(
            f"there is no directory {directory!r}; name one with a Hugging Face checkpoint, as in local:models/my-model"
            f" (from the hub: hf download OWNER/NAME --local-dir DIRECTORY)",
            code="no_model",
        )
    if not any((path / name).is_file() for name in ("config.json", "adapter_config.json")):
        raise ConfigError(
            f"the directory {directory!r} holds no model: neither config.json nor adapter_config.json is there",
            code="no_model",
        )
    return path


def _network(path: Path, dtype: object) -> Any:
    from transformers import AutoModelForCausalLM

    from agentlearn.train.weights.quiet import quiet

    try:
        if (path / "adapter_config.json").is_file():
            need_extra(f"the adapter in {str(path)!r}", "peft")
            from peft import AutoPeftModelForCausalLM

            with quiet():
                return AutoPeftModelForCausalLM.from_pretrained(str(path), dtype=dtype, attn_implementation="sdpa")
        with quiet():
            return AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="sdpa")
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        why = " ".join(str(error).split())[:300]
        raise ConfigError(f"the model in {str(path)!r} cannot be loaded: {why}", code="bad_model") from error


def load_tokenizer(path: Path) -> Any:
    """The tokenizer saved in that directory. Raises ConfigError when there is none."""
    from transformers import AutoTokenizer

    refused = f"the directory {str(path)!r} has no tokenizer that can be loaded; save it with tokenizer.save_pretrained"
    if not any((path / name).is_file() for name in _TOKENIZERS):
        raise ConfigError(refused, code="no_tokenizer")
    try:
        return AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(refused, code="no_tokenizer") from error


def _check_attention(network: Any, path: Path) -> None:
    """Raises ConfigError for layers whose memory is no plain cache of keys and values."""
    config = network.config.get_text_config()
    other = {kind for kind in getattr(config, "layer_types", None) or () if kind != "full_attention"}
    if other:
        raise ConfigError(
            f"the model in {str(path)!r} has layers of kind {', '.join(sorted(other))}, which local: cannot serve;"
            f" use --model vllm:{path}",
            code="unsupported_model",
        )


def generation_ends(config: Any) -> frozenset[int]:
    """Tokens that end an answer, by a model's generation config."""
    ends: Any = getattr(config, "eos_token_id", None)
    return frozenset(int(end) for end in (ends if isinstance(ends, list) else [ends]) if end is not None)


def _free_bytes(network: Any) -> int:
    """What of a GPU's memory keys and values may take; 0 on a CPU."""
    import torch

    if network.device.type != "cuda":
        return 0
    free, _ = torch.cuda.mem_get_info(network.device)
    return int(free * _GPU_SHARE)
