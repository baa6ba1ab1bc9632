"""Rollouts in two workers compared with rollouts in one process, on the same cores: wall time, CPU and memory.

A stub model on loopback solves sums. Each rollout has two calls and runs a small program in the code sandbox. Each
round makes four runs: in process and with workers, a short one and a long one. The steady state is what the long run
takes more than the short one, per rollout: without the start, which takes one import of agentlearn in each process.
CPU is that of the command with all its processes. That of the stub, in this process, is not in it.

    taskset -c 0,1 just bench workers
    taskset -c 0,1 just bench workers --rounds 5 --sandbox unsafe-local
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from scripts.bench.found import Found, Row, Target
from tests.support.openai_script import Solver
from tests.support.openai_stub import OpenAIStub

GROUP = 5
PROBLEMS = (30, 150)
"""Of the short run and of the long one."""
EACH_S = 0.1
"""Seconds between two looks at the processes."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds; medians are printed")
    parser.add_argument("--workers", type=int, default=2, help="number of workers")
    parser.add_argument("--sandbox", default=None, help="the code sandbox; none: no tools, one call in a rollout")


@dataclass(frozen=True, slots=True)
class Used:
    """What a command took, or what one took more than another."""

    rollouts: int
    wall_s: float
    cpu_s: float
    driver_cpu_s: float
    worker_mib: float

    def beyond(self, short: "Used") -> "Used":
        """Return what this run took more than a shorter one."""
        return Used(
            self.rollouts - short.rollouts,
            self.wall_s - short.wall_s,
            self.cpu_s - short.cpu_s,
            self.driver_cpu_s - short.driver_cpu_s,
            self.worker_mib,
        )


def measure(chosen: argparse.Namespace) -> Found:
    """Measure both ways in turn, and compare them round by round."""
    rounds = list[dict[str, Used]]()
    for number in range(chosen.rounds):
        order = ("process", "workers") if number % 2 else ("workers", "process")
        runs = {where: [_run(where, problems, chosen) for problems in PROBLEMS] for where in order}
        rounds.append({where: long.beyond(short) for where, (short, long) in runs.items()})
    names = {"process": "in process", "workers": f"{chosen.workers} workers"}
    ratios = {
        what: [getattr(one["workers"], what) / getattr(one["process"], what) for one in rounds]
        for what in ("wall_s", "cpu_s")
    }
    return Found(
        rows=tuple(_row(name, [one[where] for one in rounds]) for where, name in names.items()),
        targets=tuple(
            Target(
                what=f"{what} with workers, times that in process", figure=_median(found), bound="at_most", limit=1.1
            )
            for what, found in ratios.items()
        ),
        notes=tuple(
            f"{what}, round by round: {', '.join(f'{one:.2f}' for one in found)}" for what, found in ratios.items()
        ),
    )


def _row(name: str, found: list[Used]) -> Row:
    return Row(
        name=name,
        figures={
            "rollouts": found[0].rollouts,
            "wall_ms_per_rollout": _median([1000 * one.wall_s / one.rollouts for one in found]),
            "cpu_ms_per_rollout": _median([1000 * one.cpu_s / one.rollouts for one in found]),
            "driver_cpu_ms_per_rollout": _median([1000 * one.driver_cpu_s / one.rollouts for one in found]),
            "worker_peak_mib": max(one.worker_mib for one in found) or None,
        },
    )


def _median(found: list[float]) -> float:
    return statistics.median(found)


def _run(where: str, problems: int, chosen: argparse.Namespace) -> Used:
    answers = {f"What is {n} plus {n + 3}?": str(2 * n + 3) for n in range(problems)}
    tools = (
        ()
        if chosen.sandbox == "none"
        else ("--tools", "python", *(("--sandbox", chosen.sandbox) if chosen.sandbox else ()))
    )
    spread = ("--workers", str(chosen.workers)) if where == "workers" else ()
    with tempfile.TemporaryDirectory() as folder, OpenAIStub(Solver(answers=answers, success_rate=1.0)) as stub:
        rows = [json.dumps({"problem": problem, "answer": answer}) for problem, answer in answers.items()]
        (Path(folder) / "sums.jsonl").write_text("\n".join(rows))
        command = [sys.executable, "-m", "agentlearn", "learn", "sums.jsonl", "--reward", "number", "--no-eval"]
        command += ["--test-share", "0", "--model", f"{stub.base_url}#stub", "--epochs", "1", "--json"]
        command += ["--batch-size", str(problems), "--group-size", str(GROUP), *tools, *spread]
        began = time.perf_counter()
        run = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        driver, worker_mib = 0.0, 0.0
        while not (ended := os.wait4(run.pid, os.WNOHANG))[0]:
            with suppress(psutil.Error):
                process = psutil.Process(run.pid)
                times = process.cpu_times()
                driver = times.user + times.system
                for one in process.children():
                    if "agentlearn.rollout.processes" in " ".join(one.cmdline()):
                        worker_mib = max(worker_mib, one.memory_full_info().uss / 2**20)
            time.sleep(EACH_S)
        wall_s = time.perf_counter() - began
        run.returncode = os.waitstatus_to_exitcode(ended[1])
        if run.returncode:
            raise RuntimeError(run.stderr.read().decode() if run.stderr else "the run failed")
        rollouts = stub.counts["solve"] // (2 if tools else 1)
        return Used(rollouts, wall_s, ended[2].ru_utime + ended[2].ru_stime, driver, worker_mib)
