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

pytestmark = pytest.mark.slow

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
    options = ("--model", "sim:novice", "--limit", "3")
    brief = ("--epochs", "1", "--hidden-rollouts", "1", "--eval-rollouts", "1", "--validation-rollouts", "0")
    with few_math_tasks(every=20):
        learned = shown(cwd, COLUMNS, "learn", "math", *options, *brief, "--select", "last", "--seed", "3")
        (cwd / "learn.txt").write_text(learned)
        agentlearn_here("library", "add", "math", lesson, cwd=cwd)
        (cwd / "compare.txt").write_text(
            shown(cwd, COLUMNS, "compare", "none", "math", "--domain", "math", *options, "-k", "1")
        )
        yield cwd


COMMANDS = (
    *(
        "learn math --model openai:gpt-5-mini --dry-run",
        "learn math --model openai:gpt-5-mini",
        "learn maths",
        "doctor",
    ),
    *("runs list", "runs show {run}", "trace {run}", "library list", "library show math --origins"),
    *("library show math --query QUERY", "library log math", "library diff math", "library effects math"),
    *("library audit math", "library card math", "library pending", "data check tasks.csv --reward number"),
    *("power --effect 0.05 --model sim:novice", "store check", "models list"),
)


def test_a_run_prints_no_line_wider_than_80_columns(folder: Path) -> None:
    for name in ("learn", "compare"):
        text = (folder / f"{name}.txt").read_text()
        assert "held out" in text or "rollouts" in text
        assert list(lines_that_are_too_wide(text, COLUMNS)) == []


def test_no_word_is_split_at_80_columns(folder: Path, subtests: pytest.Subtests) -> None:
    run_id = re.search(r"runs show (\w{26})", (folder / "learn.txt").read_text())
    assert run_id is not None
    for command in COMMANDS:
        arguments = command.format(run=run_id[1]).split()
        if arguments[-1] == "QUERY":
            arguments[-1] = "How many integers are from 3 to 90?"
        with subtests.test(command):
            narrow, wide = (shown(folder, columns, *arguments) for columns in (COLUMNS, 4_000))
            words = {*wide.split(), "\\"}
            long = " ".join(word for word in words if len(word) > LONG)
            assert narrow.strip()
            assert list(lines_that_are_too_wide(narrow, COLUMNS)) == []
            parts = [word for word in narrow.split() if word not in words and word not in long]
            assert [word for word in parts if not word.replace(".", "").isdecimal()] == []  # free space changes
