"""`local:DIRECTORY` as an endpoint: a transformers model or adapter in this process, served on loopback.

A trainer in the same process may change its weights inside `engine.paused()`. Importing this module needs no torch;
opening the endpoint does.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.config.model_folders import check_fetched, model_path
from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.serving.chat_service import ChatService, serve_in_thread
from agentlearn.train.engine.attention import PromptTokens
from agentlearn.train.weights.loading import (
    LoadedModel,
    ModelSource,
    check_model_files,
    generation_ends,
)

if TYPE_CHECKING:
    from agentlearn.train.distributed.spread_engine import SpreadEngine
    from agentlearn.train.engine.chat_template import TemplateAbilities
    from agentlearn.train.engine.torch_engine import TorchEngine

TRAIN_EXTRA = "pip install 'agentlearn-lib[train]'"
NEEDED = ("torch", "transformers", "jinja2")
"""Modules that serving a local model needs."""


@dataclass(frozen=True, slots=True, eq=False)
class _LocalService:
    """A model that this process serves."""

    base_url: str
    model: str
    engine: "TorchEngine | SpreadEngine"
    network: Any
    """The torch model that is served."""
    tokenizer: Any
    abilities: "TemplateAbilities"
    """What the model's chat template can hold."""
    context: int
    """Largest number of tokens of a prompt and its answer."""
    simulated: bool = False

    def check_chat(self, *, tools: bool) -> tuple[str, ...]:
        """Return notes on the chat template. Raises ConfigError when it cannot hold what is needed."""
        own = int(self.network.config.get_text_config().max_position_embeddings)
        limited = (
            f"{self.model!r} is used with a context of {self.context:,} tokens instead of {own:,}: beyond that, a long"
            " row changes the position frequencies of all rows of its batch"
        )
        lacking = PromptTokens.of_loaded(LoadedModel(self.network, self.tokenizer, self.model)).note
        notes = (limited if self.context < own else "", lacking)
        return (*self.abilities.check(self.model, tools=tools), *filter(None, notes))

    def weights_sha256(self) -> str:
        """Hash of the current weights. Blocks."""
        from agentlearn.train.weights.model import weights_hash

        return weights_hash(self.network)


@asynccontextmanager
async def local_endpoint(directory: str, *, seed: int = 0) -> AsyncGenerator[_LocalService]:
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


def load_for_serving(
    directory: str, *, dtype: str | None = None, device: str | None = None, merged: bool = False
) -> LoadedModel:
    """Load the model and tokenizer in a directory, ready for sampling. Blocks.

    dtype: `float32` or `bfloat16`; None: the checkpoint's own on a GPU, float32 on a CPU. device: None: a GPU if there
    is one. merged: whether an adapter will be merged into the model, which only plain LoRA can be. Raises ConfigError
    when the model cannot be loaded.
    """
    import torch

    path = _model_folder(directory)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    chosen = getattr(torch, dtype) if dtype else ("auto" if device == "cuda" else torch.float32)
    source = ModelSource.find(directory)
    if source.adapter is not None:
        need_extra(f"the adapter in {directory!r}", "peft")
    tokenizer = source.load_tokenizer()
    network = source.load(dtype=chosen, device=device)
    if source.adapter is not None:
        from agentlearn.train.weights.model import attach_adapter, check_adapter

        if merged:
            check_adapter(source)
        network = attach_adapter(network, source)
    return LoadedModel(network.eval(), tokenizer, path.resolve().name)


@asynccontextmanager
async def serve_model(
    loaded: LoadedModel,
    *,
    seed: int = 0,
    shared: "Callable[[TorchEngine], AbstractContextManager[Any]]" = nullcontext,
) -> AsyncGenerator[_LocalService]:
    """Serve a loaded model in its own threads while the block runs.

    shared: opens the engine that requests go to, which spreads them over several processes. Raises ConfigError when the
    tokenizer cannot be used for chat, and when the engine would not sample from the model's own distribution.
    """
    from agentlearn.train.engine.attention import AttentionLayout
    from agentlearn.train.engine.chat_template import TemplateFormat
    from agentlearn.train.engine.torch_engine import TorchEngine

    network: Any = loaded.model
    layout = AttentionLayout.of(network)
    chat = TemplateFormat(loaded.tokenizer, stop_ids=generation_ends(network.generation_config))
    rows = int(network.get_input_embeddings().weight.shape[0])
    largest = max(*chat.stop_ids, *chat.encode(chat.probe_text()))
    if largest >= rows:
        raise ConfigError(
            f"the tokenizer of {loaded.name!r} does not belong to its model: a chat has the token {largest}, and the"
            f" model knows {rows:,} tokens; take both from the same checkpoint"
        )
    own = TorchEngine.of(network, chat.stop_ids, bf16=loaded.bf16)
    with own.running():
        await own.check(layout)
        with shared(own) as engine:
            service = ChatService(engine, chat, model=loaded.name, seed=seed, served_by="agentlearn-local", known=rows)
            async with serve_in_thread(service.serve) as url:
                yield _LocalService(url, loaded.name, engine, network, loaded.tokenizer, chat.abilities, own.context)


def _model_folder(directory: str) -> Path:
    check_fetched(directory)
    path = model_path(directory)
    if path.is_file():
        ModelSource.find(directory)
    if not path.is_dir():
        raise ConfigError(
            f"there is no directory {directory!r}; name one with a Hugging Face checkpoint, as in local:models/my-model"
            f" (from the hub: hf download OWNER/NAME --local-dir DIRECTORY)"
        )
    check_model_files(path, directory)
    return path
