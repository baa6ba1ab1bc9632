"""Lessons that were learned from the very task at hand are hidden on request, and marked where they were shown."""

import asyncio
from pathlib import Path

import pytest

from agentlearn.cli.app import run
from agentlearn.config import LearnSettings, SolveSettings
from agentlearn.learning.lessons.run_learning import run_learning
from agentlearn.library import LibraryStore
from agentlearn.rollout.solve import run_solving
from agentlearn.store import read_store
from agentlearn.types.ids import LibraryVersion, RunId


def learned(store: Path, own: str) -> tuple[RunId, LibraryVersion]:
    """Learn for two epochs on a few tasks."""
    settings = LearnSettings.model_validate(
        {
            "domain": "math",
            "limit": 6,
            "epochs": 2,
            "batch_size": 6,
            "evaluate": False,
            "validation_rollouts": 0,
            "select": "last",
            "end_when_settled": 1,
            "revisit_every": 1,
            "own_task_lessons": own,
            "model": "sim:novice",
            "store": store,
        }
    )
    report = asyncio.run(run_learning(settings))
    return report.run, LibraryStore(store / "libraries").load("math").version


@pytest.mark.slow
@pytest.mark.parametrize("own", ["show", "hide"])
def test_rollouts_to_learn_from_see_no_lesson_of_their_own_task_where_it_is_to_be_hidden(
    own: str, tmp_path: Path
) -> None:
    identity, version = learned(tmp_path, own)
    asked = 0
    with read_store(tmp_path) as reader:
        for row in reader.trajectories(identity, "epoch-2"):
            trajectory = reader.trajectory(row.id)
            library = reader.library(trajectory.treatment.library)
            lessons = reader.learned_on(list(library.by_id)).get(row.task, frozenset())
            shown = set(library.by_id if trajectory.offered is None else trajectory.offered)
            asked += len(lessons)
            assert shown == (set(library.by_id) - lessons if own == "hide" else set(library.by_id))
        assert asked > 0
        if own == "hide":
            return
        of_tasks = reader.learned_on(list(reader.library(version).by_id))
        problem = next(iter(reader.tasks(list(of_tasks)).values())).problem
    for text, marked in ((problem, True), ("How many primes are below 20?", False)):
        solved = asyncio.run(run_solving(SolveSettings(domain="math", problem=text, library="math", store=tmp_path)))
        assert any("learned from this very problem" in note for note in solved.notes) == marked


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
