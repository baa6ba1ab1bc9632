"""The worker processes: endless and greedy comparisons, crashes, and what is left when their user goes."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentlearn.answers import verifier as worker
from agentlearn.answers import workers
from agentlearn.answers.form_comparison import Algebra
from agentlearn.answers.forms import Node
from agentlearn.answers.match import Match
from agentlearn.answers.workers import AlgebraWorkers, open_workers
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Verdict
from agentlearn_math import domain
from agentlearn_math.verify import judge
from tests.unit.domain.rollouts import rollout

ENDLESS = r"\sum_{k=1}^{20000}\sum_{j=1}^{20000}\sum_{m=1}^{20000}\sin(jkm)"
"""Term by term: more than a million years."""
PATIENCE_S = 120.0
"""How long a slow machine may take for what is done in milliseconds."""


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
def test_a_hundred_verdicts_beside_two_endless_ones() -> None:
    async def both() -> tuple[list[Verdict], list[Verdict]]:
        async with open_workers(limit_s=0.75, quick_s=0.25) as opened, asyncio.TaskGroup() as group:
            endless = [group.create_task(judge(ENDLESS, str(n), opened)) for n in range(2)]
            plain = [group.create_task(one(n, opened)) for n in range(100)]
        return [task.result() for task in endless], [task.result() for task in plain]

    async def one(n: int, opened: AlgebraWorkers) -> Verdict:
        verdict = Verdict(status="undecided")
        while verdict.status == "undecided":  # on a machine so slow that the small limits of this test meet it too
            verdict = await judge(f"\\sqrt{{{2 * n * n + 2}}}", f"\\sqrt{{{n * n + 1 + n % 2}}}\\sqrt{{2}}", opened)
        return verdict

    endless, plain = asyncio.run(both())
    took_too_long = Verdict(status="undecided", reason="the comparison took more than 0.75 CPU seconds")
    assert endless == [took_too_long] * 2
    assert [verdict.status for verdict in plain] == ["correct", "incorrect"] * 50


def test_nothing_starts_before_it_is_needed_and_all_is_gone_in_the_end() -> None:
    async def run() -> list[int]:
        async with domain.running() as running:
            task = Task.of("math", "Half of 7?", "7/2")
            assert isinstance(running.verify(task, rollout(task, "3.5")), Verdict)
            assert running.workers is not None
            assert running.workers.pids == ()
            assert (await judge(r"\sqrt{8}", r"2\sqrt{2}", running.workers)).status == "correct"
            (fork_server,) = running.workers.pids
            return [fork_server, *children(fork_server)]

    started = asyncio.run(run())
    assert len(started) == 2
    wait_until(lambda: not any(map(is_alive, started)))


def children_once_there(pid: int, known: int = 0) -> list[int]:
    found: list[int] = []

    def others() -> bool:
        found[:] = [child for child in children(pid) if child != known and is_alive(child)]
        return bool(found)

    wait_until(others)
    return found


def test_a_worker_that_is_killed_is_replaced_and_the_pair_judged_again() -> None:
    async def run() -> list[Verdict]:
        async with open_workers(limit_s=PATIENCE_S, quick_s=PATIENCE_S) as opened:
            verdicts = [await judge(r"\sqrt{8}", r"2\sqrt{2}", opened)]
            (fork_server,) = opened.pids
            (first,) = children(fork_server)
            waiting = asyncio.ensure_future(judge(ENDLESS, "5", opened))
            await asyncio.sleep(0.2)
            os.kill(first, signal.SIGKILL)
            (second,) = await asyncio.to_thread(children_once_there, fork_server, first)
            await asyncio.sleep(0.2)
            os.kill(second, signal.SIGKILL)
            verdicts += [await waiting, await judge(r"\sqrt{8}", r"2\sqrt{2}", opened)]
            (third,) = children(fork_server)
            os.kill(third, signal.SIGSTOP)
            waiting = asyncio.ensure_future(judge(r"\sqrt{18}", r"3\sqrt{2}", opened))
            await asyncio.sleep(0.2)
            os.kill(third, signal.SIGKILL)
            verdicts.append(await waiting)
            os.kill(fork_server, signal.SIGKILL)
            verdicts += [await judge(r"\sqrt{18}", r"3\sqrt{2}", opened) for _ in range(3)]
            return verdicts

    first, killed_twice, *others = asyncio.run(run())
    assert [one.status for one in (first, *others)] == ["correct"] * 6
    assert killed_twice == Verdict(status="undecided", reason="algebra ended while it compared")


@pytest.mark.slow
def test_a_stuck_worker_is_replaced_and_the_pair_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> Verdict:
        async with open_workers(limit_s=0.5, quick_s=0.5) as opened:
            await judge(r"\sqrt{8}", r"2\sqrt{2}", opened)
            (stuck,) = children(opened.pids[0])
            os.kill(stuck, signal.SIGSTOP)
            return await judge(r"\sqrt{18}", r"3\sqrt{2}", opened)

    monkeypatch.setattr(workers, "STUCK_S", 0.5)
    assert asyncio.run(run()).status == "correct"


def test_verdicts_do_not_depend_on_what_else_runs() -> None:
    """A comparison that waits for its turn on the processor for longer than its limit is still decided."""

    async def run() -> Verdict:
        async with open_workers(limit_s=0.5, quick_s=0.5) as opened:
            await judge(r"\sqrt{8}", r"2\sqrt{2}", opened)
            (worker,) = children(opened.pids[0])
            os.kill(worker, signal.SIGSTOP)
            waiting = asyncio.ensure_future(judge(r"\sqrt{18}", r"3\sqrt{2}", opened))
            await asyncio.sleep(1.5)
            os.kill(worker, signal.SIGCONT)
            return await waiting

    assert asyncio.run(run()).status == "correct"


def test_a_worker_that_cannot_start_leaves_it_undecided(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(workers.sys, "executable", str(tmp_path / "none"))
    verdict = asyncio.run(judge(r"\sqrt{8}", r"2\sqrt{2}"))
    assert verdict == Verdict(status="undecided", reason="algebra could not be started (No such file or directory)")
    monkeypatch.setattr(workers.sys, "executable", "/bin/true")
    verdict = asyncio.run(judge(r"\sqrt{8}", r"2\sqrt{2}"))
    assert verdict.reason == "algebra could not be started (its process ended or did not answer)"


def test_a_request_that_is_given_up_does_not_meet_the_next_one() -> None:
    async def run() -> Verdict:
        async with open_workers(limit_s=PATIENCE_S, quick_s=PATIENCE_S) as opened:
            await judge(r"\sqrt{8}", r"2\sqrt{2}", opened)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await judge(ENDLESS, "5", opened)
            return await judge(r"\sqrt{8}", r"3\sqrt{2}", opened)

    assert asyncio.run(run()).status == "incorrect"


def test_all_processes_die_with_their_user_even_by_kill_9() -> None:
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from agentlearn.answers.workers import open_workers\n"
        "async def main():\n"
        "    async with open_workers(limit_s=1000.0, quick_s=1000.0) as opened:\n"
        "        await opened.compare('\\\\sqrt{8}', '2')\n"
        "        pid = opened.pids[0]\n"
        "        lanes = Path(f'/proc/{pid}/task/{pid}/children').read_text().split()\n"
        "        print(pid, *lanes, flush=True)\n"
        f"        await opened.compare({ENDLESS!r}, '5')\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        started = [int(pid) for pid in user.stdout.readline().split()]
        user.kill()
    assert len(started) == 2
    wait_until(lambda: not any(map(is_alive, started)))


def test_whatever_breaks_in_the_lane_is_undecided_and_memory_is_limited_there() -> None:
    class Failing(Algebra):
        def __init__(self, error: Exception) -> None:
            self.error = error

        def same_value(self, answer: Node, gold: Node) -> Match:
            raise self.error

    for error, reason in ((MemoryError(), "took too much memory"), (ArithmeticError(), "broke with ArithmeticError")):
        match = worker.compare_texts(r"\sqrt{8}", r"\sqrt{2}", Failing(error))
        assert match == Match("unclear", f"the comparison {reason}")

    async def limit() -> str:
        async with open_workers(limit_s=PATIENCE_S, quick_s=PATIENCE_S) as opened:
            await judge(r"\sqrt{8}", r"2\sqrt{2}", opened)
            (worker,) = children(opened.pids[0])
            return Path(f"/proc/{worker}/limits").read_text()

    (line,) = [line for line in asyncio.run(limit()).splitlines() if line.startswith("Max address space")]
    assert worker.MEMORY_BYTES < int(line.split()[3]) < worker.MEMORY_BYTES + 2**31
