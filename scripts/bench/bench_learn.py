"""A learn run compared with a bare pydantic-ai loop that makes the same model calls: CPU, wall time and memory.

A stub server on loopback answers both. The bare loop repeats the same conversations, as the stub recorded them, with
the same instructions, questions, repairs and tools. The order is the same where one call needs the answer of another.
The bare loop stores nothing, and its code tool runs no code.

CPU is measured in ms per model call in the parent process, with a code tool, whose programs run in sandboxes, and
without any tool; on the workload that was used to measure the most similar
other library (20 problems, 5 rollouts each, 2 epochs, batches of 10, 16 in flight). There are two figures: the whole
run including imports, and the steady state. The steady state is the additional CPU of a run with three times as many
epochs, divided by its additional calls. Wall time is in seconds, memory in MB.

    just bench learn
    just bench learn --only cpu --rounds 5
"""

import argparse
import asyncio
import compileall
import importlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from scripts.bench.found import Found, Row, Target
from tests.support.openai_script import CODE_TOOL, Request, Solver, stage_of
from tests.support.openai_stub import OpenAIStub

GROUP = 5
ROUNDS = ("solve", "summarise", "compare", "consolidate")
"""Stages of a batch, in the order in which they run."""

OWN_IMPORTS = ("agentlearn.learning.lessons.run_learning", "agentlearn_math")
OWN_PACKAGES = ("agentlearn", "agentlearn_math")


@dataclass(frozen=True, slots=True)
class Load:
    """The workload of a learn run."""

    problems: int
    epochs: int
    batch: int
    in_flight: int
    code: bool = True
    """Whether solvers have a code tool."""

    def answers(self) -> dict[str, str]:
        """Return the right answer of each problem."""
        numbers = range(40, 40 + self.problems)
        return {f"How many dots has a triangle of {n} rows?": str(n * (n + 1) // 2) for n in numbers}


PEERS = Load(problems=20, epochs=2, batch=10, in_flight=16)
"""The workload that was used to measure the most similar other library."""
LONG = replace(PEERS, epochs=6)
WALL = (Load(problems=60, epochs=1, batch=60, in_flight=50), Load(problems=100, epochs=1, batch=100, in_flight=100))
PARTS = ("cpu", "wall")
MOST = {
    "whole runs, code tool": 1.45, "steady state, code tool": 1.45, "whole runs, no tool": 1.15,
    "steady state, no tool": 1.15,
}  # fmt: skip
"""Largest CPU per call, times that of the bare loop."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--only", choices=PARTS, help="measure only this part")
    parser.add_argument(
        "--rounds", type=int, default=3, help="number of repetitions for the CPU figures; medians are printed"
    )


def measure(chosen: argparse.Namespace) -> Found:
    """Measure all parts, or the chosen one."""
    _compile_own_packages()
    measured = {"cpu": lambda: _cpu(chosen.rounds), "wall": _wall}
    parts = [measured[part]() for part in ((chosen.only,) if chosen.only else PARTS)]
    return Found(
        rows=tuple(row for part in parts for row in part.rows),
        targets=tuple(target for part in parts for target in part.targets),
    )


def _compile_own_packages() -> None:
    """Compile our modules, as an installer does. Those of the other packages are compiled already."""
    for name in OWN_PACKAGES:
        for folder in importlib.import_module(name).__path__:
            compileall.compile_dir(folder, quiet=2)


def _cpu(rounds: int) -> Found:
    """Measure both sides with the short and the long workload, once per repetition."""
    kinds = dict[str, list[Pair]]()
    for words, code in (("code tool", True), ("no tool", False)):
        loads = [replace(one, code=code) for one in (PEERS, LONG)]
        both = [tuple(_pair(one, 0.0) for one in loads) for _ in range(rounds)]
        kinds[f"whole runs, {words}"] = [short for short, _ in both]
        kinds[f"steady state, {words}"] = [
            Pair(_steady(short.learn, long.learn), _steady(short.bare, long.bare)) for short, long in both
        ]
    rows = [
        Row(
            name=f"{side}, {kind}",
            figures={
                "calls": getattr(pairs[0], field).calls,
                "cpu_ms_per_call": statistics.median(getattr(pair, field).call_ms for pair in pairs),
                "rounds": rounds,
            },
        )
        for kind, pairs in kinds.items()
        for field, side in SIDES.items()
    ]
    ratios = {kind: statistics.median(pair.cpu_ratio for pair in pairs) for kind, pairs in kinds.items()}
    return Found(
        rows=tuple(rows),
        targets=tuple(
            Target(what=f"CPU per call, {kind}, times the bare loop's", figure=ratio, bound="at_most", limit=MOST[kind])
            for kind, ratio in ratios.items()
        ),
    )


def _wall() -> Found:
    rows, targets = list[Row](), list[Target]()
    for load in WALL:
        pair = _pair(load, 1.0)
        rows += [
            _row(f"{side}, 1 s, {load.in_flight} in flight", getattr(pair, field)) for field, side in SIDES.items()
        ]
        what = f"wall, 1 s, {load.in_flight} in flight, times the bare loop's"
        ratio = pair.learn.wall_s / pair.bare.wall_s
        targets.append(Target(what=what, figure=ratio, bound="at_most", limit=1.10))
    return Found(rows=tuple(rows), targets=tuple(targets))


@dataclass(frozen=True, slots=True)
class Used:
    """Model calls of one process, and its wall time, CPU and memory."""

    calls: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    imports_mb: float

    @property
    def call_ms(self) -> float:
        """CPU per model call in ms."""
        return 1000 * self.cpu_s / self.calls

    @property
    def over_imports_mb(self) -> float:
        """Peak memory minus the memory after the imports, in MB."""
        return self.peak_mb - self.imports_mb


@dataclass(frozen=True, slots=True)
class Pair:
    """A learn run, and the bare loop that repeats its conversations."""

    learn: Used
    bare: Used

    @property
    def cpu_ratio(self) -> float:
        """CPU per call of the learn run, divided by that of the bare loop."""
        return self.learn.call_ms / self.bare.call_ms


SIDES = {"learn": "agentlearn", "bare": "bare loop"}
"""Printed name of each field of a pair."""


def _pair(load: Load, latency_s: float) -> Pair:
    with OpenAIStub(Solver(answers=load.answers(), success_rate=0.5), latency_s=latency_s) as stub:
        learn = _child("learn", stub.base_url, asdict(load))
        bare = _child(
            "bare", stub.base_url, {"in_flight": load.in_flight, "code": load.code, "batches": _batches(stub.requests)}
        )
    return Pair(learn, bare)


def _steady(short: Used, long: Used) -> Used:
    """Return calls, wall time and CPU of the long run minus those of the short run."""
    return Used(
        long.calls - short.calls, long.wall_s - short.wall_s, long.cpu_s - short.cpu_s, long.peak_mb, long.imports_mb
    )


def _row(name: str, used: Used) -> Row:
    return Row(
        name=name,
        figures={
            "calls": used.calls,
            "wall_s": used.wall_s,
            "cpu_ms_per_call": used.call_ms,
            "peak_mb": used.peak_mb,
            "over_imports_mb": used.over_imports_mb,
        },
    )


Batch = dict[str, list[dict[str, Any]]]
"""Conversations by stage: system prompt, first user message, later user messages, and the first request's seed."""


def _batches(requests: list[Request]) -> list[Batch]:
    """Return the conversations that the stub recorded, in the order in which they started."""
    batches: list[Batch] = [{}]
    begun: dict[str, dict[str, Any]] = {}
    for request in requests:
        stage, (first, *later) = stage_of(request), _said(request, "user")
        if any(message["role"] == "assistant" for message in request["messages"]):
            if later and request["messages"][-1]["role"] == "user":  # a repair; `first` identifies the conversation
                begun[first]["later"] = later
            continue
        if stage == "solve" and "consolidate" in batches[-1]:
            batches.append({})
        words = {"system": _said(request, "system"), "first": first, "later": [], "seed": request.get("seed")}
        begun[first] = words
        batches[-1].setdefault(stage, []).append(words)
    return batches


def _said(request: Request, role: str) -> list[str]:
    return [message["content"] for message in request["messages"] if message["role"] == role]


def _child(kind: str, base_url: str, task: dict[str, Any]) -> Used:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.bench.bench_learn", kind, base_url],
        input=json.dumps(task),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return Used(**json.loads(done.stdout.splitlines()[-1]))


def _run(kind: str, base_url: str, task: dict[str, Any]) -> None:
    started = time.perf_counter()
    for name in ("openai.resources.chat", "pydantic_ai.models.openai", *OWN_IMPORTS * (kind == "learn")):
        importlib.import_module(name)
    imports_mb = _peak_mb()
    made = _learn(base_url, Load(**task)) if kind == "learn" else asyncio.run(_bare(base_url, **task))
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = used.ru_utime + used.ru_stime
    print(json.dumps(asdict(Used(made, time.perf_counter() - started, cpu_s, _peak_mb(), imports_mb))))


def _peak_mb() -> float:
    """Return the peak memory of this program in MB. `ru_maxrss` would include the process before `exec`."""
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def _learn(base_url: str, load: Load) -> int:
    from agentlearn import LearnSettings, run_learning_sync

    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "tasks.jsonl"
        data.write_text("\n".join(json.dumps({"problem": p, "answer": a}) for p, a in load.answers().items()))
        settings = LearnSettings(
            domain="math" if load.code else "dots",
            reward=None if load.code else "number",
            model=f"{base_url}#any",
            data=str(data),
            evaluate=False,
            epochs=load.epochs,
            batch_size=load.batch,
            group_size=GROUP,
            concurrency=load.in_flight,
            store=Path(folder) / "store",
        )
        report = run_learning_sync(settings)
    return sum(stage.calls for stage in report.stages.values())


async def _bare(base_url: str, in_flight: int, code: bool, batches: list[Batch]) -> int:
    """Run agents with the same prompts and tools, without journal, store, checks or code execution."""
    import httpx2
    from openai import AsyncOpenAI
    from pydantic import BaseModel
    from pydantic_ai import Agent, Tool, ToolOutput
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.settings import ModelSettings

    class StepsReply(BaseModel):
        steps: Any = None

    class ProposalsReply(BaseModel):
        proposals: Any = None

    places, calls = asyncio.Semaphore(in_flight), 0
    limits = httpx2.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    async with httpx2.AsyncClient(trust_env=False, limits=limits, timeout=60) as http:
        client = AsyncOpenAI(base_url=base_url, api_key="none", http_client=http)
        model = OpenAIChatModel("any", provider=OpenAIProvider(openai_client=client))

        async def run_python(code: str) -> str:
            """Run a Python program and return what it printed.

            Args:
                code: A complete program that prints its result. Variables of earlier calls are still defined.
            """
            return code.replace("print(", "").replace("'", "").replace(" + ", "").rstrip(")")

        solver = Agent(model, tools=[Tool(run_python, takes_ctx=False, name=CODE_TOOL)] if code else ())
        steps = Agent(model, output_type=ToolOutput(StepsReply, name="submit"))
        proposals = Agent(model, output_type=ToolOutput(ProposalsReply, name="submit"))
        agents: dict[str, Agent[None, Any]] = {"solve": solver, "summarise": steps}

        async def one(stage: str, words: dict[str, Any]) -> None:
            nonlocal calls
            async with places:
                agent = agents.get(stage, proposals)
                settings = ModelSettings(seed=words["seed"], temperature=0.7)
                history: list[ModelMessage] = []
                for said in (words["first"], *words["later"]):
                    done = await agent.run(
                        said, message_history=history, instructions=words["system"], model_settings=settings
                    )
                    history = done.all_messages()
                    calls += done.usage.requests

        for batch in batches:
            for stage in ROUNDS:
                async with asyncio.TaskGroup() as group:
                    for words in batch.get(stage, ()):
                        group.create_task(one(stage, words))
    return calls


if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2], json.load(sys.stdin))
