"""What a model itself wrote, word for word: a client sends an answer back as text and calls, not as it was written."""

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentlearn.serving.chat_format import Spoken
from agentlearn.serving.chat_request import Message

REMEMBERED_ANSWERS = 20_000


@dataclass(frozen=True, slots=True)
class _Answer:
    written: str
    spoken: Spoken


class Recall:
    """Answers by the ids of their calls, or by their text where they have none."""

    def __init__(self, limit: int = REMEMBERED_ANSWERS) -> None:
        self._limit = limit
        self._answers: OrderedDict[tuple[str, ...] | str, _Answer] = OrderedDict()

    def keep(self, written: str, spoken: Spoken, calls: Sequence[str]) -> None:
        """Remember an answer. calls: the ids that its tool calls were given."""
        key = tuple(calls) or spoken.text
        self._answers.pop(key, None)
        self._answers[key] = _Answer(written, spoken)
        if len(self._answers) > self._limit:
            self._answers.popitem(last=False)

    def restored(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The messages; those of the assistant that come back unchanged with what the model wrote."""
        return tuple(self._restored(message) if message.role == "assistant" else message for message in messages)

    def _restored(self, message: Message) -> Message:
        key = tuple(call.id for call in message.calls) or message.text
        known = self._answers.get(key)
        says = Spoken(message.text, tuple((call.name, call.arguments) for call in message.calls))
        if known is None or _meaning(known.spoken) != _meaning(says):
            return message
        self._answers.move_to_end(key)
        return replace(message, spoken=known.written)


def _meaning(spoken: Spoken) -> tuple[object, ...]:
    """What counts: clients write arguments anew, with other white space."""
    return spoken.text, [(name, _value(arguments)) for name, arguments in spoken.calls]


def _value(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
