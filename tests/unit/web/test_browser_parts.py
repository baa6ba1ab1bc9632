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

from agentlearn_web.browser.act_result import ActResult, plural
from agentlearn_web.browser.element_lookup import failed_action, find_element
from agentlearn_web.browser.fill_field import fill_field
from agentlearn_web.browser.paging import split_pages
from agentlearn_web.browser.playwright_errors import click_was_done, load_failure_reason
from agentlearn_web.browser.tab import ShownSnapshot, Tab
from agentlearn_web.browser.text_search import search_snapshot
from agentlearn_web.browser.walk_recorder import WalkRecorder
from agentlearn_web.browser.walk_settings import WalkSettings
from agentlearn_web.observation import ElementLine

LINES = (
    ElementLine(role="link", name="Opening  Hours", ref="t1:e1", url="/hours"),
    ElementLine(role="text", text="x" * 500 + " the secret word " + "y" * 500),
    ElementLine(role="link", name="People", ref="t1:e2", url="/PEOPLE"),
)
SHOWN = ShownSnapshot(1, LINES, split_pages(LINES, 1_000))
FAST = WalkSettings(action_s=0.05, quiet_s=0.01)


# searching


def test_a_search_ignores_case_and_spacing_and_reads_addresses_too() -> None:
    def names(text: str) -> list[str]:
        return [line.name for line, _ in search_snapshot(SHOWN, text)]

    assert names("opening hours") == ["Opening  Hours"]
    assert names("/people") == ["People"]
    assert names("nothing") == names("") == names("  ") == []


def test_a_long_text_is_cut_around_the_match() -> None:
    ((line, page),) = search_snapshot(SHOWN, "SECRET word")
    assert (page, line.text[0], line.text[-1]) == (2, "…", "…")
    assert "the secret word" in line.text
    assert len(line.text) < 450


# finding elements


@dataclass
class FakeElement:
    """An element with one snapshot."""

    snapshot: str = ""
    error: Exception | None = None

    async def aria_snapshot(self, **_: object) -> str:
        if self.error is not None:
            raise self.error
        return self.snapshot


def tab(element: FakeElement, *pages: str, document: int = 1, shown: ShownSnapshot | None = SHOWN) -> Tab:
    left = list(pages)

    async def snapshot(**_: object) -> str:
        return left.pop(0) if len(left) > 1 else left[0] if left else ""

    page = SimpleNamespace(locator=lambda _: element, aria_snapshot=snapshot, url="http://a.test/")
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
    shown = tab(hidden, "- text: not yet", '- link "Opening Hours" [ref=e1]')
    assert asyncio.run(find_element(shown, "t1:e1", {"t1"}, FAST)) is hidden
    found = asyncio.run(find_element(tab(hidden, "- text: never"), "t1:e1", {"t1"}, FAST))
    assert isinstance(found, ActResult)
    assert (found.status, found.near_ref) == ("not_actionable", "t1:e1")


# filling fields


@dataclass
class FakeField:
    """A form field that notes what is done to it."""

    tag: str = "input"
    type: str = "text"
    editable: bool = False
    options: list[list[str]] = field(default_factory=list)
    value: str = "kept"
    form: bool = True
    error: Exception | None = None
    done: list[object] = field(default_factory=list)

    async def evaluate(self, script: str, **_: object) -> object:
        if "requestSubmit" in script:
            self.done.append("submit")
            return self.form
        if "localName" in script:
            return {"tag": self.tag, "type": self.type, "editable": self.editable, "options": self.options}
        return self.value

    async def fill(self, text: str, **_: object) -> None:
        if self.error is not None:
            raise self.error
        self.done.append(text)

    async def select_option(self, *, index: int, **_: object) -> None:
        self.done.append(index)

    async def press(self, key: str, **_: object) -> None:
        self.done.append(key)


def filled(one: FakeField, text: str, *, submit: bool = False) -> ActResult:
    return asyncio.run(fill_field(cast("Any", one), text, submit=submit, limit_s=1))


LIST = [["Spring  term", "s"], ["Autumn term", "a"]]


@pytest.mark.parametrize(
    ("one", "text", "submit", "status", "done"),
    [
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
    ],
)
def test_fields_of_every_kind_are_filled(
    one: FakeField, text: str, submit: bool, status: str, done: list[object]
) -> None:
    assert filled(one, text, submit=submit).status == status
    assert one.done == done


def test_only_a_submit_without_enter_has_effects_that_may_start_later() -> None:
    assert not filled(FakeField("textarea"), "x", submit=True).effects_started
    assert filled(FakeField(), "x", submit=True).effects_started


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


def test_a_click_counts_as_done_when_only_its_consequences_took_too_long() -> None:
    assert click_was_done(PlaywrightTimeout("... waiting for scheduled navigations to finish"))
    assert not click_was_done(PlaywrightTimeout("waiting for element to be visible"))


def test_counts_are_written_with_their_noun() -> None:
    assert (plural(1, "tab"), plural(4, "tab")) == ("1 tab", "4 tabs")


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


@pytest.mark.parametrize("fails", [False, True])
def test_a_recording_is_written_or_given_up_but_never_ends_the_walk(tmp_path: Path, fails: bool) -> None:
    async def screenshot(**_: object) -> bytes:
        if fails:
            raise Error("no picture")
        return b"png"

    async def main() -> None:
        context = cast("Any", SimpleNamespace(tracing=FakeTracing(fails)))
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
