"""A training that ends early, at whatever moment, leaves a checkpoint; a resumed one trains on what the store shows."""

import json
import random
import shutil
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
from agentlearn.types.ids import RolloutId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Trajectory
from tests.support.letters_training import WORDS, Stopping, letters_fields, one_word_tasks, resumed, stopped, trained
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


@pytest.mark.slow
def test_a_resumed_run_trains_on_what_the_store_shows(fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes its updates again, as after a kill before the first checkpoint, from the newest attempts."""
    steps: list[Sequence[TrainingRow]] = []
    step = Updater.step

    def recorded(self: Updater, rows: Sequence[TrainingRow], **named: Any) -> StepMetrics:
        steps.append(rows)
        return step(self, rows, **named)

    CHANCE.seed(1)
    store: Path = fields["store"]
    begun = stopped(fields, Stopping(2))
    with read_store(store) as reader:
        first = {one.id: one for one in reader.trajectories(begun)}
    shutil.rmtree(store / "checkpoints")
    monkeypatch.setattr(Updater, "step", recorded)
    CHANCE.seed(2)
    report = resumed(store)
    with read_store(store) as reader:
        kept, rollouts = reader.metrics(begun), reader.trajectories(begun)
        newest = {(one.phase, one.task, one.g): one for one in sorted(rollouts, key=lambda one: one.attempt)}
        assert (len(steps), len(newest)) == (4, 4 * 2 * 4)
        assert {one.id: one for one in rollouts if one.id in first} == first
        decided = {one.id for one in newest.values() if one.outcome != "undecided"}
        assert {row.rollout for rows in steps for row in rows} == decided
        for rows, values in zip(steps, (kept[number] for number in sorted(kept)), strict=True):
            assert sum(row.reward for row in rows) / len(rows) == pytest.approx(values["reward"])
            for row in rows:
                shown = reader.trajectory(RolloutId(row.rollout))
                (turn,) = (one for one in shown.steps if isinstance(one, ModelTurn))
                assert turn.tokens is not None
                assert (row.reward, row.ids_T.tolist()) == (shown.reward, [*turn.tokens.prompt, *turn.tokens.ids])
    assert any("had finished before were learned from as the store shows them" in note for note in report.notes)


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_sampler_that_is_not_the_trainer_ends_the_run(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the cause. Nothing is published, and no checkpoint holds the update."""
    from agentlearn.train.engine import active_batch

    exact = active_batch.sample_tokens

    def shifted(*given: Any) -> tuple[Any, Any]:
        ids, logprobs = exact(*given)
        return ids, logprobs - 0.02

    monkeypatch.setattr(active_batch, "sample_tokens", shifted)
    monkeypatch.setattr("agentlearn.train.engine.torch_engine.LARGEST", 1.0)
    with pytest.raises(WeightsDiffer, match=r"differ by 0\.02 nats on average, .* at most 0\.002") as refused:
        trained(fields)
    assert refused.value.code == "weights_differ"
    store = Path(fields["store"])
    assert not (store / "weights").exists()
    assert not list((store / "checkpoints").glob("*/*"))
    allowed = {**fields["gradient"], "largest_difference": 0.05}
    assert trained({**fields, "gradient": allowed, "store": store / "again", "epochs": 1}).weights.published


# A round of sampling waits for no rollout that cannot ask.


def test_a_stop_between_two_rounds_waits_for_no_round_that_cannot_fill(fields: dict[str, Any]) -> None:
    begun = stopped(fields | {"concurrency": 2}, Stopping(rollouts=4))
    with read_store(fields["store"]) as reader:
        assert 4 <= len(reader.trajectories(begun)) < 2 * 4 * 4  # the run has stopped before its end
