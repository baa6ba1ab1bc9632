"""Tool calls in replies of local models: every form is read, and nothing else is taken for a call."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.serving.chat_request import ParsedAnswer, Tool
from agentlearn.serving.tool_calls import parse_calls
from tests.support.cases import cases

PARAMETERS: dict[str, Any] = cases(__file__, "parameters")
TOOLS = (Tool("run", PARAMETERS, json.dumps({"name": "run", "parameters": PARAMETERS})), Tool("stop", {}, "{}"))
HERMES = '<tool_call>\n{"name": "run", "arguments": {"code": "1"}}\n</tool_call>'

ONE_CALL = cases(__file__, "one_call")
"""The same call in the form of each model."""


WITHOUT_MARKS = ("Llama 3", "Llama 3, with a type", "xLAM", "Llama 4")


def test_a_call_is_read_in_every_form(subtests: pytest.Subtests) -> None:
    for name, reply in ONE_CALL.items():
        for before in ("", "<think>\nWith <tool_call>?\n</think>", "I run it."):
            with subtests.test(name, before=before):
                calls = parse_calls(f"{before}\n\n{reply}" if before else reply, TOOLS)
                if name in WITHOUT_MARKS and before == "I run it.":
                    assert calls.calls == ()
                else:
                    assert calls.text == before
                    assert [(tool, json.loads(arguments)) for tool, arguments in calls.calls] == [
                        ("run", {"code": "1"})
                    ]


def test_a_form_without_marks_may_only_name_tools_that_were_offered() -> None:
    other = [Tool("other", {}, "{}")]
    assert [parse_calls(ONE_CALL[name], other).calls for name in WITHOUT_MARKS] == [()] * 4
    assert parse_calls(HERMES, other).calls == (("run", '{"code": "1"}'),)


def test_several_calls_are_read_in_every_form_that_repeats_its_marks(subtests: pytest.Subtests) -> None:
    for name in cases(__file__, "several_calls_are_read_in_every_form_that_repeats_its_marks"):
        with subtests.test(name):
            parsed = parse_calls(f"{ONE_CALL[name]}\n{ONE_CALL[name]}", TOOLS)
            assert [tool for tool, _ in parsed.calls] == ["run", "run"]
    for reply in (
        '{"name": "run", "parameters": {"code": "1"}}; {"name": "stop", "parameters": {}}',
        "[run(code='1'), stop()]",
        "<function=run><parameter=code>1</parameter></function><function=stop></function>",
    ):
        assert [tool for tool, _ in parse_calls(reply, TOOLS).calls] == ["run", "stop"]


def test_what_is_no_call_stays_text(subtests: pytest.Subtests) -> None:
    for reply in [*cases(__file__, "no_calls"), *(mark * 20_000 for mark in cases(__file__, "marks"))]:
        with subtests.test(reply[:40]):
            assert parse_calls(reply, TOOLS) == ParsedAnswer(reply)


def test_a_draft_in_a_thought_is_no_call() -> None:
    draft = '<tool_call>{"name": "stop", "arguments": {}}</tool_call>'
    for thought in (
        f"<think>{draft}</think>",
        f"{draft}</think>",
        f"So. <think>{draft}</think>",
        f"[THINK]{draft}[/THINK]",
    ):
        assert parse_calls(f"{thought}\n{HERMES}", TOOLS) == ParsedAnswer(thought, (("run", '{"code": "1"}'),))


def test_a_thought_that_the_template_opened_is_one() -> None:
    assert parse_calls(HERMES, TOOLS, prompt="<|im_start|>assistant\n<think>\n") == ParsedAnswer(HERMES)
    reply = f"I run it.\n</think>\n\n{HERMES}"
    assert parse_calls(reply, TOOLS, prompt="<think>\n").calls == (("run", '{"code": "1"}'),)
    assert parse_calls('run\n{"code": "1"}', TOOLS, prompt="assistant\n\n>>>").calls == (("run", '{"code": "1"}'),)


def test_marks_inside_of_arguments_end_nothing() -> None:
    code = "print('</tool_call> </think> </parameter> ```')\n"
    for reply in (
        f'<tool_call>{{"name": "run", "arguments": {json.dumps({"code": code})}}}</tool_call>',
        f"<tool_call>\n<function=run>\n<parameter=code>\n{code}\n</parameter>\n</function>\n</tool_call>",
        f"<|tool_call_start|>[run(code={code!r})]<|tool_call_end|>",
    ):
        ((_, arguments),) = parse_calls(reply, TOOLS).calls
        assert json.loads(arguments) == {"code": code}


def test_values_without_quotation_marks_have_the_types_of_the_schema() -> None:
    written = {"code": "2", "times": "3", "more": "[1, 'a']", "any": "5", "unknown": '{"a": 1}'}
    tags = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in written.items())
    ((_, arguments),) = parse_calls(f"<function=run>\n{tags}</function>", TOOLS).calls
    assert json.loads(arguments) == {"code": "2", "times": 3, "more": "[1, 'a']", "any": "5", "unknown": {"a": 1}}
    ((_, unknown),) = parse_calls(f"<function=run>\n{tags}</function>").calls
    assert json.loads(unknown) == {**written, "unknown": {"a": 1}}


def test_line_breaks_inside_of_strings_become_valid_json() -> None:
    ((_, arguments),) = parse_calls('<tool_call>{"name": "run", "arguments": {"code": "a\nb"}}</tool_call>').calls
    assert arguments == '{"code": "a\\nb"}'


MARKS = ("<tool_call>", "</tool_call>", "<function=run>", "</think>", "<think>", "run", "[TOOL_CALLS]", '{"a": 1}')


@given(st.lists(st.sampled_from([*"ab{}[]()=:\",'\n ", *MARKS])).map("".join))
def test_any_text_is_text_or_ends_in_calls(reply: str) -> None:
    parsed = parse_calls(reply, TOOLS)
    assert parsed.calls or parsed.text == reply
    assert all(isinstance(json.loads(arguments), dict) for _, arguments in parsed.calls)
