"""The jinja chat template and our own rendering give the same text, and an answer sent back is rendered unchanged."""

import json
from typing import Any

import pytest

pytest.importorskip("transformers")

from hypothesis import given, settings
from hypothesis import strategies as st

from agentlearn.serving import chat_request as chatml
from agentlearn.serving.chat_request import CallInMessage, Message
from agentlearn.serving.tool_calls import parse_calls
from agentlearn_demo.lab.contract import TokenPieces
from agentlearn_demo.lab_training.tokenizer import for_transformers, tokenizer_of

TOKENIZER = for_transformers(tokenizer_of(TokenPieces((), ())), 128)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
arguments = st.dictionaries(st.sampled_from(["code", "n"]), words, min_size=1, max_size=2).map(
    lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
)
calls = st.lists(st.builds(CallInMessage, st.just("c"), st.sampled_from(["run_python", "look"]), arguments), max_size=2)
messages = st.lists(
    st.one_of(
        st.builds(Message, st.sampled_from(["system", "user", "tool"]), words),
        st.builds(Message, st.just("assistant"), words, calls.map(tuple)),
    ),
    min_size=1,
    max_size=5,
)
tools = st.lists(st.sampled_from(["run_python", "look"]), unique=True, max_size=2)


def plain(message: Message, *, parsed: bool) -> dict[str, Any]:
    """As chat services are sent it."""
    sent: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        sent["tool_calls"] = [
            {"function": {"name": one.name, "arguments": json.loads(one.arguments) if parsed else one.arguments}}
            for one in message.calls
        ]
    return sent


@settings(max_examples=150, deadline=None)
@given(messages=messages, tools=tools, answer=st.booleans(), parsed=st.booleans())
def test_jinja_and_our_own_text_are_the_same(
    messages: list[Message], tools: list[str], answer: bool, parsed: bool
) -> None:
    offered = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in tools]
    rendered = TOKENIZER.apply_chat_template(
        [plain(one, parsed=parsed) for one in messages],
        tools=offered or None,
        tokenize=False,
        add_generation_prompt=answer,
    )
    assert rendered == chatml.conversation_text(messages, tools, answer=answer)


@settings(max_examples=150, deadline=None)
@given(text=words, arguments=st.lists(arguments, min_size=1, max_size=2), system=words)
def test_an_answer_that_is_sent_back_extends_what_was_sampled(text: str, arguments: list[str], system: str) -> None:
    before = [Message("system", system), Message("user", "q")]
    sent = Message("assistant", text.strip(), tuple(CallInMessage("c", "run_python", one) for one in arguments))
    sampled = chatml.message_text(sent)
    parsed = parse_calls(sampled)
    if len(parsed.calls) != len(arguments):
        return  # the words hold tags of their own
    again = Message("assistant", parsed.text, tuple(CallInMessage("c", *one) for one in parsed.calls))
    after = chatml.conversation_text([*before, again, Message("tool", "6")], ["run_python"])
    assert after.startswith(chatml.conversation_text(before, ["run_python"]) + sampled + chatml.END)


def test_what_a_model_really_wrote_stands_verbatim() -> None:
    wrote = '<tool_call>{"name":"f","arguments":{ }}</tool_call>'
    assert chatml.message_text(Message("assistant", "", (CallInMessage("c", "f", "{}"),), verbatim=wrote)) == wrote
