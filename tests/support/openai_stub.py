"""A small OpenAI-compatible chat-completions server for tests, on a loopback port.

It shares no code with the simulated model, so that an error there does not affect both. A script decides the answers;
see `tests.support.openai_script`.

    with OpenAIStub(Solver(answers={"What is 2 + 2?": "4"}, success_rate=0.5)) as stub:
        ...  # the endpoint is f"{stub.base_url}#stub"; stub.requests and stub.counts record the requests

    python -m tests.support.openai_stub --port 8123 --answers answers.json
"""

import argparse
import json
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from tests.support.openai_script import Reply, Request, Script, Solver, Stage, digest, stage_of


class OpenAIStub:
    """The server. It runs inside a `with` block and records requests in `requests` and `counts`."""

    def __init__(self, script: Script | None = None, *, latency_s: float = 0.0, port: int = 0) -> None:
        self.script = script or Solver()
        self.latency_s = latency_s
        self.requests: list[Request] = []
        """Bodies of all chat requests, in order of arrival."""
        self.counts: Counter[Stage] = Counter()
        """Chat requests by stage, refused ones included."""
        self.peak_in_flight = 0
        self._in_flight = 0
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

    def serve_forever(self) -> None:
        """Serve in this thread until interrupted."""
        self._server.serve_forever()

    def answer(self, request: Request) -> Reply:
        """Count the request, wait for the latency, and return the script's reply."""
        with self._lock:
            self.requests.append(request)
            self.counts[stage_of(request)] += 1
            self._in_flight += 1
            self.peak_in_flight = max(self.peak_in_flight, self._in_flight)
        try:
            time.sleep(self.latency_s)
            return self.script(request)
        finally:
            with self._lock:
                self._in_flight -= 1


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
        match self.path:
            case "/v1/models":
                self._send(200, {"object": "list", "data": [{"id": "stub", "object": "model", "owned_by": "tests"}]})
            case "/v1/counts":
                self._send(200, self._stub.counts)
            case _:
                self._send(404, {"error": {"message": f"no {self.path}", "type": "not_found"}})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/v1/chat/completions":
            self._send(404, {"error": {"message": f"no {self.path}", "type": "not_found"}})
            return
        request = json.loads(body)
        if request.get("stream"):
            self._send(400, {"error": {"message": "this stub does not stream", "type": "stub_error"}})
            return
        reply = self._stub.answer(request)
        self._send(reply.status, _completion(request, reply) if reply.message else reply.body, reply.headers)

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


def _completion(request: Request, reply: Reply) -> dict[str, Any]:
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
        "usage": {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        },
    }


def main() -> None:
    """Serve the default script until interrupted; the first line on stdout is the base URL."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.openai_stub", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 chooses a free one")
    parser.add_argument("--latency-s", type=float, default=0.0, help="delay of each answer, seconds")
    parser.add_argument("--answers", type=Path, help="JSON file: an object from problem texts to right answers")
    parser.add_argument("--success-rate", type=float, default=0.5, help="share of attempts with the right answer")
    options = parser.parse_args()
    answers = json.loads(options.answers.read_text(encoding="utf-8")) if options.answers else {}
    script = Solver(answers=answers, success_rate=options.success_rate)
    stub = OpenAIStub(script, latency_s=options.latency_s, port=options.port)
    print(stub.base_url, flush=True)
    stub.serve_forever()


if __name__ == "__main__":
    main()
