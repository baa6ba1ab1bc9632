"""Kill child processes of a command while it runs."""

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.command import AGENTLEARN


@dataclass(frozen=True)
class KilledRun:
    """A command that ended, with the number of processes that were killed under it, by kind."""

    status: int
    report: dict[str, Any]
    stderr: str
    killed: Counter[str]


def descendants(pid: int) -> Iterator[tuple[int, int, str]]:
    """Process id, parent and command line of the processes below one."""
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, listing.read_text().split()):
                with suppress(OSError):
                    line = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                    yield child, pid, line
                    yield from descendants(child)


def kinds(pid: int) -> dict[str, list[int]]:
    """The helper processes of a run: `zygote`, its `session`s, `verifier`, its `worker`s, `rollouts` and `service`."""
    found: dict[str, list[int]] = {}
    names = {"inside/boot.py": ("zygote", "session"), "answers.verifier": ("verifier", "worker")}
    for child, parent, line in descendants(pid):
        for text, (top, below) in names.items():
            if text in line:
                found.setdefault(top if parent == pid else below, []).append(child)
        if "agentlearn.rollout.processes" in line and parent == pid:
            found.setdefault("rollouts", []).append(child)
        if "-m agentlearn_demo" in line:
            found.setdefault("service", []).append(child)
    return found


def run_and_kill(
    *arguments: str, cwd: Path, kill: Sequence[str], seed: int = 0, first_s: float = 1.5, gap_s: float = 1.0
) -> KilledRun:
    """Run a command with `--json`; kill one process of each kind in `kill`, in about this order, at random moments."""
    rng, waiting, killed = random.Random(seed), list(kill), Counter[str]()
    with (cwd / "stdout").open("w+b") as out, (cwd / "stderr").open("w+b") as err:
        run = subprocess.Popen([str(AGENTLEARN), *arguments, "--json"], cwd=cwd, stdout=out, stderr=err)
        due = time.monotonic() + first_s
        while run.poll() is None:
            time.sleep(0.01)
            if not waiting or time.monotonic() < due:
                continue
            running = kinds(run.pid)
            if (kind := next((kind for kind in waiting if kind in running), None)) is None:
                continue
            with suppress(ProcessLookupError):
                os.kill(rng.choice(running[kind]), signal.SIGKILL)
                waiting.remove(kind)
                killed[kind] += 1
            due = time.monotonic() + rng.uniform(0, 2 * gap_s)
        out.seek(0)
        err.seek(0)
        printed = out.read().decode()
        report = json.loads(printed) if run.returncode == 0 else {}
        return KilledRun(run.returncode, report, err.read().decode(), killed)
