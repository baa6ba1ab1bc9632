"""The page about the history of a library: its program runs, and it names every command."""

import re
from pathlib import Path

import pytest

from agentlearn.plugins import GROUPS

PAGE = (Path(__file__).parents[3] / "docs" / "history.md").read_text(encoding="utf-8")


def test_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "history.md", "exec"), {})
    assert capsys.readouterr().out == "When stuck, solve a smaller case first.\nrollback\n"


def test_the_page_names_every_command_and_no_other() -> None:
    named = set(re.findall(r"^agentlearn library ([a-z]+)", PAGE, re.MULTILINE))
    commands = GROUPS["library"].commands
    history = {name for name, one in commands.items() if "library_history" in one.function}
    assert history <= named <= set(commands)
