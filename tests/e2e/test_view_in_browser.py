"""The web app in a real browser: pages by clicks and by keyboard alone, on a phone and a desk, light and dark.

Skipped where no Chromium is installed, see `test_page_in_browser.py`.
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
import uvicorn
from playwright.sync_api import Browser, Page

from agentlearn import Recorder
from agentlearn.library import LibraryStore
from agentlearn.pages.web_app.server import Site, app_of, free_port
from tests.e2e.test_page_in_browser import COLLISIONS, PATIENCE_MS, PROGRAM, TOO_PALE, launched
from tests.support.hostile import HOSTILE
from tests.support.viewed import EVAL, LEARN, Recorded, every_address, recorded

pytestmark = [pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed"), pytest.mark.slow]


class Served(NamedTuple):
    """A site that listens, and its store."""

    site: Site
    of: Recorded

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.site.port}{self.site.base}{path}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


def serving(folder: Path, text: str, steps: int) -> Iterator[Served]:
    with ThreadPoolExecutor(1) as pool:  # Playwright has an event loop in this thread
        of = pool.submit(recorded, folder, text, steps=steps).result()
    listener = free_port("127.0.0.1", 0)
    site = Site(of.store, listener.getsockname()[1])
    server = uvicorn.Server(uvicorn.Config(app_of(site), log_level="error", lifespan="off", ws="none"))
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
    thread.start()
    yield Served(site, of)
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from serving(tmp_path_factory.mktemp("plain"), "plain", 130)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from serving(
        tmp_path_factory.mktemp("hostile"), "".join(one for one in HOSTILE if len(one) < 500 and "\ud800" not in one), 3
    )


def opened(browser: Browser, served: Served, said: list[str], *, width: int = 1280, scheme: str = "light") -> Page:
    """A page that was given the printed address. said: what the browser complains about."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.goto(served.site.link("/runs"))
    return page


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_every_page_is_readable_fits_and_says_nothing_on_the_console(
    browser: Browser, plain: Served, width: int, scheme: str
) -> None:
    said: list[str] = []
    page = opened(browser, plain, said, width=width, scheme=scheme)
    for path in every_address(plain.of):
        page.goto(plain.address(path))
        found = page.evaluate(TOO_PALE, 4.5)
        assert found["pale"] == [], path
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), path
        assert page.evaluate(COLLISIONS) == [], path
    assert said == []
    page.context.close()


def test_hostile_texts_do_nothing_on_any_page(browser: Browser, hostile: Served) -> None:
    said: list[str] = []
    page = opened(browser, hostile, said, width=390)
    for path in every_address(hostile.of):
        page.goto(hostile.address(path))
        assert page.evaluate("window.hacked === undefined"), path
        assert page.locator("iframe").count() == 0
        assert page.locator("script").count() == 3
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), path
    assert said == []
    page.context.close()


def test_why_an_attempt_failed_takes_two_clicks_and_the_keyboard_alone(browser: Browser, plain: Served) -> None:
    said: list[str] = []
    page = opened(browser, plain, said)
    page.goto(plain.address(f"/run/{LEARN}"))

    def follow(name: str) -> None:
        for _ in range(200):
            page.keyboard.press("Tab")
            if page.evaluate("(document.activeElement.ariaLabel || document.activeElement.textContent)").startswith(
                name
            ):
                with page.expect_navigation():
                    page.keyboard.press("Enter")
                return
        raise AssertionError(f"no way by keyboard to {name!r}")

    follow("Attempts")
    follow("attempt 1: wrong")
    assert "12 is not 4. plain" in page.locator("main").inner_text()
    page.keyboard.press("/")
    page.wait_for_url("**/search")
    assert said == []
    page.context.close()


def test_a_long_conversation_loads_as_it_is_scrolled(browser: Browser, plain: Served) -> None:
    page = opened(browser, plain, [])
    page.goto(plain.address(f"/rollout/{plain.of.wrong}"))
    assert page.locator(".step").count() == 40
    give_up = time.monotonic() + 60
    while page.locator(".step").count() < 131 and time.monotonic() < give_up:
        page.mouse.wheel(0, 4_000)
        page.wait_for_timeout(100)
    assert page.locator(".step").count() == 131
    assert page.locator(".more").count() == 0
    page.context.close()


def test_flips_show_two_conversations_next_to_each_other(browser: Browser, plain: Served) -> None:
    page = opened(browser, plain, [])
    page.goto(plain.address(f"/run/{EVAL}/flips"))
    page.locator("tbody a").first.click()
    left, right = (one.bounding_box() for one in page.locator(".column").all())
    assert left is not None
    assert right is not None
    assert left["x"] + left["width"] <= right["x"]
    page.context.close()


def test_a_lesson_is_rejected_with_a_reason_and_an_answer_gets_a_thumb(browser: Browser, plain: Served) -> None:
    said: list[str] = []
    page = opened(browser, plain, said)
    page.goto(plain.address("/waiting"))
    held = page.locator(".waits", has_text="Tell the judge nothing.")
    held.get_by_label("Reason").fill("it flatters")
    held.get_by_role("button", name="Reject").click()
    assert "The lesson was refused." in page.locator(".done").inner_text()
    assert page.locator(".waits", has_text="Tell the judge nothing.").count() == 0
    history = LibraryStore(plain.of.store / "libraries").history("math")
    history.unpark(history.load().withheld[0].experience.id)
    page.goto(plain.address("/waiting"))
    whole = page.locator(".waits", has_text="Convert all lengths")
    whole.get_by_role("checkbox").nth(1).uncheck()
    whole.get_by_role("button", name="Approve what is ticked").click()
    assert "Approved. The library math" in page.locator(".done").inner_text()
    page.goto(plain.address(f"/rollout/{plain.of.talk}"))
    page.get_by_role("button", name="right").first.click()
    assert "Saved: the answer was right." in page.locator(".done").inner_text()
    assert said == []
    page.context.close()


def test_many_answers_are_folded_to_a_line_each_on_a_phone(browser: Browser, plain: Served) -> None:
    def record() -> None:
        with Recorder("shop", plain.of.store) as recorder:
            for number in range(40):
                asked = {"role": "user", "content": f"Where is order {number}? {'It is late. ' * 40}"}
                recorder.record_sync([asked, {"role": "assistant", "content": "On its way. " * 40}], user="bo")

    with ThreadPoolExecutor(1) as pool:
        pool.submit(record).result()
    said: list[str] = []
    page = opened(browser, plain, said, width=390)
    page.goto(plain.address("/live/shop"))
    assert page.evaluate("document.scrollingElement.scrollHeight") < 6 * 844
    newest = page.locator(".talk").first
    newest.locator("summary").click()
    newest.get_by_role("button", name="right").first.click()
    assert "Saved: the answer was right." in page.locator(".done").inner_text()
    page.locator(".talk").first.locator("summary").click()
    page.get_by_role("link", name="Erase what is stored of bo").first.click()
    assert "40 rollouts of this user" in page.locator("main").inner_text()
    assert said == []
    page.context.close()


def test_the_pages_work_without_scripts(browser: Browser, plain: Served) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(plain.site.link(f"/rollout/{plain.of.wrong}"))
    page.get_by_role("link", name="Steps 41").click()
    assert page.locator("#step-41").is_visible()
    context.close()
