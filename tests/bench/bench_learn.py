"""A learn run beside a bare pydantic-ai loop that makes the same calls: CPU per call, wall, memory.

The workload is the one on which the closest peer was measured: 20 problems, 5 rollouts each, 2 epochs, batches of 10,
16 in flight, against a stub on loopback that answers after 0 or 200 ms. The bare loop holds the learn run's own
conversations again, as the stub recorded them: the same instructions, questions and tools, in the same order, as far
as one call needs another's answer. It keeps nothing, and its code tool runs nothing.

    just bench learn
    just bench learn --latency-s 1 --in-flight 50 --problems 100 --epochs 1
"""

import argparse
import asyncio
import importlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.support.openai_script import CODE_TOOL, Request, Solver, stage_of
from tests.support.openai_stub import OpenAIStub

GROUP = 5
ROUNDS = ("solve", "summarise", "compare", "consolidate")
"""Stages in the order in which a batch needs them."""

OWN_IMPORTS = ("agentlearn.learn.loop", "agentlearn_math.agent")


@dataclass(frozen=True, slots=True)
class Load:
    """What is learned from."""

    problems: int
    epochs: int
    batch: int
    in_flight: int

    def answers(self) -> dict[str, str]:
        """Right answers by problem."""
        numbers = range(40, 40 + self.problems)
        return {f"How many dots has a triangle of {n} rows?": str(n * (n + 1) // 2) for n in numbers}


def main() -> None:
    """Run both in child processes against one stub, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-s", type=float, action="append")
    parser.add_argument("--problems", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--in-flight", type=int, default=16)
    chosen = parser.parse_args()
    load = Load(chosen.problems, chosen.epochs, chosen.batch, chosen.in_flight)
    print(
        f"{'':10}{'latency':>8}{'calls':>7}{'wall s':>8}{'CPU s':>7}{'CPU ms/call':>13}{'peak MB':>9}{'imports MB':>12}"
    )
    for latency_s in chosen.latency_s or [0.0, 0.2]:
        with OpenAIStub(Solver(answers=load.answers(), success_rate=0.5), latency_s=latency_s) as stub:
            learn = _child("learn", stub.base_url, asdict(load))
            bare = _child("bare", stub.base_url, {"in_flight": load.in_flight, "batches": _batches(stub.requests)})
        for name, row in {"agentlearn": learn, "bare loop": bare}.items():
            print(
                f"{name:10}{latency_s:>8.1f}{row['calls']:>7}{row['wall_s']:>8.1f}{row['cpu_s']:>7.1f}"
                f"{_per_call_ms(row):>13.1f}{row['peak_mb']:>9.0f}{row['imports_mb']:>12.0f}"
            )
        cpu, wall = _per_call_ms(learn) / _per_call_ms(bare), learn["wall_s"] / bare["wall_s"]
        print(f"{'ratio':10}CPU per call {cpu:.2f}, wall {wall:.2f}")


def _per_call_ms(row: dict[str, Any]) -> float:
    return 1000 * row["cpu_s"] / row["calls"]


def _batches(requests: list[Request]) -> list[dict[str, list[dict[str, Any]]]]:
    """The conversations that the stub saw begin, by batch and by stage."""
    batches: list[dict[str, list[dict[str, Any]]]] = [{}]
    for request in requests:
        if any(message["role"] == "assistant" for message in request["messages"]):
            continue
        stage = stage_of(request)
        if stage == "solve" and "consolidate" in batches[-1]:
            batches.append({})
        words = {message["role"]: message["content"] for message in request["messages"]}
        batches[-1].setdefault(stage, []).append({**words, "seed": request.get("seed")})
    return batches


def _child(kind: str, base_url: str, task: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.bench_learn", "--child", kind, base_url],
        input=json.dumps(task),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def _measure(kind: str, base_url: str, task: dict[str, Any]) -> None:
    started = time.perf_counter()
    for name in ("openai.resources.chat", "pydantic_ai.models.openai", *OWN_IMPORTS * (kind == "learn")):
        importlib.import_module(name)
    imports_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    made = _learn(base_url, Load(**task)) if kind == "learn" else asyncio.run(_bare(base_url, **task))
    used = resource.getrusage(resource.RUSAGE_SELF)
    row = {
        "calls": made,
        "wall_s": time.perf_counter() - started,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
        "imports_mb": imports_mb,
    }
    print(json.dumps(row))


def _learn(base_url: str, load: Load) -> int:
    from agentlearn import LearnSettings, run_learning_sync

    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "tasks.jsonl"
        data.write_text("\n".join(json.dumps({"problem": p, "answer": a}) for p, a in load.answers().items()))
        settings = LearnSettings(
            domain="math",
            model=f"{base_url}#any",
            data=data,
            evaluate=False,
            epochs=load.epochs,
            batch_size=load.batch,
            group_size=GROUP,
            concurrency=load.in_flight,
            store=Path(folder) / "store",
        )
        report = run_learning_sync(settings)
    return sum(stage.calls for stage in report.stages.values())


async def _bare(base_url: str, in_flight: int, batches: list[dict[str, list[dict[str, Any]]]]) -> int:
    """The floor: agents with the same words and tools; no journal, no store, no check, no program that runs."""
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai import Agent, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from agentlearn.advantage.wire import ProposalsReply, StepsReply

    places, calls = asyncio.Semaphore(in_flight), 0
    limits = httpx2.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    async with httpx2.AsyncClient(trust_env=False, limits=limits, timeout=60) as http:
        client = AsyncOpenAI(base_url=base_url, api_key="none", http_client=http)
        model = OpenAIChatModel("any", provider=OpenAIProvider(openai_client=client))
        solver = Agent(model)

        @solver.tool_plain(name=CODE_TOOL)
        async def run_python(code: str) -> str:
            """Run Python code in a session that keeps its variables, and see what it prints."""
            return code.replace("print(", "").replace("'", "").replace(" + ", "").rstrip(")")

        steps = Agent(model, output_type=ToolOutput(StepsReply, name="submit"))
        proposals = Agent(model, output_type=ToolOutput(ProposalsReply, name="submit"))
        agents: dict[str, Agent[None, Any]] = {"solve": solver, "summarise": steps}

        async def one(stage: str, words: dict[str, Any]) -> None:
            nonlocal calls
            async with places:
                agent = agents.get(stage, proposals)
                settings = {"seed": words["seed"], "temperature": 0.7}
                done = await agent.run(words["user"], instructions=words.get("system"), model_settings=settings)
                calls += done.usage.requests

        for batch in batches:
            for stage in ROUNDS:
                async with asyncio.TaskGroup() as group:
                    for words in batch.get(stage, ()):
                        group.create_task(one(stage, words))
    return calls


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _measure(sys.argv[2], sys.argv[3], json.load(sys.stdin))
    else:
        main()
