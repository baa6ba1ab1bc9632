"""A loopback server that records what an OpenAI client sends, for chat completions and responses, streamed or whole."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast

REPLY = '{"answer": 4}'


class OpenAIEcho:
    """The server, inside a `with` block. `sent` holds the path and the body of each request."""

    def __init__(self, *, failures: int = 0) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.failures = failures
        """How many of the first requests get the status 500."""
        self._server = _Server(("127.0.0.1", 0), _Connection)
        self._server.echo = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        """URL for clients."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def last(self) -> dict[str, Any]:
        """The body of the last request."""
        return self.sent[-1][1]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True
    echo: OpenAIEcho


class _Connection(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._send(404, "application/json", "{}")

    def do_POST(self) -> None:
        echo = cast("_Server", self.server).echo
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        echo.sent.append((self.path, body))
        if len(echo.sent) <= echo.failures:
            self._send(500, "application/json", "{}")
            return
        whole = _completion() if self.path.partition("?")[0].endswith("/chat/completions") else _response()
        if body.get("stream"):
            events = _chunks() if "choices" in whole else [{"type": "response.completed", "response": whole}]
            text = "".join(f"data: {json.dumps(event | {'sequence_number': 1})}\n\n" for event in events)
            self._send(200, "text/event-stream", f"{text}data: [DONE]\n\n")
        else:
            self._send(200, "application/json", json.dumps(whole))

    def _send(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  named by the base class
        """Print nothing."""


def _completion() -> dict[str, Any]:
    message = {"role": "assistant", "content": REPLY, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def _chunks() -> list[dict[str, Any]]:
    def chunk(delta: dict[str, Any], end: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": end}
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    return [chunk({"role": "assistant", "content": REPLY}, None), chunk({}, "stop")]


def _response() -> dict[str, Any]:
    content = [{"type": "output_text", "text": REPLY, "annotations": []}]
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": content}
    return {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
