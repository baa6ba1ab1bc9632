"""The install without extras, in which lessons are used and nothing is learned.

`scripts/wheel` runs this file where nothing but the package, its requirements and pytest is installed. Where the extra
`learn` is installed, each program below hides its packages, so the same tests run there.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import agentlearn
from agentlearn.plugins import LEARN_MODULES

HIDE = f"""
import faulthandler
import sys

faulthandler.dump_traceback_later(300, exit=True)  # a program that hangs says where

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {LEARN_MODULES!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
"""
LIGHT = {
    *("AgentlearnError", "Answer", "Domain", "Experience", "Experiences", "Group", "LearnSettings", "Library"),
    *("LibraryStore", "RolloutContext", "Task", "Trajectory", "Treatment", "Verdict", "library_of", "load_domain"),
}
"""Public names that need no extra."""


USE = """
from pydantic_ai import Agent
from agentlearn import Experiences, library_of

library = library_of(["Count both ends of a range."])
agent = Agent("test", instructions="Solve it.", capabilities=[Experiences(library)])
result = agent.run_sync("How many integers from 3 to 30?")
assert "Count both ends" in str(result.all_messages()), result.all_messages()
"""


def light(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program without the packages of the extra `learn`."""
    root = str(Path(agentlearn.__file__).parents[1])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-W", "error", "-c", HIDE + program]
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"PYTHONPATH": path}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_public_names_are_there_or_name_the_extra(tmp_path: Path) -> None:
    program = """
import agentlearn

for name in agentlearn.__all__:
    try:
        getattr(agentlearn, name)
    except ImportError as error:
        print(name, getattr(error, "code", ""), error)
    else:
        print(name)
"""
    ended = light(program, tmp_path)
    assert ended.stderr == ""
    lines = [line.split(" ", 2) for line in ended.stdout.splitlines()]
    assert {words[0] for words in lines if len(words) == 1} >= LIGHT
    for name, code, words in (words for words in lines if len(words) > 1):
        assert code == "missing_extra"
        assert words.startswith(("agentlearn.store needs", f"agentlearn.{name} needs"))
        assert words.endswith("): pip install 'agentlearn-lib[learn]'")


NOT_FOR_LESSONS = (
    *("agentlearn.answers", "agentlearn.config", "agentlearn.domain", "agentlearn.learning", "agentlearn.models"),
    *("agentlearn.library.curate", "agentlearn.library.history.hand_edits", "agentlearn.library.history.three_way"),
    *(
        "agentlearn.rollout",
        "agentlearn.sandbox",
        "agentlearn.store",
        "agentlearn.pages",
        "importlib.resources",
        "yaml",
    ),
)
"""What an application that uses lessons does not load, beyond what pydantic-ai loads."""


def test_lessons_load_few_modules(tmp_path: Path) -> None:
    program = f"""
import pydantic_ai
before = set(sys.modules)
from agentlearn import Experiences, library_of
Experiences(library_of(["Count both ends of a range."]))
loaded = sys.modules.keys() - before
print([one for one in sorted(loaded) if one.startswith({NOT_FOR_LESSONS!r})])
print(sum(one.startswith("agentlearn") for one in loaded))
"""
    ended = light(program, tmp_path)
    assert ended.stderr == ""
    wrong, number = ended.stdout.splitlines()
    assert wrong == "[]"
    assert int(number) <= 30


def test_lessons_are_used(tmp_path: Path) -> None:
    ended = light(USE, tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("words", [[], ["learn", "math", "--json"]])
def test_the_command_is_one_sentence(words: list[str], tmp_path: Path) -> None:
    ended = light(f"sys.argv[1:] = {words!r}\nfrom agentlearn.cli import main\nmain()", tmp_path)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("agentlearn: the command agentlearn needs packages that are not installed (cyclopts, ")
    assert line.endswith("): pip install 'agentlearn-lib[learn]'")
    if words:
        error = json.loads(ended.stdout)["error"]
        assert error == {"code": "missing_extra", "message": line.removeprefix("agentlearn: ")}
    else:
        assert ended.stdout == ""


def test_an_import_that_fails_for_another_reason_stays_as_it_is(tmp_path: Path) -> None:
    program = """
sys.modules["agentlearn.store"] = None
import agentlearn
try:
    agentlearn.open_store
except ModuleNotFoundError as error:
    print(type(error).__name__, error.name)
"""
    assert light(program, tmp_path).stdout == "ModuleNotFoundError agentlearn.store\n"


FILES = """
from pathlib import Path
from agentlearn.errors import MissingExtra
from agentlearn.library.audit import AuditedLesson, LibraryAudit
from agentlearn.library.formats import write_form
from agentlearn.library.import_lessons import import_lessons
from agentlearn.types.experience import library_of

library = library_of(["When counting a grid, count each cell once."])
for form in ("agentlearn", "lines", "training-free-grpo", "ace"):
    assert len(import_lessons(write_form(library, Path(f"math-{form}"), form)).lessons) == 1, form
assert LibraryAudit.of(AuditedLesson.all_of(library)).score == 100
for path, form in (("math.yaml", "youtu"), ("math.md", "markdown"), ("math", "skill")):
    try:
        import_lessons(write_form(library, Path(path), form))
    except MissingExtra as missing:
        print(missing)
"""


def test_libraries_are_imported_and_audited_without_the_extra(tmp_path: Path) -> None:
    run = light(FILES, tmp_path)
    assert (run.stderr, run.returncode) == ("", 0)
    pip = "pip install 'agentlearn-lib[learn]'"
    markdown = f"reading Markdown needs markdown-it-py: {pip}"
    assert run.stdout.splitlines() == [f"reading YAML needs PyYAML: {pip}", markdown, markdown]
