"""A page is hung only if it does not answer while the browser does, whatever the load of the machine."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

pytest.importorskip("playwright")
from playwright.async_api import Error

from agentlearn_web.browser import page_watch
from agentlearn_web.browser.page_watch import is_alive
from agentlearn_web.browser.walk_settings import WalkSettings

SETTINGS = WalkSettings(hung_s=0.05, snapshot_s=0.3)


@dataclass
class FakePage:
    """A page that answers after some time, with an error if one is given."""

    answers_s: float = 0.0
    error: Exception | None = None

    async def send(self, *_: object) -> object:
        await asyncio.sleep(self.answers_s)
        if self.error is not None:
            raise self.error
        return {}


@dataclass
class FakeBrowser:
    """A browser that answers after some time, with a renderer that computes for a share of the time."""

    answers_s: float = 0.0
    cpu: float = 1.0
    asked: list[float] = field(default_factory=list)

    async def send(self, *_: object) -> object:
        await asyncio.sleep(self.answers_s)
        now = asyncio.get_running_loop().time()
        self.asked.append(now)
        used = self.cpu * (now - self.asked[0])
        return {"processInfo": [{"type": "renderer", "id": 1, "cpuTime": used}, {"type": "GPU", "id": 2, "cpuTime": 9}]}


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_watch, "TICK_S", 0.01)
    monkeypatch.setattr(page_watch, "PROMPT_S", 0.02)
    monkeypatch.setattr(page_watch, "LOST_S", 3.0)


def asked(page: FakePage, browser: FakeBrowser | None, *, gone: bool = False) -> bool:
    return asyncio.run(is_alive(cast("Any", page), cast("Any", browser), SETTINGS, lambda: gone))


def test_a_page_that_answers_is_alive_even_with_an_error() -> None:
    assert asked(FakePage(), None)
    assert asked(FakePage(error=Error("no execution context")), FakeBrowser())


def test_a_page_in_an_endless_loop_is_hung() -> None:
    assert not asked(FakePage(30), FakeBrowser())


def test_a_page_that_waits_for_its_turn_gets_more_time() -> None:
    assert asked(FakePage(0.15), FakeBrowser(cpu=0.0))
    assert not asked(FakePage(30), FakeBrowser(cpu=0.0))


def test_time_in_which_the_browser_itself_is_slow_does_not_count() -> None:
    assert asked(FakePage(0.9), FakeBrowser(answers_s=0.06))


def test_a_browser_that_never_answers_ends_the_wait() -> None:
    assert not asked(FakePage(30), FakeBrowser(answers_s=0.5))


def test_a_page_that_crashed_is_not_waited_for() -> None:
    assert not asked(FakePage(30), FakeBrowser(answers_s=0.06), gone=True)
