"""`bot:agent` on the command line: what is wrong is one sentence with the next step, before anything is spent."""

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from agentlearn.cli.app import run
from agentlearn.learning.subject import is_agent, named_agent
from tests.support.cases import cases
from tests.support.command import agentlearn_here

AGENT = """
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

print("noise")
agent = Agent(TestModel(custom_output_text="4"), name="sums")
unnamed = Agent(TestModel())
without_model = Agent(name="sums")
needs_deps = Agent(TestModel(), deps_type=int)
deps = 3
def make(): return agent
async def make_async(): return agent
def make_nothing(): return 5
def make_badly(): raise RuntimeError("no database")
def program(task, lessons): return task.problem[:1]
def one_argument(question): return "4"
def score(task, answer): return answer == task.answer
"""
_NUMBER = itertools.count()

Module = Callable[[str], str]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    """Return a function that writes a module into the working directory and returns its name, which no other has."""
    (tmp_path / "tasks.csv").write_text("problem,answer\n" + "".join(f"{n} + {n},{n + n}\n" for n in range(1, 9)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def write(code: str) -> str:
        name = f"own_bot_{next(_NUMBER)}"
        Path(f"{name}.py").write_text(code)
        return name

    return write


def refused(*arguments: str, cwd: Path) -> str:
    """Return the only line that a refused command prints."""
    (line,) = agentlearn_here(*arguments, cwd=cwd, expect=2).stderr.removeprefix("noise\n").splitlines()
    assert not (cwd / ".agentlearn").exists()
    return line


@pytest.mark.parametrize(
    ("name", "words"),
    cases(__file__, "an_object_that_is_no_agent_is_told"),
)
def test_an_object_that_is_no_agent_is_told(module: Module, tmp_path: Path, name: str, words: str) -> None:
    bot = module(AGENT)
    for command in ("learn", "compare", "eval", "solve") if name == "agnet" else ("eval",):
        more = ("4 + 4",) if command == "solve" else ("tasks.csv", "--reward", f"{bot}:score")
        assert re.search(words, refused(command, f"{bot}:{name}", *more, cwd=tmp_path))


def test_tasks_at_module_name_are_read_and_checked_as_from_python(module: Module, tmp_path: Path) -> None:
    talks = "[Task.of('2 + 2', '4', user=User(script=('Sure?',))), ('3 + 1', 4)]"
    bot = module(f"from agentlearn import Task, User\n{AGENT}talks = {talks}\ndef bad(): return [('1 + 3', 4), 5]\n")
    reward = ("--reward", "exact")
    assert "tasks[1] is 5" in refused("eval", f"{bot}:agent", f"{bot}:bad", *reward, cwd=tmp_path)
    done = agentlearn_here("eval", f"{bot}:agent", f"{bot}:talks", *reward, "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["arms"][0]["score"] == 1.0


@pytest.mark.parametrize(
    ("code", "words"),
    cases(__file__, "a_module_that_breaks_is_told_with_its_line"),
)
def test_a_module_that_breaks_is_told_with_its_line(module: Module, tmp_path: Path, code: str, words: str) -> None:
    line = refused("eval", f"{module(code)}:agent", "tasks.csv", "--reward", "exact", cwd=tmp_path)
    assert re.search(words, line), line


@pytest.mark.parametrize(
    ("arguments", "words"),
    cases(__file__, "what_is_missing_is_told"),
)
def test_what_is_missing_is_told(module: Module, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    bot = module(AGENT)
    line = refused(*(one.replace("{bot}", bot) for one in arguments), cwd=tmp_path)
    assert words.replace("{bot}", bot) in line


@pytest.mark.parametrize("name", ["agent", "unnamed", "make", "program", "needs_deps"])
def test_what_is_an_agent_is_scored(module: Module, tmp_path: Path, name: str) -> None:
    bot = module(AGENT)
    deps = ("--deps", f"{bot}:deps") if name == "needs_deps" else ()
    done = agentlearn_here(
        "eval", f"{bot}:{name}", "tasks.csv", "--reward", f"{bot}:score", "-k", "1", *deps, cwd=tmp_path
    )
    assert "score 0" in done.stdout
    assert "noise" not in done.stdout


def test_an_agent_without_a_name_is_called_like_its_place(module: Module) -> None:
    bot = module(AGENT)
    assert named_agent(f"{bot}:unnamed", reward="exact").domain.name == f"{bot}-unnamed"
    assert named_agent(f"{bot}:agent", reward="exact").domain.name == "sums"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *[(word, True) for word in ("bot:agent", "a.b:c", "bot.py:agent")],
        *[(word, False) for word in ("math", "gym:chain_sum", "hf:aime24", "bfcl:multiple", "tasks.csv")],
        *[(word, False) for word in ("mine=math,model=openai:gpt-5", "none,model=openai:x", "http://h/v1", "a@b:c")],
    ],
)
def test_a_word_of_a_command_names_an_agent_or_something_else(word: str, expected: bool) -> None:
    assert is_agent(word) == expected


def test_a_recipe_names_no_agent(module: Module, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(f"agent: {module(AGENT)}:agent\ndata: tasks.csv\nreward: exact\n")
    assert "recipes run no code" in refused("learn", "recipe.yaml", cwd=tmp_path)


@pytest.mark.parametrize("command", ["eval", "learn"])
def test_the_help_says_how_an_agent_is_named(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([command, "--help"]) == 0
    said = capsys.readouterr().out
    assert "MODULE:NAME" in said
    assert "--deps" in said
    assert max(map(len, said.splitlines())) <= 80
