"""What a request to a vLLM server says of sampling."""

import asyncio
import json
from typing import Any

import httpx2

from agentlearn.serving.engine import Sampling
from agentlearn.train.serving.vllm_engine import VllmEngine


def test_the_engine_passes_sampling_options_on() -> None:
    """As vLLM names them; top_k -1 means all tokens there."""
    asked: list[dict[str, Any]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(json.loads(request.content))
        choice = {"token_ids": [3], "logprobs": {"token_logprobs": [-0.5]}, "finish_reason": "stop"}
        return httpx2.Response(200, json={"choices": [choice], "usage": {}})

    async def once() -> None:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
            engine = VllmEngine(http, "http://vllm/v1", "tiny", stop_ids=frozenset({2}), context=64)
            await engine.sample([1], Sampling(seed=7, max_tokens=4, temperature=0.7, top_p=0.9, top_k=5, min_p=0.1))
            await engine.sample([1], Sampling(seed=7, max_tokens=4))

    asyncio.run(once())
    names = ("seed", "max_tokens", "temperature", "top_p", "top_k", "min_p")
    assert [[body[name] for name in names] for body in asked] == [[7, 4, 0.7, 0.9, 5, 0.1], [7, 4, 1.0, 1.0, -1, 0.0]]
