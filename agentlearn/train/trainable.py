"""The model in training, and the sampler that makes rollouts with its weights."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import nn

from agentlearn.config import LAB, CallOptions, RequestOptions
from agentlearn.domain.demo import lab_model
from agentlearn.learning.batch_runner import rollouts_at_once
from agentlearn.models.call_settings import call_settings
from agentlearn.models.endpoint import Endpoint, TokenRequest, open_service
from agentlearn.train.distributed.sharding import gather_model, is_sharded, layout_of
from agentlearn.train.distributed.spread_engine import SpreadEngine, spread_over
from agentlearn.train.distributed.torchrun import CONNECTED, all_processes
from agentlearn.train.engine.torch_engine import RoundBarrier, TorchEngine, context_limit
from agentlearn.train.serving.local import serve_model
from agentlearn.train.serving.vllm import VllmService, existing_vllm, vllm_endpoint
from agentlearn.train.settings import TrainSettings
from agentlearn.train.weights.loading import LoadedModel
from agentlearn.train.weights.model import load_for_training, weights_hash


@runtime_checkable
class Sampler(Protocol):
    """Samples rollouts with weights that are trained in this process."""

    def weights_sha256(self) -> str:
        """Hash of the weights that it samples with."""
        ...

    def rounds(self, rollouts: int, *, at_once: int) -> AbstractContextManager[RoundBarrier] | None:
        """Context for the rollouts of one batch in which results do not depend on timing, bit by bit.

        Each rollout must leave the context's barrier when it ends. None when the sampler cannot do this.
        """
        ...

    def paused(self) -> AbstractAsyncContextManager[None]:
        """Context in which nothing is sampled, so that weights may change."""
        ...

    async def synchronise(self, model: Any) -> None:
        """Sample with the weights of this model from now on. Raises EndpointError when that cannot be verified."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _SharedWeights:
    """A sampler that uses the weights in training themselves. Nothing has to be copied after an update."""

    engine: TorchEngine | SpreadEngine
    model: nn.Module

    def weights_sha256(self) -> str:
        """Hash of the weights in training."""
        return weights_hash(self.model)

    def rounds(self, rollouts: int, *, at_once: int) -> AbstractContextManager[RoundBarrier]:
        """Sample the rollouts of one batch in rounds."""
        return self.engine.rounds(rollouts, at_once=at_once)

    @asynccontextmanager
    async def paused(self) -> AsyncGenerator[None]:
        """Pause between two tokens. Keys and values computed with the old weights are dropped afterwards."""
        pause = self.engine.paused()
        await asyncio.to_thread(pause.__enter__)
        try:
            yield
        finally:
            self.model.eval()
            await asyncio.to_thread(pause.__exit__, None, None, None)

    async def synchronise(self, model: nn.Module) -> None:
        """Do nothing: sampler and trainer share the weights."""
        assert model is self.model


@dataclass(slots=True, eq=False)
class ServedWeights:
    """A vLLM server that gets the weights after each update. Each transfer is verified."""

    service: VllmService
    sleeps: bool = False
    """Whether the server frees its GPU memory during updates."""
    sha256: str = ""
    """Hash of the weights that the server got last."""

    def weights_sha256(self) -> str:
        """Hash of the weights that the server got last."""
        return self.sha256

    def rounds(self, rollouts: int, *, at_once: int) -> None:
        """None: the server decides how to batch, so results are not reproducible bit by bit."""

    @asynccontextmanager
    async def paused(self) -> AsyncGenerator[None]:
        """Let the server sleep, if wanted; else do nothing, because it has its own copy of the weights.

        Its weights are kept in main memory, because an update without an optimiser step sends it no new ones.
        """
        if not self.sleeps:
            yield
            return
        await self.service.sleep()
        try:
            yield
        finally:
            await self.service.wake()

    async def synchronise(self, model: nn.Module) -> None:
        """Give the server the model's weights. Raises WeightsDiffer when it does not use them, EndpointError."""
        model = await asyncio.to_thread(_whole_model, model)
        await self.service.sync(model)
        self.sha256 = await asyncio.to_thread(weights_hash, model)


def _whole_model(model: nn.Module) -> nn.Module:
    """The model itself; of a sharded model, a copy on the CPU with all weights. Called by the leader. Blocks."""
    if not is_sharded(model):
        return model
    with all_processes("gather"):
        return cast("nn.Module", gather_model(model))


@asynccontextmanager
async def open_trainable(settings: TrainSettings) -> AsyncGenerator[tuple[LoadedModel, Endpoint, Sampler]]:
    """Load the model; yields it with its endpoint and its sampler. Raises ConfigError or EndpointError."""
    source = await asyncio.to_thread(_model_source, settings)
    CONNECTED.tell("source", source)
    sharded = settings.processes == "shard"  # the whole model stays on the CPU, and each device gets its share
    if sharded:
        device = "cpu"
    elif CONNECTED.accelerator is not None:
        device = str(CONNECTED.accelerator.device)
    else:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    loaded = await asyncio.to_thread(load_for_training, source, settings.gradient, device=device)
    if sharded:
        await asyncio.to_thread(CONNECTED.tell, "model", layout_of(loaded.model), loaded.tokenizer, loaded.name)
    given = settings.gradient
    tokens = TokenRequest(top_p=given.top_p, top_k=given.top_k, min_p=given.min_p)
    calls = call_settings(RequestOptions(max_output_tokens=settings.max_output_tokens))
    async with AsyncExitStack() as stack:
        if settings.sampler == "local":
            shared = spread_over(CONNECTED.leader)
            local = await stack.enter_async_context(serve_model(loaded, seed=settings.seed, shared=shared))
            options = CallOptions(
                concurrency=rollouts_at_once(settings.concurrency),
                call_deadline_s=settings.rollout_deadline_s,  # a call may wait for the slowest one of its round
            )
            opened = open_service(settings.endpoint, local, options, tokens=tokens, adaptive=False, call_settings=calls)
            endpoint = await stack.enter_async_context(opened)
            yield loaded, endpoint, _SharedWeights(local.engine, loaded.model)
            return
        # A context in which the trainer computes the same probabilities: vLLM chooses the frequencies of a longrope
        # model by the largest context that it serves.
        limit = context_limit(loaded.model)
        if settings.sampler == "vllm":
            if limit is not None:
                context = min(limit, settings.vllm_max_context or limit)
                settings = settings.model_copy(update={"vllm_max_context": context})
            server = vllm_endpoint(source, seed=settings.seed, trained=True, options=settings)
        else:
            server = existing_vllm(settings.sampler, source, loaded, seed=settings.seed, limit=limit)
        service = await stack.enter_async_context(server)
        opened = open_service(settings.endpoint, service, settings, tokens=tokens, call_settings=calls)
        endpoint = await stack.enter_async_context(opened)
        sampler = ServedWeights(service, settings.vllm_sleep)
        await sampler.synchronise(loaded.model)  # a new adapter or another dtype: the server must use our weights
        yield loaded, endpoint, sampler


def _model_source(settings: TrainSettings) -> str:
    """Return the folder or hub id of the model. A lab model is first exported to the store. Blocks."""
    if not settings.model.startswith(LAB):
        return settings.model
    lab = lab_model(settings.model.removeprefix(LAB))
    folder = settings.store / "lab" / lab.name
    if not (folder / "config.json").is_file():
        lab.export(folder)
    return str(folder)
