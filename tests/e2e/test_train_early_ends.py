"""A training that ends early, at whatever moment, leaves a checkpoint; a resumed one trains on what the store shows."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentlearn.cli.app import run
from agentlearn.errors import BudgetExceeded, WeightsDiffer
from agentlearn.store import read_store
from agentlearn.train.update.metrics import StepMetrics
from agentlearn.train.update.sequences import TrainingRow
from agentlearn.train.update.updater import Updater
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from tests.support.letters_training import (
    WORDS,
    Stopping,
    letters_fields,
    one_word_tasks,
    stopped,
    trained,
)
from tests.support.tiny_model import saved, tiny_network

CHANCE = random.Random(0)


def fickle(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    """Another reward at each call, and at times none: like a tool on a busy machine, or a function that was changed."""
    if CHANCE.random() < 0.2:
        raise TimeoutError("the machine is busy")
    return CHANCE.random()


fickle.gold_is_answer = False  # pyright: ignore[reportFunctionMemberAccess]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("weights") / "tiny", tiny_network(context=1024))


@pytest.fixture
def fields(weights: Path, tmp_path: Path) -> dict[str, Any]:
    tasks = one_word_tasks(tmp_path / "words.jsonl", *WORDS[:4])
    return letters_fields(weights, tasks, tmp_path / "store", reward=f"{__name__}:fickle", epochs=2)


def test_a_run_ended_during_an_update_finishes_and_saves_it(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping, step = Stopping(why=BudgetExceeded("out of time")), Updater.step

    def ended(self: Updater, rows: Sequence[TrainingRow], **named: Any) -> StepMetrics:
        stopping.stop()
        return step(self, rows, **named)

    monkeypatch.setattr(Updater, "step", ended)
    begun = stopped(fields, stopping, BudgetExceeded)
    with read_store(fields["store"]) as reader:
        assert sorted(reader.metrics(begun)) == [1]
    (checkpoint,) = (fields["store"] / "checkpoints" / begun).iterdir()
    assert (checkpoint / "model.safetensors").is_file()
    assert stopping.saved == [(checkpoint, 1)]


def test_a_limit_leaves_a_checkpoint_and_says_how_to_measure_it(
    fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "train.yaml"
    recipe.write_text(json.dumps(fields | {"epochs": 3, "store": str(fields["store"])}))
    assert run(["train", str(recipe), "--max-tokens", "12000"]) != 0
    said = capsys.readouterr().out
    (checkpoint,) = (Path(fields["store"]) / "checkpoints").glob("*/*")
    assert f"{checkpoint}, after" in said
    assert "agentlearn compare before=none" in said


def test_a_sampler_that_is_not_the_trainer_ends_the_run(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the cause. Nothing is published, and no checkpoint holds the update."""
    from agentlearn.train.engine import active_batch

    exact = active_batch._sample_tokens

    def shifted(*given: Any) -> tuple[Any, Any]:
        ids, logprobs = exact(*given)
        return ids, logprobs - 0.02

    monkeypatch.setattr(active_batch, "_sample_tokens", shifted)
    monkeypatch.setattr("agentlearn.train.engine.torch_engine.LARGEST", 1.0)
    with pytest.raises(WeightsDiffer, match=r"differ by 0\.02 nats on average, .* at most 0\.002") as refused:
        trained(fields)
    assert refused.value.code == "sampler_differs"
    store = Path(fields["store"])
    assert not (store / "weights").exists()
    assert not list((store / "checkpoints").glob("*/*"))
    allowed = {**fields["gradient"], "largest_difference": 0.05}
    assert trained({**fields, "gradient": allowed, "store": store / "again", "epochs": 1}).weights.published


# A round of sampling waits for no rollout that cannot ask.


def test_a_stop_between_two_rounds_waits_for_no_round_that_cannot_fill(fields: dict[str, Any]) -> None:
    stopped(fields | {"concurrency": 2}, Stopping(rollouts=4))
