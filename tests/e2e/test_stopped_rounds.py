"""A round of sampling waits for no rollout that cannot ask: of a stopped run, without room in the budget or a place."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pydantic_ai.direct import model_request  # noqa: E402
from pydantic_ai.messages import ModelMessage, ModelRequest  # noqa: E402

from agentlearn.domain.base import Answer, Work, Worked  # noqa: E402
from agentlearn.domain.custom import CustomTasks  # noqa: E402
from agentlearn.errors import AgentlearnError, BudgetExceeded, Interrupted  # noqa: E402
from agentlearn.models.call_context import CallContext  # noqa: E402
from agentlearn.models.endpoint import Endpoint  # noqa: E402
from agentlearn.train.engine.active_batch import ActiveBatch  # noqa: E402
from agentlearn.train.report import TrainCallbacks, TrainReport  # noqa: E402
from agentlearn.train.run_training import run_training  # noqa: E402
from agentlearn.train.settings import train_settings  # noqa: E402
from agentlearn.types.task import Task  # noqa: E402
from agentlearn.types.trajectory import Trajectory  # noqa: E402
from tests.support.tiny_model import saved, tiny_network  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("given")
    tasks = folder / "letters.jsonl"
    words = ("plum", "fig", "date", "pear", "lime", "kiwi", "melon", "quince")
    tasks.write_text("".join(json.dumps({"problem": f"Say {one}.", "answer": one}) + "\n" for one in words))
    return {
        "domain": "letters",
        "reward": "tests.support.letters:share_of_early_letters",
        "data": str(tasks),
        "model": str(saved(folder / "tiny", tiny_network(context=1024))),
        "test_share": 0,
        "epochs": 2,
        "batch_size": 2,
        "group_size": 4,
        "concurrency": 2,
        "max_output_tokens": 12,
    }


class StopAfter(TrainCallbacks):
    """Stops the run when a number of rollouts, or of replies, are there."""

    def __init__(self, *, rollouts: int = 0, replies: int = 0) -> None:
        self._rollouts, self._replies = rollouts, replies
        self._context: CallContext | None = None

    def opened(
        self,
        call_context: CallContext,
        endpoint: Endpoint,
        reflector: Endpoint,
        train: tuple[Task, ...],
        test: tuple[Task, ...],
    ) -> None:
        self._context = call_context

    def rollout_done(self, phase: str, trajectory: Trajectory) -> None:
        self._rollouts -= 1
        self._stop(now=not self._rollouts)

    def replied(self) -> None:
        self._replies -= 1
        self._stop(now=not self._replies)

    def _stop(self, *, now: bool) -> None:
        if now:
            assert self._context is not None
            self._context.stop(Interrupted("stopped by the test"))


def train(fields: dict[str, Any], callbacks: TrainCallbacks | None = None) -> TrainReport:
    async def trained() -> TrainReport:
        async with asyncio.timeout(60):
            return await run_training(train_settings(fields), callbacks)

    return asyncio.run(trained())


def ends_with(error: type[AgentlearnError], fields: dict[str, Any], callbacks: TrainCallbacks | None = None) -> None:
    with pytest.raises(error):
        train(fields, callbacks)


@pytest.mark.parametrize("rollouts", [1, 4, 7])
def test_a_stop_between_two_rounds_waits_for_no_round_that_cannot_fill(
    given: dict[str, Any], tmp_path: Path, rollouts: int
) -> None:
    ends_with(Interrupted, given | {"store": tmp_path / "store"}, StopAfter(rollouts=rollouts))


@pytest.fixture
def three_turns(monkeypatch: pytest.MonkeyPatch) -> list[StopAfter]:
    """Each rollout asks three times, with pauses of different length, as with a tool. Tells those in the list."""
    told = list[StopAfter]()

    async def work(_self: CustomTasks, work: Work) -> Worked:
        messages: list[ModelMessage] = [ModelRequest.user_text_prompt(work.task.problem)]
        for turn in range(3):
            await asyncio.sleep(0.02 * ((work.seed + turn) % 4))
            reply = await model_request(work.model, messages, model_settings=work.settings)
            messages += [reply, ModelRequest.user_text_prompt("Go on.")]
            for one in told:
                one.replied()
        return Worked(Answer(text="done"), messages)

    monkeypatch.setattr(CustomTasks, "runs_itself", True)
    monkeypatch.setattr(CustomTasks, "work", work)
    return told


@pytest.mark.usefixtures("three_turns")
@pytest.mark.parametrize("tokens", [700, 755, 810])
def test_a_limit_on_tokens_ends_the_run(given: dict[str, Any], tmp_path: Path, tokens: int) -> None:
    ends_with(BudgetExceeded, given | {"store": tmp_path / "store", "max_tokens": tokens})


@pytest.mark.parametrize("replies", [1, 5, 11])
def test_a_stop_while_some_use_a_tool_waits_for_no_round_that_cannot_fill(
    given: dict[str, Any], tmp_path: Path, three_turns: list[StopAfter], replies: int
) -> None:
    three_turns.append(StopAfter(replies=replies))
    ends_with(Interrupted, given | {"store": tmp_path / "store"}, three_turns[0])


def test_a_model_that_fails_for_a_while_is_asked_again(
    given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode, step = ActiveBatch.decode, 0

    def fails(self: ActiveBatch) -> None:
        nonlocal step
        step += 1
        if 40 < step < 45:
            raise RuntimeError("out of memory")
        decode(self)

    monkeypatch.setattr(ActiveBatch, "decode", fails)
    report = train(given | {"store": tmp_path / "store", "epochs": 1})
    assert len(report.updates) == 4
    assert step > 45


def test_a_domain_that_opens_few_rollouts_at_once_can_be_trained(
    given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def two(_self: CustomTasks) -> int:
        return 2

    monkeypatch.setattr(CustomTasks, "max_open_rollouts", two)
    report = train(given | {"store": tmp_path / "store", "concurrency": 16, "epochs": 1})
    assert len(report.updates) == 4
