"""Helper processes are killed while a command runs: it gives what the undisturbed command gives."""

from pathlib import Path

import pytest

from agentlearn.store import read_store
from tests.support.killing import run_and_kill

pytestmark = pytest.mark.slow

LEARN = ("learn", "math", "--model", "sim:novice", "--limit", "6", "--epochs", "1", "--eval-rollouts", "1")
LEARN += ("--validation-rollouts", "0", "--seed", "3")


def rewards(folder: Path) -> dict[tuple[str, str, int], tuple[str, float | None]]:
    """Outcome and reward of every rollout, by phase, task and index."""
    with read_store(folder / ".agentlearn") as reader:
        (run,) = reader.runs()
        return {(row.phase, row.task, row.g): (row.outcome, row.reward) for row in reader.trajectories(run.run)}


def test_learn_gives_the_same_library_when_processes_are_killed(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The processes of the sandbox, no more than a rollout survives, which is started again twice; and the service."""
    kills = {"none": (), "sandbox": ("session", "zygote"), "service": ("service", "service")}
    kills["workers"] = ("rollouts",) * 5
    found = {}
    for name, kill in kills.items():
        (tmp_path / name).mkdir()
        spread = ("--workers", "2") if name == "workers" else ()
        start, gap = (6.0, 4.0) if spread else (2.5, 0.3)
        found[name] = run_and_kill(*LEARN, *spread, cwd=tmp_path / name, kill=kill, seed=1, first_s=start, gap_s=gap)
    plain = found["none"].report
    for name, one in found.items():
        with subtests.test(name):
            assert one.status == 0, one.stderr
            assert name == "none" or one.killed.total() >= 1
            assert rewards(tmp_path / name) == rewards(tmp_path / "none")
            assert one.report["library"]["version"] == plain["library"]["version"]
            assert [one.report[moment]["mean"] for moment in ("before", "after")] == [
                plain[moment]["mean"] for moment in ("before", "after")
            ]
            with read_store(tmp_path / name / ".agentlearn") as reader:
                lost = sum(row.attempt for run in reader.runs() for row in reader.trajectories(run.run))
            note = f"{lost} rollout attempts were given up and started again, because a tool was lost"
            assert any(said.startswith(note) for said in one.report["notes"]) == (lost > 0)
