"""Requests to a vLLM server: what they say of sampling, which get a seed, and which answers are accepted."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from agentlearn.errors import EndpointError
from agentlearn.serving.chat_service import Sampling
from agentlearn.train.serving.vllm import VllmEngine

ONE = Sampling(seed=7, max_tokens=4)


def answered(**changes: Any) -> dict[str, Any]:
    """Return the body of an answer of vLLM with two tokens."""
    choice = {"token_ids": [3, 4], "logprobs": {"token_logprobs": [-0.5, -1.0]}, "finish_reason": "stop"}
    return {"choices": [choice | changes], "usage": {"prompt_tokens_details": {"cached_tokens": 5}}}


def engine_of(http: httpx2.AsyncClient, *, cpu: bool = False) -> VllmEngine:
    return VllmEngine(http, "http://vllm/v1", "tiny", stop_ids=frozenset({9, 2}), context=64, cpu=cpu)


def with_answers(
    answer: Callable[[httpx2.Request], Any], use: Callable[[VllmEngine], Awaitable[Any]], *, cpu: bool = False
) -> Any:
    async def once() -> Any:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
            return await use(engine_of(http, cpu=cpu))

    return asyncio.run(once())


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


def test_an_answer_that_cannot_be_trained_on_is_an_error(subtests: pytest.Subtests) -> None:
    for status, body, code, sentence in [
        (400, answered(), "engine_failed", "vLLM refused with status 400: "),
        (200, answered(token_ids=[3]), "no_logprobs", "vLLM sent 1 tokens and 2 log-probabilities"),
        (200, answered(token_ids=[3, 4, 5]), "no_logprobs", "vLLM sent 3 tokens and 2 log-probabilities"),
        (200, answered(token_ids=[], logprobs={"token_logprobs": []}), "no_logprobs", "vLLM sent 0 tokens and 0"),
        (200, answered(token_ids=None), "no_logprobs", "vLLM sends no token ids or no log-probabilities"),
        (200, answered(logprobs=None), "no_logprobs", "vLLM sends no token ids or no log-probabilities"),
        (200, {"choices": [], "usage": {}}, "no_logprobs", "vLLM sends no token ids or no log-probabilities"),
        (200, ["no object"], "no_logprobs", "vLLM sends no token ids or no log-probabilities"),
        (200, None, "no_logprobs", "vLLM sends no token ids or no log-probabilities"),
    ]:
        with subtests.test(repr((status, body, code, sentence))):
            with pytest.raises(EndpointError) as refused:
                with_answers(lambda _: httpx2.Response(status, json=body), lambda engine: engine.sample([1], ONE))
            assert refused.value.code == code
            assert refused.value.message.startswith(sentence)
