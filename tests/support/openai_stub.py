"""A small OpenAI-compatible chat-completions server for tests, on a loopback port.

It shares no code with the simulated model, so that an error there does not affect both. A script decides the answers;
see `tests.support.openai_script`.

    with OpenAIStub(Solver(answers={"What is 2 + 2?": "4"}, success_rate=0.5)) as stub:
        ...  # the endpoint is f"{stub.base_url}#stub"; stub.requests and stub.counts record the requests
"""

import json
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast

from tests.support.openai_script import Reply, Request, Script, Solver, Stage, digest, error, stage_of


class OpenAIStub:
    """The server. It runs inside a `with` block and records requests in `requests` and `counts`."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        latency_s: float = 0.0,
        port: int = 0,
        gate: Callable[[str, str], Reply | None] | None = None,
    ) -> None:
        """gate: is given the path and the `Authorization` of each request; what it returns is the response."""
        self.script, self.gate = script or Solver(), gate
        self.latency_s = latency_s
        self.requests: list[Request] = []
        """Bodies of all chat requests, in order of arrival."""
        self.counts: Counter[Stage] = Counter()
        """Chat requests by stage, refused ones included."""
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        """URL for clients, including `/v1`."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, request: Request) -> Reply:
        """Count the request, wait for the latency, and return the script's reply."""
        with self._lock:
            self.requests.append(request)
            self.counts[stage_of(request)] += 1
        time.sleep(self.latency_s)
        return self.script(request)


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True

    def __init__(self, address: tuple[str, int], stub: OpenAIStub) -> None:
        super().__init__(address, _Connection)
        self.stub = stub
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnected; print any other error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def server_close(self) -> None:
        super().server_close()
        for connection in list(self._open):
            self.shutdown_request(connection)


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def _stub(self) -> OpenAIStub:
        return cast("_Server", self.server).stub

    def do_GET(self) -> None:
        self._respond(None)

    def do_POST(self) -> None:
        self._respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _respond(self, request: Request | None) -> None:
        stub = self._stub
        path = self.path.partition("?")[0]
        reply = stub.gate(self.path, self.headers.get("Authorization", "")) if stub.gate else None
        if reply is None and request is not None and path == "/v1/chat/completions":
            if request.get("stream"):
                reply = error(400, {"error": {"message": "this stub does not stream", "type": "stub_error"}})
            else:
                reply = stub.answer(request)
        elif reply is None and path == "/v1/models":
            reply = Reply(body={"object": "list", "data": [{"id": "stub", "object": "model", "owned_by": "tests"}]})
        elif reply is None:
            reply = error(404, {"error": {"message": f"no {path}", "type": "not_found"}})
        self._send(reply.status, completion(request, reply) if request and reply.message else reply.body, reply.headers)

    def _send(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        raw = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(raw))}.items():
            self.send_header(name, value)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  named by the base class
        """Print nothing; requests are recorded in `requests`."""


def completion(request: Request, reply: Reply) -> dict[str, Any]:
    """Return the body of a whole reply."""
    tokens_in, tokens_out = len(json.dumps(request["messages"])) // 4, len(json.dumps(reply.message)) // 4
    assert reply.message is not None
    return {
        "id": f"chatcmpl-{digest(request['messages'], reply.message):016x}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.get("model", "stub"),
        "choices": [
            {
                "index": 0,
                "message": reply.message,
                "finish_reason": "tool_calls" if "tool_calls" in reply.message else "stop",
            }
        ],
        "usage": {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out},
    }
