"""The same forty additions on a service with one fault, asked by agentlearn and by Inspect.

    python -m tests.bench.faults_beside_inspect --inspect OTHER_VENV/bin/inspect [FAULT ...]

Inspect needs an environment of its own: `pip install inspect_ai openai`. The service answers every question right, so
each sample should be right or without a score. A fault hits every tenth request; `FAULT!` hits every request for one
of the questions instead.
"""

import argparse
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, cast

TASKS = 40
POISONED = (5, 12)
"""The question that `FAULT!` hits."""
LIMIT_S = 240
_INSPECT_TASK = f"""
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate

@task
def adds():
    samples = [
        Sample(id=str(i), input=f"What is {{i}} + {{i + 7}}? Write ANSWER: and the number.", target=str(2 * i + 7))
        for i in range({TASKS})
    ]
    return Task(dataset=samples, solver=generate(), scorer=match())
"""

Reply = dict[str, Any]
Spoil = Callable[[Reply], bytes | None]
"""Makes the body of a spoiled reply; None resets the connection."""


def _with(path: tuple[str | int, ...], value: object) -> Spoil:
    def spoil(reply: Reply) -> bytes:
        place: Any = reply
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return _body(reply)

    return spoil


def _body(reply: Reply) -> bytes:
    return json.dumps(reply).encode()


FAULTS: dict[str, Spoil] = {
    "no_choices": _with(("choices",), []),
    "deep_json": lambda _reply: b'{"id":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "huge_usage": _with(("usage", "prompt_tokens"), 10**19),
    "negative_usage": _with(("usage", "prompt_tokens"), -5),
    "null_content": _with(("choices", 0, "message", "content"), None),
    "list_message": _with(("choices", 0, "message"), ["x"]),
    "html": lambda _reply: b"<html>proxy error</html>",
    "cut": lambda reply: _body(reply)[:60],
    "not_utf8": lambda reply: _body(reply).replace(b"ANSWER", b"\xff\xfe"),
    "error_in_200": lambda _reply: b'{"error": {"message": "upstream failed", "code": 502}}',
    "reset": lambda _reply: None,
}
OUTAGES_S = {"outage_20": 20.0, "outage_60": 60.0}


class FaultyService(ThreadingHTTPServer):
    """A chat-completions service with one fault."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, fault: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.fault, self.one_question = fault.removesuffix("!"), fault.endswith("!")
        self.served = 0
        self.silent_until: float | None = None
        self.counting = threading.Lock()

    def hits(self, number: int, question: tuple[int, int]) -> bool:
        """Whether the fault hits this request."""
        return question == POISONED if self.one_question else number % 10 == 0

    def is_silent(self, number: int) -> bool:
        """Whether an outage goes on; it begins with the tenth request."""
        if self.fault in OUTAGES_S and number == 10:
            self.silent_until = time.monotonic() + OUTAGES_S[self.fault]
        return self.silent_until is not None and time.monotonic() < self.silent_until


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(200, b'{"object": "list", "data": [{"id": "stub", "object": "model"}]}')

    def do_POST(self) -> None:
        service = cast("FaultyService", self.server)
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with service.counting:
            service.served += 1
            number = service.served
        a, b = map(int, re.findall(r"(\d+) \+ (\d+)", asked)[-1])
        if service.is_silent(number):
            return self._send(503, b'{"error": {"message": "overloaded"}}')
        reply = {
            "id": f"c{number}",
            "object": "chat.completion",
            "created": 1,
            "model": "stub",
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": f"ANSWER: {a + b}"}}
            ],
            "usage": {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35},
        }
        if not service.hits(number, (a, b)) or service.fault in OUTAGES_S:
            return self._send(200, _body(reply))
        if service.fault == "500":
            return self._send(500, b'{"error": {"message": "oops"}}')
        body = FAULTS[service.fault](reply)
        return self._reset() if body is None else self._send(200, body)

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (OSError, ValueError):
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name in the base class
        pass


class Result(NamedTuple):
    """What became of the samples."""

    status: int | None
    """Exit status; None: stopped after `LIMIT_S`."""
    right: int
    wrong: int
    unscored: int
    seconds: float


@contextmanager
def faulty_service(fault: str) -> Generator[FaultyService]:
    """Serve in a thread while the block runs."""
    service = FaultyService(fault)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    try:
        yield service
    finally:
        service.shutdown()
        service.server_close()


def ask_inspect(program: str, fault: str, folder: Path) -> Result:
    """Ask with Inspect's defaults."""
    (folder / "adds.py").write_text(_INSPECT_TASK, encoding="utf-8")
    options = ["--log-dir", "logs", "--log-format", "json", "--display", "plain"]
    with faulty_service(fault) as service:
        environment = {
            **os.environ,
            "STUB_BASE_URL": f"http://127.0.0.1:{service.server_port}/v1",
            "STUB_API_KEY": "none",
        }
        command = [program, "eval", "adds.py", "--model", "openai-api/stub/stub", *options]
        status, seconds = _run(command, folder, environment)
    samples = [one for log in (folder / "logs").glob("*.json") for one in json.loads(log.read_text())["samples"] or ()]
    values = Counter(next(iter(one["scores"].values()))["value"] if one.get("scores") else None for one in samples)
    return Result(status, values["C"], values["I"], TASKS - values["C"] - values["I"], seconds)


def ask_agentlearn(fault: str, folder: Path) -> Result:
    """Ask the same with `compare`, whose two equal arms ask each question twice; the counts are of the first arm."""
    lines = [{"problem": f"What is {i} + {i + 7}?", "answer": str(2 * i + 7)} for i in range(TASKS)]
    (folder / "adds.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    with faulty_service(fault) as service:
        model = f"http://127.0.0.1:{service.server_port}/v1#stub"
        arms = ["none", "none,temperature=0.9"]
        options = ["--domain", "adds.jsonl", "--reward", "number", "-k", "1", "--model", model, "--json"]
        command = [sys.executable, "-m", "agentlearn", "compare", *arms, *options]
        status, seconds = _run(command, folder, dict(os.environ))
    from agentlearn.store import Selection, read_store

    with read_store(folder / ".agentlearn") as store:
        rewards = [row.reward for row in store.selected(Selection())]
    right, wrong = sum(one == 1 for one in rewards) // 2, sum(one == 0 for one in rewards) // 2
    return Result(status, right, wrong, TASKS - right - wrong, seconds)


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[int | None, float]:
    began = time.monotonic()
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return None, LIMIT_S
    return done.returncode, time.monotonic() - began


def main() -> None:
    """Print one row per fault and program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--inspect", required=True, help="the program `inspect` of an environment with inspect_ai")
    parser.add_argument("fault", nargs="*", default=["500", *FAULTS, *OUTAGES_S, "no_choices!", "html!", "500!"])
    given = parser.parse_args()
    print("| fault | program | exit status | right | wrong | no score | s |\n|---|---|---|---|---|---|---|")
    for fault in given.fault:
        for program in ("agentlearn", "Inspect"):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                result = (
                    ask_agentlearn(fault, folder)
                    if program == "agentlearn"
                    else ask_inspect(str(Path(given.inspect).absolute()), fault, folder)
                )
            status = f"none after {LIMIT_S} s" if result.status is None else result.status
            print(
                f"| {fault} | {program} | {status} | {result.right} | {result.wrong} | {result.unscored} |"
                f" {result.seconds:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
