"""A checkpoint's chat template: how messages are rendered, and how earlier answers keep their exact text."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentlearn.errors import ConfigError
from agentlearn.serving.chat_request import CallInMessage, Message, Tool
from agentlearn.train.engine.chat_template import TemplateFormat
from tests.support.tiny_model import TEMPLATE, tiny_tokenizer

FUNCTION = {"name": "add", "parameters": {"type": "object", "properties": {}}}
TOOL = Tool("add", {}, json.dumps(FUNCTION))
CALL = CallInMessage("call_1", "add", '{"a":2, "b": "ü"}')
TURNS = (
    Message("system", "Count."),
    Message("user", "2 + 3?"),
    Message("assistant", "I add.", (CALL,)),
    Message("tool", "5", answers="call_1"),
)


def test_a_conversation_is_rendered_with_its_tools_calls_and_results():
    assert TemplateFormat(tiny_tokenizer()).render(TURNS, [TOOL]) == (
        "<|im_start|>system\nCount.\nadd\n<|im_end|>\n<|im_start|>user\n2 + 3?<|im_end|>\n"
        '<|im_start|>assistant\nI add.\n<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": "ü"}}\n</tool_call>'
        "<|im_end|>\n<|im_start|>user\n<tool_response>\n5\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("words", ["I  add.\n\n<tool_call>{}</tool_call>", " \n", "\\1 \\g<0> {{ x }}"])
def test_what_the_model_wrote_stands_as_it_wrote_it(words):
    spoken = Message("assistant", "I add.", (CALL,), verbatim=words)
    rendered = TemplateFormat(tiny_tokenizer()).render([*TURNS[:2], spoken, TURNS[3]], [])
    assert f"<|im_start|>assistant\n{words}<|im_end|>\n<|im_start|>user\n<tool_response>" in rendered


def test_an_answer_ends_where_the_template_ends_it():
    tokenizer = tiny_tokenizer()
    tokenizer.eos_token = "<|endoftext|>"
    ends = {tokenizer.convert_tokens_to_ids(one) for one in ("<|endoftext|>", "<|im_end|>")}
    assert TemplateFormat(tokenizer).stop_ids == ends
    assert TemplateFormat(tokenizer, stop_ids=frozenset({3})).stop_ids == ends | {3}
    plain = tiny_tokenizer("{% for m in messages %}{{ m.content }} and {% endfor %}")
    assert TemplateFormat(plain).stop_ids == {plain.eos_token_id}


GEMMA_LIKE = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}"
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}"
    "<|im_start|>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n{{ m['content'] | trim }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>model\n{% endif %}"
)
SILENT = (
    "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
)
WITHOUT_TOOLS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ONE_QUESTION = "{% if messages | length > 2 %}{{ raise_exception('one question only') }}{% endif %}" + WITHOUT_TOOLS
NO_RESULTS = (
    "{% for m in messages if '<tool_call>' in m.content or m.tool_calls %}"
    "{{ raise_exception('nothing after an answer that calls') }}{% endfor %}"
) + WITHOUT_TOOLS
BROKEN = "{{ messages[0].nothing.at_all }}"
PARTS_ONLY = "{% for m in messages %}{{ m.content[0]['text'] }}{% endfor %}"


@pytest.mark.parametrize("template", [GEMMA_LIKE, SILENT])
def test_a_system_message_that_is_refused_or_left_out_comes_before_the_first_question(template):
    chat = TemplateFormat(tiny_tokenizer(template))
    assert chat.abilities.fold_system
    (note,) = chat.abilities.check("my-model", tools=False)
    assert "takes no system message" in note
    rendered = chat.render([*TURNS[:2], Message("assistant", "Five."), Message("user", "Sure?")], [])
    assert rendered.count("Count.") == 1
    assert "<|im_start|>user\nCount.\n\n2 + 3?<|im_end|>" in rendered
    assert "<|im_start|>system" not in rendered


@pytest.mark.parametrize(
    ("template", "tools", "words"),
    [
        (NO_RESULTS, True, "cannot hold tools, which these tasks need: nothing after an answer that calls"),
        (ONE_QUESTION, False, "cannot hold a second question: one question only"),
        (BROKEN, False, "cannot hold a question: "),
        (PARTS_ONLY, False, "cannot hold a question: "),
    ],
)
def test_a_template_that_cannot_hold_the_conversation_is_refused(template, tools, words):
    chat = TemplateFormat(tiny_tokenizer(template), stop_ids=frozenset({1}))
    with pytest.raises(ConfigError) as caught:
        chat.abilities.check("my-model", tools=tools)
    assert f"the chat template of 'my-model' {words}" in str(caught.value)
    assert caught.value.code == "chat_template"


STRICT = TEMPLATE + "{% if tools %}{{ raise_exception('no tools please') }}{% endif %}"


@pytest.mark.parametrize("template", [WITHOUT_TOOLS, STRICT])
def test_a_template_without_tools_gets_them_as_text(template):
    chat = TemplateFormat(tiny_tokenizer(template))
    (note,) = chat.abilities.check("my-model", tools=True)
    assert note == "the chat template of 'my-model' knows no tools: the tools were described in the instructions"
    assert chat.abilities.check("my-model", tools=False) == ()
    system, _, rest = chat.render(TURNS, [TOOL]).partition("<|im_end|>\n")
    assert system.startswith("<|im_start|>system\nCount.\n\nYou can call these tools.")
    assert json.dumps(FUNCTION) in system
    assert rest == (
        "<|im_start|>user\n2 + 3?<|im_end|>\n"
        '<|im_start|>assistant\nI add.\n<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": "ü"}}\n</tool_call>'
        "<|im_end|>\n<|im_start|>user\n<tool_response>\n5\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )
