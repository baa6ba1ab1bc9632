"""The lean chat client sends what the client of `openai` sends."""

import asyncio
import gc
import json
import re
from contextlib import closing, suppress
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI, omit
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

from agentlearn.models.chat_model import ChatClient, http_transport

ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "any",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "4"}}],
}
TOOL = ToolDefinition(name="run", description="Run it.", parameters_json_schema={"type": "object", "properties": {}})
CONVERSATION = [
    ModelRequest(
        parts=[UserPromptPart(["What is 2 + 2?", BinaryContent(b"\x89PNG", media_type="image/png")])],
        instructions="Be brief.",
    ),
    ModelResponse(parts=[ThinkingPart("hm"), TextPart("I run it."), ToolCallPart("run", {"é": 1}, tool_call_id="a")]),
    ModelRequest(parts=[ToolReturnPart("run", {"out": [4, None]}, tool_call_id="a"), UserPromptPart("And now?")]),
]
SETTINGS = [
    OpenAIChatModelSettings(),
    OpenAIChatModelSettings(seed=7, temperature=0.7, top_p=0.9, max_tokens=5, stop_sequences=["x"], timeout=3),
    OpenAIChatModelSettings(
        openai_logprobs=True,
        logit_bias={"5": 1},
        extra_body={"return_token_ids": True, "seed": 9},
        extra_headers={"X-A": "b"},
        parallel_tool_calls=False,
        timeout=None,
    ),
]


def sent_by(client_class: type[AsyncOpenAI], settings: OpenAIChatModelSettings) -> tuple[Any, ...]:
    """Return address, headers, time limits and body of one request."""
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(200, json=ANSWER)

    async def ask() -> None:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
            client = client_class(
                base_url="http://127.0.0.1:1/v1", api_key="k", http_client=http, default_query={"version": "2"}
            )
            model = OpenAIChatModel("any", provider=OpenAIProvider(openai_client=client))
            for _ in range(2):
                response = await model.request(
                    CONVERSATION, settings, ModelRequestParameters(function_tools=[TOOL], allow_text_output=True)
                )
                assert response.text == "4"

    asyncio.run(ask())
    request = requests[-1]  # the first one is sent by `openai` itself
    headers = sorted((name, value) for name, value in request.headers.items() if name != "x-stainless-raw-response")
    return request.url, headers, request.extensions["timeout"], json.loads(request.content)


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_request_is_the_same_as_that_of_openai(settings: OpenAIChatModelSettings) -> None:
    assert sent_by(ChatClient, settings) == sent_by(AsyncOpenAI, settings)


def test_a_stream_and_a_client_with_other_options_work_too() -> None:
    heard: list[dict[str, Any]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        heard.append(json.loads(request.content))
        if heard[-1].get("stream"):
            return httpx2.Response(200, text="data: [DONE]\n\n", headers={"Content-Type": "text/event-stream"})
        return httpx2.Response(200, json=ANSWER)

    async def ask() -> None:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
            client = ChatClient(base_url="http://127.0.0.1:1/v1", api_key="k", http_client=http)
            said: Any = [{"role": "user", "content": "hello"}]
            async with await client.chat.completions.create(model="m", messages=said, stream=True) as stream:
                assert [one async for one in stream] == []
            del stream
            gc.collect()  # openai leaves generators inside the stream to it, and the loop then ends them
            for _ in range(5):
                await asyncio.sleep(0)
            other = client.with_options(max_retries=0)
            assert isinstance(other, ChatClient)
            await other.chat.completions.create(model="m", messages=said, seed=omit)

    asyncio.run(ask())
    assert [one.get("stream") for one in heard] == [True, None]
    assert "seed" not in heard[1]


def test_a_reply_that_a_service_sends_twice_is_not_taken_for_the_answer_to_the_next_question() -> None:
    """The second copy waits in the connection when the next request is sent."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(asyncio.IncompleteReadError):
            while header := await reader.readuntil(b"\r\n\r\n"):
                size = int(re.findall(rb"(?i)content-length: (\d+)", header)[0])
                asked = json.loads(await reader.readexactly(size))["messages"][-1]["content"]
                message = {"role": "assistant", "content": f"answer to {asked}"}
                choices = [{"index": 0, "finish_reason": "stop", "message": message}]
                body = json.dumps({**ANSWER, "id": f"id of {asked}", "choices": choices}).encode()
                kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
                head = f"HTTP/1.1 200 OK\r\n{kind}\r\n\r\n".encode()
                writer.write(head + body)
                await asyncio.sleep(0.005)
                writer.write(head + body if asked == "q1" else b"")

    async def ask() -> list[str]:
        heard: list[str] = []
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with httpx2.AsyncClient(transport=http_transport(1, proxies=False)) as http:
                client = ChatClient(base_url=f"http://127.0.0.1:{port}/v1", api_key="k", http_client=http)
                for question in ("q0", "q1", "q2", "q3"):
                    for _ in range(2):
                        said: Any = [{"role": "user", "content": question}]
                        try:
                            reply = await client.chat.completions.create(model="m", messages=said)
                        except UnexpectedModelBehavior:
                            heard.append("refused")
                            continue
                        heard.append(reply.choices[0].message.content)
                        break
                    await asyncio.sleep(0.02)
        return heard

    heard = asyncio.run(ask())
    assert "refused" in heard
    assert [one for one in heard if one != "refused"] == [f"answer to q{n}" for n in range(4)]
