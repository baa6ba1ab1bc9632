"""The reward `gym`: what it makes of a score, and what it refuses."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentlearn.domain.base import Domain
from agentlearn.domain.custom import GymTasks, custom_tasks
from agentlearn.errors import DataError
from agentlearn.types.trajectory import Verdict
from tests.support.gym_stand_in import stand_in_gym
from tests.unit.domain.rollouts import rollout

SOURCE = Path("gym:chain_sum?size=3")


@pytest.fixture(autouse=True)
def _gym(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with stand_in_gym(tmp_path, monkeypatch):
        yield


def test_scores_become_verdicts() -> None:
    domain = custom_tasks("chain_sum", "gym")
    assert isinstance(domain, GymTasks)
    assert isinstance(domain, Domain)
    task = domain.read(SOURCE)[2]

    async def judged(*answers: str | None) -> list[Verdict]:
        async with domain.running() as open_domain:
            return [await open_domain.verify(task, rollout(task, answer)) for answer in answers]

    assert asyncio.run(judged("8", "9", "1", None, " ")) == [
        Verdict(status="correct", reward=1.0),
        Verdict(status="partial", reward=0.5),
        Verdict(status="incorrect", reward=0.0),
        Verdict(status="no_answer", reward=0.0),
        Verdict(status="no_answer", reward=0.0),
    ]
    assert domain.threshold == 1.0
    assert domain.answer_key("8") is None, "a scorer does not say which answers are the same"


def test_tasks_of_a_file_have_no_scorer(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("question,answer\nHow many?,12\n")
    with pytest.raises(DataError) as caught:
        custom_tasks("prices", "gym").read(path)
    assert caught.value.code == "bad_data"
    assert caught.value.message == (
        "the reward 'gym' scores tasks of reasoning-gym, but 'prices.csv' has none; give 'gym:TASK', or choose another"
        " --reward"
    )
