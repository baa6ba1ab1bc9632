"""A signal to a whole group of processes, as from a terminal, reaches the driver of the browser too."""

import signal
from pathlib import Path

import pytest

from tests.support.signalled import run_and_signal
from tests.web.browsers import needs_browser

pytestmark = [needs_browser, pytest.mark.slow]

LEARN = ("learn", "web", "--model", "sim:novice", "--limit", "4", "--epochs", "1", "--batch-size", "4", "--seed", "1")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_saves_its_walks_or_says_once_that_it_could_not(
    tmp_path: Path, number: signal.Signals
) -> None:
    def begun(_: Path) -> bool:
        return len([*(tmp_path / "walks").rglob("step-02.png")]) > 1

    record = ("--record", "walks")
    done = run_and_signal(*LEARN, *record, cwd=tmp_path, numbers=[number], after=begun, group=True)
    assert (done.status, done.noise, done.left) == (128 + number, [], ())
    assert done.resume is not None
    assert done.resume[:2] == ["learn", "--resume"]
    lost = [line for line in done.lines if "recording" in line]
    if number == signal.SIGINT:  # Playwright's driver goes on
        assert (lost, bool([*(tmp_path / "walks").rglob("trace.zip")])) == ([], True)
    else:
        assert [("recordings.lost" in line, "walks=" in line) for line in lost] == [(True, True)]
