"""What commands print: nothing that a terminal obeys gets through, and no value begins a line of its own."""

import io
import json
import logging
import re
import sys
import unicodedata
import warnings
from importlib.metadata import EntryPoint
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.live import Live
from rich.text import Text

from agentlearn.cli.app import run
from agentlearn.cli.output import console, print_json, show_logs
from agentlearn.pages.terminal import indented, labelled, print_table
from agentlearn.plugins import OWN_PACKAGE, Announced, CommandEntry, Plugin
from agentlearn.text import visible, visible_json, visible_line
from agentlearn.text.printing import guard_streams, print_line
from tests.support.cases import cases
from tests.support.hostile import CONTROLS, FORGED, HOSTILE, POISON, assert_harmless, texts, unseen

VISIBLE_SIGNS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
"""Signs that are drawn, although Unicode calls them format characters."""


class Screen(io.StringIO):
    """What a terminal is sent."""

    def isatty(self) -> bool:
        return True


def on_terminal(width: int = 60) -> tuple[Console, Screen]:
    """The console of commands on a terminal, and what it writes."""
    screen = Screen()
    out = console()
    out.file = screen
    out.width = width
    return out, screen


def written(*printed: Any, width: int = 60) -> str:
    """What the console writes to a terminal."""
    out, screen = on_terminal(width)
    for one in printed:
        out.print(one)
    return screen.getvalue()


def test_every_character_that_is_not_drawn_is_escaped() -> None:
    for code in range(0x110000):
        one = chr(code)
        if unicodedata.category(one) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and one not in VISIBLE_SIGNS:
            assert visible_line(f"a{one}b").isascii(), ascii(one)
            assert ascii(one)[1:-1] in visible_line(f"a{one}b")


def test_ordinary_writing_is_left_alone(subtests: pytest.Subtests) -> None:
    for text in cases(__file__, "ordinary_writing_is_left_alone"):
        with subtests.test(repr(text)):
            assert visible(text) == text


@given(texts)
def test_json_is_harmless_and_means_the_same(text: str) -> None:
    whole = visible_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert_harmless(whole)
    assert json.loads(whole) == json.loads(json.dumps({text: [text]}))


@given(st.one_of(texts, st.sampled_from([POISON, *CONTROLS])))
def test_a_text_is_one_line(text: str) -> None:
    first, *others = written(f"note  {text}").removesuffix("\n").split("\n")
    assert first.startswith("note  ")
    assert all(line.startswith("      ") for line in others), "a terminal has no room for them on the first"
    assert_harmless("\n".join((first, *others)))
    assert written(f"note  {text}", width=100_000).count("\n") == 1


@given(st.one_of(texts, st.sampled_from([POISON, *CONTROLS])))
def test_a_block_stays_to_the_right(text: str) -> None:
    for one in (labelled("task", text), indented(text)):
        first, *others = written(one).removesuffix("\n").split("\n")
        assert first.startswith(("task       ", "  "))
        assert all(line.startswith("  ") for line in others)
        assert_harmless("\n".join((first, *others)))


def test_a_value_in_a_line_cannot_begin_another() -> None:
    assert written(f"arm  a\n{FORGED}") == f"arm  a\\n{FORGED}\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    cases(__file__, "a_terminal_breaks_lines_between_words"),
)
def test_a_terminal_breaks_lines_between_words(text: str, lines: list[str]) -> None:
    assert written(text, width=30).removesuffix("\n").split("\n") == lines
    assert written(text, width=200) == f"{text}\n"


def test_the_variable_columns_holds_in_a_pipe_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    print_line("one two three four five six seven")
    console().print("one two three four five six seven")
    assert capsys.readouterr().out == "one two three four five six\n  seven\n" * 2


def test_a_table_that_is_too_wide_comes_in_parts() -> None:
    out, screen = on_terminal(20)
    print_table(out, [("arm", "score", "rollouts"), ("none", "0.5", "12")], label=6, indent=2)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in screen.getvalue().splitlines()]
    assert lines == ["  arm     score", "  none      0.5", "  arm     rollouts", "  none          12"]


def test_what_others_print_during_a_live_view_is_guarded(capsys: pytest.CaptureFixture[str]) -> None:
    out, screen = on_terminal()
    with Live(Text("view"), console=out, transient=True):
        for one in CONTROLS:
            print(f"foreign {one}")
    assert_harmless(screen.getvalue().replace("\ud83d", ""), colours=True)
    assert "\x1b]8" not in screen.getvalue()
    assert "foreign" in screen.getvalue()


@pytest.mark.parametrize("text", [*CONTROLS, POISON])
def test_streams_are_guarded(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stderr", raw)
    monkeypatch.setattr("sys.stdout", raw)
    monkeypatch.setattr("warnings.formatwarning", warnings.formatwarning)
    monkeypatch.setenv("PYTHON_COLORS", "0")
    guard_streams()
    guard_streams()
    print(f"by a package: x{text}")
    print(warnings.formatwarning(text, UserWarning, f"file{text}.py", 1), end="", file=sys.stderr)
    print_line(f"ours: {text} →")
    raw.flush()
    assert raw.buffer.getvalue().decode("ascii").endswith("\\u2192\n")  # type: ignore[attr-defined]
    assert_harmless(raw.buffer.getvalue().decode("ascii").replace(f"\n{FORGED}", ""))  # type: ignore[attr-defined]


@pytest.mark.slow
def test_errors_are_one_harmless_line(capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests) -> None:
    for number, whole in enumerate([*CONTROLS, *HOSTILE, POISON]):
        with subtests.test(repr(whole)):
            text = whole[:60].replace("\x00", "").replace("\ud83d", "\udcff").replace("\ud800", "\udc80")
            for command in (
                ["learn", text],
                ["learn", "math", f"--{text}"],
                ["learn", "math", "--limit", text],
                ["solve", text, text],
                ["trace", text, "--store", "missing"],
                [text],
                ["library", "show", text],
                ["data", "check", f"{text}.csv"],
                ["compare", text, text],
            )[number % 3 :: 3]:
                assert run([*command, "--json"]) in {1, 2}
                found = capsys.readouterr()
                assert found.err.count("\n") == 1
                assert_harmless(found.err)
                assert_harmless(found.out)
                assert json.loads(found.out)["error"]["message"]


HOSTILE_NAME = POISON.replace("\x00", "")


class HostileEntry:
    """The entry point of a command whose name and help are hostile."""

    @staticmethod
    def load() -> CommandEntry:
        return CommandEntry("agentlearn.cli.setup:init", POISON)


def hostile_plugins(group: str, **_: object) -> Announced:
    entry = cast("EntryPoint", HostileEntry())
    return Announced({HOSTILE_NAME: Plugin(group, HOSTILE_NAME, "init", OWN_PACKAGE, entry)}, ())


@pytest.mark.parametrize("command", [["--help"], [], [HOSTILE_NAME, "--help"]])
def test_help_is_harmless(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("agentlearn.cli.app.announced", hostile_plugins)
    assert run(command) == 0
    shown = capsys.readouterr().out
    assert "\\x1b[2J" in shown.replace("\n", "").replace(" ", "") or command
    assert unseen(shown) == set()


def test_json_on_stdout_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({POISON: [POISON, *CONTROLS, *HOSTILE]})
    shown = capsys.readouterr().out
    assert_harmless(shown)
    assert json.loads(shown) == {POISON: [POISON, *CONTROLS, *HOSTILE]}


def test_a_log_event_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    show_logs("warning")
    log = logging.getLogger("another.package")
    log.warning("started %s", POISON)
    error = ValueError(POISON)
    log.error("failed", exc_info=(ValueError, error, None))
    shown = capsys.readouterr().err
    first, second, *trace = shown.removesuffix("\n").split("\n")
    assert first.startswith("started \\x1b")
    assert second == "failed"
    assert all(line.startswith("  ") for line in trace)
    assert_harmless(shown)
