"""Tool calls as Hermes, Qwen and their kin write them: JSON between `<tool_call>` tags, after any text."""

import json
import re
from typing import cast

from agentlearn.serving.chat_format import Spoken

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_ARGUMENTS = re.compile(r'"arguments"\s*:\s*')
_DECODER = json.JSONDecoder()


def hermes(text: str) -> Spoken:
    """Text and tool calls of an answer.

    Arguments stay as the model wrote them. Where one call is malformed, or text follows a call, all of it is text, so
    that the agent sees what the model wrote and nothing is lost.
    """
    first = text.find("<tool_call>")
    if first < 0:
        return Spoken(text)
    calls = tuple(_call(body) for body in _CALL.findall(text))
    between = _CALL.sub("", text[first:])
    if between.strip() or not all(calls):
        return Spoken(text)
    return Spoken(text[:first].strip(), cast("tuple[tuple[str, str], ...]", calls))


def _call(body: str) -> tuple[str, str] | None:
    """Tool and arguments of one call; None where it is no `{"name": text, "arguments": object}`."""
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    match value:
        case {"name": str(name), "arguments": dict() as arguments}:
            return name, _verbatim(body, arguments)
        case _:
            return None


def _verbatim(body: str, arguments: object) -> str:
    """The arguments in the model's own writing, or in ours where its writing cannot be told."""
    for found in _ARGUMENTS.finditer(body):
        try:
            value, end = _DECODER.raw_decode(body, found.end())
        except (ValueError, RecursionError):
            continue
        if value == arguments:
            return body[found.end() : end]
    return json.dumps(arguments, ensure_ascii=False)
