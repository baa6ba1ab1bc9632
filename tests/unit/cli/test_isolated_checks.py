"""Each check of the doctor stands alone: what it raises, and how long it takes, does not reach the others."""

import sys
import threading
from collections.abc import Iterator

import pytest

from agentlearn.cli.machine import Check, results_of
from agentlearn.domain.base import CheckResult
from agentlearn.errors import ConfigError

FINE = CheckResult(what="first", state="ok", words="fine")


def raising(error: BaseException) -> Iterator[CheckResult]:
    yield FINE
    raise error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "No such file", "vllm"), "the check failed: FileNotFoundError: [Errno 2] No such file"),
        (SystemExit(0), "the check failed: SystemExit: 0"),
        (KeyboardInterrupt(), "the check failed: KeyboardInterrupt"),
        (MemoryError(), "the check failed: MemoryError"),
        (ConfigError("it cannot be used; do that"), "it cannot be used; do that"),
    ],
)
def test_whatever_a_check_raises_is_one_more_line(error: BaseException, words: str) -> None:
    found = results_of(Check("some check", lambda: raising(error)), lambda _: None)
    assert found[0] == FINE
    assert (found[1].what, found[1].state) == ("some check", "broken")
    assert found[1].words.startswith(words)


def test_a_check_that_hangs_is_named_and_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    named, ended, stdout = list[str](), threading.Event(), sys.stdout

    def hangs() -> Iterator[CheckResult]:
        monkeypatch.setattr(sys, "stdout", sys.stderr)
        yield FINE
        ended.wait()

    (hung,) = results_of(Check("slow", hangs, 0.2), named.append, slow_s=0.1)[-1:]
    ended.set()
    assert named == ["slow"]
    assert (hung.state, hung.words) == ("broken", "the check did not finish in 0.2 s")
    assert sys.stdout is stdout
