"""Tasks of inspect_ai keep their solvers and scorers: right is 1, wrong is 0, and what breaks is a stored result."""

import asyncio
import logging
import os
import re
from pathlib import Path

import inspect_ai
import pytest
from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage, get_model
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo

from agentlearn.config import RolloutOptions
from agentlearn.domain.base import load_domain
from agentlearn.types.experience import library_of
from agentlearn.types.trajectory import ModelTurn, ToolResult, Trajectory
from agentlearn_adapters.inspect_tasks import InspectDomain, _reward_of
from tests.adapters.scripted_rollouts import Script, rollouts, says, shown

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # in code of inspect_ai
EXAMPLES = Path(__file__).parent / "inspect_examples.py"


def domain(task: str) -> InspectDomain:
    found = load_domain(f"inspect:{EXAMPLES}@{task}")
    assert isinstance(found, InspectDomain)
    return found


def ran(task: str, script: Script, limit: int = 3, **more: object) -> list[Trajectory]:
    of = domain(task)
    tasks = list(of.tasks("train", seed=0, limit=limit))
    return [one.trajectory for one in rollouts(of, tasks, script, **more)]  # type: ignore[arg-type]


def adder(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Adds with the tool and says or submits its result."""
    results = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if results and any(tool.name == "submit" for tool in info.function_tools):
        return ModelResponse(parts=[ToolCallPart("submit", {"answer": str(results[-1].content)})])
    if results:
        return ModelResponse(parts=[TextPart(f"It is {results[-1].content}")])
    n = sum_asked(messages, info)
    if info.function_tools:
        return ModelResponse(parts=[ToolCallPart("add", {"x": n, "y": n})])
    return ModelResponse(parts=[TextPart(f"ANSWER: {2 * n}")])


def sum_asked(messages: list[ModelMessage], info: AgentInfo) -> int:
    found = re.search(r"(\d+) \+", shown(messages, info))
    assert found
    return int(found.group(1))


@pytest.mark.parametrize("task", ["sums", "with_tools", "agentic", "templated"])
def test_a_right_answer_is_1(task: str) -> None:
    for one in ran(task, adder):
        assert one.verdict
        assert (one.verdict.reward, one.verdict.status) == (1.0, "correct")


@pytest.mark.parametrize("task", ["sums", "with_tools", "templated", "choices"])
def test_a_wrong_answer_is_0_with_the_scorers_explanation(task: str) -> None:
    for one in ran(task, says("ANSWER: C")):
        assert one.verdict
        assert one.verdict.reward == 0.0
        assert one.verdict.reason


def test_tools_and_their_results_are_steps() -> None:
    (one,) = ran("with_tools", adder, limit=1)
    first, result, last = one.steps
    assert isinstance(first, ModelTurn)
    assert first.tool_calls[0].tool == "add"
    assert isinstance(result, ToolResult)
    assert result.ok
    assert isinstance(last, ModelTurn)
    assert one.usage.requests == 2
    assert first.call != last.call


def test_a_scorer_that_raises_leaves_the_rollout_undecided() -> None:
    (one,) = ran("broken_scorer", says("2"), limit=1)
    assert one.verdict
    assert one.verdict.status == "undecided"
    assert "the scorer broke" in one.verdict.reason


def test_a_solver_that_raises_is_a_failure() -> None:
    (one,) = ran("broken_solver", says("2"), limit=1)
    assert one.verdict is None
    assert one.failure
    assert "the solver broke" in one.failure.message


def test_a_model_that_grades_is_asked_without_the_lessons() -> None:
    library = library_of(["Count twice before you answer."])
    asked: list[tuple[bool, str]] = []

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        text = shown(messages, info)
        grading = "GRADE" in text
        asked.append((grading, text))
        return ModelResponse(parts=[TextPart("GRADE: C" if grading else "some answer")])

    (one,) = ran("graded", script, limit=1, library=library)
    assert one.verdict
    assert one.verdict.reward == 1.0
    assert [("Count twice" in text) for grading, text in asked if not grading] == [True]
    assert [("Count twice" in text) for grading, text in asked if grading] == [False]


def test_more_calls_than_allowed_end_the_rollout_even_if_the_solver_goes_on() -> None:
    def endless(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[ToolCallPart("add", {"x": 1, "y": 1})])

    (one,) = ran("with_tools", endless, limit=1, options=RolloutOptions(max_turns=3))
    assert one.failure
    assert one.failure.code == "too_many_turns"
    assert one.usage.requests == 3


def test_rollouts_of_one_task_run_at_once_and_what_inspect_changes_is_changed_back(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = (list(logging.getLogger().handlers), logging.getLogger().level, dict(os.environ))
    assert len(ran("sums", adder, limit=5)) == 5
    assert (list(logging.getLogger().handlers), logging.getLogger().level, dict(os.environ)) == before
    assert capfd.readouterr() == ("", "")


def test_the_splits_are_the_same_for_every_seed_and_share_no_sample() -> None:
    of = domain("sums")
    train, test = of.tasks("train", seed=0), of.tasks("test", seed=0)
    assert {one.id for one in train} == {one.id for one in domain("sums").tasks("train", seed=7)}
    assert not {one.id for one in train} & {one.id for one in test}
    assert len(train) + len(test) == 10
    assert train[0].family == "sum"


@pytest.mark.filterwarnings("ignore")
def test_the_scores_are_those_of_inspect_eval(tmp_path: Path) -> None:
    """The same answers, scored by inspect_ai's own `eval` and by the adapter."""
    of = domain("sums")
    answers = {f"What is {n} + {n}?": f"ANSWER: {2 * n + n % 2}" for n in range(10)}

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        n = sum_asked(messages, info)
        return ModelResponse(parts=[TextPart(answers[f"What is {n} + {n}?"])])

    tasks = [*of.tasks("train", seed=0), *of.tasks("test", seed=0)]
    ours = {
        task.problem: one.trajectory.verdict.reward
        for task, one in zip(tasks, rollouts(of, tasks, script), strict=True)
        if one.trajectory.verdict
    }

    def answer(chat: list[ChatMessage], *_: object) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/model", answers[chat[-1].text])
        output.usage = ModelUsage()  # otherwise it loads a tokenizer from the internet
        return output

    model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
    (log,) = asyncio.run(inspect_ai.eval_async(of.task, model, log_dir=str(tmp_path), max_samples=1, max_connections=1))
    samples = log.samples or []
    theirs = {str(one.input): {"C": 1.0, "I": 0.0}[str(one.scores["match"].value)] for one in samples if one.scores}
    assert ours == theirs
    assert set(ours.values()) == {0.0, 1.0}


def test_a_value_from_0_to_1_is_the_reward_and_any_other_decides_nothing(subtests: pytest.Subtests) -> None:
    for value, reward in {"C": 1.0, "I": 0.0, "P": 0.5, "0.5": 0.5, True: 1.0, 0.25: 0.25}.items():
        with subtests.test(repr(value)):
            assert _reward_of(value) == reward
    assert _reward_of({"a": 0.5, "b": 1}) == 0.75
    for value in [float("nan"), float("inf"), -0.1, 7, "seven", {}, [0.5, 3], None, {"a": "b"}]:
        with subtests.test(repr(value)):
            assert isinstance(_reward_of(value), str)
