"""The interface of chat formats: messages as a prompt, and the model's text as an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentlearn.serving.chat_request import Message, Tool


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """A model's answer, split into text and tool calls."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Tool name and arguments of each call. Arguments are the JSON text that the model wrote."""


class ChatFormat(Protocol):
    """One model's tokenizer and chat template."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""
        ...

    def render(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:
        """Return the prompt: the conversation, and the text that starts the assistant's answer.

        A message's `verbatim` text is used unchanged. Raises RequestRefused (400) for messages it cannot render.
        """
        ...

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text. Special tokens are recognised; none is added."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, special tokens included."""
        ...

    def parse(self, text: str, tools: Sequence[Tool], *, prompt: str) -> ParsedAnswer:
        """Parse an answer without its stop token. Text that is not a valid call stays text.

        tools: those that were offered. prompt: what the model read; a template may write the start of an answer itself.
        """
        ...
