"""Whole runs of the web domain in a real browser: they learn, and killed runs leave nothing behind."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from agentlearn.store import read_store
from tests.support.command import AGENTLEARN, agentlearn
from tests.web.browsers import needs_browser

pytestmark = [needs_browser, pytest.mark.slow]

SMALL = ("--limit", "4", "--epochs", "1", "--batch-size", "2", "--group-size", "3", "--no-eval")
PATIENCE_S = 60.0


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds. Fails after PATIENCE_S."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.05)


def killed_with_all_it_started(process: subprocess.Popen[str]) -> None:
    """Kill only the process, and check that its children end."""
    started = psutil.Process(process.pid).children(recursive=True)
    assert any("chrom" in one.name() for one in started), "no browser was running, so nothing would be shown"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: not any(_lives(one) for one in started), "an end of every process of the browser")


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_killed_run_leaves_no_browser_and_its_walks_restart(tmp_path: Path) -> None:
    whole = json.loads(agentlearn("learn", "web", *SMALL, "--store", "whole", "--json", cwd=tmp_path).stdout)
    command = [str(AGENTLEARN), "learn", "web", *SMALL, "--store", "cut"]
    process = subprocess.Popen(command, cwd=tmp_path, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journal = tmp_path / "cut"
    until(lambda: _walked(journal), "a walk under way")
    killed_with_all_it_started(process)

    (run,) = json.loads(agentlearn("runs", "list", "--store", "cut", "--json", cwd=tmp_path).stdout)["runs"]
    assert run["state"] == "interrupted"
    resumed = agentlearn("learn", "--resume", run["run"], "--store", "cut", "--json", cwd=tmp_path)
    report = json.loads(resumed.stdout)
    assert report["library"] == whole["library"]
    assert report["rollouts"] == whole["rollouts"]
    with read_store(tmp_path / "cut") as store:
        attempts = [one.attempt for one in store.trajectories(run["run"])]
    assert 1 in attempts
    assert any(f"{sum(attempts)} rollout attempts were given up and started again" in note for note in report["notes"])
    with read_store(tmp_path / "whole") as store:
        assert {one.attempt for one in store.trajectories(whole["run"])} == {0}


def _walked(store: Path) -> bool:
    """Whether an act of a walk is stored, and the run is still going."""
    return any(b'"kind":"tool"' in file.read_bytes() for file in store.glob("*journal*") if file.is_file())
