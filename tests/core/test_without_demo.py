"""agentlearn without the package `agentlearn_demo`: everything but the demo works, and what needs it says so."""

import json
import os
import subprocess
import sys
from pathlib import Path

HIDE = """
import importlib.util, sys
from importlib.abc import MetaPathFinder

class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "agentlearn_demo":
            raise ModuleNotFoundError(f"No module named {name!r}", name="agentlearn_demo")

sys.meta_path.insert(0, Hidden())
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "agentlearn_demo" else find(name, package)
from agentlearn.cli import main

sys.exit(main())
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process that cannot import the demo."""
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-c", HIDE, *arguments], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip


def test_what_needs_the_demo_says_so_in_one_sentence(tmp_path: Path) -> None:
    for command, expected in (
        (("sim", "serve"), "the command 'sim' is in agentlearn_demo, a part of 'agentlearn-lib' that is not installed"),
        (("lab", "check"), "the command 'lab' is in agentlearn_demo, a part of 'agentlearn-lib' that is not installed"),
        (("learn", "math"), "agentlearn_demo"),
        (("solve", "math", "What is 2 + 2?", "--model", "sim:novice"), "the model service 'sim' is in agentlearn_demo"),
        (("learn", "math", "--model", "openai:gpt-5-mini", "--yes", "--dry-run"), "no generated tasks here"),
    ):
        done = run(tmp_path, *command)
        assert done.returncode == 2, (command, done.stdout, done.stderr)
        assert expected in done.stderr, command
        assert "Traceback" not in done.stderr


def test_the_rest_works(tmp_path: Path) -> None:
    listed = run(tmp_path, "--help")
    assert listed.returncode == 0
    assert "learn" in listed.stdout
    (tmp_path / "tasks.jsonl").write_text('{"problem": "What is 2 + 2?", "answer": "4"}\n')
    checked = run(tmp_path, "data", "check", "tasks.jsonl", "--reward", "number", "--json")
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)
