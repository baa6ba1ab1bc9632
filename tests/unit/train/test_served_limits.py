# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""What bounds an answer or a computation: stop tokens, the context, seeds, and the memory for logits and for keys."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import httpx2
from torch.utils._python_dispatch import TorchDispatchMode

from agentlearn.errors import EndpointError
from agentlearn.serving.engine import Sampling
from agentlearn.train.engine.active_batch import ActiveBatch, SamplingRequest
from agentlearn.train.engine.kv_cache import WIDTH_STEP, KVCache, KVCacheRows
from agentlearn.train.engine.torch_engine import TorchEngine
from agentlearn.train.serving.local import generation_ends, serve_model, torch_engine
from agentlearn.train.update.logprob_model import token_logprobs
from agentlearn.train.weights.loading import LoadedModel
from tests.support.tiny_model import tiny_network, tiny_tokenizer


async def answers(network: Any, seed: int) -> tuple[str, Any]:
    """Serve a model; returns an answer to a request without a seed, and what its engine samples."""
    async with (
        serve_model(LoadedModel(network, tiny_tokenizer(), "tiny"), seed=seed) as service,
        httpx2.AsyncClient(trust_env=False) as http,
    ):
        body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 12}
        found = (await http.post(f"{service.base_url}/chat/completions", json=body)).json()
        sampled = await service.engine.sample([1, 2, 3], Sampling(seed=1, max_tokens=12))
        return found["choices"][0]["message"]["content"], sampled


def test_a_service_uses_its_seed_and_the_model_s_stop_tokens() -> None:
    network = tiny_network().eval()
    (one, sampled), (again, _), (other, _) = (asyncio.run(answers(network, seed)) for seed in (1, 1, 2))
    assert one == again != other
    assert len(sampled.ids) == 12
    network.generation_config.eos_token_id = sorted({*range(0, network.config.vocab_size, 2), sampled.ids[3]})
    ended = asyncio.run(answers(network, 1))[1]
    assert (ended.finish, len(ended.ids) <= 4) == ("stop", True)
    assert generation_ends(network.generation_config) == set(network.generation_config.eos_token_id)


def test_the_context_is_never_longer_than_the_model_s() -> None:
    network = tiny_network(context=64)
    contexts = [torch_engine(network, frozenset(), context=one).context for one in (None, 10**6, 32)]
    assert contexts == [64, 64, 32]


def test_as_many_requests_join_as_keys_and_values_fit() -> None:
    network = tiny_network().eval()
    config = network.config
    per_token = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 4

    async def joined() -> int:
        batch = ActiveBatch(
            network, stop_ids=frozenset(), context=64, max_rows=8, cache_bytes=3 * WIDTH_STEP * per_token
        )
        first = SamplingRequest.create([1, 2], Sampling(seed=0, max_tokens=4))
        batch.admit([first])  # the cache gets its width
        waiting = [SamplingRequest.create([at, 2], Sampling(seed=0, max_tokens=4)) for at in range(3, 9)]
        return 1 + batch.admit(waiting)[0]

    assert asyncio.run(joined()) == 3


def test_the_row_that_was_not_used_for_the_longest_time_is_overwritten() -> None:
    rows = KVCacheRows(KVCache(), max_rows=2, bytes_per_token=1, cache_bytes=10**6)
    prompts = [np.array([first, 1, 2, 3]) for first in range(10, 15)]
    for ids in prompts:
        rows.take(ids)
        row = rows.used - 1
        states = torch.zeros(1, 2, len(ids), 4)
        rows.kv_cache.aim(torch.tensor([row]), torch.arange(len(ids))[None], len(ids))
        rows.kv_cache.update(states, states, 0)
        rows.known[row] = len(ids)
        rows.park(row)
    assert [rows.best(ids)[1] for ids in prompts] == [0, 3, 3, 3, 3]


class LargestResult(TorchDispatchMode):
    """Notes the largest number of values that an operation returned."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for one in found if isinstance(found, (tuple, list)) else (found,):
            self.largest = max(self.largest, one.numel() if isinstance(one, torch.Tensor) else 0)
        return found


def test_no_more_logits_are_held_than_the_setting_allows() -> None:
    tokens, vocabulary = 100, 2**13
    hidden, head = torch.randn(tokens, 4, requires_grad=True), torch.randn(vocabulary, 4, requires_grad=True)
    targets = torch.arange(tokens)
    with LargestResult() as held:
        token_logprobs(hidden, head, None, targets, logits_mib=1)[0].sum().backward()
    assert held.largest * 4 * 2 == 2**20


def test_a_request_that_failed_is_not_computed_again() -> None:
    network, rows = tiny_network().eval(), list[int]()
    plain = network.forward

    def failing_once(input_ids: Any, **named: Any) -> Any:
        rows.append(len(input_ids))
        if len(rows) == 1:
            raise RuntimeError("broken")
        return plain(input_ids=input_ids, **named)

    network.forward = failing_once
    engine = TorchEngine(network, stop_ids=frozenset(), context=64)

    async def twice() -> None:
        with pytest.raises(EndpointError):
            await engine.sample([1, 2, 3], Sampling(seed=1, max_tokens=4))
        await engine.sample([4, 5], Sampling(seed=1, max_tokens=4))

    with engine.running():
        asyncio.run(twice())
    assert set(rows) == {1}
