"""A learn run against a faulty service, compared with the same run against a reliable one. Both are simulated.

Measured are the wall time in seconds, the failed and retried requests, and the asyncio tasks and sockets that are still
open after the run. The faulty service refuses 20 % of requests with 429 and Retry-After, answers 5 % with a 5xx status,
resets 3 % of connections, stalls 3 % past the deadline, and answers 10 % with malformed content. Each request draws its
failure, so a retry can succeed.

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
from agentlearn.learning.callbacks import Callbacks
from agentlearn.learning.lessons.run_learning import run_learning
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.types.task import Task
from agentlearn_demo.endpoints import sim_endpoint
from scripts.bench.found import Found, Number, Row

STORM = {"rate-limited": 0.20, "server-error": 0.05, "reset": 0.03, "stall": 0.03, "garbled": 0.10}


class Looker(Callbacks):
    """Stores the endpoint of the run."""

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
    """Return the report and its figures. `_left` counts asyncio tasks and sockets still open after the run."""
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
    """Add the options of this benchmark."""
    parser.add_argument("--limit", type=int, default=40, help="number of tasks, with 5 rollouts each")
    parser.add_argument("--in-flight", type=int, default=64, help="most concurrent requests")
    parser.add_argument("--latency-s", type=float, default=1.0, help="latency of the service, seconds")
    parser.add_argument("--deadline-s", type=float, default=5.0, help="deadline of one call, seconds")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure both runs, and the ratio of their wall times."""
    calm, calm_row = asyncio.run(_run(chosen, {}))
    storm, storm_row = asyncio.run(_run(chosen, STORM))
    ratio = (storm_row.figures["wall_s"] or 0) / (calm_row.figures["wall_s"] or 1)
    same = storm.library.version == calm.library.version
    return Found(
        rows=(calm_row, storm_row, Row(name="storm / calm", figures={"wall_ratio": ratio, "same_library": same})),
        notes=(f"requests that failed at the faulty service: {dict(storm.failed_requests)}",),
    )
