"""Tools for a chat template that knows none: they are described in the system message, and calls and results are text.

The form of calls and results is that of Hermes, which `agentlearn.serving.tool_calls` reads.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from agentlearn.prompts import load_prompt
from agentlearn.serving.chat_request import CallInMessage, Message, Tool


def tools_in_words(messages: Sequence[Message], tools: Sequence[Tool]) -> Sequence[Message]:
    """Return the conversation with its tools, calls and results as text. Results in a row become one user message."""
    made: list[Message] = []
    in_results = False
    for one in messages:
        if one.role != "tool":
            made.append(_call_as_text(one))
        elif in_results:
            made[-1] = replace(made[-1], text=f"{made[-1].text}\n{_result(one)}")
        else:
            made.append(Message("user", _result(one)))
        in_results = one.role == "tool"
    return _with_description(made, tools) if tools else made


def _with_description(messages: Sequence[Message], tools: Sequence[Tool]) -> Sequence[Message]:
    """Put the description of the tools behind the instructions."""
    described = load_prompt("tools_in_words", 1).fill({"tools": "\n".join(tool.size for tool in tools)}).strip()
    system = [one.text for one in messages if one.role == "system"]
    rest = [one for one in messages if one.role != "system"]
    return [Message("system", "\n\n".join(filter(None, [*system, described]))), *rest]


def _call_as_text(message: Message) -> Message:
    """The message with its calls written out; what the model itself wrote stays as it is."""
    if not message.calls:
        return message
    text = "\n".join(filter(None, [message.text, *map(_call, message.calls)]))
    return replace(message, text=text, calls=())


def _call(call: CallInMessage) -> str:
    try:
        arguments: object = json.loads(call.arguments)
    except ValueError:
        arguments = call.arguments
    body = json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def _result(message: Message) -> str:
    return f"<tool_response>\n{message.text}\n</tool_response>"
