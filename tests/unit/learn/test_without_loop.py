"""The calls for programs without an event loop, where one is running."""

import asyncio
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentlearn import LearnSettings, run_learning_sync
from agentlearn.cli.interrupt import run_async
from agentlearn.errors import ConfigError
from agentlearn.learning.without_loop import without_loop


async def three() -> int:
    return 3


def test_without_a_loop_the_result_comes_back() -> None:
    assert without_loop(three)() == 3


def test_inside_a_loop_one_sentence_says_what_to_await(tmp_path: Path) -> None:
    async def cell() -> None:
        run_learning_sync(LearnSettings(domain="math", store=tmp_path / "store"))

    with pytest.raises(ConfigError) as caught:
        asyncio.run(cell())
    assert caught.value.code == "running_loop"
    assert str(caught.value) == ("an event loop is running here, as in a notebook; write: await run_learning(...)")
    assert not (tmp_path / "store").exists()


class _OwnLoop(asyncio.SelectorEventLoop):
    """Stands for the loop of uvloop."""


async def running_loop() -> type:
    return type(asyncio.get_running_loop())


def test_a_faster_loop_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = asyncio.get_event_loop_policy()
    monkeypatch.setitem(sys.modules, "uvloop", SimpleNamespace(new_event_loop=_OwnLoop))
    assert without_loop(running_loop)() is _OwnLoop
    assert run_async(running_loop) is _OwnLoop
    assert asyncio.run(running_loop()) is not _OwnLoop
    assert asyncio.get_event_loop_policy() is before


def test_without_it_the_loop_is_that_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert without_loop(running_loop)() is asyncio.run(running_loop())


@pytest.mark.parametrize("loop", [None, "uvloop"])
def test_ctrl_c_ends_the_work_and_closes_what_it_opened(loop: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if loop is None:
        monkeypatch.setitem(sys.modules, "uvloop", None)
    else:
        pytest.importorskip("uvloop")
    closed: list[bool] = []

    async def work() -> None:
        try:
            asyncio.get_running_loop().call_later(0.01, signal.raise_signal, signal.SIGINT)
            await asyncio.sleep(30)
        finally:
            closed.append(True)

    with pytest.raises(KeyboardInterrupt):
        without_loop(work)()
    assert closed
