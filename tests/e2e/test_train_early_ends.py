"""A training run that ends early leaves a checkpoint, and a resumed one trains on what the store shows."""

import asyncio
import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentlearn.cli.app import run  # noqa: E402
from agentlearn.errors import AgentlearnError, BudgetExceeded, Interrupted, WeightsDiffer  # noqa: E402
from agentlearn.store import read_store  # noqa: E402
from agentlearn.train.report import TrainReport  # noqa: E402
from agentlearn.train.run_training import run_training  # noqa: E402
from agentlearn.train.settings import resumed_train_settings, train_settings  # noqa: E402
from agentlearn.train.update.metrics import StepMetrics  # noqa: E402
from agentlearn.train.update.sequences import TrainingRow  # noqa: E402
from agentlearn.train.update.updater import Updater  # noqa: E402
from agentlearn.types.ids import RolloutId  # noqa: E402
from agentlearn.types.task import Task  # noqa: E402
from agentlearn.types.trajectory import ModelTurn, Trajectory  # noqa: E402
from tests.support.letters_training import Stopping, one_word_tasks  # noqa: E402
from tests.support.tiny_model import saved, tiny_network  # noqa: E402

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
    return {
        "domain": "words",
        "reward": f"{__name__}:fickle",
        "data": str(one_word_tasks(tmp_path / "words.jsonl", "plum", "fig", "date", "pear")),
        "test_share": 0.0,
        "model": str(weights),
        "epochs": 3,
        "batch_size": 2,
        "group_size": 4,
        "max_output_tokens": 8,
        "evaluate": False,
        "tensorboard": False,
        "store": tmp_path / "store",
        "gradient": {"learning_rate": 1e-2, "loss": "grpo"},
    }


def resumed(store: Path, run_id: str) -> TrainReport:
    found, settings = resumed_train_settings(run_id, store, {})
    return asyncio.run(run_training(settings, resume=found))


@pytest.mark.parametrize("killed", [False, True])
def test_a_resumed_run_trains_on_what_the_store_shows(
    killed: bool, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it makes updates again, because the process was killed and its newest checkpoint is old."""
    trained: list[Sequence[TrainingRow]] = []
    step = Updater.step

    def recorded(self: Updater, rows: Sequence[TrainingRow], **named: Any) -> StepMetrics:
        trained.append(rows)
        return step(self, rows, **named)

    monkeypatch.setattr(Updater, "step", recorded)
    CHANCE.seed(1)
    with pytest.raises(Interrupted):
        asyncio.run(run_training(train_settings(fields), Stopping(3)))
    store: Path = fields["store"]
    with read_store(store) as reader:
        (begun,) = reader.runs()
        first = {one.id: one for one in reader.trajectories(begun.run)}
    if killed:
        shutil.rmtree(store / "checkpoints")
        trained.clear()
    CHANCE.seed(2)
    report = resumed(store, begun.run)
    assert len(trained) == 6
    with read_store(store) as reader:
        kept, rollouts = reader.metrics(begun.run), reader.trajectories(begun.run)
        assert {one.id: one for one in rollouts if one.id in first} == first
        decided = {one.id for one in rollouts if one.outcome != "undecided"}
        assert {row.rollout for rows in trained for row in rows} == decided
        for rows, values in zip(trained, (kept[number] for number in sorted(kept)), strict=True):
            assert sum(row.reward for row in rows) / len(rows) == pytest.approx(values["reward"])
            for row in rows:
                shown = reader.trajectory(RolloutId(row.rollout))
                assert shown.reward == row.reward
                (turn,) = (one for one in shown.steps if isinstance(one, ModelTurn))
                assert turn.tokens is not None
                assert row.ids_T.tolist() == [*turn.tokens.prompt, *turn.tokens.ids]
    assert len(rollouts) == 6 * 2 * 4
    assert any("had finished before were learned from as the store shows them" in note for note in report.notes)


@pytest.mark.parametrize("why", [BudgetExceeded("out of time"), Interrupted("stopped by the test")])
def test_a_run_that_ends_early_leaves_a_checkpoint(why: AgentlearnError, fields: dict[str, Any]) -> None:
    stopping = Stopping(2, why)
    with pytest.raises(type(why)):
        asyncio.run(run_training(train_settings(fields), stopping))
    with read_store(fields["store"]) as reader:
        (begun,) = reader.runs()
        assert sorted(reader.metrics(begun.run)) == [1, 2]
    folder = Path(fields["store"]) / "checkpoints" / begun.run
    (checkpoint,) = folder.iterdir()
    assert (checkpoint / "model.safetensors").is_file()
    assert stopping.saved == [(checkpoint, 2)]


def test_a_run_ended_during_an_update_finishes_and_saves_it(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping, step = Stopping(99), Updater.step

    def stopped(self: Updater, rows: Sequence[TrainingRow], **named: Any) -> StepMetrics:
        stopping.call_context.stop(BudgetExceeded("out of time"))
        return step(self, rows, **named)

    monkeypatch.setattr(Updater, "step", stopped)
    with pytest.raises(BudgetExceeded):
        asyncio.run(run_training(train_settings(fields), stopping))
    with read_store(fields["store"]) as reader:
        (begun,) = reader.runs()
        assert sorted(reader.metrics(begun.run)) == [1]
    assert [updates for _, updates in stopping.saved] == [1]


def test_a_limit_leaves_a_checkpoint_and_says_how_to_measure_it(
    fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "train.yaml"
    recipe.write_text(json.dumps(fields | {"store": str(fields["store"])}))
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

    exact = active_batch.sample_tokens

    def shifted(*given: Any) -> tuple[Any, Any]:
        ids, logprobs = exact(*given)
        return ids, logprobs - 0.02

    monkeypatch.setattr(active_batch, "sample_tokens", shifted)
    monkeypatch.setattr("agentlearn.train.engine.torch_engine.LARGEST", 1.0)
    with pytest.raises(WeightsDiffer, match=r"differ by 0\.02 nats on average, .* at most 0\.002") as refused:
        asyncio.run(run_training(train_settings(fields)))
    assert refused.value.code == "sampler_differs"
    store = Path(fields["store"])
    assert not (store / "weights").exists()
    assert not list((store / "checkpoints").glob("*/*"))
    allowed = {**fields, "gradient": {**fields["gradient"], "largest_difference": 0.05}, "store": store / "again"}
    assert asyncio.run(run_training(train_settings({**allowed, "epochs": 1}))).weights.published
