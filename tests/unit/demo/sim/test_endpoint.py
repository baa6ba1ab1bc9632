"""The simulated world as a child process: it starts, serves, and is never left behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from agentlearn.errors import ConfigError, EndpointError
from agentlearn.serving import child_process as child
from agentlearn_demo.endpoints import SimService, sim_endpoint
from agentlearn_demo.sim.skills import installed_skills

ROOT = Path(__file__).parents[4]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def echo(service: SimService, text: str) -> str:
    async with httpx2.AsyncClient(timeout=60) as client:
        body = {"model": "echo", "messages": [{"role": "user", "content": text}]}
        answer = await client.post(f"{service.base_url}/chat/completions", json=body)
        return answer.json()["choices"][0]["message"]["content"]


def test_it_serves_while_the_block_runs_and_is_gone_afterwards() -> None:
    async def all_of_it() -> SimService:
        async with sim_endpoint("novice", seed=3) as service:
            assert (service.model, service.simulated) == ("novice", True)
            assert service.base_url.startswith("http://127.0.0.1:")
            assert os.getpgid(service.pid) == service.pid
            assert await echo(service, "hello") == "hello"
            return service

    assert not alive(asyncio.run(all_of_it()).pid)


@pytest.mark.slow
def test_it_is_gone_when_the_block_is_cancelled() -> None:
    async def used(ready: asyncio.Future[int]) -> None:
        async with sim_endpoint("novice") as service:
            ready.set_result(service.pid)
            await asyncio.sleep(60)

    async def all_of_it() -> int:
        ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        user = asyncio.ensure_future(used(ready))
        pid = await ready
        user.cancel()
        with pytest.raises(asyncio.CancelledError):
            await user
        return pid

    assert not alive(asyncio.run(all_of_it()))


def test_an_unknown_model_is_refused_before_anything_starts() -> None:
    async def all_of_it() -> None:
        async with sim_endpoint("expert"):
            raise AssertionError

    expected = "the simulated world has no model 'expert' (it has 'sim:novice', 'sim:reflector', 'sim:echo')"
    with pytest.raises(ConfigError) as caught:
        asyncio.run(all_of_it())
    assert caught.value.message == expected


async def _enter() -> None:
    async with sim_endpoint("novice"):
        raise AssertionError


def test_a_child_that_is_too_slow_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "READY_S", 0.01)
    with pytest.raises(EndpointError, match=r"did not get ready within 0.01 s"):
        asyncio.run(_enter())


@pytest.mark.slow
async def test_a_child_that_dies_answers_again_at_the_same_address() -> None:
    async with asyncio.timeout(120), sim_endpoint("novice") as service:
        before = await echo(service, "anyone?")
        os.kill(service.pid, signal.SIGKILL)
        while alive(service.pid):
            await asyncio.sleep(0.01)
        while True:
            try:
                assert await echo(service, "anyone?") == before
                break
            except httpx2.HTTPError:
                await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_child_that_dies_each_time_stays_down_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "BACK_OFF_S", 0)

    service = child.ChildService(
        module="agentlearn_demo", arguments=("sim",), called="the world", code="sim_not_started"
    )
    async with asyncio.timeout(120), child.running_child(service) as running:
        seen = set[int]()
        while len(seen) <= child.RESTARTS:
            if running.pid not in seen and alive(running.pid):
                os.kill(running.pid, signal.SIGKILL)
                seen.add(running.pid)
            await asyncio.sleep(0.01)
        await running.process.wait()
        await asyncio.sleep(0.1)
        assert running.process.returncode == -signal.SIGKILL
        assert running.pid in seen


@pytest.mark.slow
def test_a_child_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "GRACE_S", 0.2)

    async def all_of_it() -> int:
        async with asyncio.timeout(120), sim_endpoint("novice") as service:
            os.kill(service.pid, signal.SIGSTOP)
            return service.pid

    assert not alive(asyncio.run(all_of_it()))


def started() -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-m", "agentlearn_demo", "sim"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert child.stdout is not None
    ready = json.loads(child.stdout.readline())
    assert ready["pid"] == child.pid
    assert ready["url"].endswith("/v1")
    return child


@pytest.mark.slow
def test_the_end_of_stdin_ends_it() -> None:
    with started() as child:
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(timeout=60) == 0


@pytest.mark.slow
def test_sigterm_ends_it() -> None:
    with started() as child:
        child.terminate()
        assert child.wait(timeout=60) == 0


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("agentlearn_demo.math.novice:nothing", "cannot be loaded"),
        ("agentlearn_demo.math.novice:TRAPS", "do not implement"),
    ],
)
def test_skills_that_cannot_be_used_are_named(
    value: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "other_skills-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: other-skills\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(f"[agentlearn.skills]\nmath = {value}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=reason):
        installed_skills()
