"""Which replies are used: what the service did is never the model's answer."""

import pytest
from pydantic_ai.messages import ModelResponse, ModelResponsePart, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from agentlearn.models.endings import ending_of, fault_of, tidied

RUN = ToolDefinition(name="run_python", parameters_json_schema={"type": "object", "properties": {}})
TOOLS = ModelRequestParameters(function_tools=[RUN], allow_text_output=True)
ENDINGS = {
    "stop": "stop STOP end_turn eos_token COMPLETE stop_sequence null FINISH_REASON_STOP <|im_end|> <|eot_id|> </s>"
    " <end_of_turn> <eos> <turn|> <｜end▁of▁sentence｜> <|END_OF_TURN_TOKEN|>",
    "tool_call": "tool_calls tool_use TOOL_CALL function_call",
    "length": "length max_tokens MAX_TOKENS model_length max_output_tokens model_context_window_exceeded",
    "content_filter": "content_filter SAFETY sensitive guardrail_intervened refusal PROHIBITED_CONTENT",
    "error": "error abort insufficient_system_resource network_error cancelled timeout OTHER never-heard-of <error>",
}


def reply(
    *parts: ModelResponsePart, finish: str = "stop", tokens: tuple[int, int] = (100, 10), **details: object
) -> ModelResponse:
    usage = RequestUsage(input_tokens=tokens[0], output_tokens=tokens[1])
    return ModelResponse(parts=list(parts), usage=usage, provider_details={"finish_reason": finish, **details})


def test_each_ending_has_one_meaning_and_an_unknown_one_is_an_error(subtests: pytest.Subtests) -> None:
    for ending, name in [(one, name) for one, names in ENDINGS.items() for name in names.split()]:
        with subtests.test(repr((ending, name))):
            assert ending_of(name) == ending


TEXT, THOUGHT = TextPart("so 4"), ThinkingPart("hm", id="reasoning")
CUT = [
    # reply, limit of the request, fault
    (reply(TEXT), None, None),
    (reply(ToolCallPart("run_python")), None, None),
    (reply(TEXT, finish="network_error"), None, "broken_off"),
    (reply(TEXT, finish="SAFETY"), None, "filtered"),
    (reply(finish="stop", refusal="I cannot"), None, "empty"),
    (reply(TEXT, finish="length"), 10, None),
    (reply(TEXT, finish="length"), 100, "cut_off"),
    (reply(TEXT, finish="max_tokens"), None, "cut_off"),
    (reply(THOUGHT), None, "only_reasoning"),
    (reply(ThinkingPart("written in the text")), None, None),
    (reply(THOUGHT, TEXT), None, None),
    (reply(), None, "empty"),
    (reply(tokens=(100, 1)), None, None),
    (reply(tokens=(100, 10), token_ids=[1, 2]), None, None),
    (reply(TextPart('<tool_call>\n{"name": "run_python", "arguments": {}}\n</tool_call>')), None, "call_in_text"),
    (reply(TextPart('{"name": "run_python", "parameters": {"code": "1"}}')), None, "call_in_text"),
    (reply(TextPart("<function=run_python><parameter=code>1</parameter></function>")), None, "call_in_text"),
    (reply(TextPart("<|channel|>commentary to=functions.run_python<|message|>{}<|call|>")), None, "call_in_text"),
    (reply(TextPart("I would call run_python here.")), None, None),
    (reply(TextPart('{"name": "Ada", "age": 36}')), None, None),
]


def test_a_reply_is_used_unless_the_service_cut_or_lost_a_part_of_it(subtests: pytest.Subtests) -> None:
    for response, limit, code in CUT:
        with subtests.test(repr((response, limit, code))):
            fault = fault_of(response, TOOLS, limit=limit)
            assert (fault and fault.code) == code


def test_a_service_of_ours_hands_over_all_that_its_model_wrote() -> None:
    for response in (reply(finish="length"), reply(), reply(TextPart("<tool_call>run_python</tool_call>"))):
        assert fault_of(response, TOOLS, limit=None, whole=True) is None


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("run_python", "run_python"),
        ("run_python<|channel|>commentary", "run_python"),
        ("functions.run_python", "run_python"),
        ("functions.run_python:0", "run_python"),
        ("default_api.run_python", "run_python"),
        ("default_api:run_python", "run_python"),
        (" Run_Python ", "run_python"),
        ("python", "python"),
        ("run_python_twice", "run_python_twice"),
    ],
)
def test_a_tool_is_called_by_its_offered_name(name: str, called: str) -> None:
    (part,) = tidied(reply(ToolCallPart(name)), (), TOOLS, "").parts
    assert isinstance(part, ToolCallPart)
    assert part.tool_name == called


def test_repeated_and_empty_ids_are_replaced_by_others_which_are_the_same_each_time() -> None:
    call = ToolCallPart("run_python", tool_call_id="a")
    before = [reply(call)]
    again = reply(call, ToolCallPart("run_python", tool_call_id="b"), ToolCallPart("run_python", tool_call_id="b"))
    ids = [part.tool_call_id for part in tidied(again, before, TOOLS, "s").parts if isinstance(part, ToolCallPart)]
    assert ids[1] == "b"
    assert len({"a", *ids}) == 4
    assert tidied(again, before, TOOLS, "s") == tidied(again, before, TOOLS, "s")
