"""Learn runs killed by SIGKILL at random times and resumed, compared with an uninterrupted run (simulated model).

The server counts the requests of each run; requests beyond those of the uninterrupted run are repeated ones. The
benchmark also checks that the library and the scores on held-out tasks are the same, and that no record found after a
kill is missing after the next kill.

    just bench resume
    just bench resume --kills 60
"""

import argparse
import asyncio
import json
import subprocess
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import httpx2

from agentlearn.store import read_store
from agentlearn_demo.endpoints import sim_endpoint
from scripts.bench.found import Found, Number, Row, Target
from tests.support.command import AGENTLEARN

IN_FLIGHT = 16


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--kills", type=int, default=10, help="number of kills in all runs together")
    parser.add_argument("--per-run", type=int, default=6, help="most kills of one run")
    parser.add_argument("--limit", type=int, default=10, help="number of tasks, with 5 rollouts each")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random times")


def measure(chosen: argparse.Namespace) -> Found:
    """Kill and resume runs, and compare them with the uninterrupted run."""
    rows = asyncio.run(_runs(chosen))
    kills, lost, repeated, same = (
        sum(row.figures[name] or 0 for row in rows) for name in ("kills", "records_lost", "repeated", "same_result")
    )
    total: dict[str, Number] = {
        "kills": kills,
        "records_lost": lost,
        "repeated": repeated,
        "repeated_per_kill": repeated / kills,
        "same_result": same == len(rows),
    }
    return Found(
        rows=(*rows, Row(name="all", figures=total)),
        targets=(
            Target(what="acknowledged records lost", figure=lost, bound="at_most", limit=0),
            Target(what="runs that ended otherwise", figure=len(rows) - same, bound="at_most", limit=0),
            Target(what="requests repeated per kill", figure=repeated / kills, bound="at_most", limit=IN_FLIGHT),
        ),
        notes=("repeated: requests at the server beyond those of an uninterrupted run",),
    )


async def _runs(options: argparse.Namespace) -> list[Row]:
    rng, kills, rows = Random(options.seed), 0, list[Row]()
    async with sim_endpoint("novice", options={"latency-s": 0.02}) as service:
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            plain = await _ended(_command(service.base_url, Path(folder) / "plain", options.limit))
            plain_s, asked = time.perf_counter() - began, await _requests(service.base_url)
            while kills < options.kills:
                before, store = await _requests(service.base_url), Path(folder) / f"killed-{len(rows)}"
                moments = [rng.uniform(1.0, max(2.0, 0.6 * plain_s)) for _ in range(options.per_run)]
                killed = Killed(store, _command(service.base_url, store, options.limit))
                for moment in moments[: options.kills - kills]:
                    if not await killed.once_more(moment):
                        break
                report = killed.report or await _ended(killed.command)
                kills += killed.kills
                figures: dict[str, Number] = {
                    "kills": killed.kills,
                    "requests": (asked_here := await _requests(service.base_url) - before),
                    "undisturbed": asked,
                    "repeated": asked_here - asked,
                    "records_lost": killed.lost,
                    "same_result": report["library"] == plain["library"] and report["after"] == plain["after"],
                }
                rows.append(Row(name=f"run {len(rows)}", figures=figures))
    return rows


class Killed:
    """One run that is killed and resumed, with a count of the records that were lost."""

    def __init__(self, store: Path, command: list[str]) -> None:
        self.store = store
        self.command = command
        self.kills = 0
        self.lost = 0
        self.report: dict[str, Any] | None = None
        """Report of the run, if it finished before the next kill."""
        self._rollouts: set[str] = set()
        self._calls = 0

    async def once_more(self, after_s: float) -> bool:
        """Run for `after_s`, kill the process and check its records. Return False if the run finished earlier."""
        child = await asyncio.create_subprocess_exec(
            *self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            async with asyncio.timeout(after_s):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()
            self.kills += 1
        if not (self.store / "store.duckdb").exists():
            return True
        with read_store(self.store) as reader:
            rows = reader.runs()
            if not rows:
                return True
            rollouts, calls = {one.id for one in reader.trajectories(rows[0].run)}, reader.counts(rows[0].run).calls
            self.lost += len(self._rollouts - rollouts) + max(self._calls - calls, 0)
            self._rollouts, self._calls = {str(one) for one in rollouts}, calls
        self.command = [str(AGENTLEARN), "learn", "--resume", rows[0].run, "--store", str(self.store), "--json"]
        if rows[0].state != "done":
            return True
        self.report = json.loads(rows[0].report)
        return False


def _command(base_url: str, store: Path, limit: int) -> list[str]:
    options = {"limit": limit, "epochs": 1, "batch-size": 5, "eval-rollouts": 1, "concurrency": IN_FLIGHT}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [str(AGENTLEARN), "learn", "math", "--model", f"{base_url}#novice", *words, "--store", str(store), "--json"]


async def _ended(command: list[str]) -> dict[str, Any]:
    """Return the report of a command that is not killed."""
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    said, _ = await child.communicate()
    return json.loads(said)


async def _requests(base_url: str) -> int:
    """Return the number of requests that the server has received."""
    async with httpx2.AsyncClient() as client:
        return (await client.get(base_url.removesuffix("/v1") + "/stats")).json()["requests"]
