"""The README's promises: every Python snippet runs offline, every command and option of it and of the skill exists."""

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.command import agentlearn_here

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
SKILL = ROOT / "skills/agentlearn/SKILL.md"
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELLS = ("sh", "bash", "console")


@dataclass(frozen=True)
class Snippet:
    """A fenced block of the README."""

    language: str
    executable: bool
    code: str
    line: int

    @property
    def name(self) -> str:
        return f"line-{self.line}"


def snippets(*languages: str, of: Path = README) -> list[Snippet]:
    """The fenced blocks of a page in these languages; `no-run` after the language marks one as not executable."""
    page = of.read_text(encoding="utf-8")
    found = [
        Snippet(words[0], "no-run" not in words, match[2], page.count("\n", 0, match.start()) + 1)
        for match in FENCE.finditer(page)
        if (words := match[1].split())
    ]
    return [snippet for snippet in found if snippet.language in languages]


def commands(program: str) -> list[tuple[str, ...]]:
    """The calls of `program` in the shell blocks, as the arguments they give it."""
    blocks = [one for page in (README, SKILL) for one in snippets(*SHELLS, of=page)]
    lines = [line for one in blocks for line in one.code.replace("\\\n", " ").splitlines()]
    calls = [call for line in lines for call in calls_in(line)]
    return [tuple(call[1:]) for call in calls if call and Path(call[0]).name == program]


def calls_in(line: str) -> list[list[str]]:
    """The single calls of a shell line, without prompt, comment and variables set in front."""
    lexer = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    calls: list[list[str]] = [[]]
    for word in lexer:
        if word in {"&&", "||", ";", "|", "&", ">", ">>"}:
            calls.append([])
        elif calls[-1] or not re.match(r"[A-Z_]+=", word):
            calls[-1].append(word)
    return calls


@cache
def help_text(*path: str) -> str:
    """What `agentlearn PATH --help` prints; the command line must accept it."""
    return agentlearn_here(*path, "--help", cwd=ROOT).stdout


def listed(word: str, page: str) -> bool:
    """Whether a help page has an entry of that name: at the start of a line, frame signs aside."""
    return re.search(rf"^\W*{re.escape(word)}(?![\w-])", page, re.MULTILINE) is not None


def command_path(arguments: Sequence[str]) -> tuple[str, ...]:
    """The leading words that name a command and, in a group of commands, the one meant."""
    path = tuple(arguments[:1])
    if len(arguments) > 1 and re.search(r"\bCOMMAND\b", help_text(*path)) and listed(arguments[1], help_text(*path)):
        path = tuple(arguments[:2])
    return path


PYTHON = snippets("python")
COMMANDS = commands("agentlearn")


@pytest.mark.slow
@pytest.mark.parametrize("snippet", PYTHON, ids=lambda snippet: snippet.name)
def test_python_snippet_runs(snippet: Snippet, tmp_path: Path) -> None:
    assert compile(snippet.code, f"README.md:{snippet.line}", "exec")
    if snippet.executable:
        command = [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", snippet.code]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
        assert ran.returncode == 0, f"README.md:{snippet.line} failed\n{ran.stdout}\n{ran.stderr}"


def test_commands_exist_with_their_options(subtests: pytest.Subtests) -> None:
    for arguments in COMMANDS:
        with subtests.test(" ".join(arguments)):
            if not arguments or arguments[0].startswith("-"):
                continue
            assert listed(arguments[0], help_text()), f"agentlearn --help does not list {arguments[0]!r}"
            path = command_path(arguments)
            for option in (word.split("=")[0] for word in arguments if word.startswith("--")):
                page = help_text(*path, "--help-all")
                assert re.search(rf"{re.escape(option)}(?![\w-])", page), f"agentlearn {path} has no {option}"


def shown_problems() -> list[str]:
    """The problems that the README, the justfile and the docs give to `solve math` without naming another model."""
    pages = [README, ROOT / "justfile", *(ROOT / "docs").glob("*.md")]
    said = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    calls = [line for line in said.splitlines() if "solve math" in line and "--model" not in line]
    return list(dict.fromkeys(re.findall(r'solve math "([^"]+)"', "\n".join(calls))))


@pytest.mark.slow
def test_the_shown_problems_are_answered_right_with_the_default_seed(tmp_path: Path, subtests: pytest.Subtests) -> None:
    from agentlearn_demo.math.families import FAMILIES

    for problem in shown_problems():
        with subtests.test(problem):
            known = next(filter(None, (one.recognise(problem) for one in FAMILIES)), None)
            assert known is not None, "not a problem of a family that the default model was trained on"
            assert known.home != "test", "the default model was not trained on this problem"
            shown = agentlearn_here("solve", "math", problem, cwd=tmp_path).stdout
            assert f"answer: {known.gold()}\n" in shown
            assert "knows only the 10 families" in shown
    shown = agentlearn_here("solve", "math", "What is 2 + 2?", cwd=tmp_path).stdout
    assert "this is none of them: its answer means nothing" in " ".join(shown.split())


@pytest.mark.slow
def test_the_shown_output_of_learn_is_what_the_default_run_prints(tmp_path: Path) -> None:
    blocks = [match[2] for match in FENCE.finditer(README.read_text(encoding="utf-8")) if not match[1].strip()]
    (shown,) = (one for one in blocks if "held out" in one)
    said = " ".join(agentlearn_here("learn", "math", "--seed", "0", cwd=tmp_path).stdout.split())
    for line in shown.splitlines():
        words = " ".join(re.sub(r"\d\d:\d\d$", "", line).split())
        assert words in said, f"the default run does not print {words!r}"


def test_every_just_target_shown_exists() -> None:
    recipes = set(
        re.findall(r"^([a-z][a-z-]*)(?: [^\n:]*)?:(?!=)", (ROOT / "justfile").read_text("utf-8"), re.MULTILINE)
    )
    shown = {arguments[0] for arguments in commands("just") if arguments}
    assert shown, "README.md shows no just target"
    assert shown <= recipes
