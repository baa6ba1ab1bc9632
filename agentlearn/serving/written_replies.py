"""The exact text of earlier answers. Clients send an answer back as text and calls, not as the model wrote it."""

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentlearn.serving.chat_format import ParsedAnswer
from agentlearn.serving.chat_request import Message

MAX_ANSWERS = 20_000


@dataclass(frozen=True, slots=True)
class _Answer:
    written: str
    parsed: ParsedAnswer


class WrittenReplies:
    """The exact text of answers, by the ids of their calls, or by their text if they have no calls."""

    def __init__(self, limit: int = MAX_ANSWERS) -> None:
        self._limit = limit
        self._answers: OrderedDict[tuple[str, ...] | str, _Answer] = OrderedDict()

    def store(self, written: str, parsed: ParsedAnswer, calls: Sequence[str]) -> None:
        """Store an answer. calls: ids of its tool calls."""
        key = tuple(calls) or parsed.text
        self._answers.pop(key, None)
        self._answers[key] = _Answer(written, parsed)
        if len(self._answers) > self._limit:
            self._answers.popitem(last=False)

    def restored(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages; unchanged assistant messages get their `verbatim` text."""
        return tuple(self._restored(message) if message.role == "assistant" else message for message in messages)

    def _restored(self, message: Message) -> Message:
        key = tuple(call.id for call in message.calls) or message.text
        known = self._answers.get(key)
        sent = ParsedAnswer(message.text, tuple((call.name, call.arguments) for call in message.calls))
        if known is None or _meaning(known.parsed) != _meaning(sent):
            return message
        self._answers.move_to_end(key)
        return replace(message, verbatim=known.written)


def _meaning(parsed: ParsedAnswer) -> tuple[object, ...]:
    """The part of an answer to compare. Clients may change the white space in arguments."""
    return parsed.text, [(name, _value(arguments)) for name, arguments in parsed.calls]


def _value(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
