"""Conversations as text: ChatML, with tool calls in Hermes' form.

Assistant messages are kept verbatim, so a conversation that continues starts with exactly the text sampled before.
`TEMPLATE` renders the same text with jinja; a test compares the two.
"""

import json
from collections.abc import Sequence

from agentlearn.serving.chat_request import CallInMessage, Message

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
"""For `tokenizer.chat_template`. Arguments are written without white space, as pydantic-ai sends them."""


def conversation_text(messages: Sequence[Message], tools: Sequence[str] = (), *, answer: bool = True) -> str:
    """Return the conversation as text. tools: their names; answer: whether to add the start of an answer."""
    return system_text(messages, tools) + "".join(map(turn_text, messages)) + (ANSWER if answer else "")


def system_text(messages: Sequence[Message], tools: Sequence[str] = ()) -> str:
    """Return the system message: the text of all system messages, and the names of the tools."""
    said = [message.text for message in messages if message.role == "system" and message.text]
    offered = [TOOLS + ", ".join(tools)] if tools else []
    return f"{START}system\n" + "\n\n".join(said + offered) + f"{END}\n" if said or offered else ""


def turn_text(message: Message) -> str:
    """Return one message as text; empty for system messages."""
    if message.role == "system":
        return ""
    return f"{START}{message.role}\n{message_text(message)}{END}\n"


def message_text(message: Message) -> str:
    """Return text and calls of a message: verbatim if known, else with each call on its own lines."""
    if message.verbatim:
        return message.verbatim
    between = "\n" if message.calls and message.text and not message.text.endswith("\n") else ""
    return message.text + between + "\n".join(call_text(one) for one in message.calls)


def call_text(call: CallInMessage) -> str:
    """Return a tool call as text."""
    name = json.dumps(call.name, ensure_ascii=False)
    return f'{CALL}{{"name": {name}, "arguments": {call.arguments}}}{CALL_END}'
