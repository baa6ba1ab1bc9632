"""A process that runs tests with one fault at a time. It runs in a copy of the project, which it may change.

It imports the libraries once, which takes seconds, and forks for each fault. It reads a job as JSON from each line of
stdin, and writes the result as JSON to a line of stdout.
"""

import importlib
import itertools
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.bench.planted_faults.fault import PACKAGE

LIBRARIES = (
    *("torch", "transformers", "peft", "accelerate", "trl.trainer.grpo_trainer", "safetensors.torch", "tokenizers"),
    *(
        "transformers.models.qwen3.modeling_qwen3",
        "torch.distributed.checkpoint.state_dict",
        "torch.distributed.tensor",
    ),
    *("pytest", "hypothesis", "hypothesis.strategies", "pydantic_ai", "httpx2", "jinja2", "duckdb", "psutil"),
    *("agentlearn.config", "agentlearn.learning.loop", "agentlearn.models.endpoint", "agentlearn.rollout.runner"),
    *(
        "agentlearn.serving.chat_service",
        "agentlearn.serving.supervised_server",
        "agentlearn.store",
        "agentlearn.cli.app",
    ),
)
"""Modules that tests of `agentlearn.train` use, without `agentlearn.train` itself."""
PLANTED_BUGS = "tests/unit/train/test_losses_oracle.py::test_a_planted_bug_is_seen"
"""Not run: it looks for texts in the source, so it fails for every fault that changes them."""
_STAMPS = itertools.count(int(time.time()) - 10**8, 2)


class _Recorder:
    """A pytest plugin that writes the first failure to a file, and the test that is running to another."""

    def __init__(self, file: Path, running: Path) -> None:
        self._file = file
        self._running = running

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running.write_text(nodeid, encoding="utf-8")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._write(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._write(f"import of {report.nodeid}")

    def _write(self, name: str) -> None:
        if not self._file.exists():
            self._file.write_text(name, encoding="utf-8")


def run_tests(arguments: Sequence[str], *, limit_s: float) -> dict[str, Any]:
    """Run pytest in a forked child; returns its exit status, the first failed test, and the seconds that it took.

    A child in which one test takes longer than `limit_s` is ended. Then the status is None, and that test has failed.
    The time of all tests together has no limit: on a busy machine it would end runs that only take long.
    """
    began = time.monotonic()
    failed, running, log = Path(".failed"), Path(".running"), Path(".log")
    for file in (failed, running):
        file.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _child(arguments, _Recorder(failed.resolve(), running.resolve()), log)
    status = _wait(child, running, limit_s)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # servers that a test has started
    if status is None:
        os.waitpid(child, 0)
    return {
        "status": status,
        "failed": _text(running if status is None else failed),
        "took_s": time.monotonic() - began,
        "log": log.read_text(encoding="utf-8", errors="replace")[-3000:],
    }


def _child(arguments: Sequence[str], recorder: _Recorder, log: Path) -> None:
    """Run pytest with its output in a file, and end this process."""
    status = 70
    try:
        os.setsid()
        with log.open("wb") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        import pytest

        further = ("-x", "-p", "no:cacheprovider", "-p", "no:xdist", f"--deselect={PLANTED_BUGS}")
        ignored = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
        status = int(pytest.main([*arguments, *further, *ignored], plugins=[recorder]))
        sys.stdout.flush()
    finally:
        os._exit(status)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _wait(child: int, running: Path, limit_s: float) -> int | None:
    """Wait for the child's exit status; None when one test runs for longer than `limit_s`.

    running: the file with the name of the running test. Before the first test, imports have ten times as long.
    """
    test, began = "", time.monotonic()
    while time.monotonic() - began < (limit_s if test else 10 * limit_s):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if (now := _text(running)) != test:
            test, began = now, time.monotonic()
        time.sleep(0.02)
    return None


@contextmanager
def _changed(file: str, source: str) -> Generator[None]:
    """Change a file inside the block. Each version has its own time, by which Python knows its compiled form."""
    path = PACKAGE / file
    kept = path.read_text(encoding="utf-8")
    _write(path, source)
    try:
        yield
    finally:
        _write(path, kept)


def _write(path: Path, source: str) -> None:
    path.write_text(source, encoding="utf-8")
    stamp = next(_STAMPS)
    os.utime(path, (stamp, stamp))


def main() -> None:
    """Serve jobs until stdin ends."""
    sys.dont_write_bytecode = False  # compiling all modules for each fault would take longer than the tests
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in LIBRARIES:
            importlib.import_module(name)
    early = [name for name in sys.modules if name.startswith("agentlearn.train")]
    assert not early, f"imported before a fault was planted: {early}"
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        with _changed(job["file"], job["source"]):
            print(json.dumps(run_tests(job["arguments"], limit_s=job["limit_s"])), flush=True)


if __name__ == "__main__":
    main()
