"""The calls for programs without an event loop, where one is running."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from agentlearn import LearnSettings, run_learning_sync
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
    assert caught.value.code == "bad_config"
    assert str(caught.value) == ("an event loop is running here, as in a notebook; write: await run_learning(...)")
    assert not (tmp_path / "store").exists()


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
