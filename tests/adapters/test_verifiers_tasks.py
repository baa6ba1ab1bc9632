"""Tasksets of verifiers: its rewards decide, its hooks may break, and its tools are served.

verifiers excludes our version of openai, so the tests run where it is installed with `--no-deps` (docs/adapters.md).
"""

import re
import sys
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo

from agentlearn.domain.base import load_domain
from agentlearn.types.experience import library_of
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ToolResult, Trajectory
from tests.adapters.scripted_rollouts import rollouts, says, shown

pytest.importorskip("verifiers.v1", reason="pip install --no-deps verifiers==0.4.0")
pytestmark = pytest.mark.filterwarnings("ignore")  # in code of verifiers


@pytest.fixture(autouse=True)
def tasksets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the example tasksets importable, here and in the servers of their tools."""
    folder = str(Path(__file__).parent)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", ":".join([folder, *filter(None, sys.path)]))


def all_of(name: str) -> list[Task]:
    of = load_domain(f"verifiers:{name}")
    return [*of.tasks("train", seed=0), *of.tasks("test", seed=0)]


def sums(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    found = re.search(r"(\d+) \+", shown(messages, info))
    assert found
    return ModelResponse(parts=[TextPart(f"It is {2 * int(found.group(1))}")])


def results(script: object) -> dict[str, Trajectory]:
    tasks = all_of("verifiers_sums")
    done = rollouts(load_domain("verifiers:verifiers_sums"), tasks, script)  # type: ignore[arg-type]
    return {task.problem: one.trajectory for task, one in zip(tasks, done, strict=True)}


def test_right_is_1_wrong_is_0_and_what_breaks_is_stored() -> None:
    right = results(sums)
    verdict = right["What is 2 + 2?"].verdict
    assert verdict
    assert verdict.reward == 1.0
    assert verdict.reason == "brief: 1 (weight 0.25); right: 1 (weight 1)"
    setup = right["What is 9 + 9?"]
    assert setup.failure
    assert "the setup broke" in setup.failure.message
    reward, scale = right["What is 10 + 10?"].verdict, right["What is 11 + 11?"].verdict
    assert reward
    assert reward.status == "undecided"
    assert "the reward broke" in reward.reason
    assert scale
    assert scale.status == "undecided"
    assert "not from 0 to 1" in scale.reason
    wrong = results(says("I really do not know that at all."))["What is 2 + 2?"].verdict
    assert wrong
    assert wrong.reward == 0.0


def test_the_model_sees_the_system_prompt_and_the_lessons() -> None:
    seen: list[str] = []

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(shown(messages, info))
        return ModelResponse(parts=[TextPart("4")])

    tasks = all_of("verifiers_sums")[:2]
    rollouts(load_domain("verifiers:verifiers_sums"), tasks, script, library=library_of(["Add the digits one by one."]))
    assert seen
    assert all("Be brief." in text and "digits one by one" in text for text in seen)


@pytest.mark.slow
def test_the_tools_of_a_taskset_are_served_and_their_results_are_steps() -> None:
    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        given = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if given:
            return ModelResponse(parts=[TextPart(f"It is {given[-1].content}")])
        return ModelResponse(parts=[ToolCallPart(info.function_tools[0].name, {"x": 20, "y": 22})])

    (done,) = rollouts(load_domain("verifiers:verifiers_adder"), all_of("verifiers_adder"), script)
    one = done.trajectory
    assert one.verdict
    assert one.verdict.reward == 1.0
    assert any(isinstance(step, ToolResult) and step.content == "42" for step in one.steps)
