"""Recorded walks: a screenshot of each act and a Playwright trace. A failed recording does not end the walk."""

import json
import zipfile
from pathlib import Path

import pytest

from agentlearn_web.browser.walk import Walk
from tests.support.walking import Site, Walking, ref
from tests.web.browsers import needs_browser

pytestmark = [needs_browser, pytest.mark.slow]

HOME = "http://site.test/"
PAGES = {"/": "<title>Home</title><a href=/next>next</a>", "/next": "<title>Next</title><h1>Next</h1>"}


async def two_acts(walk: Walk, site: Site) -> None:
    home = await walk.open(HOME)
    seen = await walk.click(ref(home, "next"))
    assert (seen.status, seen.title) == ("ok", "Next")


def test_each_act_saves_a_screenshot_and_the_walk_a_trace(walks: Walking, tmp_path: Path) -> None:
    folder = tmp_path / "walk" / "one"
    walks.over(PAGES, two_acts, record=folder)
    assert sorted(path.name for path in folder.iterdir()) == ["step-01.png", "step-02.png", "trace.zip"]
    for picture in folder.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    with zipfile.ZipFile(folder / "trace.zip") as archive:
        trace = [json.loads(line) for line in archive.read("trace.trace").decode().splitlines()]
        pictures = [name for name in archive.namelist() if name.startswith("resources/")]
    assert trace[0]["type"] == "context-options"
    kinds = {one["type"] for one in trace}
    assert {"before", "after", "frame-snapshot", "screencast-frame"} <= kinds
    assert any(one.get("method") == "click" for one in trace)
    assert pictures


def test_a_failed_recording_does_not_end_the_walk(walks: Walking, tmp_path: Path) -> None:
    file = tmp_path / "taken"
    file.write_text("a file, not a folder")
    walks.over(PAGES, two_acts, record=file)
    assert file.read_text() == "a file, not a folder"
    folder = tmp_path / "walk"
    (folder / "step-01.png").mkdir(parents=True)
    (folder / "trace.zip").mkdir()
    walks.over(PAGES, two_acts, record=folder)
    assert (folder / "step-02.png").is_file()
