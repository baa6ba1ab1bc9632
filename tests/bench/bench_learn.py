"""A learn run beside a bare pydantic-ai loop that makes as many calls of the same shape: CPU per call, wall, memory.

The workload is the one on which the closest peer was measured: 20 problems, 5 rollouts each, 2 epochs, batches of 10,
16 in flight, against a stub on loopback that answers after 0 or 200 ms.

    just bench learn [LATENCY_S ...]
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.openai_script import Solver
from tests.support.openai_stub import OpenAIStub

TASKS, GROUP, EPOCHS, BATCH, IN_FLIGHT = 20, 5, 2, 10, 16
PROBLEMS = {f"How many dots has a triangle of {n} rows?": str(n * (n + 1) // 2) for n in range(40, 40 + TASKS)}


def main(arguments: list[str]) -> None:
    """Run both in child processes against one stub, and print a table."""
    latencies = [float(one) for one in arguments] or [0.0, 0.2]
    print(f"{'':10}{'latency':>8}{'calls':>7}{'wall s':>8}{'CPU s':>7}{'CPU ms/call':>13}{'peak MB':>9}")
    for latency_s in latencies:
        with OpenAIStub(Solver(answers=PROBLEMS, success_rate=0.5), latency_s=latency_s) as stub:
            learn = _child("learn", stub.base_url, 0)
            bare = _child("bare", stub.base_url, learn["calls"])
        for name, row in {"agentlearn": learn, "bare loop": bare}.items():
            per_call = 1000 * row["cpu_s"] / row["calls"]
            print(
                f"{name:10}{latency_s:>8.1f}{row['calls']:>7}{row['wall_s']:>8.1f}{row['cpu_s']:>7.1f}{per_call:>13.1f}"
                f"{row['peak_mb']:>9.0f}"
            )
        ratio = (learn["cpu_s"] / learn["calls"]) / (bare["cpu_s"] / bare["calls"])
        print(f"{'ratio':10}CPU per call {ratio:.2f}, wall {learn['wall_s'] / bare['wall_s']:.2f}")


def _child(kind: str, base_url: str, calls: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.bench_learn", "--child", kind, base_url, str(calls)],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def _measure(kind: str, base_url: str, calls: int) -> None:
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    made = _learn(base_url) if kind == "learn" else asyncio.run(_bare(base_url, calls))
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    wall_s = time.perf_counter() - started
    print(json.dumps({"calls": made, "wall_s": wall_s, "cpu_s": cpu_s, "peak_mb": after.ru_maxrss / 1024}))


def _learn(base_url: str) -> int:
    from agentlearn import LearnSettings, run_learning_sync

    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "tasks.jsonl"
        data.write_text("\n".join(json.dumps({"problem": p, "answer": a}) for p, a in PROBLEMS.items()))
        settings = LearnSettings(
            domain="math",
            model=f"{base_url}#any",
            data=data,
            evaluate=False,
            epochs=EPOCHS,
            batch_size=BATCH,
            group_size=GROUP,
            concurrency=IN_FLIGHT,
            sandbox="unsafe-local",
            store=Path(folder) / "store",
        )
        report = run_learning_sync(settings)
    return sum(stage.calls for stage in report.stages.values())


async def _bare(base_url: str, calls: int) -> int:
    """The floor: an agent with a tool that does nothing, no journal, no store, two calls per run."""
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    places = asyncio.Semaphore(IN_FLIGHT)
    async with httpx2.AsyncClient(trust_env=False) as http:
        client = AsyncOpenAI(base_url=base_url, api_key="none", http_client=http)
        agent = Agent(
            OpenAIChatModel("any", provider=OpenAIProvider(openai_client=client)),
            instructions="Solve the problem with the Python tool and give the answer in a box.",
        )

        @agent.tool_plain
        async def run_python(code: str) -> str:
            return "answer=1;"

        async def one(number: int) -> None:
            async with places:
                await agent.run(list(PROBLEMS)[number % TASKS], model_settings={"seed": number})

        async with asyncio.TaskGroup() as group:
            for number in range(calls // 2):
                group.create_task(one(number))
    return calls // 2 * 2


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--child", nargs=3)
    known, rest = parser.parse_known_args()
    if known.child:
        _measure(known.child[0], known.child[1], int(known.child[2]))
    else:
        main(rest)
