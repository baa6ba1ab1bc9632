"""Parts of the walk that need no browser: finding elements by ref, filling fields, searching, naming errors."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("playwright")
from playwright.async_api import Error
from playwright.async_api import TimeoutError as PlaywrightTimeout

from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.acts.fields import fill_field
from agentlearn_web.browser.acts.scope import failed_action, find_element
from agentlearn_web.browser.liveness import load_failure_reason
from agentlearn_web.browser.shown_snapshot import ShownSnapshot, compose_snapshot
from agentlearn_web.browser.tab import Tab
from agentlearn_web.browser.walk import LEAST_FREE_BYTES, WalkRecorder
from agentlearn_web.browser.walk_settings import WalkSettings
from agentlearn_web.observation import ElementLine
from agentlearn_web.reading.page_text import PageText

LINES = (
    ElementLine(role="link", name="Opening  Hours", ref="t1:e1", url="/hours"),
    ElementLine(role="text", text="x" * 500 + " the secret word " + "y" * 500),
    ElementLine(role="link", name="People", ref="t1:e2", url="/PEOPLE"),
)
SHOWN = compose_snapshot(1, LINES, PageText(), 1_000)
FAST = WalkSettings(action_s=0.05, quiet_s=0.01)


# finding elements


@dataclass
class FakeElement:
    """An element with one snapshot."""

    snapshot: str = ""
    error: Exception | None = None
    appears: Exception | None = None

    async def wait_for_element_state(self, *_: object, **__: object) -> None:
        if self.appears is not None:
            raise self.appears

    async def aria_snapshot(self, **_: object) -> str:
        if self.error is not None:
            raise self.error
        return self.snapshot


def tab(element: FakeElement, *pages: str, document: int = 1, shown: ShownSnapshot | None = SHOWN) -> Tab:
    left = list(pages)

    async def snapshot(**_: object) -> str:
        return left.pop(0) if len(left) > 1 else left[0] if left else ""

    async def query(_: str) -> FakeElement:
        return element

    page = SimpleNamespace(
        locator=lambda _: element, aria_snapshot=snapshot, query_selector=query, url="http://a.test/"
    )
    return Tab("t1", cast("Any", page), cast("Any", SimpleNamespace(document=document)), shown)


@pytest.mark.parametrize(
    ("ref", "document", "status", "acted"),
    [
        ("t1:e9", 1, "unknown_ref", False),
        ("nonsense", 1, "unknown_ref", False),
        ("t2:e1", 1, "foreign_ref", False),
        ("t3:e1", 1, "unknown_ref", False),
        ("t1:e1", 2, "stale_ref", True),
    ],
)
def test_a_ref_that_was_not_shown_finds_no_element(ref: str, document: int, status: str, acted: bool) -> None:
    one = tab(FakeElement('- link "Opening Hours" [ref=e1]'), document=document)
    found = asyncio.run(find_element(one, ref, {"t1", "t2"}, FAST))
    assert isinstance(found, ActResult)
    assert (found.status, found.acted) == (status, acted)


def test_an_element_is_found_by_the_ref_that_it_still_has() -> None:
    same, renamed = FakeElement('- link "Opening Hours" [ref=e1]'), FakeElement('- link "Closed" [ref=e7]')
    gone = FakeElement(error=Error("locator: strict mode violation"))
    other = FakeElement(error=Error("something else"))
    assert asyncio.run(find_element(tab(same), "t1:e1", {"t1"}, FAST)) is same
    for element in (renamed, gone):
        found = asyncio.run(find_element(tab(element, "- text: none"), "t1:e1", {"t1"}, FAST))
        assert isinstance(found, ActResult)
        assert found.status == "stale_ref"
    with pytest.raises(Error, match="something else"):
        asyncio.run(find_element(tab(other), "t1:e1", {"t1"}, FAST))


def test_an_invisible_element_is_waited_for() -> None:
    hidden = FakeElement("")
    shown = tab(hidden, '- link "Opening Hours" [ref=e1]')
    assert asyncio.run(find_element(shown, "t1:e1", {"t1"}, FAST)) is hidden
    for page, appears, status in (
        ("- text: other", None, "stale_ref"),
        ("", PlaywrightTimeout("Timeout 50ms exceeded."), "not_actionable"),
        ("", Error("Element is not attached to the DOM"), "stale_ref"),
    ):
        found = asyncio.run(find_element(tab(FakeElement("", appears=appears), page), "t1:e1", {"t1"}, FAST))
        assert isinstance(found, ActResult)
        assert found.status == status


# filling fields


@dataclass
class FakeField:
    """A form field that notes what is done to it."""

    tag: str = "input"
    type: str = "text"
    editable: bool = False
    options: list[list[object]] = field(default_factory=list)
    value: str = "kept"
    form: bool = True
    error: Exception | None = None
    done: list[object] = field(default_factory=list)

    async def evaluate(self, script: str, *_: object, **__: object) -> object:
        if "requestSubmit" in script:
            self.done.append("submit")
            return self.form
        if "localName" in script:
            return {"tag": self.tag, "type": self.type, "editable": self.editable}
        if "HTMLSelectElement" in script:
            return {"options": self.options, "multiple": False, "disabled": False}
        return self.value

    async def fill(self, text: str, **_: object) -> None:
        if self.error is not None:
            raise self.error
        self.done.append(text)

    async def select_option(self, *, index: list[int], **_: object) -> None:
        self.done += index

    async def press(self, key: str, **_: object) -> None:
        self.done.append(key)


def filled(one: FakeField, text: str, *, submit: bool = False) -> ActResult:
    return asyncio.run(fill_field(cast("Any", one), text, submit=submit, limit_s=1))


LIST = [["Spring  term", "s", False], ["Autumn term", "a", False]]


def test_fields_of_every_kind_are_filled(subtests: pytest.Subtests) -> None:
    for one, text, submit, status, done in [
        (FakeField(), "shoes", False, "ok", ["shoes"]),
        (FakeField(), "shoes", True, "ok", ["shoes", "Enter"]),
        (FakeField("div", editable=True), "note", True, "ok", ["note", "Enter"]),
        (FakeField("textarea"), "long", True, "ok", ["long", "submit"]),
        (FakeField("textarea", form=False), "long", True, "not_submitted", ["long", "submit"]),
        (FakeField("button", type="submit"), "x", False, "not_typable", []),
        (FakeField("input", type="checkbox"), "x", False, "not_typable", []),
        (FakeField("select", options=LIST), "Spring term", False, "ok", [0]),
        (FakeField("select", options=LIST), "a", False, "ok", [1]),
        (FakeField("select", options=LIST), " AUTUMN  term", True, "ok", [1, "submit"]),
        (FakeField("select", options=LIST), "winter", False, "no_option", []),
        (FakeField(type="color"), "FF8800", False, "ok", ["#ff8800"]),
        (FakeField(type="date"), " 2026-01-31 ", False, "ok", ["2026-01-31"]),
        (FakeField(type="date", value=""), "tomorrow", False, "not_typable", ["tomorrow"]),
        (FakeField(type="date", error=Error("Malformed value")), "x", False, "not_typable", []),
        (FakeField(error=PlaywrightTimeout("not editable")), "x", False, "not_actionable", []),
    ]:
        with subtests.test(repr((one, text, submit, status, done))):
            assert filled(one, text, submit=submit).status == status
            assert one.done == done


# errors


def test_an_action_that_failed_says_why() -> None:
    covered = failed_action(PlaywrightTimeout("<div> intercepts pointer events"), "t1:e1")
    assert (covered.status, covered.note) == ("not_actionable", "nothing was done: another element covers it")
    assert failed_action(Error("Element is not attached"), "t1:e1").status == "stale_ref"
    with pytest.raises(Error, match="crashed"):
        failed_action(Error("the page crashed"), "t1:e1")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PlaywrightTimeout("Timeout 4000ms"), "no answer in time"),
        (Error("net::ERR_NAME_NOT_RESOLVED at http://x"), "no such host"),
        (Error("net::ERR_SOMETHING_NEW at http://x"), "ERR_SOMETHING_NEW"),
        (Error("Download is starting"), "it is a file to download, and downloads are refused"),
        (Error("anything"), "the browser did not open it"),
    ],
)
def test_a_load_that_failed_says_why(error: Exception, reason: str) -> None:
    assert load_failure_reason(error) == reason


# recording


class FakeTracing:
    """A trace that is written, or that fails."""

    def __init__(self, fails: bool) -> None:
        self.fails = fails

    async def start(self, **_: object) -> None:
        return None

    async def stop(self, *, path: Path) -> None:
        if self.fails:
            raise Error("no trace")
        path.write_bytes(b"trace")


class FakeContext:
    """A browser context with a trace and with cookies."""

    def __init__(self, *, fails: bool = False, cookies: int = 0) -> None:
        self.tracing = FakeTracing(fails)
        self.cookies = cookies

    async def storage_state(self) -> object:
        return {"cookies": [{"name": "a", "value": "b"}] * self.cookies, "origins": []}


async def recorded(context: FakeContext, folder: Path, screenshot: object) -> list[str]:
    """The files that a walk with two acts leaves."""
    recorder = WalkRecorder(cast("Any", context), folder)
    await recorder.begin()
    for _ in range(2):
        await recorder.step(cast("Any", SimpleNamespace(screenshot=screenshot)))
    await recorder.end()
    return sorted(path.name for path in folder.iterdir())


async def picture(**_: object) -> bytes:
    return b"png"


def test_a_walk_with_a_session_leaves_pictures_and_no_trace(tmp_path: Path) -> None:
    written = asyncio.run(recorded(FakeContext(cookies=1), tmp_path / "walk", picture))
    assert written == ["step-01.png", "step-02.png"]


def test_nothing_is_recorded_on_a_disk_that_is_nearly_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(free=LEAST_FREE_BYTES - 1)
    monkeypatch.setattr("agentlearn_web.browser.walk.shutil.disk_usage", lambda _: usage)
    assert asyncio.run(recorded(FakeContext(), tmp_path / "walk", picture)) == []


@pytest.mark.parametrize("fails", [False, True])
def test_a_recording_is_written_or_given_up_but_never_ends_the_walk(tmp_path: Path, fails: bool) -> None:
    async def screenshot(**_: object) -> bytes:
        if fails:
            raise Error("no picture")
        return b"png"

    async def main() -> None:
        context = cast("Any", FakeContext(fails=fails))
        recorder = WalkRecorder(context, tmp_path / "walk")
        await recorder.begin()
        await recorder.step(cast("Any", SimpleNamespace(screenshot=screenshot)))
        await recorder.end()
        silent = WalkRecorder(context, None)
        await silent.begin()
        await silent.step(cast("Any", None))
        await silent.end()

    asyncio.run(main())
    written = [] if fails else ["step-01.png", "trace.zip"]
    assert sorted(path.name for path in (tmp_path / "walk").iterdir()) == written
