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
from tests.support.cases import cases
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


READ = cases(__file__, "read")
"""Templates whose calls are read, by the family that they are like."""
UNREAD = "writes tool calls in a form that agentlearn does not read"
DESCRIBED = cases(__file__, "described")
"""Templates whose calls are not read, with the reason."""


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


@pytest.mark.slow
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
