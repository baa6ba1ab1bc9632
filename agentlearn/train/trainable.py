"""The model in training, and the sampler that draws rollouts with its weights."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from agentlearn.config import LAB, CallOptions
from agentlearn.lab.contract import announced_lab
from agentlearn.learn.batch_runner import rollouts_at_once
from agentlearn.models.endpoint import Endpoint, TokenRequest, open_service
from agentlearn.train.distributed.torchrun import accelerator_for
from agentlearn.train.engine.torch_engine import TorchEngine
from agentlearn.train.lab.build import export
from agentlearn.train.sampler import Sampler
from agentlearn.train.serving import local
from agentlearn.train.serving.vllm import VllmService, vllm_endpoint
from agentlearn.train.settings import TrainSettings
from agentlearn.train.weights.model import LoadedModel, load, weights_hash


@dataclass(frozen=True, slots=True, eq=False)
class TrainableModel:
    """Everything of one model."""

    loaded: LoadedModel
    accelerator: Any
    """accelerate's engine; None for a process alone."""
    endpoint: Endpoint
    sampler: Sampler


@dataclass(frozen=True, slots=True, eq=False)
class SharedWeights:
    """A sampler that draws with the very weights in training: an update only has to wait for a pause."""

    engine: TorchEngine
    model: nn.Module

    def weights_sha256(self) -> str:
        """Of the weights in training, which are its own."""
        return weights_hash(self.model)

    @contextmanager
    def together(self, rollouts: int, *, at_once: int) -> Generator[Callable[[], None]]:
        """Draws them in rounds."""
        with self.engine.together(rollouts, at_once=at_once) as cohort:
            yield cohort.leave

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        """Between two tokens; what was computed with the old weights is dropped afterwards."""
        pause = self.engine.paused()
        await asyncio.to_thread(pause.__enter__)
        try:
            yield
        finally:
            self.model.eval()
            await asyncio.to_thread(pause.__exit__, None, None, None)

    async def synchronise(self, model: nn.Module) -> None:
        """Nothing is to be done: there is one copy."""
        assert model is self.model


@dataclass(slots=True, eq=False)
class ServedWeights:
    """A vLLM server that is given the weights after each update, and proves that it has them."""

    service: VllmService
    sha256: str = ""
    """Of the weights that it was given last."""

    def weights_sha256(self) -> str:
        """Of the weights that it was given last."""
        return self.sha256

    def together(self, rollouts: int, *, at_once: int) -> None:
        """A server that batches as it likes gives no promise about the last bits."""

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        """Its weights are a copy: an update does not touch them."""
        yield

    async def synchronise(self, model: nn.Module) -> None:
        """Raises WeightsDiffer where its log-probabilities of a probe are not the model's, EndpointError."""
        await self.service.sync(model)
        self.sha256 = await asyncio.to_thread(weights_hash, model)


@asynccontextmanager
async def open_trainable(settings: TrainSettings) -> AsyncGenerator[TrainableModel]:
    """The model of the settings, ready to be trained and drawn from. Raises ConfigError, EndpointError."""
    accelerator = accelerator_for(settings)
    source = await asyncio.to_thread(source_of, settings)
    device = _device() if accelerator is None else str(accelerator.device)
    loaded = await asyncio.to_thread(load, source, settings.gradient, device=device)
    opened = _served if settings.sampler == "vllm" else _shared
    async with opened(settings, source, loaded) as (endpoint, sampler):
        yield TrainableModel(loaded, accelerator, endpoint, sampler)


@asynccontextmanager
async def _shared(
    settings: TrainSettings, source: str, loaded: LoadedModel
) -> AsyncGenerator[tuple[Endpoint, Sampler]]:
    options = CallOptions(
        concurrency=rollouts_at_once(settings.concurrency),
        call_deadline_s=settings.rollout_deadline_s,  # a round waits for its slowest
    )
    weights = local.ServedCheckpoint(loaded.model, loaded.tokenizer, Path(source).name)
    async with (
        local.served(weights, seed=settings.seed) as service,
        open_service(settings.endpoint, service, options, tokens=_tokens(settings), adaptive=False) as endpoint,
    ):
        yield endpoint, SharedWeights(service.engine, loaded.model)


@asynccontextmanager
async def _served(
    settings: TrainSettings, source: str, loaded: LoadedModel
) -> AsyncGenerator[tuple[Endpoint, Sampler]]:
    async with (
        vllm_endpoint(source, seed=settings.seed, trained=True) as service,
        open_service(settings.endpoint, service, settings, tokens=_tokens(settings)) as endpoint,
    ):
        sampler = ServedWeights(service)
        await sampler.synchronise(loaded.model)  # an adapter, or other numbers: from the first draw on they are ours
        yield endpoint, sampler


def source_of(settings: TrainSettings) -> str:
    """Where the model is: a lab model is unpacked first, in the store. Blocks."""
    if not settings.model.startswith(LAB):
        return settings.model
    lab = announced_lab(settings.model.removeprefix(LAB))
    folder = settings.store / "lab" / lab.name
    if not (folder / "config.json").is_file():
        export(lab, folder)
    return str(folder)


def _tokens(settings: TrainSettings) -> TokenRequest:
    return TokenRequest(top_p=settings.gradient.top_p, top_k=settings.gradient.top_k)


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
