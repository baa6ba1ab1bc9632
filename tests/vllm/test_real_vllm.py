"""A real vLLM server: exact tokens through a typed agent, weight transfer, and tied embeddings."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
import torch
from pydantic_ai.messages import ModelResponse
from pydantic_ai.settings import ModelSettings
from transformers import AutoModelForCausalLM

from agentlearn.config import CallOptions
from agentlearn.errors import WeightsDiffer
from agentlearn.models.endpoint import TokenRequest, _served, open_endpoint
from agentlearn.models.tokens import SampledTokens, tokens_of
from agentlearn.serving.chat_service import ChatService
from agentlearn.serving.engine import Sampling
from agentlearn.train.engine.chat_template import TemplateFormat
from agentlearn.train.serving import weight_sync as sync
from agentlearn.train.serving.vllm import vllm_endpoint
from tests.support.adding import Reciting, Total, adder
from tests.support.tiny_model import forward_logprobs, saved, spread, taught, tiny_network, tiny_tokenizer


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTLEARN_VLLM_ARGS", "--max-model-len 512")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")


def tokens(messages: list[Any]) -> list[SampledTokens]:
    found = [tokens_of(one) for one in messages if isinstance(one, ModelResponse)]
    return [one for one in found if one is not None]


def test_a_typed_agent_calls_its_tool_and_every_token_is_known(tmp_path: Path) -> None:
    reciting = Reciting()

    async def record() -> None:
        service = ChatService(reciting, TemplateFormat(tiny_tokenizer()), model="toy")
        async with service.serve() as url, _served(url, "toy", None, CallOptions()) as model:
            await adder().run("2 + 3?", model=model, model_settings=ModelSettings(seed=1))

    asyncio.run(record())
    torch.manual_seed(0)
    # Taught for a little while only, so that log-probabilities are not all 0.
    network = taught(tiny_network(hidden=64), reciting.seen, steps=25)
    directory = saved(tmp_path / "adding", network)

    async def use() -> None:
        async with open_endpoint(
            f"vllm:{directory}", CallOptions(call_deadline_s=300), tokens=TokenRequest()
        ) as endpoint:
            for temperature in (0.0, 0.1):
                settings = ModelSettings(seed=3, temperature=temperature)
                result = await adder().run("2 + 3?", model=endpoint.model, model_settings=settings)
                assert result.output == Total(total=5)
                first, second = tokens(result.all_messages())
                for turn in (first, second):
                    wanted = forward_logprobs(network, turn.prompt, turn.ids, temperature or 1.0)
                    assert turn.logprobs == pytest.approx(wanted, abs=0.02)
                so_far = (*first.prompt, *first.ids)
                assert second.prompt[: len(so_far)] == so_far

    asyncio.run(use())


def test_weights_reach_the_server_and_the_tied_trap_is_noticed(tmp_path: Path) -> None:
    network = tiny_network(tied=True)
    directory = saved(tmp_path / "tied", network)

    async def use() -> None:
        async with vllm_endpoint(str(directory), trained=True) as service:
            assert service.folder is not None
            await sync.verify_sync(network, service.server_url, service.model)
            async with httpx2.AsyncClient(timeout=60) as http:
                asked = {"model": service.model, "max_tokens": 20, "temperature": 0.7, "seed": 1, "logprobs": True}
                asked |= {"messages": [{"role": "user", "content": "hi"}], "return_token_ids": True}
                answer = (await http.post(f"{service.base_url}/chat/completions", json=asked)).json()
                again = (await http.post(f"{service.base_url}/chat/completions", json=asked)).json()
            choice = answer["choices"][0]
            assert choice["token_ids"] == again["choices"][0]["token_ids"]
            wanted = forward_logprobs(network, answer["prompt_token_ids"], choice["token_ids"], 0.7)
            assert [one["logprob"] for one in choice["logprobs"]["content"]] == pytest.approx(wanted, abs=0.02)
            spread(network, seed=3)
            with pytest.raises(WeightsDiffer):
                await sync.verify_sync(network, service.server_url, service.model)
            assert (await service.sync(network)).mean_difference < 0.005

    asyncio.run(use())

    async def trapped() -> None:
        """The checkpoint itself is served, and overwritten as `save_pretrained` writes it: tied."""
        async with vllm_endpoint(str(directory)) as service:
            other = AutoModelForCausalLM.from_pretrained(directory).eval()
            spread(other, seed=4)
            other.save_pretrained(directory)
            root = service.server_url.removesuffix("/v1")
            async with httpx2.AsyncClient(timeout=60) as http:
                reloaded = await http.post(f"{root}/collective_rpc", json={"method": "reload_weights"})
                assert reloaded.status_code == 200
                await http.post(f"{root}/reset_prefix_cache")
            with pytest.raises(WeightsDiffer):
                await sync.verify_sync(other, service.server_url, service.model)

    asyncio.run(trapped())


def test_many_requests_at_once_are_answered(tmp_path: Path) -> None:
    directory = saved(tmp_path / "many", tiny_network())

    async def use() -> None:
        from agentlearn.train.serving.vllm_engine import open_vllm_engine

        async with (
            vllm_endpoint(str(directory)) as service,
            open_vllm_engine(service.server_url, service.model, stop_ids=frozenset()) as engine,
            asyncio.TaskGroup() as tasks,
        ):
            how = [Sampling(seed=at, max_tokens=16) for at in range(32)]
            running = [tasks.create_task(engine.sample([5, 6, 7, at], one)) for at, one in enumerate(how)]
        assert all(len(one.result().ids) == 16 or one.result().finish == "stop" for one in running)

    asyncio.run(use())
