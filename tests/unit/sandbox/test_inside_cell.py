"""Running a cell as a notebook does, in the test process; and the frames of its messages."""

import os
from pathlib import Path
from typing import Any

import pytest

from agentlearn.sandbox.inside.config import MAX_FRAME_BYTES, FrameReader, pack, write_frame
from agentlearn.sandbox.inside.session import run_cell


def cell(code: str, scope: dict[str, Any] | None = None) -> tuple[str, str]:
    return run_cell(code, {"__name__": "__main__"} if scope is None else scope, 1)


def test_tracebacks_contain_no_path_of_this_machine() -> None:
    _, error = cell("import json\njson.loads('{')")
    assert str(Path(os.__file__).parent) not in error
    assert "json/decoder.py" in error


def test_an_exception_that_cannot_be_formatted_is_still_reported() -> None:
    code = "class Odd(Exception):\n    def __str__(self):\n        raise ValueError('no')\nraise Odd"
    status, error = cell(code)
    assert status == "error"
    assert "Odd" in error


def test_frames_come_back_as_they_were_sent() -> None:
    reading, writing = os.pipe()
    message = {"text": "ü\ud800", "n": [1, 2.5, None]}
    write_frame(writing, message)
    write_frame(writing, {})
    os.close(writing)
    frames = FrameReader(reading)
    assert frames.read() == message
    assert frames.read() == {}
    assert frames.read() is None
    os.close(reading)


def test_a_frame_over_the_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="over the limit"):
        pack({"a": "x" * MAX_FRAME_BYTES})
