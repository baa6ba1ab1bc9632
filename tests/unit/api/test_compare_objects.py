"""`compare` with agents, functions, libraries and models as objects."""

from pathlib import Path
from typing import Any, get_type_hints

import pytest
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from agentlearn import LibraryStore, Task, compare_sync, library_of, read_store
from agentlearn.errors import ConfigError, LibraryError
from agentlearn.learning.lessons.run_learning import learn_sync
from agentlearn_evals import CompareSettings, Comparison
from agentlearn_evals.compare_settings import CompareOptions
from tests.support.desk import LESSON, TICKETS, desk_agent, desk_model, reply, right_team, right_text
from tests.support.loose_options import LOOSE

LIBRARY = library_of([LESSON])
TWO: dict[str, Any] = {"none": None, "learned": LIBRARY}


def test_libraries_are_compared_with_the_statistics_and_the_page_of_the_command(tmp_path: Path) -> None:
    found = compare_sync(desk_agent(), TICKETS, arms=TWO, reward=right_team, k=4, store=tmp_path)
    assert found.names == ("none", "learned")
    assert found.arms[1].score == 1.0
    assert found.contrasts[0].verdict == "better"
    assert not found.simulated, "a function may ask a real model"
    assert any("function:desk is a function of the program" in note for note in found.notes)
    page = (tmp_path / "reports" / f"{found.run}.html").read_text()
    assert found.contrasts[0].sentence.split(":")[0] in page
    with read_store(tmp_path) as reader:
        assert Comparison.model_validate_json(reader.run(found.run).report) == found


@pytest.mark.slow
def test_rollouts_of_objects_are_used_again_only_under_a_version_of_the_users(tmp_path: Path) -> None:
    def reused(**given: Any) -> list[int]:
        found = compare_sync(desk_agent(), TICKETS, arms=TWO, reward=right_team, k=2, store=tmp_path, **given)
        assert [arm.rollouts for arm in found.arms] == [16, 16]
        return [arm.reused for arm in found.arms]

    assert reused() == [0, 0]
    assert reused() == [0, 0]
    assert reused(version="v1") == [0, 0]
    assert reused(version="v1") == [16, 16]
    assert reused(version="v2") == [0, 0]


def test_arms_of_every_kind(tmp_path: Path) -> None:
    LibraryStore(tmp_path / "libraries").publish("support", LIBRARY)
    arms: dict[str, Any] = {
        "none": None,
        "named": "support",
        "version": f"support@{LIBRARY.version[:8]},temperature=1",
        "words": ["Be kind to the customer."],
        "model": FunctionModel(reply, model_name="another"),
    }
    found = compare_sync(desk_agent(), TICKETS[:3], arms=arms, reward=right_team, k=1, store=tmp_path)
    assert found.names == tuple(arms)
    assert found.reproducibility.models["model"] == "function:another"
    assert [arm.lessons for arm in found.arms] == [0, 1, 1, 1, 0]


@pytest.mark.slow
def test_models_are_compared_also_with_one_name_and_each_library_runs_on_each(tmp_path: Path) -> None:
    models: dict[str, Any] = {"old": desk_model(), "new": FunctionModel(reply, model_name="desk"), "none": TestModel()}
    found = compare_sync(desk_agent(), TICKETS[:3], model=models, reward=right_team, k=1, store=tmp_path)
    assert found.names == ("old", "new", "none")
    assert len(set(found.reproducibility.models.values())) == 3
    both = compare_sync(desk_agent(), TICKETS[:3], arms=TWO, model=models, reward=right_team, k=1, store=tmp_path)
    assert both.names == ("none:old", "none:new", "none:none", "learned:old", "learned:new", "learned:none")


def a_function(task: Task, lessons: str) -> str:
    """Answer without any model of ours."""
    return "billing" if LESSON in lessons else "it"


def test_a_function_is_compared_without_a_model(tmp_path: Path) -> None:
    found = compare_sync(a_function, TICKETS, arms=TWO, reward=right_text, k=1, store=tmp_path)
    assert [arm.score for arm in found.arms] == [0.0, 1.0]
    assert not found.simulated


def test_what_breaks_in_a_rollout_is_counted_and_shown(tmp_path: Path) -> None:
    def breaks(task: Task, lessons: str) -> str:
        if lessons and task.problem < "Invoice 5":
            raise RuntimeError("no database")
        return "billing"

    found = compare_sync(breaks, TICKETS, arms=TWO, reward=right_text, k=1, store=tmp_path)
    broken = found.arms[1]
    assert broken.undecided == 4
    assert broken.errors == {"program_raised": 4}
    assert found.contrasts[0].verdict != "better"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"arms": ("none",)}, "bad_config"),
        ({"arms": "none"}, "bad_config"),
        ({}, "bad_config"),
        ({"arms": {"none": None, "same": None}}, "bad_config"),
        ({"arms": {"none": None, "a b": LIBRARY}}, "bad_config"),
        ({"arms": ("none", 3)}, "bad_config"),
        ({"arms": {"none": None, "gone": "gone"}}, "unknown_library"),
        ({"arms": {"none": None, "long": ["word " * 50]}}, "bad_library"),
        ({"arms": TWO, "k": 0}, "bad_config"),
        ({"arms": TWO, "model": {}}, "bad_config"),
        ({"arms": TWO, "judge": "sim:expert"}, "bad_config"),
    ],
)
def test_bad_input_is_refused_in_one_sentence_before_anything_is_spent(
    tmp_path: Path, given: dict[str, Any], code: str
) -> None:
    with pytest.raises((ConfigError, LibraryError)) as refused:
        compare_sync(desk_agent(), TICKETS, reward=right_team, store=tmp_path, **given)
    assert refused.value.code == code
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_cannot_be_written_does_not_cost_the_result(tmp_path: Path) -> None:
    (tmp_path / "reports").write_text("a file where the folder should be")
    found = compare_sync(a_function, TICKETS, arms=TWO, reward=right_text, k=1, store=tmp_path)
    assert any("the page is missing" in note for note in found.notes)


def test_the_options_are_the_settings_that_have_no_parameter() -> None:
    parameters = {"agent", "deps", "arms", "domains", "data", "models", "judge", "store", "reward", "k", "served_at"}
    assert (
        set(CompareOptions.__annotations__) | set(get_type_hints(CompareOptions))
        == set(CompareSettings.model_fields) - parameters
    )
    hints, meant = get_type_hints(CompareOptions), get_type_hints(CompareSettings)
    loose = LOOSE | {"methods", "pairs", "score_range"}
    assert [name for name in hints if name not in loose and hints[name] != meant[name]] == []


@pytest.mark.slow
def test_tasks_that_were_learned_from_are_refused_and_the_held_out_tasks_of_the_run_are_taken(tmp_path: Path) -> None:
    learned = learn_sync(
        desk_agent(), TICKETS, reward=right_team, store=tmp_path, epochs=1, group_size=3, select="last", seed=1
    )
    asked: dict[str, Any] = {"arms": ("none", "support"), "reward": right_team, "k": 2, "store": tmp_path}
    with pytest.raises(ConfigError, match=rf"learned from 6 of the 8 tasks .* held_out_of={learned.run}"):
        compare_sync(desk_agent(), TICKETS, **asked)
    found = compare_sync(desk_agent(), held_out_of=learned.run[:12], **asked)
    with read_store(tmp_path) as reader:
        inputs = reader.run_inputs(learned.run)
        assert inputs is not None
        assert {line.task for line in found.tasks} == set(inputs.test)
        assert [run.kind for run in reader.runs(limit=5)] == ["eval", "learn"]
    other = {"library": "other", "store": tmp_path, "group_size": 3, "epochs": 1, "select": "last", "seed": 2}
    learn_sync(desk_agent(), TICKETS[1:], reward=right_team, **other)
    latest = compare_sync(desk_agent(), held_out_of="last", **asked)
    assert {line.task for line in latest.tasks} == set(inputs.test), "the latest run learned another library"
    assert any("2 tasks are too few for any verdict" in note for note in found.notes)
    with pytest.raises(ConfigError, match="names the tasks, and other tasks are given too"):
        compare_sync(desk_agent(), TICKETS, held_out_of="last", **asked)
    with pytest.raises(ConfigError, match="has no run whose id starts with 'nobody'"):
        compare_sync(desk_agent(), held_out_of="nobody", **asked)


@pytest.mark.slow
def test_a_service_that_changed_between_two_comparisons_is_no_difference_between_arms(tmp_path: Path) -> None:
    broken: list[bool] = []

    def changing(messages: list[Any], info: Any) -> Any:
        wrong = ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"team": "it"})])
        return wrong if broken else reply(messages, info)

    def compared(**arms: Any) -> Comparison:
        model = FunctionModel(changing, model_name="desk")
        given: dict[str, Any] = {"reward": right_team, "k": 4, "version": "v1", "store": tmp_path}
        return compare_sync(desk_agent(), TICKETS, arms=arms, model=model, **given)

    first = compared(learned=LIBRARY, same=library_of([LESSON, "Be kind."]))
    assert first.arms[0].score == 1.0
    broken.append(True)
    second = compared(learned=LIBRARY, other=library_of([LESSON, "Be brief."]))
    assert [arm.reused for arm in second.arms] == [0, 0]
    assert [arm.score for arm in second.arms] == [0.0, 0.0]
    again = compared(learned=LIBRARY, same=library_of([LESSON, "Be kind."]))
    assert [arm.reused for arm in again.arms] == [32, 32], "both are of the time before"
    assert again.contrasts == first.contrasts


@pytest.mark.slow
def test_parts_of_the_tasks_and_other_seeds_are_further_looks_at_the_same_arms(tmp_path: Path) -> None:
    def look(tasks: list[tuple[str, str]], *, swapped: bool = False, **given: Any) -> int:
        arms = dict(reversed(TWO.items())) if swapped else TWO
        options: dict[str, Any] = {"reward": right_team, "version": "v1", "store": tmp_path, "k": 1, **given}
        return compare_sync(desk_agent(), tasks, arms=arms, **options).look

    assert [look(TICKETS[:3]), look(TICKETS[3:6]), look(TICKETS[6:]), look(TICKETS[3:6])] == [1, 2, 3, 2]
    assert look(TICKETS, swapped=True) == 4
    assert look(TICKETS[2:5]) == 5
    assert look(TICKETS, seed=4, k=2) == 6
    unversioned = [look(TICKETS[:3], version=None), look(TICKETS[3:], version=None)]
    assert unversioned == [1, 2], "nobody says that the agent is another one"
    other = compare_sync(
        desk_agent(), TICKETS, arms={"none": None, "b": ["Be kind."]}, reward=right_team, version="v1", store=tmp_path
    )
    assert other.look == 1
