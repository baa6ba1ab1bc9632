"""Requests to a vLLM server: what they say of sampling, which get a seed, and which answers are accepted."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from agentlearn.errors import EndpointError
from agentlearn.serving.engine import Sampled, Sampling
from agentlearn.serving.http11 import HOST, HttpRequest, HttpResponse, listening
from agentlearn.train.serving.vllm_engine import BATCHED_TOKENS, VllmEngine, open_vllm_engine

ONE = Sampling(seed=7, max_tokens=4)
CHAT = HttpRequest("POST", "/v1/chat/completions", {}, b'{"messages": [], "seed": 7}')


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


def test_a_request_has_the_prompt_s_tokens_and_the_tokens_that_end_an_answer() -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, json=answered())

    found = with_answers(answer, lambda engine: engine.sample((5, 6), ONE))
    assert found == Sampled((3, 4), (-0.5, -1.0), "stop", cached=5)
    assert str(asked[0].url) == "http://vllm/v1/completions"
    body = json.loads(asked[0].content)
    names = ("model", "prompt", "stop_token_ids", "logprobs", "return_token_ids")
    assert [body[name] for name in names] == ["tiny", [5, 6], [2, 9], 0, True]


def test_an_answer_is_whole_only_if_vllm_says_that_it_stopped() -> None:
    for said, finish in (("stop", "stop"), ("length", "length"), ("abort", "length")):
        body = answered(finish_reason=said)
        found = with_answers(lambda _, body=body: httpx2.Response(200, json=body), lambda one: one.sample([1], ONE))
        assert found.finish == finish


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


def test_an_answer_that_is_not_json_is_an_error() -> None:
    with pytest.raises(EndpointError) as refused:
        with_answers(lambda _: httpx2.Response(200, content=b"<html>"), lambda engine: engine.sample([1], ONE))
    assert refused.value.code == "no_logprobs"


def test_an_answer_without_usage_has_no_cached_tokens() -> None:
    body = answered() | {"usage": None}
    found = with_answers(lambda _: httpx2.Response(200, json=body), lambda engine: engine.sample([1], ONE))
    assert (found.ids, found.cached) == ((3, 4), 0)


@pytest.mark.parametrize("kind", ["sample", "chat"])
@pytest.mark.parametrize("cpu", [True, False])
def test_a_server_on_a_cpu_gets_no_seed_after_a_call_was_given_up(kind: str, cpu: bool) -> None:
    """Nobody knows when it stops to compute that call, and a seed beside another request would end it."""
    seeded: list[bool] = []

    async def answer(request: httpx2.Request) -> httpx2.Response:
        seeded.append("seed" in json.loads(request.content))
        if len(seeded) == 2:
            await asyncio.Event().wait()
        if len(seeded) == 4:
            raise httpx2.ReadError("gone")
        return httpx2.Response(200, json=answered())

    async def call(engine: VllmEngine) -> None:
        await (engine.sample([1], ONE) if kind == "sample" else engine.chat(CHAT))

    async def cancelled(engine: VllmEngine) -> None:
        await engine.sample([1], ONE)
        running = asyncio.create_task(call(engine))
        while len(seeded) < 2:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await engine.sample([1], ONE)

    with_answers(answer, cancelled, cpu=cpu)
    assert (seeded[0], seeded[2]) == (True, not cpu)

    async def lost(engine: VllmEngine) -> None:
        with pytest.raises(EndpointError, match="vLLM cannot be reached: gone"):
            await call(engine)
        await engine.sample([1], ONE)

    with_answers(answer, lost, cpu=cpu)
    assert seeded[4] == (not cpu)


@pytest.mark.parametrize("kind", ["sample", "chat"])
def test_a_server_on_a_cpu_gets_a_seed_again_when_nothing_is_in_progress(kind: str) -> None:
    seeded: list[bool] = []
    go_on = asyncio.Event()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        seeded.append("seed" in json.loads(request.content))
        if len(seeded) == 1:
            await go_on.wait()
        return httpx2.Response(500 if len(seeded) == 3 else 200, json=answered())

    async def use(engine: VllmEngine) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(engine.sample([1], ONE) if kind == "sample" else engine.chat(CHAT))
            while not seeded:
                await asyncio.sleep(0)
            await engine.sample([1], ONE)
            go_on.set()
        with pytest.raises(EndpointError):
            await engine.sample([1], ONE)
        await engine.sample([1], ONE)

    with_answers(answer, use, cpu=True)
    assert seeded[1:] == [False, True, True]


@pytest.mark.parametrize(("length", "seeded"), [(BATCHED_TOKENS - 4, True), (BATCHED_TOKENS - 3, False)])
def test_the_whole_request_must_fit_into_one_step(length: int, seeded: bool) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        assert ("seed" in json.loads(request.content)) == seeded
        return httpx2.Response(200, json=answered())

    with_answers(answer, lambda engine: engine.sample([1] * length, ONE), cpu=True)


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (CHAT.body, b'{"messages": []}'),
        (b'{"messages":   []}', b'{"messages":   []}'),
        (b"[1]", b"[1]"),
        (b"no JSON", b"no JSON"),
    ],
)
def test_what_only_vllm_can_answer_is_passed_on_with_its_own_status(body: bytes, sent: bytes) -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(418, content=b"tea", headers={"content-type": "text/plain"})

    request = HttpRequest("POST", "/v1/chat/completions", {}, body)
    for cpu in (True, False):
        found = with_answers(answer, lambda engine: engine.chat(request), cpu=cpu)
        assert found == HttpResponse(418, b"tea", content_type="text/plain")
    assert [one.content for one in asked] == [sent, body]
    assert str(asked[0].url) == "http://vllm/v1/chat/completions"


def test_the_context_is_that_of_the_named_model() -> None:
    cards = [{"id": "other", "max_model_len": 9}, {"id": "tiny", "max_model_len": 64}]

    async def respond(_request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, json.dumps({"data": cards}).encode())

    async def once(model: str) -> int:
        async with listening(respond) as port:
            url = f"http://{HOST}:{port}/v1"
            async with open_vllm_engine(url, model, stop_ids=frozenset()) as engine:
                return engine.context

    assert asyncio.run(once("tiny")) == 64
    with pytest.raises(EndpointError, match="does not say how long a prompt of 'another' may be") as refused:
        asyncio.run(once("another"))
    assert refused.value.code == "engine_failed"
