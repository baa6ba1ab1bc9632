"""What `agentlearn serve` adds to a model call: time one by one and at 100 streams at once, CPU time, and memory.

A stub service is asked directly, through a proxy that only passes bytes on, through the gateway without records, and
through the gateway, in turns. `--before FOLDER` adds the gateway of another checkout. Two programs are not part of the
development tools, because one brings a hundred packages and the other a plugin into every test run:

    python3 -m venv /tmp/llm && /tmp/llm/bin/pip install 'litellm[proxy]'
    just bench gateway --litellm /tmp/llm/bin/litellm              # LiteLLM's proxy beside it
    python3 -m venv /tmp/st && /tmp/st/bin/pip install schemathesis
    just bench gateway --schemathesis /tmp/st/bin/st               # requests made from /openapi.json; what breaks
    just bench gateway --requests 50000                            # its memory
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
from aiohttp import ClientError, ClientSession, TCPConnector

from agentlearn import Library, LibraryStore
from scripts.bench.found import Found, Row, Target

PORTS = {
    "service": 8_501,
    "bare proxy": 8_502,
    "gateway, no records": 8_503,
    "gateway": 8_504,
    "litellm": 8_505,
    "before": 8_506,
}
QUESTION = "How many integers from 3 to 30 are divisible by 4? " * 20
LIBRARY = Library.of(["When a list has ends, count both."])
WARM, STREAMS, ROUNDS = 50, 100, 5
_LITELLM_STARTS = {  # without a download of prices, and without a key of its own
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}
_LITELLM = """
model_list:
  - model_name: stub
    litellm_params: {model: openai/stub, api_base: "http://127.0.0.1:8501/v1", api_key: none}
"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--calls", type=int, default=300, help="calls one by one, for each way")
    parser.add_argument("--requests", type=int, default=0, help="further requests, to see memory grow (default none)")
    parser.add_argument("--litellm", type=Path, help="command of LiteLLM's proxy")
    parser.add_argument("--before", type=Path, help="folder of another checkout, whose gateway is measured as well")
    parser.add_argument("--schemathesis", type=Path, help="command of schemathesis, to test our own paths with")


@contextmanager
def _started(command: list[str], port: int, folder: str, checkout: Path | None = None) -> Generator[psutil.Process]:
    """A server that answers at its port. checkout: folder whose agentlearn it runs; None: this one."""
    environment = {**os.environ, **_LITELLM_STARTS, "AGENTLEARN_STORE": folder}
    if checkout is not None:
        environment["PYTHONPATH"] = str(checkout.absolute())
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet, env=environment, cwd=checkout) as process:
        try:
            asyncio.run(_answering(port))
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


async def _answering(port: int) -> None:
    async with ClientSession() as session:
        for _ in range(2_400):
            try:
                async with session.get(f"http://127.0.0.1:{port}/health"):
                    return
            except ClientError:
                await asyncio.sleep(0.1)
    raise TimeoutError(f"nothing answers at port {port}")


async def _asked(session: ClientSession, port: int, *, stream: bool = False) -> float:
    """Milliseconds until the whole reply is there. Raises RuntimeError for a reply that is broken."""
    began = time.perf_counter()
    body = {"model": "stub", "messages": [{"role": "user", "content": QUESTION}]}
    headers = {"authorization": "Bearer none"}
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    async with session.post(url, json={**body, "stream": True} if stream else body, headers=headers) as reply:
        told = await reply.read()
    if reply.status != 200 or not told.rstrip().endswith(b"[DONE]" if stream else b"}"):
        raise RuntimeError(f"status {reply.status}: {told[-200:]!r}")
    return (time.perf_counter() - began) * 1000


async def _sequential(ports: Mapping[str, int], calls: int) -> dict[str, list[float]]:
    async with ClientSession() as session:
        found: dict[str, list[float]] = {name: [] for name in ports}
        for n in range(calls + WARM):
            for name, port in ports.items():
                took = await _asked(session, port)
                if n >= WARM:
                    found[name].append(took)
    return found


async def _at_once(port: int, calls: int, *, stream: bool = True) -> tuple[list[float], float]:
    """Milliseconds of each call, `STREAMS` at a time, and the calls in a second."""
    left, found = iter(range(calls)), list[float]()
    async with ClientSession(connector=TCPConnector(limit=0)) as session:

        async def client() -> None:
            for _ in left:
                found.append(await _asked(session, port, stream=stream))

        began = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(STREAMS)))
    return sorted(found), calls / (time.perf_counter() - began)


def _cpu(process: psutil.Process) -> float:
    used = process.cpu_times()
    return used.user + used.system


def measure(chosen: argparse.Namespace) -> Found:
    """Run the benchmark."""
    python, agentlearn = sys.executable, [sys.executable, "-m", "agentlearn"]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        LibraryStore(Path(folder, "libraries")).publish("math", LIBRARY)
        peers = [python, "-m", "scripts.bench.gateway_peers"]
        upstream = f"http://127.0.0.1:{PORTS['service']}"
        serve = [*agentlearn, "serve", "--upstream", upstream, "--library", "math", "--port"]
        commands = {
            "service": [*peers, "service", str(PORTS["service"])],
            "bare proxy": [*peers, "bare", str(PORTS["bare proxy"]), upstream],
            "gateway, no records": [*serve, str(PORTS["gateway, no records"]), "--name", ""],
            "gateway": [*serve, str(PORTS["gateway"])],
        }
        if chosen.litellm:
            settings = Path(folder, "litellm.yaml")
            settings.write_text(_LITELLM, encoding="utf-8")
            commands["litellm"] = [str(chosen.litellm), "--config", str(settings), "--port", str(PORTS["litellm"])]
        if chosen.before:
            commands["before"] = [*serve, str(PORTS["before"]), "--store", str(Path(folder, "before"))]
            LibraryStore(Path(folder, "before", "libraries")).publish("math", LIBRARY)
        running = {
            name: stack.enter_context(
                _started(command, PORTS[name], folder, chosen.before if name == "before" else None)
            )
            for name, command in commands.items()
        }
        ports = {name: PORTS[name] for name in running}
        before = {name: _cpu(process) for name, process in running.items()}
        one_by_one = asyncio.run(_sequential(ports, chosen.calls))
        used = {name: (_cpu(running[name]) - before[name]) * 1000 / (chosen.calls + WARM) for name in running}
        at_once, streamed = dict[str, tuple[list[float], float]](), {name: list[float]() for name in running}
        for _ in range(ROUNDS):
            for name, process in running.items():
                began = _cpu(process)
                at_once[name] = asyncio.run(_at_once(ports[name], 10 * STREAMS))
                time.sleep(1)  # until the records are written
                streamed[name].append((_cpu(process) - began) * 1000 / (10 * STREAMS))
        sides = zip(streamed["gateway"], streamed["gateway, no records"], strict=True)
        recorded = [one / other for one, other in sides]
        direct = statistics.median(one_by_one["service"])
        rows = [
            Row(
                name=name,
                figures={
                    "median_ms": statistics.median(times),
                    "added_ms": statistics.median(times) - direct,
                    "cpu_ms": used[name],
                    "streams_p50_ms": statistics.median(at_once[name][0]),
                    "streams_p99_ms": at_once[name][0][int(0.99 * len(at_once[name][0]))],
                    "per_s": at_once[name][1],
                    "stream_cpu_ms": statistics.median(streamed[name]),
                    "rss_mib": running[name].memory_info().rss / 2**20,
                },
            )
            for name, times in one_by_one.items()
        ]
        added = statistics.median(one_by_one["gateway"]) - direct
        p99 = [at_once[name][0][int(0.99 * len(at_once[name][0]))] for name in ("gateway", "bare proxy")]
        targets = [
            Target(what="added ms, one by one", figure=added, bound="at_most", limit=2.5),
            Target(what="added ms, p99 of 100 streams", figure=p99[0] - p99[1], bound="at_most", limit=20),
            Target(
                what="CPU of a recorded stream, times one without records",
                figure=statistics.median(recorded),
                bound="at_most",
                limit=1.3,
            ),
        ]
        if chosen.requests:
            memory = running["gateway"].memory_info
            asyncio.run(_at_once(ports["gateway"], min(5_000, chosen.requests), stream=False))
            first = memory().rss
            asyncio.run(_at_once(ports["gateway"], chosen.requests, stream=False))
            slope = (memory().rss - first) / chosen.requests / 1024
            targets.append(Target(what="KiB of memory per request", figure=slope, bound="at_most", limit=1))
        failures = _contract(chosen.schemathesis, PORTS["gateway"]) if chosen.schemathesis else ()
    return Found(rows=tuple(rows), targets=tuple(targets), failures=failures)


def _contract(command: Path, port: int) -> tuple[str, ...]:
    """What schemathesis finds in our own paths."""
    address = f"http://127.0.0.1:{port}/openapi.json"
    done = subprocess.run(
        [command, "run", address, "--no-color", "--max-examples", "100"], capture_output=True, text=True, check=False
    )
    return () if done.returncode == 0 else (done.stdout[-4_000:] + done.stderr[-1_000:],)
