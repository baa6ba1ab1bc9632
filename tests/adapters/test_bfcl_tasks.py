"""Function calls of bfcl-eval: the tools are the task's, the calls are the answer, and its own checker decides.

`bfcl-eval` pins other versions than ours, so the tests run where it is installed with `--no-deps` (docs/adapters.md).
"""

import json
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo

from agentlearn.domain.base import load_domain
from agentlearn.errors import ConfigError
from agentlearn.types.experience import library_of
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Trajectory
from agentlearn_adapters.bfcl import BfclDomain
from tests.adapters.scripted_rollouts import Script, rollouts, says, shown

pytest.importorskip("bfcl_eval", reason="pip install --no-deps bfcl-eval==2026.3.23")


def domain(category: str) -> BfclDomain:
    found = load_domain(f"bfcl:{category}")
    assert isinstance(found, BfclDomain)
    return found


def calls_in(gold: list[dict[str, dict[str, list[Any]]]]) -> list[ToolCallPart]:
    """The expected calls, with the first of the accepted values of each argument."""
    return [
        ToolCallPart(name.replace(".", "_"), {key: values[0] for key, values in arguments.items() if values[0] != ""})
        for call in gold
        for name, arguments in call.items()
    ]


def plain(task: Task) -> bool:
    """Whether no argument is an object, whose values are lists of accepted values too."""
    calls = json.loads(task.answer or "[]")
    return not any(
        isinstance(value, dict | list) for call in calls for one in call.values() for v in one.values() for value in v
    )


def perfect(task: Task) -> Script:
    assert task.answer is not None
    response = ModelResponse(parts=calls_in(json.loads(task.answer)))
    return lambda messages, info: response


def ran(of: BfclDomain, task: Task, script: Script, **more: Any) -> Trajectory:
    return rollouts(of, [task], script, **more)[0].trajectory


@pytest.mark.parametrize("category", ["simple", "multiple", "parallel", "parallel_multiple", "live_simple"])
def test_the_expected_calls_are_1_and_no_call_is_0(category: str) -> None:
    of = domain(category)
    for task in [one for one in of.tasks("train", seed=0) if plain(one)][:5]:
        good, none = ran(of, task, perfect(task)), ran(of, task, says("I cannot."))
        assert good.verdict
        assert good.verdict.reward == 1.0
        assert none.verdict
        assert none.verdict.reward == 0.0
        assert "Wrong number of functions" in none.verdict.reason


def test_arguments_that_are_no_object_are_wrong_and_not_an_error() -> None:
    of = domain("simple")
    (task,) = of.tasks("train", seed=0, limit=1)
    one = ran(of, task, lambda messages, info: ModelResponse(parts=[ToolCallPart("anything", "{not json")]))
    assert one.failure is None
    assert one.verdict
    assert one.verdict.reward == 0.0


@pytest.mark.parametrize("category", ["irrelevance", "live_irrelevance"])
def test_where_no_function_fits_no_call_is_right(category: str) -> None:
    of = domain(category)
    (task,) = of.tasks("test", seed=0, limit=1)
    calling = ran(of, task, lambda messages, info: ModelResponse(parts=[ToolCallPart("f", {"x": 1})]))
    assert calling.verdict
    assert calling.verdict.reward == 0.0
    silent = ran(of, task, says("None of these fits."))
    assert silent.verdict
    assert silent.verdict.reward == 1.0


def test_the_model_sees_the_functions_and_the_lessons_and_its_calls_are_steps() -> None:
    of = domain("parallel")
    (task,) = of.tasks("train", seed=0, limit=1)
    seen: list[tuple[list[str], str]] = []

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(([tool.name for tool in info.function_tools], shown(messages, info)))
        return ModelResponse(parts=[TextPart("calling"), *calls_in(json.loads(task.answer or ""))])

    one = ran(of, task, script, library=library_of(["Call each function once for each city."]))
    assert seen[0][0] == [function["name"].replace(".", "_") for function in task.fields["functions"]]
    assert "once for each city" in seen[0][1]
    assert task.problem in seen[0][1]
    (turn,) = one.steps
    assert isinstance(turn, ModelTurn)
    assert len(turn.tool_calls) >= 2
    assert json.loads(one.answer or "")


def test_collections_have_their_categories_as_families_and_all_tasks_once() -> None:
    of = domain("non_live")
    tasks = [*of.tasks("train", seed=0), *of.tasks("test", seed=0)]
    assert {one.family for one in tasks} >= {"simple_python", "parallel", "irrelevance"}
    assert len({one.id for one in tasks}) == len(tasks) == 1390


@pytest.mark.parametrize(("name", "code"), [("multi_turn_base", "bad_config"), ("nope", "bad_config")])
def test_other_categories_are_refused(name: str, code: str) -> None:
    with pytest.raises(ConfigError) as raised:
        domain(name)
    assert raised.value.code == code
