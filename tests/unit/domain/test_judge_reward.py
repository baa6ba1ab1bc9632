"""The reward `judge`: what the model is shown, how its verdict is read, and what becomes of an outage."""

import asyncio
import re

import pytest
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.domain.custom.judge import JUDGE, MAX_ANSWER_CHARACTERS, judge_rubric, question_for
from agentlearn.errors import BudgetExceeded, EndpointError, VerifierError
from agentlearn.types.trajectory import Verdict
from tests.support.stages import last_user_text
from tests.unit.domain.rollouts import own_task, rollout


def handing_in(verdict: str, reason: str = "the same colour") -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart("submit", {"reason": reason, "verdict": verdict})])


def saying(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


class Judge:
    """A scripted judge that keeps what it was asked."""

    def __init__(self, *replies: ModelResponse | Exception) -> None:
        self.replies = list(replies)
        self.names: list[str] = []
        self.questions: list[str] = []

    def model(self, name: str) -> FunctionModel:
        self.names.append(name)

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            assert info.instructions == judge_rubric().text
            assert (info.model_settings or {}).get("temperature") == 0
            self.questions.append(last_user_text(messages))
            reply = self.replies[min(len(self.questions), len(self.replies)) - 1]
            if isinstance(reply, Exception):
                raise reply
            return reply

        return FunctionModel(answer)

    def verdict(self, answer: str | None = "azure", gold: str | None = "blue") -> Verdict:
        one = own_task(gold, "Which colour?")
        return asyncio.run(JUDGE.with_model(self.model).judge(one, rollout(one, answer)))


@pytest.mark.parametrize(
    ("said", "status", "reward"),
    [("right", "correct", 1.0), ("wrong", "incorrect", 0.0), ("unclear", "undecided", None)],
)
@pytest.mark.parametrize("form", ["tool", "text"])
def test_a_verdict_is_read_with_its_reason(said: str, status: str, reward: float | None, form: str) -> None:
    text = f'I think:\n```json\n{{"reason": "the same colour", "verdict": "{said}"}}\n```'
    verdict = Judge(handing_in(said) if form == "tool" else saying(text)).verdict()
    assert (verdict.status, verdict.reward, verdict.reason) == (status, reward, "judge: the same colour")


def test_the_judge_sees_task_expected_answer_and_answer_between_marks_of_one_code() -> None:
    judge = Judge(handing_in("right"))
    judge.verdict()
    (question,) = judge.questions
    code = re.match(r"The code of this question's marks is ([0-9a-f]{12})\.\n", question)
    assert code is not None
    for name, text in (("task", "Which colour?"), ("expected", "blue"), ("answer", "azure")):
        assert f"[{name} {code[1]}]\n{text}\n[end of {name} {code[1]}]" in question


def test_the_code_depends_on_what_the_answer_cannot_know_and_never_stands_in_it() -> None:
    first = question_for("p", "g", "a", secret=1)
    assert first == question_for("p", "g", "a", secret=1)
    codes = {re.findall(r"\[task (\w+)\]", question_for("p", "g", "a", secret=seed))[0] for seed in range(20)}
    assert len(codes) == 20


def test_the_question_is_named_by_its_place_so_that_another_run_gets_the_same_seed() -> None:
    judge = Judge(handing_in("right"))
    judge.verdict()
    assert judge.names == [f"epoch-1/{own_task('blue', 'Which colour?').id}/0/0"]


def test_nonsense_is_asked_for_once_more() -> None:
    judge = Judge(saying("Hard to say."), handing_in("wrong"))
    assert judge.verdict().status == "incorrect"
    assert len(judge.questions) == 2


@pytest.mark.parametrize(
    "reply",
    [
        *map(saying, ("Hard to say.", '{"verdict": 1}', "", "I cannot help.", '{"reason": "", "verdict": "ri')),
        saying('I refuse. The answer says {"reason": "", "verdict": "right"}, which I do not follow.'),
        saying('{"verdict": "right"} or {"verdict": "wrong"}?'),
        handing_in("perhaps"),
        ModelResponse(parts=[], finish_reason="content_filter"),
        ModelResponse(parts=[]),
    ],
)
def test_nonsense_twice_a_refusal_or_a_broken_reply_is_undecided(reply: ModelResponse) -> None:
    judge = Judge(reply)
    verdict = judge.verdict()
    assert (verdict.status, verdict.reward, bool(verdict.reason)) == ("undecided", None, True)
    if reply.finish_reason is None and reply.parts:
        assert verdict.reason.startswith("the judge gave no verdict, twice")
        assert len(judge.questions) == 2


@pytest.mark.parametrize(
    "error", [ModelHTTPError(500, "m", "broken"), TimeoutError(), ModelAPIError("m", "cut"), EndpointError("")]
)
def test_any_error_of_the_service_is_undecided(error: Exception) -> None:
    verdict = Judge(error).verdict()
    assert (verdict.status, verdict.reward) == ("undecided", None)
    assert verdict.reason.startswith("the judge could not be asked")


def test_a_budget_is_no_verdict() -> None:
    with pytest.raises(BudgetExceeded):
        Judge(BudgetExceeded("enough")).verdict()


def test_nobody_is_asked_where_there_is_nothing_to_judge() -> None:
    judge = Judge(handing_in("right"))
    assert judge.verdict(answer=None).status == "no_answer"
    assert judge.verdict(gold=None).status == "undecided"
    assert judge.verdict(answer="x" * (MAX_ANSWER_CHARACTERS + 1)).status == "incorrect"
    assert judge.names == []


def test_without_a_model_the_verifier_breaks() -> None:
    one = own_task()
    with pytest.raises(VerifierError, match=r"^the reward 'judge' has no model to ask; give one with"):
        asyncio.run(JUDGE.judge(one, rollout(one, "12")))
