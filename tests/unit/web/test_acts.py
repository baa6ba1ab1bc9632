"""The parts of the acts that need no browser: names of keys, options of lists, files of a task, drawn refs."""

import hashlib
import json
import os
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agentlearn.errors import DataError
from agentlearn_web import WebDomain
from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.acts.fields import ListOption, option_index
from agentlearn_web.browser.acts.keyboard import KEYS, MAX_KEYS, parse_keys
from agentlearn_web.browser.acts.screenshot import MAX_PNG_BYTES, RefBox, draw_refs
from agentlearn_web.browser.acts.scroll import place_view
from agentlearn_web.browser.shown_snapshot import ShownSnapshot, compose_snapshot
from agentlearn_web.browser.tab import Tab
from agentlearn_web.observation import ElementLine
from agentlearn_web.reading.page_text import PageText
from agentlearn_web.task_files import MAX_FILE_BYTES, MAX_FILES, FileChanged, name_files, task_files

# keys

MODIFIERS = ("Alt", "Control", "ControlOrMeta", "Meta", "Shift")
NAMES = sorted(set(KEYS.values()))
PRINTED = [chr(code) for code in range(33, 127)]


@pytest.mark.parametrize(
    ("written", "pressed"),
    [
        ("Enter", ("Enter",)),
        ("  control+A   DOWN esc ", ("Control+A", "ArrowDown", "Escape")),
        ("+", ("+",)),
        ("Control++ a", ("Control++", "a")),
        ("Ctrl+Shift+ArrowLeft", ("Control+Shift+ArrowLeft",)),
        ("Shift", ("Shift",)),
        ("", ()),
    ],
)
def test_keys_are_read_by_their_usual_names(written: str, pressed: tuple[str, ...]) -> None:
    assert parse_keys(written) == pressed


@given(st.text(max_size=60))
def test_any_text_gives_known_keys_or_a_refusal(text: str) -> None:
    found = parse_keys(text)
    if isinstance(found, ActResult):
        assert found.status in {"unknown_key", "refused_key"}
        assert found.note.startswith("nothing was pressed: ")
        assert not found.acted
        return
    assert len(found) == len(text.split()) <= MAX_KEYS
    assert all(combination.isascii() for combination in found)


@given(st.lists(st.sampled_from(MODIFIERS), unique=True, max_size=2), st.sampled_from([*NAMES, *PRINTED]))
def test_parsing_what_was_parsed_changes_nothing(held: list[str], key: str) -> None:
    found = parse_keys("+".join([*held, key]))
    if not isinstance(found, ActResult):
        assert found == ("+".join([*held, key]),)
        assert parse_keys(" ".join(found)) == found
        assert parse_keys(" ".join(found * MAX_KEYS)) == found * MAX_KEYS


@given(
    st.sampled_from(["Control", "ctrl", "Meta", "cmd", "ControlOrMeta"]),
    st.sampled_from(["n", "t", "w", "o", "u", "p", "s", "v", "N", "T", "V"]),
    st.booleans(),
)
def test_no_spelling_gets_past_the_refusal(control: str, key: str, twice: bool) -> None:
    found = parse_keys(f"Tab {control}+{control if twice else 'Control'}+{key}")
    assert isinstance(found, ActResult)
    assert found.status == "refused_key"


def test_an_unknown_key_is_answered_with_examples() -> None:
    found = parse_keys("Entr")
    assert isinstance(found, ActResult)
    assert found.note == (
        "nothing was pressed: there is no key 'Entr'; give keys such as Enter, Escape, ArrowDown, PageDown, Control+a"
        " or Shift+Tab, with spaces between; `text` types letters"
    )


# lists


def test_an_option_is_found_by_its_label_before_its_value() -> None:
    options = [ListOption("b", "a"), ListOption("Dark  grey", "x"), ListOption("a", "b")]
    assert [option_index(options, text) for text in ("a", "b", "x", " dark GREY", "none")] == [2, 0, 1, 1, None]


# views after scrolling


def snapshot(*texts: str) -> ShownSnapshot:
    lines = tuple(ElementLine(role="text", text=text) for text in texts)
    return compose_snapshot(1, lines, PageText(), 100)


def test_a_view_after_scrolling_starts_where_something_is_new() -> None:
    before = ["x" * 80, "y" * 80]
    tab = Tab("t1", None, None, snapshot(*before), 1)  # type: ignore[arg-type]
    longer = snapshot(*before, "z" * 80)
    page, result = place_view(tab, longer, ActResult(seeks_new=True))
    assert (page, result.status) == (len(longer.pages), "ok")
    assert page > 1
    page, result = place_view(tab, snapshot(*before), ActResult(seeks_new=True))
    assert (page, result.status) == (1, "nothing_new")
    assert place_view(tab, snapshot(*before, "new"), ActResult()) == (1, ActResult())


# files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tasks" / "sub").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("s3cret")
    (tmp_path / "tasks" / "cv.pdf").write_bytes(b"cv")
    (tmp_path / "tasks" / "sub" / "b.txt").write_bytes(b"b")
    (tmp_path / "tasks" / "out").symlink_to(tmp_path / "secret.txt")
    os.mkfifo(tmp_path / "tasks" / "pipe")
    with (tmp_path / "tasks" / "large").open("wb") as large:
        large.truncate(MAX_FILE_BYTES + 1)
    return tmp_path / "tasks"


def test_the_files_of_a_task_are_kept_by_name_and_hash_only(folder: Path) -> None:
    fields = name_files(["cv.pdf", "sub/b.txt"], folder)
    files = task_files(json.loads(json.dumps(fields)))
    assert list(files) == ["cv.pdf", "sub/b.txt"]
    assert files["cv.pdf"].sha256 == hashlib.sha256(b"cv").hexdigest()
    assert files["sub/b.txt"].payload() == {"name": "b.txt", "mimeType": "text/plain", "buffer": b"b"}
    assert (name_files([], folder), task_files({})) == ({}, {})
    (folder / "cv.pdf").write_bytes(b"other")
    with pytest.raises(FileChanged, match=r"^the task's file 'cv.pdf' has changed since the task was read$"):
        files["cv.pdf"].payload()
    (folder / "cv.pdf").unlink()
    with pytest.raises(FileChanged, match=r"^the task's file 'cv.pdf' cannot be read: No such file or directory$"):
        files["cv.pdf"].payload()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../secret.txt", "is not a path below the folder of the task file; move the file there"),
        ("/etc/passwd", "is not a path below the folder of the task file; move the file there"),
        ("sub/../cv.pdf", "is not a path below the folder of the task file; move the file there"),
        ("a\nb", "is not a path below the folder of the task file; move the file there"),
        ("out", "leads out of the folder of the task file; copy the file there"),
        ("sub", "is not a file; name a file"),
        ("pipe", "is not a file; name a file"),
        ("large", "is larger than 10 MB; make it smaller"),
        ("none.txt", "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(folder: Path, name: str, why: str) -> None:
    row = {"question": "q", "answer": "a", "root_url": "http://a.test/", "files": [name]}
    (folder / "mine.jsonl").write_text(json.dumps(row))
    with pytest.raises(DataError) as refused:
        WebDomain().read(folder / "mine.jsonl")
    assert refused.value.message == f"mine.jsonl line 1 names the file {name!r}, which {why}"


def test_a_task_file_names_files_in_a_column(folder: Path) -> None:
    rows = ["question,answer,url,files", "Send it.,yes,http://a.test/,cv.pdf", "Look.,yes,http://a.test/,"]
    (folder / "mine.csv").write_text("\n".join(rows))
    domain = WebDomain()
    sending, looking = domain.read(folder / "mine.csv")
    assert list(task_files(sending.fields)) == ["cv.pdf"]
    assert domain.question(sending) == "Start page: http://a.test/\n\nFiles to upload: cv.pdf\n\nSend it."
    assert (looking.fields, domain.question(looking)) == ({}, "Start page: http://a.test/\n\nLook.")
    assert (sending.source, sending.family, sending.start) == ("mine.csv:2", "a.test", "http://a.test/")


def test_a_column_of_files_that_is_no_list_is_refused(folder: Path) -> None:
    row = {"question": "q", "answer": "a", "root_url": "http://a.test/"}
    for wrong in ({"a": 1}, [["cv.pdf"]]):
        (folder / "mine.jsonl").write_text(json.dumps({**row, "files": wrong}))
        with pytest.raises(DataError, match=r"line 1 has no list of file names in 'files'; write names such as"):
            WebDomain().read(folder / "mine.jsonl")
    (folder / "mine.jsonl").write_text(json.dumps({**row, "files": ["cv.pdf"] * (MAX_FILES + 1)}))
    with pytest.raises(DataError, match="line 1 names 11 files; name at most 10"):
        WebDomain().read(folder / "mine.jsonl")


# pictures


def picture(width: int, height: int, content: bytes | None = None) -> bytes:
    image = Image.new("RGB", (width, height), "white")
    if content is not None:
        image.frombytes(content)
    written = BytesIO()
    image.save(written, "PNG")
    return written.getvalue()


def test_refs_are_drawn_at_their_boxes_and_large_pictures_made_smaller() -> None:
    boxes = [RefBox("t1:e5", 20, 30, 60, 20), RefBox("t1:e6", -900, 0, 10, 10), RefBox("t1:e7", 5, 5, 0, 0)]
    drawn = Image.open(BytesIO(draw_refs(picture(200, 100), boxes)))
    assert (drawn.format, drawn.size) == ("PNG", (200, 100))
    assert drawn.getpixel((80, 50)) == (214, 40, 40)
    assert drawn.getpixel((5, 5)) == (255, 255, 255)
    assert Image.open(BytesIO(draw_refs(picture(3000, 1000), []))).size == (1280, 427)


def test_a_picture_that_png_does_not_make_small_is_stored_as_jpeg() -> None:
    noise = picture(800, 600, os.urandom(800 * 600 * 3))
    assert len(noise) > MAX_PNG_BYTES
    stored = draw_refs(noise, [])
    assert Image.open(BytesIO(stored)).format == "JPEG"
    assert len(stored) < len(noise) / 2
