"""On a terminal of 80 columns no line is wider, and lines are broken between words."""

import io
import re
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from agentlearn.cli.app import run
from tests.support.command import agentlearn_here
from tests.support.small_math import few_math_tasks

COLUMNS = 80
LONG = 24
"""Characters of a word that may have no place on one line, such as a hash."""


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def shown(cwd: Path, columns: int, *arguments: str) -> str:
    """What a terminal of so many columns is sent by a command."""
    out = Screen()
    with pytest.MonkeyPatch.context() as patch, chdir(cwd), redirect_stdout(out), redirect_stderr(out):
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("TERM", "dumb")  # a live view would move the cursor
        run(arguments)
    return out.getvalue()


def lines_that_are_too_wide(text: str, columns: int) -> Iterator[str]:
    """Lines with room for a break that are wider than the terminal: a single word after a label stays whole."""
    for line in text.split("\n"):
        if len(line) > columns and len(re.split(r" {2,}", line.strip())[-1].split()) > 1:
            yield line


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a library, two runs and a file of tasks, and what the runs printed."""
    cwd = tmp_path_factory.mktemp("narrow")
    lesson = "When you write the answer down, be careful and accurate, and mind each of the things that can go wrong."
    rows = [f"What is {n} + {n}, and what else would you say about the sum?,{2 * n}" for n in range(12)]
    (cwd / "tasks.csv").write_text("\n".join(["question,answer", *rows, "What is 0 + 0?,none at all"]))
    options = ("--model", "sim:novice", "--limit", "10")
    with few_math_tasks():
        learned = shown(cwd, COLUMNS, "learn", "math", *options, "--epochs", "1", "--hidden-rollouts", "1")
        (cwd / "learn.txt").write_text(learned)
        agentlearn_here("library", "add", "math", lesson, cwd=cwd)
        (cwd / "compare.txt").write_text(shown(cwd, COLUMNS, "compare", "none", "math", "--domain", "math", *options))
        yield cwd


COMMANDS = {
    "dry run": ("learn", "math", "--model", "openai:gpt-5-mini", "--dry-run"),
    "not allowed": ("learn", "math", "--model", "openai:gpt-5-mini"),
    "unknown": ("learn", "maths"),
    "doctor": ("doctor",),
    "runs list": ("runs", "list"),
    "runs show": ("runs", "show", "{run}"),
    "trace": ("trace", "{run}"),
    "library list": ("library", "list"),
    "library show": ("library", "show", "math", "--origins"),
    "library query": ("library", "show", "math", "--query", "How many integers are from 3 to 90?"),
    "library log": ("library", "log", "math"),
    "library diff": ("library", "diff", "math"),
    "library effects": ("library", "effects", "math"),
    "library audit": ("library", "audit", "math"),
    "library card": ("library", "card", "math"),
    "library pending": ("library", "pending"),
    "data check": ("data", "check", "tasks.csv", "--reward", "number"),
    "power": ("power", "--effect", "0.05", "--model", "sim:novice"),
    "store check": ("store", "check"),
    "models list": ("models", "list"),
}


@pytest.mark.parametrize("name", ["learn", "compare"])
def test_a_run_prints_no_line_wider_than_80_columns(folder: Path, name: str) -> None:
    text = (folder / f"{name}.txt").read_text()
    assert "held out" in text or "rollouts" in text
    assert list(lines_that_are_too_wide(text, COLUMNS)) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_no_word_is_split_at_80_columns(folder: Path, name: str) -> None:
    run_id = re.search(r"runs show (\w{26})", (folder / "learn.txt").read_text())
    assert run_id is not None
    arguments = [one.format(run=run_id[1]) for one in COMMANDS[name]]
    narrow, wide = (shown(folder, columns, *arguments) for columns in (COLUMNS, 4_000))
    words = {*wide.split(), "\\"}
    long = " ".join(word for word in words if len(word) > LONG)
    assert narrow.strip()
    assert list(lines_that_are_too_wide(narrow, COLUMNS)) == []
    assert [word for word in narrow.split() if word not in words and word not in long] == []
