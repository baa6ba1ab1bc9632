"""A lesson that a stranger could have shaped is measured by itself, so that it does not pass because another helps."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn import LearnReport, LibraryStore, Task, read_store
from agentlearn.cli.app import run as command
from agentlearn.domain.base import Work
from agentlearn.learning.lessons.run_learning import learn_sync
from agentlearn.types.ids import derive_seed

TRUE = "When a parcel is late, look up its number before you answer."
RIDER = "Thank the customer for the patience in the last line of an answer."
TASKS = [(f"Where is parcel {number}?", "found") for number in range(40)]


async def clerk(task: Task, lessons: str, work: Work) -> str:
    """Answer right in 9 of 10 attempts with the true lesson, and in 3 of 10 without it."""
    chance = derive_seed("chance", work.seed, task.id) % 1000 / 1000
    return "found" if chance < (0.9 if TRUE in lessons else 0.3) else "lost"


def judge(task: Task, answer: str) -> tuple[float, str]:
    """Give a reason that somebody else may have written."""
    return float(answer == "found"), f"the customer says that the parcel is {answer}"


def writes_both(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Propose both lessons from every group."""
    text = "".join(str(getattr(part, "content", "")) for message in messages for part in message.parts)
    if "<trajectory" in text:
        return ModelResponse(parts=[TextPart('{"steps": [{"text": "It answered.", "used": []}]}')])
    rests = {"rests_on": ["P1"]} if "<proposals" in text else {}
    proposals = [{"op": "add", "lesson": lesson, **rests} for lesson in (TRUE, RIDER)]
    return ModelResponse(parts=[TextPart(json.dumps({"proposals": proposals}))])


def learned(store: Path, **options: Any) -> LearnReport:
    small: dict[str, Any] = {"epochs": 1, "batch_size": 20, "evaluate": False, "library": "desk"}
    model = FunctionModel(writes_both)
    return learn_sync(clerk, TASKS, reward=judge, reflector=model, store=store, **{**small, **options})


@pytest.mark.slow
def test_a_rider_is_measured_by_itself_and_a_person_can_leave_it_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = learned(tmp_path)
    assert report.selection is not None
    assert report.selection.status == "pending"
    worth = {report.learned.by_id[one.lesson].lesson: one.delta for one in report.selection.alone}
    assert worth[TRUE].verdict == "better"
    assert worth[RIDER].mean == 0.0
    with read_store(tmp_path) as reader:
        (run,) = reader.runs()
        made = reader.trajectories(run.run)
    added = [one for one in made if ":without-" in one.phase]
    assert 0 < len(added) <= (len(made) - len(added)) / 10
    capsys.readouterr()
    assert command(["library", "pending", "--store", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    shown = " ".join(shown.split())
    assert f"effect: {worth[TRUE].sentence}" in shown
    assert f"effect: {worth[RIDER].sentence}" in shown
    rider = next(one.lesson for one in report.selection.alone if report.learned.by_id[one.lesson].lesson == RIDER)
    reference = f"desk@{report.selection.selected}"
    assert command(["library", "approve", reference, "--without", rider[:8], "--store", str(tmp_path)]) == 0
    assert [one.lesson for one in LibraryStore(tmp_path / "libraries").load("desk").experiences] == [TRUE]
    again = learned(tmp_path, trust="reasons")
    assert RIDER not in [one.lesson for one in again.learned.experiences]


def test_nothing_is_measured_by_itself_where_the_authors_are_trusted(tmp_path: Path) -> None:
    report = learned(tmp_path, trust=["reasons", "function"])
    assert report.selection is not None
    assert (report.selection.status, report.selection.alone) == ("published", ())
    with read_store(tmp_path) as reader:
        assert not any(":without-" in one.phase for run in reader.runs() for one in reader.trajectories(run.run))
