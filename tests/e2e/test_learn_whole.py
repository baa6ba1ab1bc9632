"""The whole job once: `learn math --seed 0` with the simulated model."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentlearn.types.experience import word_count
from agentlearn.types.rendering import ASKED_LESSON_WORDS
from tests.support.command import agentlearn_here, learn

pytestmark = pytest.mark.slow


def excludes_zero(delta: dict[str, Any]) -> bool:
    return bool(delta["ci"][0] > 0)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The whole job, once: `learn math --model sim:novice --seed 0 --json`."""
    folder = tmp_path_factory.mktemp("full")
    return folder, learn(folder, "--seed", "0")


def test_the_gain_is_real_on_new_tasks_and_on_new_families(full: tuple[Path, dict[str, Any]]) -> None:
    _, report = full
    assert report["simulated"] is True
    assert any("simulated" in note for note in report["notes"])
    assert report["tasks"]["test"] >= 40
    assert report["after"]["k"] == 4
    assert excludes_zero(report["delta"])
    assert excludes_zero(report["known_families"]["delta"])
    assert excludes_zero(report["unseen_families"]["delta"])
    assert report["weights"]["note"] == "the simulated model has no weights"


def test_checking_had_work_to_do(full: tuple[Path, dict[str, Any]]) -> None:
    _, report = full
    proposals = report["proposals"]
    assert proposals["applied"] > 0
    assert proposals["folded"] > 0
    assert sum(proposals["rejected"].values()) > 0
    assert set(report["stages"]) == {"rollout", "summarise", "compare", "consolidate"}


def test_lessons_are_short_and_can_be_shown_and_exported(full: tuple[Path, dict[str, Any]]) -> None:
    folder, report = full
    shown = json.loads(agentlearn_here("library", "show", "math", "--json", cwd=folder).stdout)
    assert shown["version"] == report["library"]["version"]
    lessons = [one["lesson"] for one in shown["experiences"]]
    assert len(lessons) == report["library"]["lessons"] > 0
    assert all(0 < word_count(lesson) <= ASKED_LESSON_WORDS for lesson in lessons)
    agentlearn_here("library", "export", "math", "--out", "out.json", cwd=folder)
    again = json.loads(agentlearn_here("library", "show", "out.json", "--json", cwd=folder).stdout)
    assert [one["lesson"] for one in again["experiences"]] == lessons
    assert "math@" in agentlearn_here("library", "list", cwd=folder).stdout
    assert len(agentlearn_here("library", "log", "math", cwd=folder).stdout.splitlines()) >= 1


def test_the_run_can_be_looked_at(full: tuple[Path, dict[str, Any]]) -> None:
    folder, report = full
    runs = json.loads(agentlearn_here("runs", "list", "--json", cwd=folder).stdout)["runs"]
    assert (runs[0]["run"], runs[0]["domain"], runs[0]["state"]) == (report["run"], "math", "done")
    assert "held out" in agentlearn_here("runs", "show", report["run"], cwd=folder).stdout
    rollouts = json.loads(agentlearn_here("runs", "show", report["run"], "--json", cwd=folder).stdout)["rollouts"]
    assert len(rollouts) == sum(report["rollouts"].values())
    wrong = next(one for one in rollouts if one["phase"] == "before" and one["reward"] == 0)
    trace = agentlearn_here("trace", wrong["id"][:16], cwd=folder).stdout
    assert "call run_python" in trace
    assert "verdict    wrong" in trace
