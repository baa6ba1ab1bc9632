"""A path that cannot be read is one sentence with the path, for every command that takes one."""

import os
from pathlib import Path

import pytest

from agentlearn.cli.app import run
from tests.support.cases import cases

LONG = f"{'x' * 300}.jsonl"


def command(text: str, path: str) -> list[str]:
    return [path if word == "PATH" else word for word in text.split(" ")]


@pytest.fixture
def odd_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.jsonl")
    Path("loop.jsonl").symlink_to("loop.jsonl")
    Path("gone.jsonl").symlink_to("nothing")
    Path("zero.jsonl").symlink_to("/dev/zero")
    Path("folder.jsonl").mkdir()
    Path("deep.jsonl").write_text("[" * 100_000)
    Path("file").touch()


@pytest.mark.usefixtures("odd_files")
@pytest.mark.parametrize("path", [LONG, "a/" * 3000, "a\0b", "loop.jsonl", "gone.jsonl", "pipe.jsonl", "zero.jsonl"])
@pytest.mark.parametrize(
    "text",
    cases(__file__, "a_path_that_cannot_be_read_is_one_sentence"),
)
def test_a_path_that_cannot_be_read_is_one_sentence(text: str, path: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(command(text, path)) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("agentlearn: ")


@pytest.mark.usefixtures("odd_files")
@pytest.mark.parametrize("path", ["pipe.jsonl", "zero.jsonl"])
def test_a_pipe_or_a_device_is_named_and_not_read(path: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "check", path]) == 2
    said = capfd.readouterr().err
    assert repr(path) in said
    assert "a pipe" in said or "a device" in said


@pytest.mark.usefixtures("odd_files")
@pytest.mark.parametrize("path", ["", " "])
def test_an_empty_source_is_not_the_present_folder(path: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "check", path]) == 2
    assert "is empty" in capfd.readouterr().err


@pytest.mark.usefixtures("odd_files")
def test_a_library_that_is_nested_too_deep_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    Path("deep.json").write_text("[" * 100_000)
    assert run(["library", "show", "deep.json"]) == 2
    assert "nested too deep" in capfd.readouterr().err
