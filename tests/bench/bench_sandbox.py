"""What the code sandboxes cost: opening a session, a call, sessions per second, memory; beside other ways to run code.

A row is one way. Those of other packages are measured where they are installed: smolagents' interpreter, which runs in
our own process and isolates nothing, and a Jupyter kernel per session.

    just bench sandbox [--sessions 100] [--growth 1000] [--only zygote]
"""

import argparse
import asyncio
import contextlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from statistics import quantiles

import psutil

from agentlearn.sandbox import CodeSandbox, open_sandbox, sandbox_names

CELLS = ("x = sum(n * n for n in range(100))", "x += 1", "print(x)", "x")
EXPECTED = "328351"
LATER_CALLS = 5
IN_FLIGHT = 16
LIVE = 16

Run = Callable[[str], Awaitable[str]]
"""Runs one cell in a live session: what it printed."""
Open = Callable[[int], AbstractAsyncContextManager[Run]]


def main() -> None:
    """Measure every way in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sessions", type=int, default=100, help="sessions per figure")
    parser.add_argument("--growth", type=int, default=1_000, help="sessions over which growth is looked for")
    parser.add_argument("--only", choices=sandbox_names(), help="measure this sandbox alone")
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} processors, load {load:.1f} before; {chosen.sessions} sessions; ms: least, p50, p95")
    print(f"{'':14}{'open':>24}{'first call':>24}{'later call':>24}{'sessions/s':>12}{'CPU ms each':>13}")
    for name in (chosen.only,) if chosen.only else sandbox_names():
        if name != "monty" or importlib.util.find_spec("pydantic_monty"):
            asyncio.run(_sandbox(name, chosen.sessions, chosen.growth))
    if chosen.only:
        return
    asyncio.run(_measured("python -c", _fresh_python, max(chosen.sessions // 5, 5), stateful=False))
    if importlib.util.find_spec("smolagents"):
        asyncio.run(_measured("smolagents", _smolagents, max(chosen.sessions // 5, 5)))
    if importlib.util.find_spec("jupyter_client") and importlib.util.find_spec("ipykernel"):
        asyncio.run(_measured("jupyter", _jupyter, max(chosen.sessions // 10, 5)))


async def _sandbox(name: str, sessions: int, growth: int) -> None:
    async with open_sandbox(name) as sandbox:
        async with sandbox.open(0) as session:  # warm: a zygote has imported by now what its sessions need
            await session.run("1")

        @contextlib.asynccontextmanager
        async def opened(seed: int) -> AsyncIterator[Run]:
            async with sandbox.open(seed) as session:

                async def run(code: str) -> str:
                    return (await session.run(code)).stdout

                yield run

        await _measured(name, opened, sessions)
        await _print_memory(sandbox)
        if growth:
            await _print_growth(sandbox, growth)


async def _measured(name: str, opened: Open, sessions: int, *, stateful: bool = True) -> None:
    opens, firsts, laters = [], [], []
    for seed in range(sessions):
        began = time.perf_counter()
        async with opened(seed) as run:
            opens.append(time.perf_counter() - began)
            firsts.append(await _timed(run, "x = 1"))
            laters += [await _timed(run, "x = 2") for _ in range(LATER_CALLS)]
    rate = await _rate(opened, sessions) if stateful else ""
    print(f"{name:14}{_spread(opens)}{_spread(firsts)}{_spread(laters)}{rate}", flush=True)


async def _timed(run: Run, code: str) -> float:
    began = time.perf_counter()
    await run(code)
    return time.perf_counter() - began


async def _rate(opened: Open, sessions: int) -> str:
    """Sessions of four calls each per second, 16 in flight, and the processor time of each, ours and theirs."""
    seeds = iter(range(sessions))

    async def worker() -> None:
        for seed in seeds:
            async with opened(seed) as run:
                shown = [await run(cell) for cell in CELLS]
            assert shown[-1].strip() == EXPECTED, shown

    began, began_cpu_s = time.perf_counter(), _cpu_s()
    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())
    took_s, took_cpu_s = time.perf_counter() - began, _cpu_s() - began_cpu_s
    return f"{sessions / took_s:12.1f}{1000 * took_cpu_s / sessions:13.1f}"


def _cpu_s() -> float:
    """Processor time of ours, of every process below, and of those that have ended."""
    us = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in (us, *us.children(recursive=True)))


async def _print_memory(sandbox: CodeSandbox) -> None:
    """Proportional memory of what stands by, and of each live session that has run a call."""
    alone = _pss_mb(psutil.Process().children(recursive=True))
    async with contextlib.AsyncExitStack() as stack:
        for seed in range(LIVE):
            session = await stack.enter_async_context(sandbox.open(seed))
            await session.run("x = 1")
        together = _pss_mb(psutil.Process().children(recursive=True))
    each = (together - alone) / LIVE
    print(f"{'':14}memory (PSS): {alone:.1f} MB standing by, {each:.1f} MB more for each of {LIVE} live sessions")


async def _print_growth(sandbox: CodeSandbox, sessions: int) -> None:
    """What sessions one after the other leave behind, in our process and in what stands by."""

    async def many(count: int) -> None:
        for seed in range(count):
            async with sandbox.open(seed) as session:
                await session.run("x = 1")

    await many(100)
    before = _kept()
    await many(sessions)
    after = _kept()
    words = ", ".join(
        f"{what} {was:.1f} to {now:.1f}" for (what, was), now in zip(before.items(), after.values(), strict=True)
    )
    print(f"{'':14}{sessions} sessions one after the other: {words}", flush=True)


def _kept() -> dict[str, float]:
    us = psutil.Process()
    children = us.children(recursive=True)
    return {
        "our memory MB": us.memory_full_info().uss / 2**20,
        "its memory MB": sum(child.memory_full_info().uss for child in children) / 2**20,
        "our descriptors": us.num_fds(),
        "its descriptors": sum(child.num_fds() for child in children),
        "processes": len(children),
    }


def _pss_mb(processes: Iterable[psutil.Process]) -> float:
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total / 2**20


def _spread(seconds: list[float]) -> str:
    cuts = quantiles(seconds, n=20, method="inclusive")
    return f"{1000 * min(seconds):9.2f}{1000 * cuts[9]:8.2f}{1000 * cuts[18]:7.1f}"


@contextlib.asynccontextmanager
async def _fresh_python(seed: int) -> AsyncIterator[Run]:
    """A new interpreter per call: no state, no isolation."""

    async def run(code: str) -> str:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=subprocess.PIPE)
        out, _ = await process.communicate()
        return out.decode()

    yield run


@contextlib.asynccontextmanager
async def _smolagents(seed: int) -> AsyncIterator[Run]:
    from smolagents.local_python_executor import LocalPythonExecutor

    executor = LocalPythonExecutor([])
    executor.send_tools({})

    async def run(code: str) -> str:
        return str(executor(code).output)

    yield run


@contextlib.asynccontextmanager
async def _jupyter(seed: int) -> AsyncIterator[Run]:
    from jupyter_client.manager import start_new_async_kernel

    manager, client = await start_new_async_kernel(kernel_name="python3", stderr=subprocess.DEVNULL)

    async def run(code: str) -> str:
        shown: list[str] = []

        def hear(message: dict) -> None:
            content = message["content"]
            shown.append(content.get("text") or content.get("data", {}).get("text/plain", ""))

        await client.execute_interactive(code, output_hook=hear, timeout=60)
        return "".join(shown)

    try:
        yield run
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
