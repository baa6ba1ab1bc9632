"""What ends for a reason outside the code is never a result of the code, and is started again."""

import asyncio
import os
import shutil
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentlearn.errors import ToolError, ToolLost
from agentlearn.sandbox import CodeSandbox, SandboxLimits, Session, open_sandbox
from agentlearn.sandbox import session as session_module
from agentlearn.sandbox import zygote as zygote_module
from tests.support.cases import cases
from tests.unit.sandbox.test_lifecycle import FACTS, gone_soon

ENDLESS = "while True: pass"


async def pids(session: Session) -> tuple[int, int, Path]:
    """Process id of a session and of its zygote, and the zygote's directory."""
    pid, zygote, folder = eval((await session.run(FACTS)).stdout)
    return pid, zygote, Path(folder).parent


async def value(session: Session, cell: str = "6 * 7") -> str:
    return (await session.run(cell)).stdout.strip()


def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (session_module, zygote_module):
        monkeypatch.setattr(module, "BACK_OFF_S", (0, 0, 0))


def in_sandbox(name: str, scenario: Callable[[CodeSandbox], Awaitable[None]], **options: object) -> None:
    async def run() -> None:
        async with open_sandbox(name, **options) as sandbox:  # pyright: ignore[reportArgumentType]
            await scenario(sandbox)

    asyncio.run(run())


def test_a_call_whose_zygote_is_killed_is_lost_and_the_next_session_gets_a_new_zygote() -> None:
    async def scenario(sandbox: CodeSandbox) -> None:
        async with sandbox.open(1) as session, sandbox.open(2) as other, sandbox.open(3) as unused:
            pid, zygote, folder = await pids(session)
            await other.run("1")
            computing = asyncio.create_task(session.run(ENDLESS, timeout_s=60))
            await asyncio.sleep(0.05)
            os.kill(zygote, signal.SIGKILL)
            with pytest.raises(ToolLost, match="ended unexpectedly; the variables of the session are lost") as caught:
                await computing
            assert caught.value.code == "sandbox_lost"
            assert gone_soon(pid)
            for lost in (session, other, session):  # also one that ran nothing then, and each time it is asked
                with pytest.raises(ToolLost):
                    await lost.run("1")
            assert await value(unused) == "42"
        async with sandbox.open(3) as fresh:
            assert await value(fresh) == "42"
            assert (await pids(fresh))[1] != zygote
        assert not folder.exists()

    in_sandbox("zygote", scenario)


def test_a_zygote_killed_while_sessions_are_opened_costs_none_of_them() -> None:
    async def scenario(sandbox: CodeSandbox) -> None:
        async def one(seed: int) -> str:
            async with sandbox.open(seed) as session:
                return await value(session, f"{seed}")

        async with sandbox.open(0) as session:
            _, zygote, _ = await pids(session)
        opening = [asyncio.create_task(one(seed)) for seed in range(8)]
        await asyncio.sleep(0)
        os.kill(zygote, signal.SIGKILL)
        found = await asyncio.gather(*opening, return_exceptions=True)
        answers = [one for one in found if isinstance(one, str)]
        assert all(isinstance(one, str | ToolLost) for one in found)
        assert set(answers) <= {str(seed) for seed in range(8)}
        assert await one(9) == "9"

    in_sandbox("zygote", scenario)


def test_a_session_killed_from_outside_is_lost_and_its_zygote_goes_on() -> None:
    async def scenario(sandbox: CodeSandbox) -> None:
        async with sandbox.open(1) as session, sandbox.open(2) as idle:
            pid, zygote, _ = await pids(session)
            idle_pid, _, _ = await pids(idle)
            computing = asyncio.create_task(session.run(ENDLESS, timeout_s=60))
            await asyncio.sleep(0.05)
            os.kill(pid, signal.SIGKILL)
            os.kill(idle_pid, signal.SIGKILL)
            with pytest.raises(ToolLost, match="killed from outside, perhaps because this machine ran out of memory"):
                await computing
            assert gone_soon(idle_pid)
            with pytest.raises(ToolLost):
                await idle.run("1")
        async with sandbox.open(3) as session:
            assert (await pids(session))[1] == zygote

    in_sandbox("zygote", scenario)


def test_a_zygote_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zygote_module, "END_TIMEOUT_S", 0.5)

    async def scenario(sandbox: CodeSandbox) -> None:
        async with sandbox.open(1) as session:
            pid, zygote, _ = await pids(session)
            monkeypatch.setattr(session_module, "OPEN_TIMEOUT_S", 2.0)  # also the new zygote has to answer in it
            os.kill(zygote, signal.SIGSTOP)
            async with sandbox.open(2) as other:
                assert await value(other) == "42"
            with pytest.raises(ToolLost, match="did not answer"):
                await session.run("1")
            assert gone_soon(pid, zygote)

    in_sandbox("zygote", scenario)


def test_a_zygote_that_ends_again_and_again_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    no_waiting(monkeypatch)
    monkeypatch.setattr(zygote_module, "MOST_RESTARTS", 2)

    async def scenario(sandbox: CodeSandbox) -> None:
        for seed in range(3):
            async with sandbox.open(seed) as session:
                pid, zygote, _ = await pids(session)
                os.kill(zygote, signal.SIGKILL)
                assert gone_soon(pid)
                with pytest.raises(ToolLost):
                    await session.run("1")
        with pytest.raises(ToolError, match=r"'unsafe-local' was started again 2 times within 60 s") as caught:
            async with sandbox.open(9) as session:
                await session.run("1")
        assert not isinstance(caught.value, ToolLost)
        assert caught.value.code == "sandbox_ended"

    in_sandbox("unsafe-local", scenario)


def test_code_that_ends_its_own_interpreter_gets_a_result_and_never_a_new_attempt(subtests: pytest.Subtests) -> None:
    async def scenario(sandbox: CodeSandbox) -> None:
        for cell in cases(__file__, "code_that_ends_its_own_interpreter_gets_a_result_and_never_a_new_attempt"):
            with subtests.test(repr(cell)):
                async with sandbox.open(1) as session:
                    assert (await session.run(cell, timeout_s=8)).status in ("error", "timeout", "oom", "killed")
                    assert await value(session) == "42"

    in_sandbox("zygote", scenario)


@pytest.mark.parametrize("ignores", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_used_up_processor_time_is_the_codes_own_also_when_it_ignores_the_first_signal(ignores: bool) -> None:
    before = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n" if ignores else ""

    async def scenario(sandbox: CodeSandbox) -> None:
        async with sandbox.open(1) as session:
            result = await session.run(before + ENDLESS, timeout_s=60)
            assert result.status == "timeout"
            assert result.error.startswith("the session used up its processor time")

    in_sandbox("zygote", scenario, limits=SandboxLimits(cpu_s=1))


def test_too_many_open_files_here_is_no_result_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    no_waiting(monkeypatch)

    async def scenario(sandbox: CodeSandbox) -> None:
        async with sandbox.open(1) as session:
            assert (await session.run("import os\nos._exit(0)")).status == "killed"

            def none_left() -> None:
                raise OSError(24, "Too many open files")

            with monkeypatch.context() as broken:
                broken.setattr(zygote_module, "socket", SimpleNamespace(**vars(socket) | {"socketpair": none_left}))
                with pytest.raises(ToolLost, match="Too many open files"):
                    await session.run("1")
                with pytest.raises(ToolLost, match="Too many open files"):
                    async with sandbox.open(2) as other:
                        await other.run("1")
        async with sandbox.open(3) as session:
            assert await value(session) == "42"

    in_sandbox("unsafe-local", scenario)


def test_a_disk_full_of_other_files_is_no_error_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    full = "raise OSError(28, 'No space left on device')"
    usage = shutil.disk_usage("/")._replace(free=0)

    def full_disk(_path: Path) -> object:
        return usage

    async def scenario(sandbox: CodeSandbox) -> None:
        async with sandbox.open(1) as session:
            assert (await session.run(full)).status == "error"  # there is space: the code says so itself
        monkeypatch.setattr(zygote_module.shutil, "disk_usage", full_disk)
        async with sandbox.open(1) as session:
            with pytest.raises(ToolLost, match="disk with the files of the code sandbox is full; free some space"):
                await session.run(full)
        async with sandbox.open(1) as session:  # its own files fill the disk
            for number in range(5):
                assert (await session.run(f"open('{number}', 'wb').truncate(16 << 20)\nNone")).status == "ok"
            assert (await session.run(full)).status == "error"

    in_sandbox("unsafe-local", scenario)
