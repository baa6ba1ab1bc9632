"""Tasks of Harbor are read from their folders; running them is left to Harbor."""

import json
from pathlib import Path

import pytest

from agentlearn.config import is_source
from agentlearn.data import read_tasks
from agentlearn.errors import DataError


def task(folder: Path, *, toml: str = 'version = "1.0"\n', words: str = "Sort the list.\n") -> Path:
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(toml, encoding="utf-8")
    (folder / "instruction.md").write_text(words, encoding="utf-8")
    return folder


def problems(source: str) -> list[tuple[str, str]]:
    found = read_tasks(source, domain="d", split="train", answer_required=False)
    return [(one.problem, one.source) for one in found]


def test_a_folder_of_tasks_is_read_with_what_agents_are_told(tmp_path: Path) -> None:
    task(tmp_path / "b" / "second", words="<!-- BENCH CANARY 1 -->\n# canary 2\n\nCount the rows.\n\n# Notes\nAll.\n")
    first = task(tmp_path / "a")
    task(first / "environment" / "inner")  # belongs to the task around it
    steps = task(tmp_path / "c", toml='[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n')
    for name in ("one", "two"):
        (steps / "steps" / name).mkdir(parents=True)
        (steps / "steps" / name / "instruction.md").write_text(f"Step {name}.", encoding="utf-8")
    expected = [
        ("Sort the list.", "a/instruction.md:1"),
        ("Count the rows.\n\n# Notes\nAll.", "b/second/instruction.md:1"),
        ("Step one.\n\nStep two.", "c/instruction.md:1"),
    ]
    assert problems(f"harbor:{tmp_path}") == expected
    assert problems(f"harbor:{tmp_path / 'a'}") == [("Sort the list.", "a/instruction.md:1")]
    assert is_source(f"harbor:{tmp_path}")


def test_a_registry_names_tasks_that_are_here(tmp_path: Path) -> None:
    task(tmp_path / "tasks" / "a")
    registry = tmp_path / "registry.json"
    listed = [{"name": "a", "path": "tasks/a"}]
    registry.write_text(json.dumps([{"name": "mine", "version": "1", "tasks": listed}]), encoding="utf-8")
    assert problems(f"harbor:{registry}") == [("Sort the list.", "tasks/a/instruction.md:1")]
    listed.append({"name": "far", "git_url": "https://example.org/far.git", "path": "tasks/far"})
    registry.write_text(json.dumps([{"name": "mine", "version": "1", "tasks": listed}]), encoding="utf-8")
    with pytest.raises(DataError, match=r"'far', which is not here but in 'https://example.org/far.git'; download it"):
        problems(f"harbor:{registry}")


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no task of Harbor; give a folder"):
        problems(f"harbor:{tmp_path / 'empty'}")
    with pytest.raises(DataError, match="there is no folder 'nowhere'; write 'harbor:DIR'"):
        problems("harbor:nowhere")
    task(tmp_path / "broken" / "x", toml="a = = 1")
    with pytest.raises(DataError, match=r"^x/task.toml is not TOML \(.*line 1.*\); correct it"):
        problems(f"harbor:{tmp_path / 'broken'}")
    task(tmp_path / "silent" / "x", words="\n")
    with pytest.raises(DataError, match=r"^x/instruction.md is empty"):
        problems(f"harbor:{tmp_path / 'silent'}")


def test_a_run_that_needs_the_tests_is_told_who_runs_them(tmp_path: Path) -> None:
    task(tmp_path / "a")
    with pytest.raises(DataError, match=r"^a/instruction.md line 1 is a task of Harbor, whose tests run in Docker"):
        read_tasks(f"harbor:{tmp_path}", domain="d", split="train")
