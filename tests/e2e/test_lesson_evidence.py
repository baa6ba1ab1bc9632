"""A learn run that hides lessons: each exactly as often as asked, no failure without a lesson is learned from."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from agentlearn.library import LibraryStore
from agentlearn.store import read_store
from agentlearn.types.experience import library_of
from tests.support.command import agentlearn

pytestmark = pytest.mark.slow

SMALL = ("--limit", "10", "--epochs", "2", "--no-eval", "--validation-rollouts", "0")
LESSONS = ["When values may be nonnegative, start the loops at zero.", "Try small cases by brute force first."]


def test_a_run_measures_the_lessons_that_it_started_with(tmp_path: Path) -> None:
    start = library_of(LESSONS, kind="add")
    LibraryStore(tmp_path / ".agentlearn" / "libraries").publish("demo", start)
    said = agentlearn(
        "learn", "math", "--from", "demo", "--name", "demo", "--hidden-rollouts", "2", *SMALL, cwd=tmp_path
    )
    with read_store(tmp_path / ".agentlearn") as reader:
        (run,) = reader.runs()
        rollouts = [reader.trajectory(row.id) for row in reader.trajectories(run.run) if row.phase.startswith("epoch")]
        summarised = {one.rollout for one in reader.summaries(run.run)}
        report = json.loads(run.report)
    groups = defaultdict[tuple[str, str], list[tuple[str, ...]]](list)
    for one in rollouts:
        groups[one.phase, one.task].append(one.treatment.masked)
    assert {len(masks) for masks in groups.values()} == {5}, "groups are made whole"
    hidden = [sum(lesson in mask for mask in masks) for masks in groups.values() for lesson in start.by_id]
    assert {*hidden} <= {0, 2}, "0 only where an update replaced the lesson"
    assert hidden.count(2) >= len(groups)
    failed = {one.id for one in rollouts if one.treatment.masked and one.reward is not None and one.reward < 1}
    assert failed
    assert not failed & summarised
    shown = {lesson for one in rollouts for lesson in one.treatment.masked}
    assert shown <= start.by_id.keys()
    assert any("lessons were hidden from" in note for note in report["notes"])
    assert "lessons were hidden from" in said.stdout
    effects = json.loads(agentlearn("library", "effects", "demo", "--json", cwd=tmp_path).stdout)
    assert effects["tests"] == 2


def hidden_in(store: Path) -> dict[tuple[str, str, int], tuple[str, ...]]:
    """The hidden lessons of each rollout of the last run that was learned from."""
    with read_store(store) as reader:
        run = reader.runs(limit=1)[0].run
        rollouts = [reader.trajectory(row.id) for row in reader.trajectories(run) if row.phase.startswith("epoch")]
    return {(one.phase, one.task, one.g): one.treatment.masked for one in rollouts}


def test_a_resumed_run_hides_the_same_lessons_as_one_that_was_not_interrupted(tmp_path: Path) -> None:
    found = list[dict[tuple[str, str, int], tuple[str, ...]]]()
    # The whole run takes some 220,000 tokens, its first batch of rollouts some 60,000.
    for folder, stop in ((tmp_path / "whole", ()), (tmp_path / "stopped", ("--max-tokens", "110000"))):
        folder.mkdir()
        LibraryStore(folder / ".agentlearn" / "libraries").publish("demo", library_of(LESSONS, kind="add"))
        options = ("--from", "demo", "--hidden-rollouts", "1", *SMALL, "--model", "sim:novice", *stop)
        agentlearn("learn", "math", *options, cwd=folder, expect=3 if stop else 0)
        if stop:
            with read_store(folder / ".agentlearn") as reader:
                run = reader.runs(limit=1)[0].run
            assert 0 < len(hidden_in(folder / ".agentlearn")) < len(found[0])
            agentlearn("learn", "--resume", run, "--max-tokens", "10000000", cwd=folder)
        found.append(hidden_in(folder / ".agentlearn"))
    assert found[0] == found[1]
    assert any(found[0].values())
