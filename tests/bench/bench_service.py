"""A service that records, takes feedback and learns in the background: how late its event loop is, and what it learns.

The simulated model answers. The clients run in the process of the service, so their work counts too.
"""

import argparse
import asyncio
import os
import tempfile
import time
from contextlib import chdir
from itertools import count, cycle
from typing import Any

from agentlearn.sim.sim_endpoint import sim_endpoint
from tests.bench.found import Found, Row, Target
from tests.support.support_traffic import RIGHT, ask, client_of, is_right, loaded_service, watched_loop

_NEVER = 10**9


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--clients", type=int, default=8, help="clients that ask one question after the other")
    parser.add_argument("--seconds", type=float, default=20.0, help="duration of each part")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds that a client waits after an answer")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure the service without and with learning."""
    rows = [Row(name="only records", figures=asyncio.run(_traffic(chosen, learn_after=_NEVER)))]
    rows.append(Row(name="learns too", figures=asyncio.run(_traffic(chosen, learn_after=4 * len(RIGHT)))))
    late = rows[1].figures["late_p99_ms"]
    return Found(
        rows=tuple(rows),
        targets=(Target(what="event loop late at p99 while it learns, ms", figure=late, bound="at_most", limit=100),),
    )


async def _traffic(chosen: argparse.Namespace, *, learn_after: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        async with sim_endpoint("novice") as service:
            os.environ |= {
                "OPENAI_BASE_URL": service.base_url,
                "OPENAI_API_KEY": "none",
                "SUPPORT_MODEL": f"openai-chat:{service.model}",
                "SUPPORT_LEARN_AFTER": str(learn_after),
            }
            module = loaded_service()
            late, right = list[float](), list[bool]()
            async with client_of(module.app) as client:
                await ask(client, next(iter(RIGHT)))  # the first request loads what is needed
                end = time.monotonic() + chosen.seconds
                async with watched_loop(late):
                    questions = cycle(RIGHT)
                    work = (_one_client(client, questions, right, end, chosen.pause) for _ in range(chosen.clients))
                    await asyncio.gather(*work)
                lessons = len(module.lessons.library)
            module.recorder.close()
    late.sort()
    quarter = max(1, len(right) // 4)
    return {
        "answers": len(right),
        "late_p99_ms": 1e3 * late[int(0.99 * len(late))],
        "late_most_ms": 1e3 * late[-1],
        "lessons": lessons,
        "right_first_quarter": sum(right[:quarter]) / quarter,
        "right_last_quarter": sum(right[-quarter:]) / quarter,
    }


async def _one_client(client: Any, questions: Any, right: list[bool], end: float, pause: float) -> None:
    for _ in count():
        if time.monotonic() > end:
            return
        text = next(questions)
        right.append(is_right(text, await ask(client, text)))
        await asyncio.sleep(pause)
