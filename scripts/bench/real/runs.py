"""The commands of the real runs: each is a process of its own, started as a user would, with its CPU time counted."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any


class RunFailed(Exception):
    """Raised when a command ends with another exit status than 0."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command printed as JSON, and what it cost."""

    result: Any
    wall_s: float
    cpu_s: float


def agentlearn(*arguments: str, store: Path, threads: int) -> Ran:
    """Run `agentlearn … --json` and wait for it. threads: of torch. Raises RunFailed with the end of its messages."""
    return run([sys.executable, "-m", "agentlearn", *arguments, "--store", str(store), "--json"], threads=threads)


def run(command: Sequence[str], *, threads: int) -> Ran:
    """Run a command that prints one JSON object. Raises RunFailed with the end of its messages."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(Path.cwd())}
    began_s = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True)
    with process:
        printed, messages = _read_all(process)
        _, status, usage = os.wait4(process.pid, 0)  # `communicate` would not tell the CPU time
        process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - began_s
    if process.returncode:
        raise RunFailed(f"{' '.join(command[2:5])} … ended with status {process.returncode}: {messages[-800:]}")
    return Ran(json.loads(printed), wall_s, usage.ru_utime + usage.ru_stime)


def _read_all(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """Read both streams to their ends, at the same time."""
    assert process.stdout is not None
    assert process.stderr is not None
    with ThreadPoolExecutor(2) as readers:
        printed, messages = readers.map(_text_of, (process.stdout, process.stderr))
    return printed, messages


def _text_of(stream: IO[str]) -> str:
    return stream.read()
