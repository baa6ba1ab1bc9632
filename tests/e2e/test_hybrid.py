"""`agentlearn hybrid` over the real command line, on the lab model: all stages, interruptions, and parked lessons."""

import json
import os
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
rounds: {rounds}
removals: 2
removal_rollouts: 1
learn: {{limit: 12, epochs: 1, group_size: 3, select: last, validation_rollouts: 0, evaluate: false}}
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
  tensorboard: false
  gradient: {{learning_rate: 5.0e-4}}
compare: {{limit: 4, k: 2, temperature: 0.7, max_turns: 4}}
"""


def written(folder: Path, *, rounds: int = 1) -> Path:
    (folder / "small.yaml").write_text(RECIPE.format(rounds=rounds))
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


Whole = tuple[Path, str, dict[str, Any]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A run that nothing disturbs: its folder, what it printed and its report."""
    folder = written(tmp_path_factory.mktemp("whole"))
    printed = agentlearn_here("hybrid", "small.yaml", cwd=folder).stdout
    (parent,) = (one for one in runs(folder) if one.kind == "hybrid")
    return folder, printed, json.loads(parent.report)


def test_a_killed_run_goes_on_at_its_stage_and_ends_as_one_that_was_not_killed(tmp_path: Path, whole: Whole) -> None:
    """Killed in the middle of the training, and interrupted in the comparison: no stage is made twice."""
    assert stop_at(written(tmp_path), "updates of 3 tasks", signal.SIGKILL, "small.yaml") == -signal.SIGKILL
    (parent,) = (one for one in runs(tmp_path) if one.kind == "hybrid")
    assert parent.state == "interrupted"
    assert [one["learned"]["published"] for one in json.loads(parent.report)["rounds"]] == [True]
    shown = agentlearn_here("runs", "show", parent.run, "--short", cwd=tmp_path).stdout
    assert f"agentlearn hybrid --resume {parent.run}" in shown
    words = ("--resume", parent.run[:12])
    assert stop_at(tmp_path, "rollouts are already stored", signal.SIGINT, *words) == 130
    assert f"agentlearn hybrid --resume {parent.run}" in (tmp_path / "killed.log").read_text()
    found = report_of(tmp_path, *words)
    assert kinds(tmp_path).count("learn") == kinds(tmp_path).count("train") == kinds(tmp_path).count("hybrid") == 1
    (first,), (second,) = found["rounds"], whole[2]["rounds"]
    assert found["ended"] == whole[2]["ended"] == "done"
    assert first["learned"]["version"] == second["learned"]["version"]
    assert first["trained"]["sha256"] == second["trained"]["sha256"]
    assert [one["score"] for one in first["compared"]["arms"]] == [one["score"] for one in second["compared"]["arms"]]
    assert agentlearn_here("hybrid", "--resume", parent.run, cwd=tmp_path, expect=2).stderr.startswith(
        f"agentlearn: run '{parent.run}' is done"
    )


def test_the_stages_are_stored_runs_the_report_adds_up_and_the_printed_command_parks_lessons(whole: Whole) -> None:
    folder, printed, report = whole
    (one,) = report["rounds"]
    learned, trained, compared, pruning = one["learned"], one["trained"], one["compared"], one["pruning"]
    stored = {row.run: row for row in runs(folder)}
    stages = [learned["run"], trained["run"], *compared["runs"], *pruning["runs"]]
    assert all(stored[run].state == "done" for run in stages)
    assert stored[report["run"]].kind == "hybrid"
    assert learned["simulated"], "the reflector is simulated, and the report says so"
    assert (folder / trained["weights"] / "config.json").is_file()
    arms = {arm["arm"]: arm for arm in compared["arms"]}
    assert list(arms) == ["none", "lessons", "distilled", "both"]
    assert {(arm["rollouts"], arm["undecided"]) for arm in arms.values()} == {(8, 0)}
    assert arms["lessons"]["tokens_in_per_call"] > arms["none"]["tokens_in_per_call"] + learned["tokens"] / 2
    assert abs(arms["distilled"]["tokens_in_per_call"] - arms["none"]["tokens_in_per_call"]) < 20
    pairs = [(found["arm"], found["baseline"]) for found in compared["contrasts"]]
    assert pairs == [("lessons", "none"), ("distilled", "none"), ("both", "none"), ("distilled", "lessons")]
    libraries = LibraryStore(folder / ".agentlearn" / "libraries")
    library = libraries.load(learned["reference"])
    assert len(pruning["removals"]) == 2
    assert pruning["not_measured"] == len(library) - 2
    assert {removal["lesson"] for removal in pruning["removals"]} <= set(library.by_id)
    assert not pruning["parked"], "lessons are proposed and never parked by themselves"
    listed = agentlearn_here("runs", "list", cwd=folder).stdout
    assert f"{report['run']}  " in listed
    assert " hybrid  done " in listed
    sentences = agentlearn_here("runs", "show", report["run"], "--short", cwd=folder).stdout
    assert report["sentences"][0] in sentences
    line = next(one for one in printed.splitlines() if "agentlearn library park" in one)
    words = line.partition("agentlearn ")[2].split()
    before = libraries.load("math")
    agentlearn_here(*words, cwd=folder)
    after = libraries.load("math")
    assert {one.id[:12] for one in before.experiences} - {one.id[:12] for one in after.experiences} == set(words[3:])
