"""A history shortened to a number of tokens: what stays whole, what is noted, and that calls keep their results."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters

from agentlearn.models.client import shortened_history
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


def test_a_history_within_the_limit_is_sent_as_it_is() -> None:
    messages = history(["a view"] * 3)
    assert shortened_history(messages, TOOLS, 10_000) == messages


def test_old_results_become_notes_and_the_newest_stay_whole() -> None:
    view = "word " * 1_200
    messages = history([view] * 6)
    short = shortened_history(messages, TOOLS, 5_000)
    assert tokens(short) <= 5_000
    assert results(short)[0] == (
        "[The result of open was left out here to save room: status ok, http://a.test/0, 6,000 characters.]"
    )
    assert results(short)[-1] == view
    assert len(results(short)) == 6
    assert results(messages) == [view] * 6, "the messages of the run are not changed"


def test_a_result_that_is_shorter_than_a_note_stays() -> None:
    short = shortened_history(history(["tiny", *["word " * 1_200] * 3]), TOOLS, 2_500)
    assert results(short)[0] == "tiny"


def test_turns_are_left_out_when_notes_are_not_enough() -> None:
    messages = history(["short"] * 40, thoughts="I think about it. " * 40)
    short = shortened_history(messages, TOOLS, 2_000)
    assert tokens(short) <= 2_000
    first = short[0]
    assert isinstance(first, ModelRequest)
    summary = first.parts[-1]
    assert isinstance(summary, UserPromptPart)
    left_out = 40 - len(results(short))
    assert summary.content == f"[Your first {left_out} turns were left out here to save room.]"
    assert short[-2:] == messages[-2:]


def test_an_old_picture_is_left_out() -> None:
    messages = history(["word " * 400] * 4)
    first = messages[2]
    assert isinstance(first, ModelRequest)
    picture = UserPromptPart(["the page", BinaryContent(b"x" * 3_000, media_type="image/png")])
    messages[2] = ModelRequest(parts=[*first.parts, picture], instructions="Walk.")
    short = shortened_history(messages, TOOLS, 1_500)
    kept = short[2]
    assert isinstance(kept, ModelRequest)
    assert kept.parts[-1].content == ["the page", "[A picture was left out here to save room.]"]


def test_most_requests_extend_the_one_before() -> None:
    messages = history(["word " * 1_200] * 60)
    sent = [shortened_history(messages[: 1 + 2 * turns], TOOLS, 12_000) for turns in range(61)]
    extended = sum(after[: len(before)] == before for before, after in pairwise(sent))
    assert extended >= 40


@given(st.lists(st.text("ab \n{", max_size=3_000), max_size=12), st.integers(1, 3_000), st.text("ab ", max_size=500))
def test_only_the_newest_turn_can_exceed_the_limit_and_calls_keep_their_results(
    views: list[str], limit: int, thoughts: str
) -> None:
    messages = history(views, thoughts=thoughts)
    short = shortened_history(messages, TOOLS, limit)
    assert short == shortened_history(messages, TOOLS, limit)
    least = [short[0], *messages[1:][-2:]]
    assert tokens(short) <= max(limit, tokens(least))
    assert short[1:][-2:] == messages[1:][-2:], "the newest view is whole"
    calls = [part.tool_call_id for one in short for part in one.parts if isinstance(part, ToolCallPart)]
    returned = [part.tool_call_id for one in short for part in one.parts if isinstance(part, ToolReturnPart)]
    assert calls == returned
    assert [one.kind for one in short] == ["request", *["response", "request"] * len(calls)]
    if tokens(messages) <= limit:
        assert short == messages
