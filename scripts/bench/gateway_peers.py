"""Servers for `bench_gateway`: a stub of a model service, and a proxy that only passes bytes on.

python -m scripts.bench.gateway_peers service 8501
python -m scripts.bench.gateway_peers bare 8502 http://127.0.0.1:8501
"""

import json
import sys
from typing import Any

import uvicorn
from aiohttp import ClientSession, TCPConnector

CHUNKS = 20
"""Events of a stream, beside the last one."""


def _chunk(text: str, finish: str | None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    whole = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "stub", "choices": [choice]}
    return b"data: " + json.dumps(whole).encode() + b"\n\n"


_STREAM = [_chunk(f"word{n} ", "stop" if n == CHUNKS - 1 else None) for n in range(CHUNKS)] + [b"data: [DONE]\n\n"]
_CHOICE = {"index": 0, "message": {"role": "assistant", "content": "word " * 20}, "finish_reason": "stop"}
_USAGE = {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70}
_HEAD = {"id": "r", "object": "chat.completion", "created": 1, "model": "stub"}
_WHOLE = json.dumps({**_HEAD, "choices": [_CHOICE], "usage": _USAGE}).encode()


async def _body(receive: Any) -> bytes:
    parts: list[bytes] = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    return b"".join(parts)


async def service(scope: Any, receive: Any, send: Any) -> None:
    """Answer every request, as a stream where it asks for one."""
    if scope["type"] != "http":
        return
    streamed = b'"stream"' in await _body(receive)
    kind = b"text/event-stream" if streamed else b"application/json"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    for part in _STREAM if streamed else [_WHOLE]:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


class Bare:
    """Passes requests and replies on, and does nothing else."""

    def __init__(self, upstream: str) -> None:
        self._upstream, self._session = upstream, None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass one request on."""
        if scope["type"] != "http":
            return
        session = self._session = self._session or ClientSession(connector=TCPConnector(limit=0))
        content = await _body(receive)
        headers = [(a.decode(), b.decode()) for a, b in scope["headers"] if a not in {b"host", b"content-length"}]
        async with session.request(
            scope["method"], self._upstream + scope["path"], data=content, headers=headers
        ) as told:
            kept = [one for one in told.raw_headers if one[0].lower() != b"transfer-encoding"]
            await send({"type": "http.response.start", "status": told.status, "headers": kept})
            async for part in told.content.iter_any():
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


if __name__ == "__main__":
    app: Any = service if sys.argv[1] == "service" else Bare(sys.argv[3])
    uvicorn.run(app, port=int(sys.argv[2]), log_level="critical", access_log=False, lifespan="off")
