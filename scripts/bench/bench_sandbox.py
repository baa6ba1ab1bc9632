"""Cost of the code sandboxes compared with other ways to run code.

Measured are the time from opening a session to the answer of its first call, the time of later calls (ms), sessions per
second, CPU per session and per call (ms, with child processes) and memory (MB). Each row is one way to run code: our
sandboxes, a Jupyter kernel per session where `ipykernel` is installed, and a new interpreter for each call.

    just bench sandbox [--sessions 100] [--growth 1000] [--only zygote]
"""

import argparse
import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from importlib.util import find_spec
from statistics import quantiles
from typing import Any

import psutil

from agentlearn.rollout.runner import DEFAULT_SANDBOX
from agentlearn.sandbox import CodeSandbox, open_sandbox, sandbox_names
from scripts.bench.found import Found, Row, Target

CELLS = ("x = sum(n * n for n in range(100))", "x += 1", "print(x)", "x")
EXPECTED = "328351"
LATER_CALLS = 5
IN_FLIGHT = 16
SYMPY_CELLS = (
    "from sympy import *\np, q = symbols('p q')\nprint(solve(3*p**2 - 7*p - 11, p))",
    "print(solve([3*p - 2*q - 1, p + q - 8], [p, q]), simplify((p**3 - 27)/(p - 3) - p**2))",
    "print(28 * 11742 - 425)",
)
SYMPY_AT_ONCE = 32
LIVE = 16
TARGETS_MS = {"open_p50_ms": 12.0, "call_p50_ms": 1.0}

Run = Callable[[str], Awaitable[str]]
"""Runs one cell in an open session and returns its output."""
Open = Callable[[int], AbstractAsyncContextManager[Run]]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--sessions", type=int, default=100, help="sessions per figure")
    parser.add_argument(
        "--growth", type=int, default=1_000, help="sessions over which memory growth is measured; 0 skips it"
    )
    parser.add_argument("--only", choices=sandbox_names(), help="measure only this sandbox")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure each way to run code."""
    sessions, ways, memory = chosen.sessions, list[Row](), list[Row]()
    for name in (chosen.only,) if chosen.only else sandbox_names():
        way, *kept = asyncio.run(_sandbox(name, sessions, chosen.growth))
        ways.append(way)
        memory += kept
    if not chosen.only:
        few = max(sessions // 5, 5)
        if find_spec("ipykernel") is not None:
            ways.append(asyncio.run(_way("jupyter kernel", _jupyter, few, at_once=4)))
        ways.append(asyncio.run(_way("python -c", _fresh_python, few, stateful=False)))
    isolated = next((way.figures for way in ways if way.name == DEFAULT_SANDBOX), {})
    targets = tuple(
        Target(what=f"{DEFAULT_SANDBOX}: {figure}", figure=isolated[figure] or 0.0, bound="at_most", limit=limit_ms)
        for figure, limit_ms in TARGETS_MS.items()
        if isolated
    )
    return Found(rows=(*ways, *sorted(memory, key=lambda row: tuple(row.figures))), targets=targets)


async def _sandbox(name: str, sessions: int, growth: int) -> list[Row]:
    async with open_sandbox(name) as sandbox:
        async with sandbox.open(0) as session:  # warm-up: the zygote has now imported what its sessions need
            await session.run("1")

        @contextlib.asynccontextmanager
        async def opened(seed: int) -> AsyncGenerator[Run]:
            async with sandbox.open(seed) as session:

                async def run(code: str) -> str:
                    return (await session.run(code)).stdout

                yield run

        rows = [await _way(name, opened, sessions), await _memory(sandbox, name)]
        if growth:
            rows.append(await _growth(sandbox, name, growth))
        return rows


async def _way(name: str, opened: Open, sessions: int, *, stateful: bool = True, at_once: int = SYMPY_AT_ONCE) -> Row:
    """at_once: number of sessions that use sympy at the same time."""
    opens, laters = [], []
    for seed in range(sessions):
        began = time.perf_counter()
        async with opened(seed) as run:
            await run("x = 1")
            opens.append(time.perf_counter() - began)
            laters += [await _timed(run, "x = 2") for _ in range(LATER_CALLS)]
    figures: dict[str, float | None] = {**_spread("open", opens), **_spread("call", laters)}
    async with opened(0) as run:
        await run("x = 1")
        began_cpu_s = _cpu_s()
        for _ in range(LATER_CALLS * 4):
            await run("x = 2")
        figures["call_cpu_ms"] = 1000 * (_cpu_s() - began_cpu_s) / (LATER_CALLS * 4)
    if stateful:
        figures["sessions_per_s"], figures["session_cpu_ms"] = await _rate(
            opened, sessions, CELLS, min(IN_FLIGHT, at_once)
        )
        rate = await _rate(opened, 2 * at_once, SYMPY_CELLS, at_once)
        figures["sympy_sessions_per_s"], figures["sympy_session_cpu_ms"] = rate
    return Row(name=name, figures=figures)


async def _timed(run: Run, code: str) -> float:
    began = time.perf_counter()
    await run(code)
    return time.perf_counter() - began


async def _rate(opened: Open, sessions: int, cells: Sequence[str], in_flight: int) -> tuple[float, float]:
    """Return sessions per second, and CPU ms per session with child processes."""
    seeds = iter(range(sessions))

    async def worker() -> None:
        for seed in seeds:
            async with opened(seed) as run:
                shown = [await run(cell) for cell in cells]
            assert shown[-1].strip() == EXPECTED, shown

    began, began_cpu_s = time.perf_counter(), _cpu_s()
    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(worker())
    took_s, took_cpu_s = time.perf_counter() - began, _cpu_s() - began_cpu_s
    return sessions / took_s, 1000 * took_cpu_s / sessions


def _cpu_s() -> float:
    """Return the CPU seconds of this process and all its descendants, including those that have ended."""
    us = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in (us, *us.children(recursive=True)))


async def _memory(sandbox: CodeSandbox, name: str) -> Row:
    """Return the PSS in MB of the idle sandbox, and of each open session after one call."""
    alone = _pss_mb(psutil.Process().children(recursive=True))
    async with contextlib.AsyncExitStack() as stack:
        for seed in range(LIVE):
            session = await stack.enter_async_context(sandbox.open(seed))
            await session.run("x = 1")
        together = _pss_mb(psutil.Process().children(recursive=True))
    each_mb = (together - alone) / LIVE
    return Row(name=f"{name}, memory (PSS)", figures={"standing_by_mb": alone, "live_session_mb": each_mb})


async def _growth(sandbox: CodeSandbox, name: str, sessions: int) -> Row:
    """Return the growth of memory, descriptors and processes over consecutive sessions, here and in the sandbox."""

    async def many(count: int) -> None:
        for seed in range(count):
            async with sandbox.open(seed) as session:
                await session.run("x = 1")

    await many(100)
    before = _kept()
    await many(sessions)
    grown = {f"{what}_grown": now - before[what] for what, now in _kept().items()}
    return Row(name=f"{name}, {sessions:,} sessions in turn", figures=grown)


def _kept() -> dict[str, float]:
    us = psutil.Process()
    children = us.children(recursive=True)
    return {
        "our_mb": us.memory_full_info().uss / 2**20,
        "its_mb": sum(child.memory_full_info().uss for child in children) / 2**20,
        "our_descriptors": us.num_fds(),
        "its_descriptors": sum(child.num_fds() for child in children),
        "processes": len(children),
    }


def _pss_mb(processes: Iterable[psutil.Process]) -> float:
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total / 2**20


def _spread(what: str, seconds: list[float]) -> dict[str, float]:
    cuts = quantiles(seconds, n=20, method="inclusive")
    return {f"{what}_p50_ms": 1000 * cuts[9], f"{what}_p95_ms": 1000 * cuts[18]}


@contextlib.asynccontextmanager
async def _fresh_python(seed: int) -> AsyncGenerator[Run]:
    """Start a new interpreter for each call, without state or isolation."""

    async def run(code: str) -> str:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=subprocess.PIPE)
        out, _ = await process.communicate()
        return out.decode()

    yield run


@contextlib.asynccontextmanager
async def _jupyter(seed: int) -> AsyncGenerator[Run]:
    """Start a Jupyter kernel, without isolation."""
    manager: Any = import_module("jupyter_client.manager").AsyncKernelManager(kernel_name="python3")
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=120)

        async def run(code: str) -> str:
            shown: list[str] = []

            def hear(message: dict[str, Any]) -> None:
                content = message["content"]
                shown.append(content.get("text") or content.get("data", {}).get("text/plain", ""))

            await client.execute_interactive(code, output_hook=hear, timeout=120)
            return "".join(shown)

        yield run
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)
