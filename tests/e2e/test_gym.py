"""`learn gym:TASK`: generated tasks, judged by their own scorers in a process of their own, from end to end."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentlearn.cli.app import run
from agentlearn.data import read_tasks
from agentlearn.store import read_store
from agentlearn.types.trajectory import Trajectory
from tests.support.gym_stand_in import real_gym, stand_in_gym
from tests.support.openai_script import Solver
from tests.support.openai_stub import OpenAIStub

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def source() -> Iterator[str]:
    """Some tasks of the real package."""
    with real_gym():
        pytest.importorskip("reasoning_gym")
        yield "gym:leg_counting?size=10"


def learned(
    capsys: pytest.CaptureFixture[str], answers: Mapping[str, str], *arguments: str, success_rate: float = 0.5
) -> tuple[dict[str, Any], list[Trajectory]]:
    """The report of `learn`, and the rollouts that it learned from."""
    script = Solver(answers=answers, success_rate=success_rate, with_lessons=1.0, final="<answer>{0}</answer>".format)
    with OpenAIStub(script) as stub:
        options = ["--model", f"{stub.base_url}#any", "--epochs", "1", "--group-size", "3", "--json"]
        assert run(["learn", *arguments, *options]) == 0
    report = json.loads(capsys.readouterr().out)
    with read_store(Path(".agentlearn")) as reader:
        ids = [one.id for one in reader.trajectories(report["run"]) if one.phase == "epoch-1"]
        return report, [reader.trajectory(one) for one in ids]


def test_partial_credit_is_the_reward_and_a_crash_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with stand_in_gym(tmp_path, monkeypatch):
        source = "gym:chain_sum?seed=0&size=2"
        first, second = read_tasks(source, domain="chain_sum", split="train")
        answers = {first.problem: str(int(first.answer or "") + 1), second.problem: "crash"}
        _, rollouts = learned(capsys, answers, source, "--no-eval", success_rate=1)
    for one in rollouts:
        assert one.verdict is not None
        if one.task == first.id:
            assert (one.verdict.status, one.verdict.reward) == ("partial", 0.5)
        else:
            assert (one.verdict.status, one.verdict.reward) == ("undecided", None)
            assert one.verdict.reason.startswith(f"scorer_crashed: the scorer of '{source}#1', given an answer of 5 ")
    assert {one.task for one in rollouts} == {first.id, second.id}
