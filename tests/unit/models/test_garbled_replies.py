"""Whatever a service sends, a call ends with a reply that can be stored or with an EndpointError."""

import asyncio
import copy
import gzip
import json
import zlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ModelResponse
from pydantic_ai.models import ModelRequestParameters

from agentlearn.config import BudgetOptions, CallOptions
from agentlearn.errors import EndpointError
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, WorkUnit
from agentlearn.models.chat_model import MOST_BYTES
from agentlearn.models.endings import FAULT_REMEDIES
from agentlearn.models.endpoint import Endpoint, TokenRequest, open_endpoint, open_service
from agentlearn.models.endpoint_state import GARBLED
from agentlearn.models.outage import RetryPolicy
from agentlearn.models.refusal import RefusedRequest, service_words
from agentlearn.models.service_record import service_records
from agentlearn.rollout.transcript import steps_of
from tests.support.cases import cases
from tests.support.raw_http import Script, scripted
from tests.support.stages import RUN, ListJournal

ONCE = RetryPolicy(attempts=1, base_s=0)
TWICE = RetryPolicy(attempts=2, base_s=0)
COMPLETION: dict[str, Any] = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1_700_000_000,
    "model": "stub",
    "prompt_token_ids": [1, 2, 3],
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "token_ids": [4, 5],
            "logprobs": {"content": [{"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}] * 2},
            "message": {
                "role": "assistant",
                "content": "hello",
                "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "run", "arguments": '{"a": 1}'}}],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 12,
        "completion_tokens": 3,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 4},
    },
}
VALUES = [*cases(__file__, "values"), "[" * 900 + "]" * 900, "1" * 400, '"' + "x" * 5000 + '"']
HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def changed(path: tuple[Any, ...], text: str | None) -> str:
    """The completion as JSON with another value at that place; None: without it."""
    whole = copy.deepcopy(COMPLETION)
    if not path:
        return text or ""
    holder: Any = whole
    for key in path[:-1]:
        holder = holder[key]
    if text is None:
        del holder[path[-1]]
        return json.dumps(whole)
    holder[path[-1]] = "@here@"
    return json.dumps(whole).replace('"@here@"', text)


class Bodies:
    """A service that sends the present body."""

    base_url, model, simulated, body = "", "stub", False, b""

    async def __call__(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(length_of(head))
        writer.write(f"{HEAD}Content-Length: {len(self.body)}\r\nConnection: close\r\n\r\n".encode() + self.body)
        await writer.drain()


def length_of(head: bytes) -> int:
    lines = head.decode("latin-1").lower().split("\r\n")
    return next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), 0)


@asynccontextmanager
async def serving(bodies: Bodies, *, tokens: bool) -> AsyncGenerator[Endpoint]:
    async with scripted(bodies) as port:
        bodies.base_url = f"http://127.0.0.1:{port}/v1"
        wanted = TokenRequest() if tokens else None
        async with open_service("stub", bodies, CallOptions(), retry=ONCE, tokens=wanted) as endpoint:
            yield endpoint


def unit_of(limits: BudgetOptions | None = None) -> WorkUnit:
    return WorkUnit(CallContext(RUN, ListJournal(), Budget(limits or BudgetOptions())), "rollout", "u", 7)


async def asked(endpoint: Endpoint, unit: WorkUnit) -> ModelResponse:
    messages: Any = [ModelRequest.user_text_prompt("hello")]
    return await endpoint.client(unit).request(messages, None, ModelRequestParameters())


async def answer_or_error(endpoint: Endpoint, unit: WorkUnit) -> ModelResponse | EndpointError:
    try:
        return await asked(endpoint, unit)
    except EndpointError as error:
        return error


async def read(endpoint: Endpoint) -> ModelResponse | None:
    """Ask once. A reply must be storable and count as a possible number of tokens; None: it was garbled."""
    unit = unit_of()
    response = await answer_or_error(endpoint, unit)
    if isinstance(response, EndpointError):
        assert response.code in {GARBLED, *(f"endpoint_{code}" for code in FAULT_REMEDIES)}, response
        assert "\x1b" not in response.message
        response.message.encode()
        return None
    (record,) = unit.calls
    (again,) = ModelMessagesTypeAdapter.validate_json(record.response)
    for one in (response, again):
        assert isinstance(one, ModelResponse)
        (step,) = steps_of([one], [record])
        step.model_dump_json().encode()
    assert 0 <= unit.call_context.budget.tokens <= 2**54
    assert 0 <= record.tokens_in <= 2**53
    return response


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_a_reply_that_is_wrong_in_one_place_never_raises_anything_else(every: int) -> None:
    """Each place gets an eighth of the values, or all of them with tokens asked for too."""

    async def main() -> None:
        bodies = Bodies()
        async with serving(bodies, tokens=every == 1) as endpoint:
            bodies.body = json.dumps(COMPLETION).encode()
            assert await read(endpoint) is not None
            for number, path in enumerate(places(COMPLETION)):
                for text in (None, *VALUES)[number % every :: every]:
                    bodies.body = changed(path, text).encode()
                    await read(endpoint)
            endpoint.endpoint_state.failed_in_a_row = 0

    asyncio.run(main())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.tuples(st.sampled_from(sorted(places(COMPLETION), key=repr)), JSON), min_size=1, max_size=3))
def test_a_reply_that_is_wrong_in_several_places_never_raises_anything_else(wrong: list[tuple[Any, Any]]) -> None:
    async def main() -> None:
        bodies, whole = Bodies(), copy.deepcopy(COMPLETION)
        for path, value in wrong:
            holder: Any = whole
            for key in path[:-1]:
                holder = holder[key] if isinstance(holder, list) else holder.get(key, {}) if holder else {}
                holder = holder if isinstance(holder, dict) else {}
            if path and isinstance(holder, dict):
                holder[path[-1]] = value
        bodies.body = json.dumps(whole).encode()
        async with serving(bodies, tokens=False) as endpoint:
            await read(endpoint)

    asyncio.run(main())


def test_an_impossible_usage_counts_as_not_reported_and_is_estimated(subtests: pytest.Subtests) -> None:
    for usage in [
        *("null", "{}", "[]", '"many"', "7", "NaN", '{"prompt_tokens": "12"}'),
        '{"prompt_tokens": -5, "completion_tokens": 3}',
        '{"prompt_tokens": 10000000000000000000, "completion_tokens": 3}',
        '{"prompt_tokens": NaN, "completion_tokens": Infinity}',
        '{"prompt_tokens": 0, "completion_tokens": 0}',
        '{"prompt_tokens": true, "completion_tokens": 3}',
        '{"prompt_tokens": 1.5, "completion_tokens": 3}',
    ]:
        with subtests.test(repr(usage)):

            async def main() -> None:
                bodies = Bodies()
                async with serving(bodies, tokens=False) as endpoint:
                    bodies.body = changed(("usage",), usage).encode()
                    unit = unit_of()
                    response = await asked(endpoint, unit)
                    assert response.text == "hello"
                    assert 1 <= unit.calls[0].tokens_in < 40
                    assert 1 <= unit.calls[0].tokens_out < 25
                    assert 0 < unit.call_context.budget.estimated <= unit.call_context.budget.tokens
                    assert endpoint.endpoint_state.without_usage == 1

            asyncio.run(main())


STREAM = 'data: {"choices": [{"delta": {"content": "hello"}}]}\n\ndata: {"choices": [{"finish_reason": "stop"}]}\n\n'


@pytest.mark.parametrize(
    ("body", "read_as"),
    [(STREAM, "hello"), (STREAM.replace("data: ", ""), "hello"), (STREAM.split("\n\n")[0], None)],
)
def test_a_service_that_streams_unasked_is_read_and_a_note_says_so(body: str, read_as: str | None) -> None:
    async def main() -> None:
        bodies = Bodies()
        async with serving(bodies, tokens=False) as endpoint:
            bodies.body = body.encode()
            response = await read(endpoint)
            assert (response and response.text) == read_as
            (record,) = service_records([endpoint.endpoint_state])
            assert any("streamed 1 of 1 replies" in note for note in record.other_notes())

    asyncio.run(main())


@pytest.mark.parametrize("finish", ["stop", "tool_calls", None])
def test_a_reply_without_content_is_garbled_but_an_empty_text_is_an_answer(finish: str | None) -> None:
    async def main() -> None:
        bodies = Bodies()
        async with serving(bodies, tokens=False) as endpoint:
            for content, readable in (("null", False), ('""', True)):
                whole = copy.deepcopy(COMPLETION)
                whole["choices"][0] |= {"finish_reason": finish, "message": {"role": "assistant", "content": "@here@"}}
                bodies.body = json.dumps(whole).replace('"@here@"', content).encode()
                assert (await read(endpoint) is not None) == readable

    asyncio.run(main())


GOOD = json.dumps({**COMPLETION, "choices": [{**COMPLETION["choices"][0], "logprobs": None}]}).encode()
BOMB = gzip.compress(b" " * (MOST_BYTES + 10))


def with_head(head: str, body: bytes) -> bytes:
    return head.replace("\n", "\r\n").encode("latin-1") + b"\r\n" + body


RAW: dict[str, bytes] = {
    "html": with_head("HTTP/1.1 200 OK\nContent-Type: text/html\n", b"<html>It works!</html>"),
    "no body": with_head("HTTP/1.1 200 OK\nContent-Length: 0\n", b""),
    "no content": with_head("HTTP/1.1 204 No Content\n", b""),
    "cut off json": with_head("HTTP/1.1 200 OK\nContent-Type: application/json\n", GOOD[:90]),
    "length too long": with_head(f"HTTP/1.1 200 OK\nContent-Length: {len(GOOD) + 50}\n", GOOD),
    "length too short": with_head("HTTP/1.1 200 OK\nContent-Type: application/json\nContent-Length: 20\n", GOOD),
    "two lengths": with_head("HTTP/1.1 200 OK\nContent-Length: 5\nContent-Length: 6\n", GOOD),
    "length of letters": with_head("HTTP/1.1 200 OK\nContent-Length: many\n", GOOD),
    "bad utf-8": with_head("HTTP/1.1 200 OK\nContent-Type: application/json\n", b'{"id": "\xff\xfe"}'),
    "deep json": with_head("HTTP/1.1 200 OK\nContent-Type: application/json\n", b'{"id":' + b"[" * 200_000),
    "deep and closed": with_head("HTTP/1.1 200 OK\nContent-Type: application/json\n", b"[" * 9000 + b"]" * 9000),
    "error object": with_head("HTTP/1.1 200 OK\nContent-Type: application/json\n", b'{"error": {"message": "no"}}'),
    "event stream": with_head("HTTP/1.1 200 OK\nContent-Type: text/event-stream\n", b'data: {"id": "x"}\n\n'),
    "broken gzip": with_head("HTTP/1.1 200 OK\nContent-Encoding: gzip\n", b"\x1f\x8bnonsense"),
    "cut off gzip": with_head("HTTP/1.1 200 OK\nContent-Encoding: gzip\n", gzip.compress(GOOD)[:-12]),
    "gzip bomb": with_head("HTTP/1.1 200 OK\nContent-Encoding: gzip\n", BOMB),
    "deflate bomb": with_head("HTTP/1.1 200 OK\nContent-Encoding: deflate\n", zlib.compress(b" " * (MOST_BYTES + 10))),
    "unknown encoding": with_head("HTTP/1.1 200 OK\nContent-Encoding: zstd\n", b"(\xb5/\xfd"),
    "two encodings": with_head("HTTP/1.1 200 OK\nContent-Encoding: gzip, gzip\n", gzip.compress(gzip.compress(GOOD))),
    "chunks of nonsense": with_head("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n", b"zz\r\nabc\r\n"),
    "last chunk missing": with_head("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n", b'5\r\n{"id"\r\n'),
    "no http": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "header of bytes": b"HTTP/1.1 200 OK\r\n\x00\xff\x01: \x02\r\n\r\n" + GOOD,
    "header without end": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000,
    "status of letters": b"HTTP/1.1 abc OK\r\n\r\n",
    "status 999": with_head("HTTP/1.1 999 What\nContent-Length: 2\n", b"{}"),
    "early hints only": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    "switching protocols": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
    "redirect to itself": with_head("HTTP/1.1 307 X\nLocation: /v1/chat/completions\nContent-Length: 0\n", b""),
    "redirect without place": with_head("HTTP/1.1 302 Found\nContent-Length: 0\n", b""),
    "not modified": with_head("HTTP/1.1 304 Not Modified\n", b""),
    "half a status line": b"HTTP/1",
    "nothing": b"",
    "500 with a bomb": with_head("HTTP/1.1 500 X\nContent-Encoding: gzip\n", BOMB),
    "400 with deep json": with_head(
        "HTTP/1.1 400 X\nContent-Type: application/json\n", b'{"error":' * 400 + b"{}" + b"}" * 400
    ),
    "400 with surrogates": with_head(
        "HTTP/1.1 400 X\nContent-Type: application/json\n", b'{"error": {"message": "\\ud800 \\u001b[2J"}}'
    ),
    "429 to wait for ever": with_head("HTTP/1.1 429 X\nRetry-After: 1e999\nContent-Length: 0\n", b""),
}


def sending(raw: bytes) -> Script:
    async def script(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(length_of(head))
        writer.write(raw)
        await writer.drain()

    return script


async def outcome(script: Script, *, deadline_s: float = 20.0) -> ModelResponse | EndpointError:
    """What one call to such a service gives, after a retry."""
    async with scripted(script) as port:
        options = CallOptions(call_deadline_s=deadline_s)
        async with open_endpoint(f"http://127.0.0.1:{port}/v1#stub", options, retry=TWICE) as endpoint:
            return await answer_or_error(endpoint, unit_of())


def after_models(script: Script) -> Script:
    """The script for chat requests; the list of models is always answered."""

    async def whole(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if head.startswith(b"GET"):
            writer.write(with_head("HTTP/1.1 200 OK\nContent-Length: 2\nConnection: close\n", b"{}"))
            await writer.drain()
        else:
            await script(head, reader, writer)

    return whole


def test_any_bytes_end_as_a_failure_of_the_service(subtests: pytest.Subtests) -> None:
    for name in RAW:
        with subtests.test(repr(name)):
            ended = asyncio.run(outcome(after_models(sending(RAW[name]))))
            assert isinstance(ended, EndpointError), ended
            ended.message.encode()
            assert "\x1b" not in ended.message
            assert len(ended.message) < 900
            transient = name in {"nothing", "half a status line", "early hints only", "500 with a bomb", "status 999"}
            if not transient and not name.startswith("4"):
                assert ended.code == GARBLED
            if not name.startswith("4"):
                assert "(asked 2 times)" in ended.message


def test_a_compressed_reply_is_read() -> None:
    raw = with_head("HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Type: application/json\n", gzip.compress(GOOD))
    ended = asyncio.run(outcome(after_models(sending(raw))))
    assert isinstance(ended, ModelResponse)
    assert ended.text == "hello"


def test_a_body_without_end_stops_at_the_limit() -> None:
    async def script(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(length_of(head))
        writer.write(with_head("HTTP/1.1 200 OK\nContent-Type: application/json\n", b'{"id": "'))
        while True:
            writer.write(b"x" * 2**18)
            await writer.drain()

    ended = asyncio.run(outcome(after_models(script)))
    assert isinstance(ended, EndpointError)
    assert ended.code == GARBLED
    assert "larger than" in ended.message


def test_a_reply_that_comes_too_slowly_ends_at_the_deadline() -> None:
    async def script(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(length_of(head))
        writer.write(with_head("HTTP/1.1 200 OK\nContent-Length: 4000\n", b""))
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.01)

    ended = asyncio.run(outcome(after_models(script), deadline_s=0.2))
    assert isinstance(ended, EndpointError)
    assert ended.code == "endpoint_timeout"


@pytest.mark.parametrize("cut", [0, 1, 8, 17, 40, len(GOOD) // 2])
def test_a_connection_that_is_reset_at_any_point_is_a_failure_of_the_service(cut: int) -> None:
    raw = with_head(f"HTTP/1.1 200 OK\nContent-Length: {len(GOOD)}\n", GOOD)[: cut and cut + 20 * (cut > 8)]

    async def script(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(length_of(head))
        writer.write(raw)
        await writer.drain()
        writer.transport.abort()

    ended = asyncio.run(outcome(after_models(script)))
    assert isinstance(ended, EndpointError)
    assert ended.code in {GARBLED, "endpoint_broken"}


@pytest.mark.parametrize("body", ["[" * 5000, '{"error":' * 500 + "1" + "}" * 500, "x" * 10**6, b"\xff" * 1000])
def test_the_words_of_a_refusal_are_found_in_any_body(body: Any) -> None:
    deep: Any = "too long"
    for _ in range(400):
        deep = {"error": deep, "detail": [deep]} if not isinstance(deep, dict) else {"error": deep}
    for one in (body, deep):
        assert len(service_words(one)) <= 400
        RefusedRequest(400, one).settings({"temperature"})
        RefusedRequest(400, one).remedy(())
