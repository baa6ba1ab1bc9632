"""`agentlearn serve` as a process: real clients through it, and what is left when it is killed."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from agentlearn import Library, LibraryStore
from agentlearn.serving.http11 import HttpRequest, HttpResponse, listening
from agentlearn.store import read_store
from tests.support.command import AGENTLEARN

pytestmark = pytest.mark.slow
LESSON = "Check whether both ends count."


def _chunk(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": finish}
    whole = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(whole).encode() + b"\n\n"


def _service(asked: list[HttpRequest]) -> Any:
    async def answer(request: HttpRequest) -> HttpResponse:
        asked.append(request)
        body = json.loads(request.body)
        if request.path.endswith("/messages"):
            said = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "42"}], "id": "r"}
            told = {**said, "model": "m", "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
            return HttpResponse(200, json.dumps(told).encode())
        if request.path.endswith("/responses"):
            text = {"type": "output_text", "text": "42", "annotations": []}
            output = [{"type": "message", "id": "o", "status": "completed", "role": "assistant", "content": [text]}]
            told = {
                "id": "r",
                "object": "response",
                "created_at": 1,
                "model": "m",
                "status": "completed",
                "output": output,
            }
            return HttpResponse(
                200, json.dumps({**told, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}).encode()
            )
        if body.get("stream"):
            pieces = [_chunk("4"), _chunk("2", "stop"), b"data: [DONE]\n\n"]
            return HttpResponse(200, pieces=pieces, content_type="text/event-stream")
        choice = {"index": 0, "message": {"role": "assistant", "content": "42"}, "finish_reason": "stop"}
        told = {"id": "r", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        return HttpResponse(200, json.dumps(told).encode())

    return answer


@contextmanager
def gateway(store: Path, upstream: str, *options: str) -> Generator[tuple[str, subprocess.Popen[bytes]]]:
    LibraryStore(store / "libraries").publish("math", Library.of([LESSON]))
    command = [AGENTLEARN, "serve", "--upstream", upstream, "--library", "math", "--port", "0", "--json", *options]
    with subprocess.Popen([*command, "--store", str(store)], stdout=subprocess.PIPE, cwd=store) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["base_url"], process
        finally:
            process.kill()


@asynccontextmanager
async def running(store: Path, *options: str) -> AsyncGenerator[tuple[str, subprocess.Popen[bytes], list[HttpRequest]]]:
    asked: list[HttpRequest] = []
    async with listening(_service(asked)) as port:
        with gateway(store, f"http://127.0.0.1:{port}", *options) as (address, process):
            yield address, process, asked


async def test_clients_of_openai_and_anthropic_work_through_it(tmp_path: Path) -> None:
    async with running(tmp_path) as (address, process, asked):
        client = AsyncOpenAI(base_url=address, api_key="k")
        question: Any = [{"role": "user", "content": "6 * 7?"}]
        whole = await client.chat.completions.create(model="m", messages=question)
        stream = await client.chat.completions.create(model="m", messages=question, stream=True)
        streamed = "".join([part.choices[0].delta.content or "" async for part in stream])
        response = await client.responses.create(model="m", input="6 * 7?")
        assert [whole.choices[0].message.content, streamed, response.output_text] == ["42", "42", "42"]
        wanted = 3
        try:
            from anthropic import AsyncAnthropic  # pyright: ignore[reportMissingImports]
        except ImportError:
            pass
        else:
            claude: Any = AsyncAnthropic(base_url=address.removesuffix("/v1"), api_key="k")
            message = await claude.messages.create(model="m", max_tokens=9, messages=question)
            await claude.close()
            assert message.content[0].text == "42"
            wanted = 4
        await client.close()
        assert len(asked) == wanted
        assert all(LESSON in one.body.decode() for one in asked)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait) == 128 + signal.SIGTERM
    with read_store(tmp_path) as reader:
        (run,) = reader.runs()
        assert {reader.trajectory(row.id).answer for row in reader.trajectories(run.run)} == {"42"}
        assert len(reader.trajectories(run.run)) == wanted


@pytest.mark.parametrize("moment", [3, 17, 40])
async def test_what_a_client_has_received_is_stored_when_the_gateway_is_killed(tmp_path: Path, moment: int) -> None:
    received: list[str] = []

    async def asks(caller: AsyncOpenAI, number: int, killed: asyncio.Event) -> None:
        for turn in range(20):
            question: Any = [{"role": "user", "content": f"client {number}, question {turn}"}]
            try:
                told = await caller.chat.completions.with_raw_response.create(model="m", messages=question)
            except Exception:
                return
            received.append(told.headers["x-agentlearn-rollout"])
            if len(received) >= moment:
                killed.set()

    async with running(tmp_path) as (address, process, _):
        killed = asyncio.Event()
        callers = [AsyncOpenAI(base_url=address, api_key="k", max_retries=0) for _ in range(8)]
        clients = [asyncio.ensure_future(asks(caller, number, killed)) for number, caller in enumerate(callers)]
        await killed.wait()
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.gather(*clients)
        for caller in callers:
            await caller.close()
    with read_store(tmp_path) as reader:
        found = {row.id for run in reader.runs() for row in reader.trajectories(run.run)}
    assert set(received) <= found
