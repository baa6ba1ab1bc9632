"""A learn run through a storm beside the same run in calm weather: wall time, failures, what is left behind.

The storm, in a service on loopback (simulated): 20 % of requests refused with 429 and Retry-After, 5 % answered 5xx,
3 % reset, 3 % stalled past the deadline, 10 % answered with garbage. Failures are drawn by request, so that a retry is
another draw.

    just bench storm
    just bench storm --limit 40 --in-flight 64 --latency-s 1
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import psutil

from agentlearn import LearnReport, LearnSettings
from agentlearn.calls.account import Account
from agentlearn.calls.endpoint import Endpoint
from agentlearn.learn.loop import run_learning
from agentlearn.learn.observer import Observer
from agentlearn.sim.endpoint import sim_endpoint
from agentlearn.task import Task

STORM = {"rate-limited": 0.20, "server-error": 0.05, "reset": 0.03, "stall": 0.03, "garbled": 0.10}


class Looker(Observer):
    """Remembers the endpoint."""

    endpoint: Endpoint

    def opened(
        self, account: Account, endpoint: Endpoint, reflector: Endpoint, train: tuple[Task, ...], test: tuple[Task, ...]
    ) -> None:
        self.endpoint = endpoint


async def measure(options: argparse.Namespace, dials: dict[str, float]) -> tuple[LearnReport, float, int, int]:
    """The report, wall seconds, and asyncio tasks and sockets that the run left behind."""
    latency = {"latency-s": options.latency_s, "latency-spread": 0.3, "retry-after-s": 1.0}
    async with sim_endpoint("novice", options={**latency, **dials}) as service:
        with tempfile.TemporaryDirectory() as folder:
            settings = LearnSettings(
                domain="math",
                model=f"{service.base_url}#novice",
                limit=options.limit,
                epochs=1,
                evaluate=False,
                batch_size=options.limit,
                concurrency=options.in_flight,
                call_deadline_s=options.deadline_s,
                store=Path(folder),
            )
            tasks, sockets = len(asyncio.all_tasks()), len(psutil.Process().net_connections())
            began = time.perf_counter()
            looker = Looker()
            report = await run_learning(settings, looker)
            wall_s = time.perf_counter() - began
            limiter = looker.endpoint.gate.limiter
            print(f"limit {limiter.limit:.0f} of {limiter.most} at the end, lowered {limiter.lowered} times")
            return (
                report,
                wall_s,
                len(asyncio.all_tasks()) - tasks,
                len(psutil.Process().net_connections()) - sockets,
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=40, help="tasks, of 5 rollouts each")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--latency-s", type=float, default=1.0)
    parser.add_argument("--deadline-s", type=float, default=5.0)
    options = parser.parse_args()
    calm, calm_s, *_ = asyncio.run(measure(options, {}))
    storm, storm_s, tasks, sockets = asyncio.run(measure(options, STORM))
    for name, report, wall_s in (("calm", calm, calm_s), ("storm", storm, storm_s)):
        calls = sum(line.calls for line in report.stages.values())
        retried = sum(line.retried for line in report.stages.values())
        print(f"{name:6}{wall_s:7.1f} s  {calls} calls, {retried} retried, rollouts {dict(report.rollouts)}")
    print(f"failures {dict(storm.failed_requests)}")
    print(f"ratio {storm_s / calm_s:.2f}; left behind: {tasks} tasks, {sockets} sockets")
    print(f"same library: {storm.library.version == calm.library.version}")


if __name__ == "__main__":
    main()
