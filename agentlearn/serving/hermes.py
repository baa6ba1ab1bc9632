"""Parsing tool calls in the form of Hermes and Qwen: JSON between `<tool_call>` tags, after any text."""

import json
import re
from typing import cast

from agentlearn.serving.chat_format import ParsedAnswer

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_ARGUMENTS = re.compile(r'"arguments"\s*:\s*')
_DECODER = json.JSONDecoder()


def parse_hermes(text: str) -> ParsedAnswer:
    """Return text and tool calls of an answer.

    Arguments stay as the model wrote them. If a call is malformed, or text follows a call, the whole answer is text, so
    that nothing is lost.
    """
    first = text.find("<tool_call>")
    if first < 0:
        return ParsedAnswer(text)
    calls = tuple(_call(body) for body in _CALL.findall(text))
    between = _CALL.sub("", text[first:])
    if between.strip() or not all(calls):
        return ParsedAnswer(text)
    return ParsedAnswer(text[:first].strip(), cast("tuple[tuple[str, str], ...]", calls))


def _call(body: str) -> tuple[str, str] | None:
    """Tool name and arguments of a call; None unless it is `{"name": text, "arguments": object}`."""
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
    """The arguments as the model wrote them; rewritten if their text cannot be found."""
    for found in _ARGUMENTS.finditer(body):
        try:
            value, end = _DECODER.raw_decode(body, found.end())
        except (ValueError, RecursionError):
            continue
        if value == arguments:
            return body[found.end() : end]
    return json.dumps(arguments, ensure_ascii=False)
