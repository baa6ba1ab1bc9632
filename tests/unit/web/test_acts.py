"""The parts of the acts that need no browser: names of keys, options of lists, files of a task, drawn refs."""

import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import DataError
from agentlearn_web import WebDomain
from agentlearn_web.browser.acts.fields import MAX_KEYS, parse_keys
from agentlearn_web.browser.walk_settings import (
    MAX_FILE_BYTES,
    MAX_FILES,
    ActResult,
    FileChanged,
    name_files,
    task_files,
)
from tests.support.cases import cases

# keys


@pytest.mark.parametrize(
    ("written", "pressed"),
    cases(__file__, "keys_are_read_by_their_usual_names"),
)
def test_keys_are_read_by_their_usual_names(written: str, pressed: list[str]) -> None:
    assert list(parse_keys(written)) == pressed


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


@given(
    st.sampled_from(["Control", "ctrl", "Meta", "cmd", "ControlOrMeta"]),
    st.sampled_from(["n", "t", "w", "o", "u", "p", "s", "v", "N", "T", "V"]),
    st.booleans(),
)
def test_no_spelling_gets_past_the_refusal(control: str, key: str, twice: bool) -> None:
    found = parse_keys(f"Tab {control}+{control if twice else 'Control'}+{key}")
    assert isinstance(found, ActResult)
    assert found.status == "refused_key"


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
    cases(__file__, "a_file_that_cannot_be_used_is_named_with_its_line"),
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(folder: Path, name: str, why: str) -> None:
    row = {"question": "q", "answer": "a", "root_url": "http://a.test/", "files": [name]}
    (folder / "mine.jsonl").write_text(json.dumps(row))
    with pytest.raises(DataError) as refused:
        WebDomain().read(folder / "mine.jsonl")
    assert refused.value.message == f"mine.jsonl line 1 names the file {name!r}, which {why}"


def test_a_column_of_files_that_is_no_list_is_refused(folder: Path) -> None:
    row = {"question": "q", "answer": "a", "root_url": "http://a.test/"}
    for wrong in ({"a": 1}, [["cv.pdf"]]):
        (folder / "mine.jsonl").write_text(json.dumps({**row, "files": wrong}))
        with pytest.raises(DataError, match=r"line 1 has no list of file names in 'files'; write names such as"):
            WebDomain().read(folder / "mine.jsonl")
    (folder / "mine.jsonl").write_text(json.dumps({**row, "files": ["cv.pdf"] * (MAX_FILES + 1)}))
    with pytest.raises(DataError, match="line 1 names 11 files; name at most 10"):
        WebDomain().read(folder / "mine.jsonl")
