"""Chat as a model's own text: what it is given, and what is read out of its answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentlearn.serving.chat_request import Message, Tool


@dataclass(frozen=True, slots=True)
class Spoken:
    """An answer, read."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Tool and arguments as JSON, in the model's own writing."""


class ChatFormat(Protocol):
    """One model's tokenizer and chat template."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""
        ...

    def render(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:
        """The prompt: the conversation, and the words after which the assistant speaks.

        A message's `spoken`, where there is one, stands verbatim. Raises Refused (400) for what cannot be said so.
        """
        ...

    def encode(self, text: str) -> list[int]:
        """Its tokens; special ones are recognised, and none is added."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Their text, special ones included."""
        ...

    def parse(self, text: str) -> Spoken:
        """What an answer says, without the token that ends it. What cannot be read as a call stays text."""
        ...
