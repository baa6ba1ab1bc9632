"""Chat templates that know tools: their own calls can be read, or the tools are described, or the model is refused.

Each template here is a short one of our own, in the style of a model family.
"""

import json
from importlib.resources import files
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentlearn.serving.chat_request import CallInMessage, Message, ParsedAnswer, RequestRefused, Tool
from agentlearn.train.engine.chat_template import TemplateFormat
from tests.support.tiny_model import tiny_tokenizer

SCHEMA = {"type": "object", "properties": {"code": {"type": "string"}}}
TOOL = Tool("run", SCHEMA, json.dumps({"name": "run", "description": "Run.", "parameters": SCHEMA}))
ENDS = (
    *("<|call|>", "<|return|>", "<|eot_id|>", "<|observation|>", "</s>", "<|im_end|>", "<|eot|>"),
    *("<｜end▁of▁sentence｜>", "<turn|>", "<|tool_response>"),
)
MARKS = ("<|end|>", "<|start|>", *ENDS)

OFFER = "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
PLAIN = (
    "{% elif m.role == 'tool' %}<|im_start|>tool\n{{ m.content }}<|im_end|>\n"
    "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
)
OPEN = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def with_calls(call: str, before: str = "", behind: str = "") -> str:
    """A template in which `call` renders one call `f` of the message `m`."""
    return (
        f"{OFFER}{{% for m in messages %}}{{% if m.tool_calls %}}<|im_start|>assistant\n"
        f"{{{{ m.content or '' }}}}{before}{{% for c in m.tool_calls %}}{{% set f = c.function %}}{call}"
        f"{{% endfor %}}{behind}<|im_end|>\n{PLAIN}{OPEN}"
    )


READ = {
    "Hermes": with_calls(
        '<tool_call>\n{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}}\n</tool_call>'
    ),
    "arguments as text": with_calls(
        '<tool_call>{"name": "{{ f.name }}", "arguments": {{ f.arguments + "" }}}</tool_call>'
    ),
    "Llama 3": (
        f"{OFFER}{{% for m in messages %}}{{% if m.tool_calls %}}{{% set f = m.tool_calls[0].function %}}"
        '<|im_start|>assistant\n{"name": "{{ f.name }}", "parameters": {{ f.arguments | tojson }}}'
        f"<|im_end|>\n{PLAIN}{OPEN}"
    ),
    "Qwen3-Coder": with_calls(
        "<tool_call>\n<function={{ f.name }}>\n{% for k, v in f.arguments.items() %}<parameter={{ k }}>\n{{ v }}\n"
        "</parameter>\n{% endfor %}</function>\n</tool_call>"
    ),
    "GLM": with_calls(
        "<tool_call>{{ f.name }}\n{% for k, v in f.arguments.items() %}<arg_key>{{ k }}</arg_key>\n"
        "<arg_value>{{ v }}</arg_value>\n{% endfor %}</tool_call>"
    ),
    "Kimi": with_calls(
        "<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>{{ f.arguments | tojson }}<|tool_call_end|>",
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
    ),
    "DeepSeek": with_calls(
        "{% if m.content %}{{ raise_exception('no words') }}{% endif %}"
        "<｜tool▁call▁begin｜>{{ f.name }}<｜tool▁sep｜>{{ f.arguments + '' }}<｜tool▁call▁end｜>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
    ),
    "words behind": (
        f"{OFFER}{{% for m in messages %}}{{% if m.tool_calls %}}<|im_start|>assistant\n<|tool_call|>"
        "[{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}]<|/tool_call|>{{ m.content or '' }}"
        f"<|im_end|>\n{PLAIN}{OPEN}"
    ),
    "a thought is opened": with_calls(
        '<tool_call>\n{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}}\n</tool_call>',
        "<think>\n</think>\n",
    ).replace(OPEN, OPEN.replace("{% endif %}", "<think>\n{% endif %}")),
    "Mistral": (
        "{% set n = namespace(at=0) %}{% for m in messages %}"
        "{% if m.role in ['user', 'assistant'] and not m.tool_calls %}{% if (m.role == 'user') != (n.at % 2 == 0) %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}{% set n.at = n.at + 1 %}{% endif %}{% endfor %}"
        "<s>{% for m in messages %}"
        "{% if m.role == 'user' %}{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}"
        "[INST]{{ m.content }}[/INST]{% elif m.role == 'system' %}{{ m.content }}"
        "{% elif m.role == 'tool' %}"
        "{% if m.tool_call_id | length != 9 %}{{ raise_exception('nine, please') }}{% endif %}"
        "[TOOL_RESULTS]{{ m.content | tojson }}[/TOOL_RESULTS]"
        "{% elif m.tool_calls %}[TOOL_CALLS][{% for c in m.tool_calls %}{% if c.id | length != 9 %}"
        "{{ raise_exception('nine, please') }}{% endif %}{{ dict(c.function, id=c.id) | tojson }}{% endfor %}]</s>"
        "{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
    ),
    "gpt-oss": (
        "{% if tools %}<|start|>developer<|message|>{{ tools | tojson }}<|end|>{% endif %}"
        "{% set n = namespace(name='') %}{% for m in messages %}{% if m.tool_calls %}"
        "{% if m.content %}<|start|>assistant<|channel|>analysis<|message|>{{ m.content }}<|end|>{% endif %}"
        "{% set n.name = m.tool_calls[0].function.name %}<|start|>assistant to=functions.{{ n.name }}"
        "<|channel|>commentary json<|message|>{{ m.tool_calls[0].function.arguments | tojson }}<|call|>"
        "{% elif m.role == 'tool' %}{% if not n.name %}{{ raise_exception('no call before') }}{% endif %}"
        "<|start|>functions.{{ n.name }} to=assistant<|message|>{{ m.content }}<|end|>"
        "{% elif m.role == 'assistant' %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}"
        "{{ '<|return|>' if loop.last else '<|end|>' }}"
        "{% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
    ),
}
UNREAD = "writes tool calls in a form that agentlearn does not read"
DESCRIBED = {
    "an unknown form": (with_calls("CALL {{ f.name }} WITH {{ f.arguments | tojson }}"), UNREAD),
    "Python's form of arguments": (
        with_calls('<tool_call>\n{"name": "{{ f.name }}", "arguments": {{ f.arguments }}}\n</tool_call>').replace(
            "tool_call>", "own_call>"
        ),
        UNREAD,
    ),
    "quotation marks are lost": (with_calls("<tool_call>\n<function={{ f.name }}>\n</function>\n</tool_call>"), UNREAD),
    "without tools": (READ["Hermes"].replace(OFFER, ""), "knows no tools"),
    "without results": (
        READ["Hermes"].replace("{{ m.content }}<|im_end|>\n{% else %}", "<|im_end|>\n{% else %}"),
        "does not show a tool call with its result",
    ),
    "refuses calls": (
        READ["Hermes"].replace("{% if m.tool_calls %}", "{% if m.tool_calls %}{{ raise_exception('no calls') }}"),
        "does not show a tool call with its result",
    ),
}


def chat_of(template: str, **more: Any) -> TemplateFormat:
    tokenizer = tiny_tokenizer(template)
    tokenizer.add_special_tokens({"additional_special_tokens": list(MARKS)})
    for name, value in more.items():
        setattr(tokenizer, name, value)
    ends: Any = tokenizer.convert_tokens_to_ids(list(ENDS))
    return TemplateFormat(tokenizer, stop_ids=frozenset(ends))


def test_a_template_whose_calls_cannot_be_read_gets_the_tools_in_words(subtests: pytest.Subtests) -> None:
    for name, (template, why) in DESCRIBED.items():
        with subtests.test(name):
            chat = chat_of(template)
            note = f"the chat template of 'my-model' {why}: the tools were described in the instructions"
            assert chat.abilities.check("my-model", tools=True) == (note,)
            assert chat.abilities.check("my-model", tools=False) == ()
            prompt = chat.render([Message("user", "Go.")], [TOOL])
            assert "You can call these tools" in prompt
            assert TOOL.size in prompt


def turns(chat: TemplateFormat, written: list[str]) -> list[str]:
    """The prompts of a conversation in which the model writes these calls, each of which gets the result `done`."""
    said, prompts = [Message("user", "Go.")], []
    for at, text in enumerate(written):
        prompts.append(chat.render(said, [TOOL]))
        call = CallInMessage(f"call_{at}", "run", '{"code": "1"}')
        said += [Message("assistant", "", (call,), verbatim=text), Message("tool", f"done {at}", answers=call.id)]
    return [*prompts, chat.render(said, [TOOL])]


def test_the_next_prompt_starts_with_what_was_read_and_written(subtests: pytest.Subtests) -> None:
    for name, template in (READ | {name: template for name, (template, _) in DESCRIBED.items()}).items():
        with subtests.test(name):
            written = [f"\n I  call {at}." for at in range(3)]
            prompts = turns(chat_of(template), written)
            for before, text, after in zip(prompts, written, prompts[1:], strict=False):
                assert after.startswith(before + text)
            assert all(prompts[-1].count(f"done {at}") == 1 for at in range(3))
            assert "print" not in prompts[-1]


def test_a_checkpoint_that_says_how_its_replies_are_read_is_read_with_transformers() -> None:
    template = with_calls("@{{ f.name }} {{ f.arguments | tojson }}@")
    reads = {
        "start_anchor": "<|im_start|>assistant\n",
        "fields": {
            "tool_calls": {
                "open_pattern": r"@(?P<name>\w+) ",
                "close": "@",
                "repeats": True,
                "content": "json",
                "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
            },
            "content": {"content": "text"},
        },
    }
    chat = chat_of(template, response_template=reads)
    assert chat.abilities.check("my-model", tools=True) == ()
    prompt = chat.render([Message("user", "Go.")], [TOOL])
    assert chat.parse('Ok.@run {"code": "1"}@', [TOOL], prompt=prompt) == ParsedAnswer(
        "Ok.", (("run", '{"code": "1"}'),)
    )
    for text in ("Ok.", "Ok.@run {@"):
        assert chat.parse(text, [TOOL], prompt=prompt) == ParsedAnswer(text)
    assert UNREAD in chat_of(template, response_template={"fields": {}}).abilities.check("my-model", tools=True)[0]


def test_the_templates_of_real_models_are_read_or_described(subtests: pytest.Subtests) -> None:
    """TRL ships the chat templates of about thirty model families."""
    folder = files(pytest.importorskip("trl")) / "chat_templates"
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if not file.name.endswith(".jinja") or file.name.startswith(("idefics", "llava", "smolvlm")):
            continue  # the last three take texts only as lists of parts
        with subtests.test(file.name):
            chat = chat_of(file.read_text(encoding="utf-8"), bos_token="<s>")
            why = chat.abilities.tools_as_text
            assert not chat.abilities.refused
            assert not chat.abilities.tools_refused
            if (
                file.name.startswith(("qwen3", "llama3_", "glm", "gpt", "gemma4", "nemotron"))
                and "training" not in file.name
            ):
                assert why == ""
            try:
                prompts = turns(chat, ["I call."] * 2)
            except RequestRefused as refused:
                pytest.fail(refused.message)
            assert all(after.startswith(before + "I call.") for before, after in pairwise(prompts))
