"""A learn run through a storm beside the same run in calm weather: wall time, failures, what is left behind.

The storm, in a service on loopback (simulated): 20 % of requests refused with 429 and Retry-After, 5 % answered 5xx,
3 % reset, 3 % stalled past the deadline, 10 % answered with garbage. Failures are drawn by request, so that a retry is
another draw.

    just bench storm
    just bench storm --limit 100 --deadline-s 3
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import psutil

from agentlearn import LearnReport, LearnSettings
from agentlearn.learn.callbacks import Callbacks
from agentlearn.learn.lessons.run_learning import run_learning
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.sim.sim_endpoint import sim_endpoint
from agentlearn.types.task import Task
from tests.bench.found import Found, Number, Row

STORM = {"rate-limited": 0.20, "server-error": 0.05, "reset": 0.03, "stall": 0.03, "garbled": 0.10}


class Looker(Callbacks):
    """Remembers the endpoint."""

    endpoint: Endpoint

    def opened(
        self,
        call_context: CallContext,
        endpoint: Endpoint,
        reflector: Endpoint,
        train: tuple[Task, ...],
        test: tuple[Task, ...],
    ) -> None:
        self.endpoint = endpoint


async def _run(options: argparse.Namespace, parameters: dict[str, float]) -> tuple[LearnReport, Row]:
    """The report and its figures; `_left` are asyncio tasks and sockets that the run left behind."""
    latency = {"latency-s": options.latency_s, "latency-spread": 0.3, "retry-after-s": 1.0}
    async with sim_endpoint("novice", options={**latency, **parameters}) as service:
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
            limiter, stages = looker.endpoint.endpoint_state.limiter, report.stages.values()
            figures: dict[str, Number] = {
                "wall_s": wall_s,
                "calls": sum(stage.calls for stage in stages),
                "retried": sum(stage.retried for stage in stages),
                "rollouts_ok": report.rollouts.get("ok", 0),
                "rollouts_failed": report.rollouts.get("failed", 0),
                "limit_at_end": limiter.limit,
                "limit_lowered": limiter.lowered,
                "tasks_left": len(asyncio.all_tasks()) - tasks,
                "sockets_left": len(psutil.Process().net_connections()) - sockets,
            }
            return report, Row(name="storm" if parameters else "calm", figures=figures)


def options(parser: argparse.ArgumentParser) -> None:
    """What it can be told."""
    parser.add_argument("--limit", type=int, default=40, help="tasks, of 5 rollouts each")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--latency-s", type=float, default=1.0)
    parser.add_argument("--deadline-s", type=float, default=5.0)


def measure(chosen: argparse.Namespace) -> Found:
    """Both runs, and what the storm costs."""
    calm, calm_row = asyncio.run(_run(chosen, {}))
    storm, storm_row = asyncio.run(_run(chosen, STORM))
    ratio = (storm_row.figures["wall_s"] or 0) / (calm_row.figures["wall_s"] or 1)
    same = storm.library.version == calm.library.version
    return Found(
        rows=(calm_row, storm_row, Row(name="storm / calm", figures={"wall_ratio": ratio, "same_library": same})),
        notes=(f"requests that failed in the storm: {dict(storm.failed_requests)}",),
    )
