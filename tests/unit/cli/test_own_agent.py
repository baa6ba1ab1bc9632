"""`bot:agent` on the command line: what is wrong is one sentence with the next step, before anything is spent."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from agentlearn.cli.app import run
from agentlearn.learning.subject import is_agent, named_agent
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
    [
        ("agnet", "has no 'agnet'; did you mean 'agent'?"),
        ("deps", "is 3; name a pydantic-ai Agent, a function without arguments that returns one"),
        ("Agent", "is <class .*; name a pydantic-ai Agent"),
        ("make_async", "is async and takes no arguments; name a pydantic-ai Agent"),
        ("make_nothing", "returned 5; name a pydantic-ai Agent"),
        ("make_badly", r"calling it raised RuntimeError: no database \(own_bot_\d+\.py:14\)"),
        ("one_argument", r"takes \(question\); write async def program\(task, lessons\)"),
        ("needs_deps", "needs deps of type int, and none are given; add --deps DEPS"),
        ("without_model", "no model is named for 'sums', and it has none of its own; add --model"),
    ],
)
def test_an_object_that_is_no_agent_is_told(module: Module, tmp_path: Path, name: str, words: str) -> None:
    bot = module(AGENT)
    for command in ("learn", "compare", "eval", "solve") if name == "agnet" else ("eval",):
        more = ("4 + 4",) if command == "solve" else ("tasks.csv", "--reward", f"{bot}:score")
        assert re.search(words, refused(command, f"{bot}:{name}", *more, cwd=tmp_path))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "import no_such_library\n",
            r"raised ModuleNotFoundError: No module named 'no_such_library' \(own_bot_\d+\.py:1\)",
        ),
        ("x = 1\ndef f(:\n", r"raised SyntaxError: .* \(own_bot_\d+\.py:2\)"),
        ("import json\n\njson.loads('{')\n", r"raised JSONDecodeError: .* \(own_bot_\d+\.py:3\)"),
        ("import sys\nsys.exit(3)\n", r"raised SystemExit: 3 \(own_bot_\d+\.py:2\)"),
        ("raise KeyError\n", r"raised KeyError \(own_bot_\d+\.py:1\); correct the module"),
        (
            "from pydantic_ai import Agent\nagent = Agent('openai:gpt-5-mini')\n",
            r"OPENAI_API_KEY.* \(own_bot_\d+\.py:2\)",
        ),
    ],
)
def test_a_module_that_breaks_is_told_with_its_line(module: Module, tmp_path: Path, code: str, words: str) -> None:
    line = refused("eval", f"{module(code)}:agent", "tasks.csv", "--reward", "exact", cwd=tmp_path)
    assert re.search(words, line), line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("learn", "no_bot:agent", "tasks.csv", "--reward", "exact"),
            "there is no module 'no_bot'; put no_bot.py into",
        ),
        (("learn", "bot.py:agent", "tasks.csv"), "names a file; write the name of its module, such as 'bot:agent'"),
        (("eval", "src/bot.py:agent", "tasks.csv"), "such as 'src.bot:agent'"),
        (("learn", "my-bot:agent", "tasks.csv"), "does not name an object; write module:name"),
        (("learn", "{bot}:agent", "tasks.csv"), "say how the answers of '{bot}:agent' are judged: --reward exact"),
        (("learn", "{bot}:agent"), "say which tasks '{bot}:agent' learns from"),
        (("eval", "{bot}:agent", "--reward", "exact"), "say which tasks '{bot}:agent' is measured on"),
        (("learn", "tasks.csv", "tasks.csv", "--reward", "exact"), "the tasks are given twice"),
        (("learn", "{bot}:agent", "none.csv", "--reward", "exact"), "there is no file 'none.csv'"),
        (("solve", "math", "1 + 1", "--deps", "{bot}:deps"), "is for your own agent, and 'math' is a domain"),
        (
            ("learn", "{bot}:needs_deps", "tasks.csv", "--reward", "exact", "--deps", "{bot}:dep"),
            "the deps '{bot}:dep'",
        ),
        (("learn", "{bot}:agent", "tasks.csv", "--reward", "exact", "--tools", "python"), "tools"),
    ],
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
