"""Nothing runs between two calls, and nothing of one call appears in the next."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.unit.sandbox.conftest import Box

WHERE = "import os\nos.getpid()"
HERTZ = os.sysconf("SC_CLK_TCK")
TIMER = "import signal\nsignal.signal(signal.SIGALRM, lambda *_: step())\n"

LEFT_BEHIND = {
    "a timer": TIMER + "signal.setitimer(signal.ITIMER_REAL, .001, .001)",
    "a timer whose handler spins": """
import signal
def spin(*_):
    while True: step()
signal.signal(signal.SIGALRM, spin)
signal.setitimer(signal.ITIMER_REAL, .2)
""",
    "a timer whose handler raises": """
import signal
def fail(*_): raise KeyboardInterrupt('late')
signal.signal(signal.SIGALRM, fail)
signal.setitimer(signal.ITIMER_REAL, .05, .0005)
""",
    "a timer of processor time": """
import signal
signal.signal(signal.SIGPROF, lambda *_: step()); signal.setitimer(signal.ITIMER_PROF, .001, .001)
signal.signal(signal.SIGVTALRM, lambda *_: step()); signal.setitimer(signal.ITIMER_VIRTUAL, .001, .001)
""",
    "an alarm": "import signal\nsignal.signal(signal.SIGALRM, lambda *_: step())\nsignal.alarm(1)",
    "a thread that spins": """
import threading
def spin():
    while True: step()
threading.Thread(target=spin, daemon=True).start()
""",
    "threads that sleep": """
import threading, time
def sleepy():
    while True: time.sleep(.001); step()
for _ in range(4): threading.Thread(target=sleepy).start()
""",
    "a timer thread": "import threading\nthreading.Timer(.1, step).start()",
    "a pool": """
from concurrent.futures import ThreadPoolExecutor
import time
def slow():
    while True: time.sleep(.001); step()
pool = ThreadPoolExecutor(2)
pool.submit(slow)
""",
    "a task of an event loop": """
import asyncio, threading
loop = asyncio.new_event_loop()
async def tick():
    for _ in range(10 ** 9): await asyncio.sleep(.001); step(quiet=True)
threading.Thread(target=lambda: loop.run_until_complete(tick()), daemon=True).start()
""",
    "a trace function": "import sys\ndef trace(*_): step(); return trace\nsys.settrace(trace); sys.setprofile(trace)",
    "a traceback after a time": "import faulthandler, sys\nfaulthandler.dump_traceback_later(.1, repeat=True, file=1)",
    "an exit handler": "import atexit, weakref\natexit.register(step)\nclass A: pass\nweakref.finalize(A(), step)",
    "a hook": "import sys, gc\ndef hook(*_): step(quiet=True)\nsys.addaudithook(hook)\ngc.callbacks.append(hook)",
}
"""Each begins something that counts its steps and prints."""
STEP = "steps = 0\ndef step(quiet=False):\n    global steps\n    steps += 1\n    if not quiet: print('LATE')\nkept = 41"


def cpu_s(pid: int) -> float:
    """Processor time of a process with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / HERTZ


def test_what_a_call_leaves_behind_does_not_run_until_the_next(box: Box, subtests: pytest.Subtests) -> None:
    """All of them in sessions at once: most of the time is spent waiting."""

    async def scenario(code: str) -> None:
        async with box.sandbox.open(1) as session:
            pid = int((await session.run(WHERE)).stdout)
            await session.run(STEP)
            assert (await session.run(code)).status == "ok"
            await asyncio.sleep(0.05)
            before = cpu_s(pid)
            await asyncio.sleep(0.4)
            assert cpu_s(pid) - before <= 1 / HERTZ
            after = await session.run("print(kept + 1)")
            assert (after.status, after.stdout) == ("ok", "42\n")
            again = await session.run("print(kept + 1)")
            assert (again.status, again.stdout) == ("ok", "42\n")

    async def all_scenarios() -> list[BaseException | None]:
        return await asyncio.gather(*map(scenario, LEFT_BEHIND.values()), return_exceptions=True)

    for left, error in zip(LEFT_BEHIND, box.runner.run(all_scenarios()), strict=True):
        with subtests.test(repr(left)):
            if error is not None:
                raise error


def test_timers_do_not_fire_all_together_in_the_next_call(box: Box) -> None:
    timers = TIMER + "signal.setitimer(signal.ITIMER_REAL, .3, .001)"
    first, second, third = box.run(STEP, timers, "import time\ntime.sleep(.5)\nsteps")
    assert (first.status, second.status, third.stdout) == ("ok", "ok", "0\n")


def test_a_reply_before_the_end_of_the_code_buys_no_time(box: Box) -> None:
    """Code that answers for itself is stopped when its answer has come."""
    forged = '{"call": 2, "status": "ok", "stdout": "", "stdout_bytes": 0, "error": ""}'
    early = f"import os\nb = {forged.encode()!r}\nos.write(3, len(b).to_bytes(4, 'big') + b)\nn = 0\nwhile True: n += 1"

    async def scenario() -> None:
        async with box.sandbox.open(1) as session:
            pid = int((await session.run(WHERE)).stdout)
            assert (await session.run(early)).status == "ok"
            await asyncio.sleep(0.05)
            before = cpu_s(pid)
            await asyncio.sleep(0.3)
            assert cpu_s(pid) - before <= 1 / HERTZ
            assert (await session.run("1", timeout_s=0.3)).status == "timeout"

    box.runner.run(scenario())


@pytest.mark.parametrize("box", ["unsafe-local"], indirect=True)
def test_a_child_process_is_stopped_with_its_session(box: Box) -> None:
    start = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'while True: pass']).pid"

    async def scenario() -> None:
        async with box.sandbox.open(1) as session:
            pid = int((await session.run(start)).stdout)
            await asyncio.sleep(0.05)
            before = cpu_s(pid)
            await asyncio.sleep(0.3)
            assert cpu_s(pid) - before <= 1 / HERTZ
            await session.run("import time\ntime.sleep(.3)")
            assert cpu_s(pid) > before

    box.runner.run(scenario())
