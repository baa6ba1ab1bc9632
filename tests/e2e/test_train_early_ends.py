"""A training that ends early, at whatever moment, leaves a checkpoint; a resumed one trains on what the store shows."""

import asyncio
import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pydantic_ai.direct import model_request  # noqa: E402
from pydantic_ai.messages import ModelMessage, ModelRequest  # noqa: E402

from agentlearn.cli.app import run  # noqa: E402
from agentlearn.domain.base import Answer, Work, Worked  # noqa: E402
from agentlearn.domain.custom import CustomTasks  # noqa: E402
from agentlearn.errors import BudgetExceeded, WeightsDiffer  # noqa: E402
from agentlearn.store import read_store  # noqa: E402
from agentlearn.train.engine.active_batch import ActiveBatch  # noqa: E402
from agentlearn.train.update.metrics import StepMetrics  # noqa: E402
from agentlearn.train.update.sequences import TrainingRow  # noqa: E402
from agentlearn.train.update.updater import Updater  # noqa: E402
from agentlearn.types.ids import RolloutId  # noqa: E402
from agentlearn.types.task import Task  # noqa: E402
from agentlearn.types.trajectory import ModelTurn, Trajectory  # noqa: E402
from tests.support.letters_training import (  # noqa: E402
    WORDS,
    Stopping,
    letters_fields,
    one_word_tasks,
    resumed,
    stopped,
    trained,
)
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
    tasks = one_word_tasks(tmp_path / "words.jsonl", *WORDS[:4])
    return letters_fields(weights, tasks, tmp_path / "store", reward=f"{__name__}:fickle", epochs=2)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_a_resumed_run_trains_on_what_the_store_shows(
    killed: bool, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it makes updates again, because the process was killed and its newest checkpoint is old."""
    steps: list[Sequence[TrainingRow]] = []
    step = Updater.step

    def recorded(self: Updater, rows: Sequence[TrainingRow], **named: Any) -> StepMetrics:
        steps.append(rows)
        return step(self, rows, **named)

    monkeypatch.setattr(Updater, "step", recorded)
    CHANCE.seed(1)
    store: Path = fields["store"]
    begun = stopped(fields, Stopping(2))
    with read_store(store) as reader:
        first = {one.id: one for one in reader.trajectories(begun)}
    if killed:
        shutil.rmtree(store / "checkpoints")
        steps.clear()
    CHANCE.seed(2)
    report = resumed(store)
    assert len(steps) == 4
    with read_store(store) as reader:
        kept, rollouts = reader.metrics(begun), reader.trajectories(begun)
        assert {one.id: one for one in rollouts if one.id in first} == first
        decided = {one.id for one in rollouts if one.outcome != "undecided"}
        assert {row.rollout for rows in steps for row in rows} == decided
        for rows, values in zip(steps, (kept[number] for number in sorted(kept)), strict=True):
            assert sum(row.reward for row in rows) / len(rows) == pytest.approx(values["reward"])
            for row in rows:
                shown = reader.trajectory(RolloutId(row.rollout))
                assert shown.reward == row.reward
                (turn,) = (one for one in shown.steps if isinstance(one, ModelTurn))
                assert turn.tokens is not None
                assert row.ids_T.tolist() == [*turn.tokens.prompt, *turn.tokens.ids]
    assert len(rollouts) == 4 * 2 * 4
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

    exact = active_batch.sample_tokens

    def shifted(*given: Any) -> tuple[Any, Any]:
        ids, logprobs = exact(*given)
        return ids, logprobs - 0.02

    monkeypatch.setattr(active_batch, "sample_tokens", shifted)
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


@pytest.fixture
def three_turns(monkeypatch: pytest.MonkeyPatch) -> list[Stopping]:
    """Each rollout asks three times, with pauses of different length, as with a tool. Stops those in the list then."""
    told = list[Stopping]()

    async def work(_self: CustomTasks, work: Work) -> Worked:
        messages: list[ModelMessage] = [ModelRequest.user_text_prompt(work.task.problem)]
        for turn in range(3):
            await asyncio.sleep(0.02 * ((work.seed + turn) % 4))
            reply = await model_request(work.model, messages, model_settings=work.settings)
            messages += [reply, ModelRequest.user_text_prompt("Go on.")]
            for one in told:
                one.rollout_done("", None)  # type: ignore[arg-type]
        return Worked(Answer(text="done"), messages)

    monkeypatch.setattr(CustomTasks, "runs_itself", True)
    monkeypatch.setattr(CustomTasks, "work", work)
    return told


@pytest.mark.slow
@pytest.mark.usefixtures("three_turns")
def test_a_limit_on_tokens_ends_a_run_whose_rollouts_use_tools(fields: dict[str, Any]) -> None:
    with pytest.raises(BudgetExceeded):
        trained(fields | {"concurrency": 2, "max_tokens": 755})


@pytest.mark.slow
def test_a_stop_while_some_use_a_tool_waits_for_no_round_that_cannot_fill(
    fields: dict[str, Any], three_turns: list[Stopping]
) -> None:
    three_turns.append(Stopping(rollouts=5))
    stopped(fields | {"concurrency": 2}, three_turns[0])


@pytest.mark.slow
def test_a_model_that_fails_for_a_while_is_asked_again(fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    decode, step = ActiveBatch.decode, 0

    def fails(self: ActiveBatch) -> None:
        nonlocal step
        step += 1
        if 10 < step < 15:
            raise RuntimeError("out of memory")
        decode(self)

    monkeypatch.setattr(ActiveBatch, "decode", fails)
    report = trained(fields | {"concurrency": 2, "epochs": 1})
    assert len(report.updates) == 2
    assert step > 15


@pytest.mark.slow
def test_a_domain_that_opens_few_rollouts_at_once_can_be_trained(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CustomTasks, "max_open_rollouts", lambda _: 2)
    assert len(trained(fields | {"concurrency": 16, "epochs": 1}).updates) == 2
