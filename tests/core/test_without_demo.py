"""agentlearn without the package `agentlearn_demo`: everything but the demo works, and what needs it says so."""

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import contextlib, importlib.util, io, json, sys
from importlib.abc import MetaPathFinder

class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "agentlearn_demo":
            raise ModuleNotFoundError(f"No module named {name!r}", name="agentlearn_demo")

sys.meta_path.insert(0, Hidden())
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "agentlearn_demo" else find(name, package)
from agentlearn.cli.app import run

ended = []
for command in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = run(command)
    ended.append((status, out.getvalue(), err.getvalue()))
print(json.dumps(ended))
"""


def run(folder: Path, *commands: tuple[str, ...]) -> list[tuple[int, str, str]]:
    """Status, output and complaints of commands in a process that cannot import the demo."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=folder, env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
        input=json.dumps(commands), capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    return json.loads(ended.stdout)


def test_what_needs_the_demo_says_so_in_one_sentence_and_the_rest_works(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"problem": "What is 2 + 2?", "answer": "4"}\n')
    expected = {
        ("sim", "serve"): "the command 'sim' is in agentlearn_demo, a part of 'agentlearn-lib' that is not installed",
        ("lab", "check"): "the command 'lab' is in agentlearn_demo, a part of 'agentlearn-lib' that is not installed",
        ("learn", "math"): "agentlearn_demo",
        ("solve", "math", "What is 2 + 2?", "--model", "sim:novice"): "the model service 'sim' is in agentlearn_demo",
        ("learn", "math", "--model", "openai:gpt-5-mini", "--yes", "--dry-run"): "no generated tasks here",
    }
    *refused, listed, checked = run(
        tmp_path, *expected, ("--help",), ("data", "check", "tasks.jsonl", "--reward", "number", "--json")
    )
    for (status, _, complaint), (command, words) in zip(refused, expected.items(), strict=True):
        assert status == 2, (command, complaint)
        assert words in complaint, command
        assert "Traceback" not in complaint
    assert (listed[0], "learn" in listed[1]) == (0, True)
    assert checked[0] == 0, checked[2]
    assert json.loads(checked[1])
