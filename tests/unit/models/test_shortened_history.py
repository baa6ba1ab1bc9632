"""A history shortened to a number of tokens: what stays whole, what is noted, and that calls keep their results."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters

from agentlearn.models.client import shortened
from agentlearn.models.token_estimate import BYTES_PER_TOKEN, request_bytes
from agentlearn.types.trajectory import PLACE, STATUS

TOOLS = ModelRequestParameters()


def history(views: Sequence[str], *, thoughts: str = "") -> list[ModelMessage]:
    """A walk: one view per act."""
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("Who leads the group?")], instructions="Walk.")]
    for number, view in enumerate(views):
        text = [TextPart(thoughts)] if thoughts else []
        call = ToolCallPart("open", {"url": f"http://a.test/{number}"}, tool_call_id=f"c{number}")
        metadata = {STATUS: "ok", PLACE: f"http://a.test/{number}"}
        result = ToolReturnPart("open", view, tool_call_id=f"c{number}", metadata=metadata)
        messages += [ModelResponse(parts=[*text, call]), ModelRequest(parts=[result], instructions="Walk.")]
    return messages


def tokens(messages: Sequence[ModelMessage]) -> float:
    return request_bytes(messages, TOOLS) / BYTES_PER_TOKEN


def results(messages: Sequence[ModelMessage]) -> list[str]:
    parts = [part for one in messages if isinstance(one, ModelRequest) for part in one.parts]
    return [part.model_response_str() for part in parts if isinstance(part, ToolReturnPart)]


def test_old_results_become_notes_and_the_newest_stay_whole() -> None:
    view = "word " * 1_200
    messages = history([view] * 6)
    short = shortened(messages, TOOLS, 5_000)
    assert tokens(short) <= 5_000
    assert results(short)[0] == (
        "[The result of open was left out here to save room: status ok, http://a.test/0, 6,000 characters.]"
    )
    assert results(short)[-1] == view
    assert len(results(short)) == 6
    assert results(messages) == [view] * 6, "the messages of the run are not changed"


def test_turns_are_left_out_when_notes_are_not_enough() -> None:
    messages = history(["short"] * 40, thoughts="I think about it. " * 40)
    short = shortened(messages, TOOLS, 2_000)
    assert tokens(short) <= 2_000
    first = short[0]
    assert isinstance(first, ModelRequest)
    summary = first.parts[-1]
    assert isinstance(summary, UserPromptPart)
    left_out = 40 - len(results(short))
    assert summary.content == f"[Your first {left_out} turns were left out here to save room.]"
    assert short[-2:] == messages[-2:]


@given(st.lists(st.text("ab \n{", max_size=3_000), max_size=12), st.integers(1, 3_000), st.text("ab ", max_size=500))
def test_only_the_newest_turn_can_exceed_the_limit_and_calls_keep_their_results(
    views: list[str], limit: int, thoughts: str
) -> None:
    messages = history(views, thoughts=thoughts)
    short = shortened(messages, TOOLS, limit)
    assert short == shortened(messages, TOOLS, limit)
    least = [short[0], *messages[1:][-2:]]
    assert tokens(short) <= max(limit, tokens(least))
    assert short[1:][-2:] == messages[1:][-2:], "the newest view is whole"
    calls = [part.tool_call_id for one in short for part in one.parts if isinstance(part, ToolCallPart)]
    returned = [part.tool_call_id for one in short for part in one.parts if isinstance(part, ToolReturnPart)]
    assert calls == returned
    assert [one.kind for one in short] == ["request", *["response", "request"] * len(calls)]
    if tokens(messages) <= limit:
        assert short == messages
