"""Whole training runs with dynamic sampling, several rewards and the newer losses."""

from pathlib import Path
from typing import Any

import pytest

from agentlearn.cli.app import run
from agentlearn.store import read_store
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from tests.support.letters import share_of_early_letters
from tests.support.letters_training import WORDS, Stopping, letters_fields, one_word_tasks, resumed, stopped, trained
from tests.support.tiny_model import saved, tiny_network

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("weights") / "tiny", tiny_network(context=1024))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return one_word_tasks(tmp_path_factory.mktemp("tasks") / "letters.jsonl", *WORDS[:6])


def test_dynamic_sampling_that_was_stopped_while_groups_wait_ends_with_the_same_weights(
    weights: Path, tasks: Path, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {"reward": "tests.support.letters:mostly_early_letters", "epochs": 4, "group_size": 2}
    changes |= {"save_every": 2, "gradient": {"dynamic_sampling_limit": 3}, "concurrency": 1}
    whole = trained(letters_fields(weights, tasks, tmp_path / "whole", **changes))
    with read_store(tmp_path / "whole") as reader:
        kept = reader.metrics(whole.run)
    updated = [update for update, values in sorted(kept.items()) if "loss" in values]
    assert len(kept) == 12
    assert all(values["optimiser_steps"] <= update for update, values in kept.items())
    stop = next(update for update in sorted(kept.keys() - {*updated}) if update > updated[0])  # a later one waits
    stopped(letters_fields(weights, tasks, tmp_path / "stopped", **changes), Stopping(stop))
    report = resumed(tmp_path / "stopped")
    assert report.weights.sha256_after == whole.weights.sha256_after
    assert report.groups == whole.groups


def by_word(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    """Return 0.5 for tasks of four letters; the others depend on the answer."""
    return 0.5 if len(task.problem) == len("Say pear.") else share_of_early_letters(task, answer, trajectory)


by_word.gold_is_answer = False  # pyright: ignore[reportFunctionMemberAccess]


def visited(store: Path) -> dict[str, set[str]]:
    """The tasks of each epoch."""
    with read_store(store) as reader:
        (one,) = reader.runs()
        rows = reader.trajectories(one.run)
    return {phase: {row.task for row in rows if row.phase == phase} for phase in {row.phase for row in rows}}


def test_a_curriculum_visits_what_teaches_and_a_resumed_run_visits_the_same(weights: Path, tmp_path: Path) -> None:
    tasks = one_word_tasks(tmp_path / "words.jsonl", "pear", "lime", "date", "kiwi", "melon", "quince")
    how: dict[str, Any] = {"reward": f"{__name__}:by_word", "epochs": 3, "revisit_chance": 0.2, "save_every": 1}
    whole, cut = (letters_fields(weights, tasks, tmp_path / name, **how) for name in ("whole", "cut"))
    expected = trained(whole)
    stopped(cut, Stopping(4))
    report = resumed(cut["store"])
    assert report.weights.sha256_after == expected.weights.sha256_after
    first = visited(whole["store"])
    assert first == visited(cut["store"])
    assert len(first["epoch-1"]) == 6
    assert max(len(first[phase]) for phase in ("epoch-2", "epoch-3")) < 6
    assert len(first["epoch-2"] & first["epoch-3"]) >= 2


def constant(task: Task, answer: str | None) -> float:
    return 0.5


constant.gold_is_answer = False  # pyright: ignore[reportFunctionMemberAccess]


@pytest.mark.parametrize(
    ("reward", "rate", "sentence"),
    [
        (
            f"{__name__}:constant",
            "1e-2",
            "no update was made, because all groups had equal rewards; every",
        ),
        ("tests.support.letters:share_of_early_letters", "10", "entropy fell from"),
    ],
)
def test_a_run_that_learned_nothing_says_so_and_publishes_nothing(
    weights: Path, tmp_path: Path, reward: str, rate: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks, store = one_word_tasks(tmp_path / "words.jsonl", *WORDS), tmp_path / "store"
    asked = ["train", str(tasks), "--model", str(weights), "--reward", reward, "--no-eval", "--store", str(store)]
    sizes = ["--batch-size", "2", "--group-size", "4", "--max-output-tokens", "8", "--test-share", "0"]
    assert run([*asked, *sizes, "--learning-rate", rate, "--set", "max_grad_norm=none", "--epochs", "2"]) == 1
    seen = capsys.readouterr()
    assert f"agentlearn: no weights were published: {sentence}" in seen.err
    assert "(a checkpoint; not published)" in seen.out
    assert "use easier tasks" not in seen.out
    assert "use tasks on which attempts differ" not in seen.out
    assert not (store / "weights").exists()
