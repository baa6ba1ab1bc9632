"""The judge of free-text answers: when it is asked, what it is shown, and that an answer cannot instruct it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.prompts import load_prompt
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ToolResult, Trajectory, Verdict
from agentlearn_web.observation import PageObservation, TabLine, render_observation
from agentlearn_web.verify import MAX_ANSWER_CHARACTERS, verify_walk
from tests.support.stages import last_user_text
from tests.unit.domain.rollouts import rollout

RUBRIC = load_prompt("judge", 1, package="agentlearn_web.prompts")
GOLD = "The workshop proposals are due on 15 January 2025"
PAGE = "http://conf.test/calls"


def task(answer: str | None = GOLD, source: str = "walks.jsonl:3") -> Task:
    problem = "When are workshop proposals due?"
    return Task.of("web", problem, answer, source=source, start="http://conf.test/", path=(PAGE,))


def walk(of: Task, answer: str | None) -> Trajectory:
    seen = PageObservation(tab="t1", tabs=(TabLine(id="t1", url=PAGE),))
    step = ToolResult(call="1", tool="open", content=render_observation(seen, "a1"), ok=True)
    return rollout(of, answer).model_copy(update={"steps": (step,)})


def handing_in(verdict: str) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart("submit", {"reason": "the same day", "verdict": verdict})])


class Judge:
    """A scripted judge that keeps its requests."""

    def __init__(self, *replies: ModelResponse | Exception | Callable[[str], ModelResponse]) -> None:
        self.replies = list(replies)
        self.questions: list[str] = []

    def model(self, name: str) -> FunctionModel:
        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            assert info.instructions == RUBRIC.text
            self.questions.append(last_user_text(messages))
            reply = self.replies[min(len(self.questions), len(self.replies)) - 1]
            if isinstance(reply, Exception):
                raise reply
            return reply if isinstance(reply, ModelResponse) else reply(self.questions[-1])

        return FunctionModel(answer)

    def verdict(self, answer: str | None, of: Task | None = None, *, shaped: bool = False) -> Verdict:
        one = of or task()
        judged = verify_walk(one, walk(one, answer), self.model, shaped=shaped)
        return asyncio.run(_awaited(judged)) if isinstance(judged, Awaitable) else judged


async def _awaited(judged: Awaitable[Verdict]) -> Verdict:
    return await judged


@pytest.mark.parametrize(
    ("said", "status", "reward"),
    [("right", "correct", 1.0), ("wrong", "incorrect", 0.0), ("unclear", "undecided", None)],
)
def test_the_judge_decides_when_the_comparison_fails(said: str, status: str, reward: float | None) -> None:
    verdict = Judge(handing_in(said)).verdict("mid-January 2025, on the 15th")
    assert (verdict.status, verdict.reward, verdict.reason) == (status, reward, "judge: the same day")


@pytest.mark.parametrize(
    ("answer", "of", "status"),
    [
        (f"“{GOLD}.”", None, "correct"),
        ("2025-01-15", task("15 January 2025"), "correct"),
        (None, None, "no_answer"),
        ("Not found", None, "no_answer"),
        ("x" * (MAX_ANSWER_CHARACTERS + 1), None, "incorrect"),
        ("15 January", task(None), "undecided"),
        ("15 January", task(source="generated"), "incorrect"),
    ],
)
def test_the_judge_is_not_asked_when_the_comparison_decides(answer: str | None, of: Task | None, status: str) -> None:
    judge = Judge(handing_in("right" if status == "incorrect" else "wrong"))
    assert judge.verdict(answer, of).status == status
    assert judge.questions == []


def test_without_a_judge_what_is_not_proven_is_undecided() -> None:
    one = task()
    verdict = verify_walk(one, walk(one, "mid-January"))
    assert verdict == Verdict(
        status="undecided", reason="the comparison does not decide: says it in other words, or something else"
    )


def test_a_proven_difference_needs_no_judge() -> None:
    judge = Judge(handing_in("right"))
    assert judge.verdict("16 January 2025", task("15 January 2025")).status == "incorrect"
    assert judge.questions == []
