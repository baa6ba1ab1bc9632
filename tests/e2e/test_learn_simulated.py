"""`learn math` with the simulated model: what must hold of it, on small runs through the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import agentlearn_here, learn

SMALL = ("--limit", "5", "--epochs", "1", "--batch-size", "5", "--no-eval", "--validation-rollouts", "0")
Small = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """A small run: its folder and its report."""
    folder = tmp_path_factory.mktemp("small")
    return folder, learn(folder, *SMALL, "--seed", "3", "--concurrency", "1", here=True)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_library_whatever_the_concurrency(tmp_path: Path, small: Small) -> None:
    first = small[1]
    second = learn(tmp_path, *SMALL, "--seed", "3", "--concurrency", "64")
    other = learn(tmp_path, *SMALL, "--seed", "5", "--store", "c", here=True)
    assert first["library"]["lessons"] > 0
    assert other["library"]["lessons"] > 0
    assert first["library"]["version"] == second["library"]["version"]
    assert first["versions"] == second["versions"]
    assert first["run"] != second["run"]
    assert other["library"]["version"] != first["library"]["version"]


@pytest.mark.slow
def test_one_rollout_per_task_teaches_nothing_and_says_why(tmp_path: Path) -> None:
    report = learn(tmp_path, *SMALL, "--group-size", "1", "--all-wrong", "skip", here=True)
    assert report["library"]["lessons"] == 0
    assert any("G = 1 teaches nothing" in note for note in report["notes"])
    assert set(report["stages"]) == {"rollout"}, "groups of one verdict ask for no summary"


@pytest.mark.slow
def test_learning_without_labels_goes_by_majority(tmp_path: Path) -> None:
    report = learn(tmp_path, *SMALL, "--labels", "none", here=True)
    assert report["library"]["lessons"] > 0
    assert any("majority" in note for note in report["notes"])
    rollouts = json.loads(agentlearn_here("runs", "show", report["run"], "--json", cwd=tmp_path).stdout)["rollouts"]
    trace = json.loads(agentlearn_here("trace", rollouts[0]["id"], "--json", cwd=tmp_path).stdout)
    assert "labels none" in trace["trajectory"]["verdict"]["reason"]


def test_only_groups_that_teach_ask_for_summaries(small: Small) -> None:
    groups, calls, taught = small[1]["groups"], small[1]["stages"], small[1]["taught"]
    assert groups["mixed"] + groups["all_right"] + groups["all_wrong"] == 5
    assert (taught["mixed"], taught["all_wrong"]) == (groups["mixed"], groups["all_wrong"])
    # Three to five summaries for each group that teaches; a misshapen one is asked for once more.
    teach = taught["mixed"] + taught["all_wrong"]
    assert 3 * teach <= calls["summarise"]["calls"] <= 10 * teach
    assert teach <= calls["compare"]["calls"] <= 2 * teach


def test_solving_one_problem_shows_the_steps(tmp_path: Path) -> None:
    problem = "Find the number of ordered pairs of positive integers whose product is 36."
    done = agentlearn_here("solve", "math", problem, "--model", "sim:novice", cwd=tmp_path)
    assert "simulated" in done.stdout
    assert "answer: " in done.stdout
    (run,) = json.loads(agentlearn_here("runs", "list", "--json", cwd=tmp_path).stdout)["runs"]
    assert run["kind"] == "solve"
