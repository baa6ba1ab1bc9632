"""`agentlearn hybrid` over the real command line, on the lab model: all stages, interruptions, and parked lessons."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from agentlearn.library import LibraryStore
from agentlearn.store import RunRow, read_store
from tests.support.command import AGENTLEARN, agentlearn_here

pytestmark = pytest.mark.slow

RECIPE = """
domain: math
model: lab:novice
margin: 0.9
evidence: margin
removals: 2
removal_rollouts: 1
learn: {limit: 12, epochs: 1, group_size: 3, select: last, validation_rollouts: 0, evaluate: false}
train:
  limit: 6
  epochs: 1
  batch_size: 3
  group_size: 2
  evaluate: false
  eval_rollouts: 1
  max_output_tokens: 256
  max_turns: 4
  save_every: 1
  report_to: none
  gradient: {learning_rate: 5.0e-4}
compare: {limit: 4, k: 2, temperature: 0.7, max_turns: 4}
"""


def written(folder: Path) -> Path:
    (folder / "small.yaml").write_text(RECIPE)
    return folder


def runs(folder: Path) -> list[RunRow]:
    with read_store(folder / ".agentlearn") as reader:
        return sorted(reader.runs(), key=lambda one: one.started_at)


def kinds(folder: Path) -> list[str]:
    return [one.kind for one in runs(folder)]


def stop_at(folder: Path, printed: str, by: signal.Signals, *words: str) -> int:
    """Start the run, send a signal when it has printed a text, and return its exit status."""
    log = folder / "killed.log"
    with log.open("wb") as out:
        run = subprocess.Popen([AGENTLEARN, "hybrid", *words], cwd=folder, stdout=out, stderr=out)
        ends = time.monotonic() + 600
        while printed not in log.read_text() and run.poll() is None and time.monotonic() < ends:
            time.sleep(0.02)
        os.kill(run.pid, by)
        return run.wait(timeout=120)


def report_of(folder: Path, *words: str) -> dict[str, Any]:
    done = agentlearn_here("hybrid", *words, "--json", cwd=folder)
    assert done.stdout.count("\n") == 1, "exactly one JSON object on stdout"
    return json.loads(done.stdout)


Whole = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A run that nothing disturbs: its folder and its report."""
    folder = written(tmp_path_factory.mktemp("whole"))
    return folder, report_of(folder, "small.yaml")


def test_a_killed_run_goes_on_at_its_stage_and_ends_as_one_that_was_not_killed(tmp_path: Path, whole: Whole) -> None:
    """Killed in the middle of the training, and interrupted in the comparison: no stage is made twice."""
    assert stop_at(written(tmp_path), "updates of 3 tasks", signal.SIGKILL, "small.yaml") == -signal.SIGKILL
    assert stop_at(tmp_path, "rollouts are already stored", signal.SIGINT, "small.yaml") == 130
    assert "agentlearn hybrid small.yaml" in (tmp_path / "killed.log").read_text()
    found, second = report_of(tmp_path, "small.yaml"), whole[1]
    assert kinds(tmp_path).count("learn") == kinds(tmp_path).count("train") == 1
    assert found["learn"]["library"]["version"] == second["learn"]["library"]["version"]
    assert found["train"]["weights"]["sha256_after"] == second["train"]["weights"]["sha256_after"]
    scores = [[one["score"] for one in report["compare"]["arms"]] for report in (found, second)]
    assert scores[0] == scores[1]


def test_the_stages_are_stored_runs_and_the_report_adds_up(whole: Whole) -> None:
    folder, one = whole
    learned, trained, compared, removed = (one[stage] for stage in ("learn", "train", "compare", "remove"))
    stored = {row.run: row for row in runs(folder)}
    assert {stored[stage["run"]].state for stage in (learned, trained, compared, removed)} == {"done"}
    assert (folder / trained["weights"]["path"] / "config.json").is_file()
    arms = {arm["arm"]: arm for arm in compared["arms"]}
    assert list(arms) == ["none", "lessons", "distilled", "both"]
    assert {(arm["rollouts"], arm["undecided"]) for arm in arms.values()} == {(8, 0)}
    pairs = [(found["arm"], found["baseline"]) for found in compared["contrasts"]]
    assert pairs == [("lessons", "none"), ("distilled", "none"), ("both", "none"), ("distilled", "lessons")]
    libraries, version = LibraryStore(folder / ".agentlearn" / "libraries"), learned["library"]["version"]
    assert [found["arm"][:8] for found in removed["contrasts"]] == ["without-", "without-"]
    assert one["proposed"]
    assert set(one["proposed"]) <= set(libraries.load(f"math@{version}").by_id)
    assert libraries.load("math").version == version, "lessons are proposed and never parked by themselves"


def test_the_printed_command_parks_the_proposed_lessons(tmp_path: Path, whole: Whole) -> None:
    shutil.copytree(whole[0], tmp_path, dirs_exist_ok=True)
    line = next(one for one in whole[1]["sentences"] if "agentlearn library park" in one)
    words = line.partition("agentlearn ")[2].split()
    libraries = LibraryStore(tmp_path / ".agentlearn" / "libraries")
    before = libraries.load("math")
    agentlearn_here(*words, cwd=tmp_path)
    assert {one[:12] for one in set(before.by_id) - set(libraries.load("math").by_id)} == set(words[3:])
