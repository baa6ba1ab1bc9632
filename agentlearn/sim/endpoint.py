"""`sim:…` as an endpoint: the simulated world in a child process, for as long as somebody uses it."""

import asyncio
import os
import re
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import IO

from agentlearn.errors import ConfigError, EndpointError
from agentlearn.sim.chat import MODELS

READY_S = 60.0
GRACE_S = 2.0
_KEPT = ("PATH", "PYTHONPATH", "PYTHONHOME", "HOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "LANG")


_READY = re.compile(rb'^\{"url": "([^"]+)"')


@dataclass(frozen=True, slots=True)
class SimService:
    """A running simulated world."""

    base_url: str
    model: str
    pid: int
    simulated: bool = True


@asynccontextmanager
async def sim_endpoint(
    name: str, *, seed: int = 0, options: Mapping[str, float] | None = None
) -> AsyncGenerator[SimService]:
    """The simulated model of that name (`novice`, `reflector`, `echo`), served while the block runs.

    seed: which world. options: dials of `python -m agentlearn.sim`, such as {"latency-s": 0.2}.
    Raises ConfigError for an unknown name, EndpointError when the service does not start within a minute.
    """
    if name not in MODELS:
        known = ", ".join(f"'sim:{model}'" for model in MODELS)
        raise ConfigError(f"the simulated world has no model {name!r} (it has {known})", code="unknown_model")
    dials = [word for dial, number in (options or {}).items() for word in (f"--{dial}", f"{number:g}")]
    with tempfile.TemporaryFile() as complaints:
        child = await _started(["--seed", str(seed), *dials], complaints)
        try:
            yield SimService(base_url=await _url(child, complaints), model=name, pid=child.pid)
        finally:
            await _ended(child)


async def _started(arguments: list[str], complaints: IO[bytes]) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # what lies in the user's directory is not ours to import
            "-m",
            "agentlearn.sim",
            *arguments,
            stdin=asyncio.subprocess.PIPE,  # it ends when this closes, so that we cannot leave it behind
            stdout=asyncio.subprocess.PIPE,
            stderr=complaints,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for us; we end it when we are done
        )
    except OSError as error:
        raise EndpointError(f"the simulated world could not be started: {error}", code="sim_not_started") from error


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("COV")}
    # Skills written by others may walk over sets of words: equal worlds shall walk alike.
    return {**kept, "PYTHONUTF8": "1", "PYTHONHASHSEED": "0"}


async def _url(child: asyncio.subprocess.Process, complaints: IO[bytes]) -> str:
    """The URL from the line that says it is ready; other lines are somebody's chatter."""
    assert child.stdout is not None
    try:
        async with asyncio.timeout(READY_S):
            async for line in child.stdout:
                if (found := _READY.search(line)) is not None:
                    return found[1].decode()
            await child.wait()
    except TimeoutError:
        raise EndpointError(
            f"the simulated world did not get ready within {READY_S:g} s; is the machine overloaded?",
            code="sim_not_started",
        ) from None
    complaints.seek(0)
    said = complaints.read().decode(errors="replace").strip().splitlines()
    reason = said[-1] if said else f"exit status {child.returncode}"
    raise EndpointError(f"the simulated world did not start: {reason}", code="sim_not_started")


async def _ended(child: asyncio.subprocess.Process) -> None:
    """Ask it to end, insist after a while, and wait until it has."""
    assert child.stdin is not None
    child.stdin.close()
    with suppress(ProcessLookupError):
        child.terminate()
    try:
        async with asyncio.timeout(GRACE_S):
            await child.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.wait()
