"""A session's files and threads are limited with namespaces and without; what exceeds them ends alone."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentlearn.sandbox import CodeResult, SandboxLimits, Session, open_sandbox
from agentlearn.sandbox.inside.serve import WatchedSession
from tests.unit.sandbox.test_attacks import REPOSITORY, x86_64_only

LOST = "; the variables are lost and the next call starts in a fresh interpreter"
TOO_MUCH = "the session's files took more than 67,108,864 bytes"
MIB = 1 << 20


@x86_64_only
@pytest.mark.slow
def test_every_attack_is_stopped_without_namespaces_too() -> None:
    command = [sys.executable, "-m", "tests.unit.sandbox.attacks", "--without-namespaces"]
    found = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=240, check=False)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == {}


async def next_that_fails(session: Session) -> CodeResult:
    """The first later call that fails, after waiting for the count of the session's files."""
    async with asyncio.timeout(60):
        while True:
            await asyncio.sleep(0.2)
            if (result := await session.run("1")).status != "ok":
                return result


def test_a_session_that_fills_the_disk_is_killed_and_the_others_are_not() -> None:
    fill = "x = 1\nfor n in range(300):\n    with open(str(n), 'wb') as f: _ = f.write(bytes(1 << 20))"

    async def scenario() -> None:
        async with open_sandbox("unsafe-local") as sandbox, sandbox.open(1) as greedy, sandbox.open(2) as modest:
            folder = Path(eval((await greedy.run("import os\nos.getcwd()")).stdout))
            assert (await modest.run("x = 5\n_ = open('a', 'wb').write(bytes(9 << 20))")).status == "ok"
            filled = await greedy.run(fill)
            if filled.status == "ok":  # it was quicker than the count, which comes after the call too
                filled = await next_that_fails(greedy)
                assert (filled.status, filled.error) == ("state_lost", f"{TOO_MUCH}; this code was not run{LOST}")
            else:
                assert (filled.status, filled.error) == ("killed", TOO_MUCH + LOST)
            assert (await modest.run("x")).stdout == "5\n"
            assert (await greedy.run("import os\n_ = open('a', 'w').write('b')\nos.listdir()")).stdout == "['a']\n"
            deadline = time.monotonic() + 30
            while folder.exists() and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
            assert not folder.exists()

    asyncio.run(scenario())


def test_files_that_were_written_at_the_end_of_a_call_are_counted_after_it() -> None:
    limits = SandboxLimits(scratch_bytes=MIB)

    async def scenario() -> None:
        async with open_sandbox("unsafe-local", limits=limits) as sandbox, sandbox.open(1) as session:
            await session.run("1")
            failed = await session.run("_ = open('a', 'wb').write(bytes(9 << 20))")
            if failed.status == "ok":
                failed = await next_that_fails(session)
            assert failed.status in ("killed", "state_lost")
            assert failed.error.startswith("the session's files took more than 1,048,576 bytes; ")

    asyncio.run(scenario())


def test_too_many_threads_end_the_session() -> None:
    cell = """
import threading, time
threading.stack_size(1 << 16)
for n in range(500): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
time.sleep(60)
"""

    async def scenario() -> None:
        async with open_sandbox("zygote") as sandbox, sandbox.open(1) as session:
            result = await session.run(cell, timeout_s=60)
            assert (result.status, result.error) == ("killed", "the session had more than 256 threads" + LOST)
            assert (await session.run("1")).stdout == "1\n"

    asyncio.run(scenario())


def test_the_count_includes_deleted_and_mapped_files_and_what_cannot_be_listed(tmp_path: Path) -> None:
    hold = """
import mmap, os, sys, time
os.chdir(sys.argv[1])
exec(sys.argv[2])
print('ready', flush=True)
time.sleep(600)
"""
    ways = {
        "open": "f = open('a', 'wb'); f.write(bytes(3 << 20)); f.flush()",
        "sparse": "f = open('a', 'wb'); f.truncate(3 << 20)",
        "small": "f = open('a', 'wb'); f.write(bytes(1 << 10)); f.flush()",
        "deleted": "f = open('a', 'wb'); f.write(bytes(3 << 20)); f.flush(); os.unlink('a')",
        "mapped": "f = open('a', 'wb+'); f.write(bytes(3 << 20)); f.flush(); m = mmap.mmap(f.fileno(), 0);"
        " f.close(); os.unlink('a')",
        "deep": "for n in range(30): os.mkdir('d' * 200); os.chdir('d' * 200)",
        "many": "for n in range(99): open(str(n), 'w').close()",
    }
    limits, exceeded = SandboxLimits(scratch_bytes=MIB), dict[str, bool]()
    for name, way in ways.items():
        folder = tmp_path / name
        folder.mkdir()
        command = [sys.executable, "-c", hold, str(folder), way]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            exceeded[name] = bool(WatchedSession(process.pid, folder, limits, own_disk=False).excess())
            process.kill()
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    assert exceeded == {
        "open": True, "sparse": False, "small": False, "deleted": True, "mapped": True, "deep": True, "many": True,
    }  # fmt: skip
