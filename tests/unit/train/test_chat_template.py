"""A checkpoint's chat template: how messages are rendered, and how earlier answers keep their exact text."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentlearn.errors import ConfigError
from agentlearn.serving.chat_request import CallInMessage, Message, RequestRefused, Tool
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


def test_templates_get_the_tools_whole_and_the_names_of_results():
    template = "{{ tools | tojson }}{{ messages[-1] | tojson }}"
    rendered = TemplateFormat(tiny_tokenizer(template), stop_ids=frozenset({1})).render(TURNS, [TOOL])
    tools, result = json.JSONDecoder().raw_decode(rendered)
    assert tools == [{"type": "function", "function": FUNCTION}]
    assert json.loads(rendered[result:]) == {"role": "tool", "content": "5", "tool_call_id": "call_1", "name": "add"}


@pytest.mark.parametrize("words", ["I  add.\n\n<tool_call>{}</tool_call>", " \n", "\\1 \\g<0> {{ x }}"])
def test_what_the_model_wrote_stands_as_it_wrote_it(words):
    spoken = Message("assistant", "I add.", (CALL,), verbatim=words)
    rendered = TemplateFormat(tiny_tokenizer()).render([*TURNS[:2], spoken, TURNS[3]], [])
    assert f"<|im_start|>assistant\n{words}<|im_end|>\n<|im_start|>user\n<tool_response>" in rendered


def test_a_template_that_says_words_twice_gets_none_put_in():
    twice = "{% for m in messages %}{{ m.content }}{{ m.content }}<|im_end|>{% endfor %}"
    spoken = Message("assistant", "so", verbatim="so \n")
    assert TemplateFormat(tiny_tokenizer(twice)).render([TURNS[1], spoken], []).endswith("<|im_end|>soso<|im_end|>")


def test_tokens_come_back_as_the_same_text():
    chat = TemplateFormat(tiny_tokenizer())
    text = '<|im_start|>user\nthe än 00 .  ,\n<tool_call>{"a": 1}</tool_call><|im_end|>\n'
    assert chat.decode(chat.encode(text)) == text
    assert chat.encode(text)[0] == tiny_tokenizer().convert_tokens_to_ids("<|im_start|>")


def test_an_answer_ends_where_the_template_ends_it():
    tokenizer = tiny_tokenizer()
    tokenizer.eos_token = "<|endoftext|>"
    ends = {tokenizer.convert_tokens_to_ids(one) for one in ("<|endoftext|>", "<|im_end|>")}
    assert TemplateFormat(tokenizer).stop_ids == ends
    assert TemplateFormat(tokenizer, stop_ids=frozenset({3})).stop_ids == ends | {3}
    plain = tiny_tokenizer("{% for m in messages %}{{ m.content }} and {% endfor %}")
    assert TemplateFormat(plain).stop_ids == {plain.eos_token_id}


def test_without_a_template_or_an_end_it_is_refused():
    with pytest.raises(ConfigError, match="has no chat template; use an instruction-tuned model"):
        TemplateFormat(tiny_tokenizer(None))
    endless = tiny_tokenizer("{{ messages[0].content }}")
    endless.eos_token = None
    with pytest.raises(ConfigError, match="no token ends an answer"):
        TemplateFormat(endless)


def test_what_a_template_refuses_is_refused_with_its_words():
    strict = TEMPLATE + "{% if messages[-1].content == 'x' %}{{ raise_exception('no x please') }}{% endif %}"
    with pytest.raises(RequestRefused, match="no x please") as refused:
        TemplateFormat(tiny_tokenizer(strict)).render([Message("user", "x")], [TOOL])
    assert (refused.value.status, refused.value.code) == (400, "chat_template_error")


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


def test_a_template_that_holds_everything_needs_no_note():
    assert TemplateFormat(tiny_tokenizer()).abilities.check("my-model", tools=True) == ()
    assert TemplateFormat(tiny_tokenizer(WITHOUT_TOOLS)).abilities.check("my-model", tools=False) == ()


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


def test_calls_that_are_text_are_read_again_as_they_were_called():
    chat = TemplateFormat(tiny_tokenizer(WITHOUT_TOOLS))
    rendered = chat.render(TURNS, [TOOL])
    answer = rendered.partition("<|im_start|>assistant\n")[2].partition("<|im_end|>")[0]
    parsed = chat.parse(answer, [TOOL], prompt="")
    assert parsed.text == "I add."
    assert [(name, json.loads(arguments)) for name, arguments in parsed.calls] == [("add", {"a": 2, "b": "ü"})]


def test_what_the_model_wrote_as_text_stands_as_it_wrote_it():
    chat = TemplateFormat(tiny_tokenizer(WITHOUT_TOOLS))
    words = 'I  add.\n<tool_call>{"name":"add","arguments":{"a":2}}</tool_call>'
    turns = [replace(one, verbatim=words) if one.role == "assistant" else one for one in TURNS]
    assert f"<|im_start|>assistant\n{words}<|im_end|>" in chat.render(turns, [TOOL])


def test_results_in_a_row_are_one_message_where_roles_must_alternate():
    chat = TemplateFormat(tiny_tokenizer(GEMMA_LIKE))
    rendered = chat.render([*TURNS, Message("tool", "6", answers="call_2")], [TOOL])
    assert rendered.endswith(
        "<|im_start|>user\n<tool_response>\n5\n</tool_response>\n<tool_response>\n6\n</tool_response><|im_end|>\n"
        "<|im_start|>model\n"
    )
    assert rendered.startswith("<|im_start|>user\nCount.\n\nYou can call these tools.")


def test_several_system_messages_are_one_for_a_template_that_reads_the_first():
    """The test's template reads `messages[0]` only, as many do."""
    lessons = Message("system", "Count twice.")
    rendered = TemplateFormat(tiny_tokenizer()).render([TURNS[0], lessons, *TURNS[1:]], [])
    assert rendered.startswith("<|im_start|>system\nCount.\n\nCount twice.\n<|im_end|>\n<|im_start|>user\n2 + 3?")
