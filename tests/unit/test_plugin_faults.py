"""Errors that the code of another package raises while it runs: one sentence with the package and the place."""

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from agentlearn import plugins
from agentlearn.cli.app import run
from agentlearn.cli.output import ending_of, report_bug
from agentlearn.plugins import Plugin, load
from tests.support.broken_packages import group, package

MODULE = """
import asyncio, sys
class Odd(KeyboardInterrupt): pass
class Base(BaseException): pass
ERRORS = {
    "value": ValueError("boom \\x1b[2J"), "odd": Odd("odd"), "base": Base(), "pipe": BrokenPipeError(32, "Broken pipe"),
    "file": FileNotFoundError(2, "No such file", "/x"), "generator": GeneratorExit(), "recursion": RecursionError(),
    "cancelled": asyncio.CancelledError(), "exit": SystemExit(7), "message": SystemExit("no luck"),
}
def faulty(*, kind: str):
    raise ERRORS[kind]
"""


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "plug_faulty.py").write_text(MODULE)
    package(folder, "faulty-one", group("commands", {"faulty": "plug_faulty:faulty"}))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(plugins, "LOADED", {})
    monkeypatch.delitem(sys.modules, "plug_faulty", raising=False)
    return folder / "plug_faulty.py"


@pytest.mark.parametrize("kind", ["value", "odd", "base", "pipe", "file", "generator", "recursion", "cancelled"])
def test_what_a_command_of_a_package_raises_is_one_sentence(
    faulty: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["faulty", "--kind", kind]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("agentlearn: the command 'faulty' of the package 'faulty-one' failed: ")
    assert f"({faulty}:11)" in line
    assert "\x1b" not in line


def announced_as(group_name: str, value: str) -> Plugin:
    entry = EntryPoint("faulty", value, group_name)
    return Plugin(group_name, "faulty", value, "faulty-one", entry)


def raised(call: Callable[[], object]) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize("kind", ["exit", "odd"])
def test_a_domain_that_ends_the_process_has_failed(kind: str) -> None:
    function = load(announced_as("agentlearn.domains", "plug_faulty:faulty"), "domain")
    assert callable(function)
    ending = ending_of(raised(lambda: function(kind=kind)))
    assert ending is not None
    assert (ending.code, ending.status) == ("plugin_failed", 1)


def test_a_bug_says_where_to_report_it_and_last_how_to_go_on(capfd: pytest.CaptureFixture[str]) -> None:
    error = raised(lambda: int("x"))
    error.add_note("  resume     agentlearn learn --resume 1")
    assert report_bug(error) == 1
    printed = capfd.readouterr()
    *trace, sentence = printed.err.splitlines()
    assert trace[0].startswith("Traceback")
    assert "this is a bug of agentlearn" in sentence
    assert "not of yours" in sentence
    assert "/issues" in sentence
    assert printed.out == "  resume     agentlearn learn --resume 1\n"
    assert "resume" not in printed.err


def test_an_error_in_a_program_leaves_a_run_that_can_go_on() -> None:
    from agentlearn.errors import ConfigError, may_go_on

    assert may_go_on(ValueError())
    assert not may_go_on(ConfigError("x"))
    assert not may_go_on(None)
