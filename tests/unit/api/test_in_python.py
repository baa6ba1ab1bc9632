"""What only a call from Python has: tasks made by hand, messages that name arguments, progress, reports to print."""

from pathlib import Path
from typing import Any

import pytest

from agentlearn import Task
from agentlearn.config import LearnSettings
from agentlearn.config.defaults import python_words
from agentlearn.errors import ConfigError
from agentlearn.learning.callbacks import Callbacks
from agentlearn.learning.lessons.run_learning import learn_sync
from agentlearn.types.trajectory import Trajectory
from agentlearn_evals.compare_objects import compare_sync
from tests.support.cases import cases
from tests.support.desk import TICKETS, desk_agent, right_team

QUICK: dict[str, Any] = {"epochs": 1, "batch_size": 8, "validation_rollouts": 0, "seed": 1}


def test_a_reward_can_be_tried_on_a_task_made_by_hand() -> None:
    task = Task.of("My parcel is late.", "shipping", fields={"customer": 17})
    assert (task.problem, task.answer, task.fields) == ("My parcel is late.", "shipping", {"customer": 17})
    same = Task.of(problem="My parcel is late.", answer="shipping", fields={"customer": 17})
    assert task == same == Task.model_validate({"fields": task.fields, "problem": task.problem, "answer": "shipping"})
    assert task == Task.model_validate_json(task.model_dump_json())
    assert Task.of("math", "My parcel is late.", "shipping").domain == "math"
    assert task.id != Task.of("My parcel is late.", "shipping").id


def test_a_task_that_cannot_be_made_is_one_sentence(subtests: pytest.Subtests) -> None:
    for given, words in [
        ({}, "a task needs a problem; write Task.of('What is 2 + 2?', '4')"),
        ({"problem": ""}, "problem='' is empty; give a text"),
        ({"problem": None}, "problem=None is no text; give a text"),
        ({"problem": "p", "answer": 4}, "answer=4 is no text; give '4'"),
        ({"problem": "p", "split": "trian"}, "split='trian' cannot be used in a task: Input should be 'train'"),
        (
            {"problem": "p", "customer": 17},
            "a task has no field 'customer' (given: 17); put it into fields={'customer'",
        ),
        ({"problem": "p", "fields": [1]}, "fields=[1] is no mapping"),
        ({"problem": "p", "fields": {"when": 1j}}, "fields['when']=1j is not JSON"),
        ({"problem": "p", "fields": {"rate": float("nan")}}, "fields['rate']=nan is not JSON"),
    ]:
        with subtests.test(repr((given, words))):
            for make in (Task, Task.of):
                with pytest.raises(ConfigError) as refused:
                    make(**given)
                assert words in refused.value.message
                assert "\n" not in refused.value.message


def test_a_message_names_arguments_in_python(subtests: pytest.Subtests) -> None:
    for option, argument in cases(__file__, "a_message_names_arguments_in_python"):
        with subtests.test(repr((option, argument))):
            assert python_words(option, LearnSettings) == argument


def test_errors_and_notes_of_a_call_name_arguments(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^max_cost_usd=3 cannot be kept: .* with max_tokens or max_minutes$"):
        learn_sync(desk_agent(), TICKETS, reward=right_team, store=tmp_path, max_cost_usd=3)
    skips: dict[str, Any] = {"group_size": 1, "all_wrong": "skip", "evaluate": False}
    report = learn_sync(desk_agent(), TICKETS, reward=right_team, store=tmp_path, **skips, **QUICK)
    assert any(note.endswith("use group_size=5") for note in report.notes)
    assert not any("--" in note for note in report.notes)
    assert report.learned is not None


class Seen(Callbacks):
    """Counts rollouts."""

    rollouts = 0

    def rollout_done(self, phase: str, trajectory: Trajectory) -> None:
        self.rollouts += 1


@pytest.mark.slow
def test_progress_is_printed_when_it_is_wanted_and_own_callbacks_are_called_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = Seen()
    options = {"reward": right_team, "store": tmp_path, "group_size": 3}
    report = learn_sync(desk_agent(), TICKETS, callbacks=own, progress=True, **options, **QUICK)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert own.rollouts > 0
    assert all(words in shown.err for words in ("learn support", f"run        {report.run}", "epoch 1/1", "held out"))
    asked: dict[str, Any] = {"reward": right_team, "arms": ("none", "support"), "k": 1, "store": tmp_path}
    compared = compare_sync(desk_agent(), held_out_of=report.run, progress=True, **asked)
    assert f"run        {compared.run}" in capsys.readouterr().err
    compare_sync(desk_agent(), held_out_of=report.run, **asked)
    assert capsys.readouterr().err == "", "no terminal, no progress"
    for one, few in ((report, 30), (compared, 40)):
        lines = str(one).split("\n")
        assert len(lines) <= few
        assert max(map(len, lines)) <= 80
        assert one.run in repr(one)
        assert len(repr(one)) < 300
