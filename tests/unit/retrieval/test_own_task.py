"""Lessons that were learned from the very task at hand are hidden on request, and marked where they were shown."""

from pathlib import Path

import pytest

from agentlearn.cli.app import run
from agentlearn.library import LibraryStore


def test_the_command_shows_the_lessons_for_a_task_with_ranks_scores_and_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lessons = [f"When a problem is about {topic}, draw it." for topic in ("boxes", "primes", "angles", "cubes")]
    from agentlearn.types.experience import Library

    LibraryStore(tmp_path / "libraries").publish("math", Library.of(lessons))
    common = ["library", "show", "math", "--store", str(tmp_path)]
    assert run(common) == 0
    assert capsys.readouterr().out.count("  11 tokens") == 4
    assert run([*common, "--query", "angles of a box", "--max-shown-tokens", "30", "--shown-lessons", "2"]) == 0
    out = capsys.readouterr().out
    assert "shown for this task: 2 of 4 lessons, 22 tokens (estimated)" in out
    assert "  1. [G3] When a problem is about angles, draw it." in out
    assert "rank 1 by words  11 tokens" in out
    assert "  2. [G1] " in out
    assert "nothing matches; the first lessons of the library fill the places  11 tokens" in out
    assert run([*common, "--query", "angles"]) == 0
    assert "every lesson is shown, because they are few enough" in capsys.readouterr().out
