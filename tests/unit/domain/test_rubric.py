"""`Rubric`: how criteria become a reward, and what becomes of a judge that leaves one open."""

import asyncio
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn import Rubric
from agentlearn.domain.custom import find_reward, judged_tasks
from agentlearn.errors import ConfigError
from agentlearn.types.trajectory import Verdict
from tests.unit.domain.rollouts import own_task, rollout

POLITE = "Is polite"
NAMED = "Names the order number"


def judgement(*met: str, first: int = 1) -> dict[str, Any]:
    """Return what a judge submits."""
    return {"criteria": [{"number": at, "reason": f"why {at}", "met": one} for at, one in enumerate(met, first)]}


def verdict_of(rubric: Rubric, *replies: "dict[str, Any] | str | Exception", gold: str | None = None) -> Verdict:
    """Return the verdict when the judge replies like that."""
    left = list(replies)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert POLITE in (info.instructions or "")
        reply = left.pop(0)
        if isinstance(reply, Exception):
            raise reply
        parts = [TextPart(reply)] if isinstance(reply, str) else [ToolCallPart("submit", reply)]
        return ModelResponse(parts=parts)

    task = own_task(gold, "Write to the customer.")
    judge = rubric.with_model(lambda _: FunctionModel(answer))
    return asyncio.run(judge.judge(task, rollout(task, "Dear customer")))


@pytest.mark.parametrize(
    ("weights", "met", "reward", "status"),
    [
        (None, ("yes", "yes"), 1.0, "correct"),
        (None, ("yes", "no"), 0.5, "partial"),
        ([3, 1], ("yes", "no"), 0.75, "partial"),
        (None, ("no", "no"), 0.0, "incorrect"),
        (None, ("yes", "unclear"), None, "undecided"),
        ([0.1, 0.2], ("yes", "yes"), 1.0, "correct"),
    ],
)
def test_the_reward_is_the_weight_of_the_criteria_that_are_met(
    weights: list[float] | None, met: tuple[str, str], reward: float | None, status: str
) -> None:
    verdict = verdict_of(Rubric([POLITE, NAMED], weights), judgement(*met))
    assert (verdict.reward, verdict.status) == (reward, status)
    if "no" in met:
        assert f"not met: {NAMED!r} (why 2)" in verdict.reason or f"{POLITE!r} (why 1)" in verdict.reason


def test_a_judge_may_answer_in_text_and_in_another_order() -> None:
    text = 'Well:\n```json\n{"criteria": [{"number": 2, "met": "no"}, {"number": 1, "met": "yes"}]}\n```'
    assert verdict_of(Rubric([POLITE, NAMED]), text).reward == 0.5


@pytest.mark.parametrize(
    "bad", [judgement("yes"), judgement("yes", "yes", first=0), judgement("yes", "yes", "yes"), "Fine.", '{"criteria"']
)
def test_a_criterion_that_is_missing_is_asked_for_once_more_and_then_undecided(bad: "dict[str, Any] | str") -> None:
    rubric = Rubric([POLITE, NAMED])
    assert verdict_of(rubric, bad, judgement("yes", "yes")).reward == 1.0
    assert verdict_of(rubric, bad, bad).status == "undecided"


def test_a_judge_that_cannot_be_asked_decides_nothing() -> None:
    verdict = verdict_of(Rubric([POLITE]), ModelHTTPError(500, "m", "broken"))
    assert (verdict.status, verdict.reward) == ("undecided", None)


@pytest.mark.parametrize(
    ("criteria", "weights"),
    [("Is polite", None), ([], None), ([""], None), ([1], None), (["a", "b"], [1]), (["a"], [0]), (["a"], ["x"])],
)
def test_what_is_no_rubric_is_refused(criteria: Any, weights: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        Rubric(criteria, weights)
    assert refused.value.code == "bad_config"


def test_other_criteria_are_another_prompt() -> None:
    one, other = (judged_tasks("letters", Rubric([words])) for words in (POLITE, NAMED))
    assert one.uses_judge
    assert one.prompts()[-1] != other.prompts()[-1]


def test_a_module_may_hold_a_rubric(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "letter_rubric.py").write_text("from agentlearn import Rubric\nrubric = Rubric(['Is polite'])\n")
    monkeypatch.chdir(tmp_path)
    found = find_reward("letter_rubric:rubric")
    assert isinstance(found, Rubric)
    assert (found.name, found.needs_gold) == ("letter_rubric:rubric", False)
