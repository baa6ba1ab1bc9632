"""Helper processes are killed while a command runs: it gives what the undisturbed command gives, or says why not."""

from pathlib import Path

import pytest

from agentlearn.store import read_store
from tests.support.killing import KilledRun, run_and_kill

LEARN = ("learn", "math", "--model", "sim:novice", "--limit", "8", "--epochs", "1", "--batch-size", "8", "--seed", "3")
COMPARE = ("compare", "none", "good.json", "--domain", "math", "--model", "sim:novice", "--limit", "20", "--k", "2")
KILL = ("session", "zygote")
"""No more than a rollout survives, which is started again twice: on a slow machine all can hit the same one."""
RESTARTED = "rollout attempts were given up and started again, because a tool was lost"


def rewards(folder: Path, run: str | None = None) -> dict[tuple[str, str, int], tuple[str, float | None]]:
    """Outcome and reward of every rollout, by phase, task and index; phases of different stores have the same names."""
    with read_store(folder / ".agentlearn") as reader:
        found = [row for one in reader.runs() if run in (None, one.run) for row in reader.trajectories(one.run)]
    return {(row.phase, row.task, row.g): (row.outcome, row.reward) for row in found}


def restarted(folder: Path) -> int:
    """Number of attempts that were started again."""
    with read_store(folder / ".agentlearn") as reader:
        return sum(row.attempt for one in reader.runs() for row in reader.trajectories(one.run))


def both(tmp_path: Path, command: tuple[str, ...], seed: int) -> tuple[KilledRun, KilledRun, Path, Path]:
    """The command undisturbed and with killed processes, each in a folder of its own."""
    quiet, disturbed = tmp_path / "quiet", tmp_path / "disturbed"
    for folder in (quiet, disturbed):
        folder.mkdir()
        lesson = "When a range has two ends, include both endpoints of the range."
        (folder / "good.json").write_text(f'{{"experiences": {{"G0": "{lesson}"}}, "next_id": 1}}')
    plain = run_and_kill(*command, cwd=quiet, kill=())
    killed = run_and_kill(*command, cwd=disturbed, kill=KILL, seed=seed, gap_s=0.3)
    assert plain.status == 0, plain.stderr
    assert killed.status == 0, killed.stderr
    return plain, killed, quiet, disturbed


@pytest.mark.slow
def test_learn_gives_the_same_library_when_sandbox_processes_are_killed(tmp_path: Path) -> None:
    plain, killed, quiet, disturbed = both(tmp_path, (*LEARN, "--eval-rollouts", "2"), seed=1)
    assert killed.killed["zygote"] >= 1, killed.killed
    assert rewards(disturbed) == rewards(quiet)
    assert killed.report["library"]["version"] == plain.report["library"]["version"]
    for moment in ("before", "after"):
        assert killed.report[moment]["mean"] == plain.report[moment]["mean"]
    lost = restarted(disturbed)
    assert any(note.startswith(f"{lost} {RESTARTED}") for note in killed.report["notes"]) == (lost > 0)
    assert not any(RESTARTED in note for note in plain.report["notes"])


@pytest.mark.slow
def test_compare_gives_the_same_verdict_when_sandbox_processes_are_killed(tmp_path: Path) -> None:
    plain, killed, quiet, disturbed = both(tmp_path, COMPARE, seed=3)
    assert killed.killed["zygote"] >= 1, killed.killed
    assert rewards(disturbed) == rewards(quiet)
    assert killed.report["contrasts"] == plain.report["contrasts"]


@pytest.mark.slow
def test_learn_gives_the_same_library_when_its_model_service_is_killed(tmp_path: Path) -> None:
    quiet, disturbed = tmp_path / "quiet", tmp_path / "disturbed"
    quiet.mkdir()
    disturbed.mkdir()
    command = (*LEARN, "--eval-rollouts", "2")
    plain = run_and_kill(*command, cwd=quiet, kill=())
    killed = run_and_kill(*command, cwd=disturbed, kill=("service", "service"), first_s=4.0, gap_s=2.0)
    assert killed.status == 0, killed.stderr
    assert killed.killed["service"] >= 1
    assert rewards(disturbed) == rewards(quiet)
    assert killed.report["library"]["version"] == plain.report["library"]["version"]
