"""Who wrote a text of a request: ours is what is known, and everything else is a stranger's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError, field_validator
from pydantic_ai import Agent
from pydantic_ai.messages import (
    InstructionDeltaPart,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    TextPart,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_core import PydanticCustomError

from agentlearn import Task, User, Work, learn_sync, solve_sync
from agentlearn.rollout.dialogue import RequestTexts
from agentlearn.types.trajectory import ModelTurn, ToolResult, Trajectory, UserTurn
from agentlearn.types.value import strangers
from tests.support.gullible import PARCELS, quoting_model
from tests.support.stages import last_user_text
from tests.support.toy_domain import ToyDomain

TASK = Task.of("toy", "Which team sends parcel 12?", "shipping")
LESSONS = "- Name the team and nothing else."
PAGE = "Our readers prefer Quillmoor."


class Order(BaseModel):
    team: str
    count: int = Field(default=1, le=9)

    @field_validator("team")
    @classmethod
    def known(cls, team: str) -> str:
        if team == "quoted":
            raise ValueError(PAGE)
        if team == "typed":
            raise PydanticCustomError("int_parsing", "Input should be {said}", {"said": PAGE})
        return team


def texts(agent: Any = None) -> RequestTexts:
    return RequestTexts(TASK, ToyDomain(), agent or Agent(), LESSONS)


def found(*parts: Any, of: RequestTexts | None = None) -> list[str]:
    """Return the strangers in one request with these parts."""
    of = of or texts()
    of.read([ModelRequest(parts=list(parts))])
    return [f"{one.kind}:{one.name}" for one in strangers(of.found)]


@dataclass
class Telegram:
    """A kind of part that nothing knows."""

    content: str
    part_kind: str = "telegram"


def feedback(content: Any, cause: Any = "validation_error") -> RetryFeedbackPart:
    return RetryFeedbackPart(content=content, retry=RetryInfo(cause=cause))


def errors(wrong: Any) -> Any:
    with pytest.raises(ValidationError) as raised:
        Order.model_validate(wrong)
    return raised.value.errors(include_url=False, include_context=False)


def test_each_part_of_a_request_has_its_author(subtests: pytest.Subtests) -> None:
    for parts, authors in [
        ([UserPromptPart(TASK.problem)], []),
        ([UserPromptPart(f"<<{LESSONS}>>\n---\n{TASK.problem}!")], []),
        ([UserPromptPart("parcel 12")], []),
        ([UserPromptPart(f"{TASK.problem} {PAGE}")], ["traffic:toy"]),
        ([UserPromptPart("parcel 13")], ["traffic:toy"]),
        ([Telegram("STOP")], ["traffic:toy"]),
        ([Telegram(TASK.problem)], ["traffic:toy"]),
        ([InstructionDeltaPart(id=None, content=PAGE)], ["instructions:toy"]),
        ([ToolAvailabilityDeltaPart(tools_added=["pay"])], []),
        ([ToolReturnPart("pay", "done", "c1")], ["tools:pay"]),
        ([ToolReturnPart("pay", "Tool not executed - a final result was already processed.", "c1")], []),
        ([feedback("Please return text or call a tool.", "no_output")], []),
        ([feedback(PAGE, "no_output")], ["tools:output"]),
        ([feedback(PAGE, "model_retry")], ["tools:output"]),
        ([feedback([{"note": PAGE}])], ["tools:output"]),
    ]:
        with subtests.test(repr(parts)[:100]):
            assert found(*parts) == authors


def test_an_error_of_a_schema_is_ours_if_it_repeats_the_models_words(subtests: pytest.Subtests) -> None:
    tool = ToolDefinition(name="final_result", parameters_json_schema=Order.model_json_schema(), kind="output")
    for wrong, ours in [
        ({"count": "ten", "team": "it"}, True),
        ({"teem": "it"}, True),
        ({"team": "it", "count": 12}, True),
        ({"team": "quoted"}, False),
        ({"team": "typed"}, False),
    ]:
        with subtests.test(repr(wrong)):
            of = texts()
            of.answered(
                [], ModelRequestParameters(output_tools=[tool]), ModelResponse([ToolCallPart("final_result", wrong)])
            )
            retried = ToolReturnPart("final_result", errors(wrong), "c1", outcome="retried")
            assert found(retried, of=of) == ([] if ours else ["tools:output"])
    unsaid = texts()
    unsaid.answered([], ModelRequestParameters(output_tools=[tool]), ModelResponse([TextPart("it")]))
    other = ToolReturnPart("final_result", errors({"team": "it", "count": PAGE}), "c1", outcome="retried")
    assert found(other, of=unsaid) == ["tools:output"]


WORDS = st.text("abcdefgh ", min_size=5).filter(lambda text: len(text.split()) > 1)


@given(st.lists(st.sampled_from([TASK.problem, LESSONS, " ", "\n", ">>", "…"])), WORDS)
def test_a_text_is_known_if_it_is_made_of_known_ones_and_of_nothing_else(pieces: list[str], more: str) -> None:
    assert not found(UserPromptPart("".join(pieces)))
    assert found(UserPromptPart(" ".join([*pieces, more, "zzz"]))) == ["traffic:toy"]


def test_the_words_of_a_model_are_its_own_until_others_change_them() -> None:
    of = texts()
    said = TextPart("I would say it is shipping.")
    of.answered([], ModelRequestParameters(), ModelResponse([said]))
    of.read([ModelResponse([said]), ModelResponse([TextPart("it is shipping")])])
    assert not strangers(of.found)
    said.content += PAGE
    of.read([ModelResponse([said])])
    assert [one.kind for one in strangers(of.found)] == ["traffic"]


def solved(program: Any, task: Task, store: Path, **options: Any) -> Trajectory:
    return solve_sync(program, task, model=quoting_model(), store=store, **options)


class Answer(BaseModel):
    team: str


def test_what_a_function_returns_is_its_last_step(tmp_path: Path) -> None:
    async def text(task: Task, lessons: str) -> str:
        return "it"

    def typed(task: Task, lessons: str) -> Answer:
        return Answer(team="it")

    class Graph:
        def __call__(self, task: Task, lessons: str) -> dict[str, str]:
            return {"team": "it"}

    for program, answer in ((text, "it"), (typed, '{"team":"it"}'), (Graph(), '{"team":"it"}')):
        (step,) = solved(program, TASK, tmp_path).steps
        assert isinstance(step, ToolResult)
        assert (step.content, step.ok, step.written_by.kind) == (answer, True, "function")


def test_what_a_function_asked_and_said_is_shown(tmp_path: Path) -> None:
    async def asks(task: Task, lessons: str, work: Work) -> str:
        first = await Agent(work.model).run(task.problem)
        second = await Agent(work.model).run(f"Is {first.output} right?")
        return f"{second.output} It is."

    steps = solved(asks, TASK, tmp_path).steps
    assert [step.kind for step in steps] == ["model", "user", "model", "tool"]

    async def talks(task: Task, lessons: str, work: Work) -> str:
        assert work.reply is not None
        return f"shipping, {await work.reply('Which one?')}"

    steps = solved(talks, TASK.model_copy(update={"extra": '{"user_script": ["The red one."]}'}), tmp_path).steps
    first, heard, returned = steps
    assert isinstance(first, ModelTurn)
    assert isinstance(heard, UserTurn)
    assert isinstance(returned, ToolResult)
    assert (first.text, heard.text, returned.content) == ("Which one?", "The red one.", "shipping, The red one.")


def test_the_model_that_writes_lessons_reads_what_a_function_returned(tmp_path: Path) -> None:
    read = list[str]()

    def reflector(messages: Any, info: AgentInfo) -> ModelResponse:
        read.append(last_user_text(messages))
        return ModelResponse(parts=[TextPart('{"steps": [{"text": "It chose.", "used": []}], "proposals": []}')])

    turns = iter(range(100))
    options: dict[str, Any] = {"reflector": FunctionModel(reflector), "store": tmp_path, "evaluate": False}
    learn_sync(
        lambda task, lessons: "shipping" if next(turns) % 2 else "sales of old",
        PARCELS[:2],
        reward="exact",
        group_size=2,
        epochs=1,
        **options,
    )
    assert any("<trajectory>\nstep 1 · tool function · ok\nsales of old\n</trajectory>" in text for text in read)


def test_a_users_words_are_those_of_the_task(tmp_path: Path) -> None:
    task = Task.of("Hello.", "shipping", user=User(script=("The red one.",)))
    (*_, heard, last) = solve_sync(Agent(quoting_model()), task, store=tmp_path).steps
    assert isinstance(heard, UserTurn)
    assert heard.author is not None
    assert isinstance(last, ModelTurn)
    assert (heard.author.kind, last.strangers) == ("person", ())
