"""Every command that an output names works when a user types it."""

import re
import shlex
from pathlib import Path

import pytest

from tests.support.command import agentlearn_here

pytestmark = pytest.mark.slow

STORE = "my store"
QUICK = ("--model", "sim:novice", "--limit", "4", "--epochs", "1", "--validation-rollouts", "0", "--store", STORE)
HINT = re.compile(r"agentlearn (?:(?:runs|library|store) [a-z]+|trace)\b[^;`]*?(?=$|   |;|`| lists)", re.MULTILINE)
"""A command that only looks; it ends with the line, before three spaces, or before a word of the sentence around it."""


def hinted(text: str) -> list[list[str]]:
    """The commands in an output."""
    return [shlex.split(found[0])[1:] for found in HINT.finditer(text)]


def run_hints(text: str, cwd: Path, *, least: int) -> str:
    """Run every command that the text names, and those that their outputs name; return all outputs."""
    done, waiting, printed = set[tuple[str, ...]](), hinted(text), ""
    assert len(waiting) >= least, text
    while waiting and len(done) < 12:
        command = waiting.pop(0)
        if tuple(command) not in done:
            done.add(tuple(command))
            words = agentlearn_here(*command, cwd=cwd).stdout
            printed += words
            waiting += [] if "--json" in command else hinted(words)
    return printed


def test_the_commands_that_learn_compare_and_errors_name_work(tmp_path: Path) -> None:
    words = agentlearn_here("learn", "math", *QUICK, "--select", "last", "--no-eval", cwd=tmp_path).stdout
    version = re.search(r"library    math@([0-9a-f]{8})", words)
    assert version is not None
    printed = run_hints(words, tmp_path, least=2)
    assert "[G1] " in printed
    assert "group      " in printed
    nothing = agentlearn_here("learn", "math", *QUICK, "--group-size", "1", "--no-eval", cwd=tmp_path).stdout
    assert f"library    math@{version[1]} " in nothing
    assert f"version {version[1]}" in run_hints(nothing, tmp_path, least=2)
    arms = ("none", "math", "--model", "sim:novice", "--limit", "4", "-k", "2", "--store", STORE)
    assert "rollout    " in run_hints(agentlearn_here("compare", *arms, cwd=tmp_path).stdout, tmp_path, least=2)
    for line in agentlearn_here("runs", "list", "--store", STORE, cwd=tmp_path).stdout.splitlines():
        shown = agentlearn_here("runs", "show", line.split()[0], "--store", STORE, cwd=tmp_path).stdout
        run_hints(shown, tmp_path, least=1)
    for command in (("trace", "zz"), ("runs", "show", "zz")):
        error = agentlearn_here(*command, "--store", STORE, cwd=tmp_path, expect=2).stderr
        run_hints(error, tmp_path, least=1)


def test_a_run_that_learned_nothing_and_a_pilot_name_no_library(tmp_path: Path) -> None:
    words = agentlearn_here("learn", "math", *QUICK, "--group-size", "1", "--no-eval", cwd=tmp_path).stdout
    assert "library    no library was written: the comparisons proposed nothing" in words
    words += agentlearn_here("learn", "math", *QUICK, "--pilot", "2", cwd=tmp_path).stdout
    assert "library show" not in words
    run_hints(words, tmp_path, least=2)
    agentlearn_here("library", "show", "math", "--store", STORE, cwd=tmp_path, expect=2)
