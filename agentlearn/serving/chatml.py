"""Conversations as one text: ChatML, with tool calls in the manner of Hermes.

Everything of the assistant's is kept verbatim, so that a conversation that goes on begins with the very text that was
sampled before. `TEMPLATE` says the same to programs that render with jinja; a test holds the two together.
"""

import json
from collections.abc import Sequence

from agentlearn.serving.chat_request import Called, Message

START = "<|im_start|>"
END = "<|im_end|>"
CALL = "<tool_call>\n"
CALL_END = "\n</tool_call>"
TOOLS = "Tools: "
ANSWER = f"{START}assistant\n"

TEMPLATE = """\
{%- set ns = namespace(system='', tools='') -%}
{%- for tool in tools or [] -%}
{%- set ns.tools = ns.tools + (', ' if ns.tools else '') + tool.function.name -%}
{%- endfor -%}
{%- for message in messages if message.role in ['system', 'developer'] and message.content -%}
{%- set ns.system = ns.system + ('\n\n' if ns.system else '') + message.content -%}
{%- endfor -%}
{%- if ns.tools -%}{%- set ns.system = ns.system + ('\n\n' if ns.system else '') + 'Tools: ' + ns.tools -%}{%- endif -%}
{%- if ns.system -%}{{- '<|im_start|>system\n' + ns.system + '<|im_end|>\n' -}}{%- endif -%}
{%- for message in messages if message.role not in ['system', 'developer'] -%}
{%- set said = message.content or '' -%}
{{- '<|im_start|>' + message.role + '\n' + said -}}
{{- '\n' if message.tool_calls and said and not said.endswith('\n') else '' -}}
{%- for call in message.tool_calls or [] -%}
{%- set function = call.function or call -%}
{{- '\n' if not loop.first else '' -}}
{{- '<tool_call>\n{"name": ' + function.name | tojson + ', "arguments": ' -}}
{%- if function.arguments is string -%}{{- function.arguments -}}
{%- else -%}{{- function.arguments | tojson(separators=(',', ':')) -}}{%- endif -%}
{{- '}\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
"""
"""For `tokenizer.chat_template`; arguments are written without white space, as pydantic-ai sends them."""


def written(messages: Sequence[Message], tools: Sequence[str] = (), *, answer: bool = True) -> str:
    """The conversation as one text. tools: names; answer: whether the assistant speaks next."""
    return opening(messages, tools) + "".join(map(turn, messages)) + (ANSWER if answer else "")


def opening(messages: Sequence[Message], tools: Sequence[str] = ()) -> str:
    """What stands before the conversation: all that the system says, and which tools there are."""
    said = [message.text for message in messages if message.role == "system" and message.text]
    offered = [TOOLS + ", ".join(tools)] if tools else []
    return f"{START}system\n" + "\n\n".join(said + offered) + f"{END}\n" if said or offered else ""


def turn(message: Message) -> str:
    """One message; nothing for the system's."""
    if message.role == "system":
        return ""
    return f"{START}{message.role}\n{spoken(message)}{END}\n"


def spoken(message: Message) -> str:
    """What a message says and calls: verbatim where that is known, else with every call on lines of its own."""
    if message.spoken:
        return message.spoken
    between = "\n" if message.calls and message.text and not message.text.endswith("\n") else ""
    return message.text + between + "\n".join(call(one) for one in message.calls)


def call(called: Called) -> str:
    """A tool call."""
    name = json.dumps(called.name, ensure_ascii=False)
    return f'{CALL}{{"name": {name}, "arguments": {called.arguments}}}{CALL_END}'
