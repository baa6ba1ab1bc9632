"""How chats become the lab model's words, and its words an answer."""

from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn.lab.tokenizer import LabTokenizer
from agentlearn.serving import chatml
from agentlearn.serving.chat_format import Spoken
from agentlearn.serving.chat_request import Message, Tool
from agentlearn.serving.hermes import hermes


@dataclass(frozen=True, slots=True, eq=False)
class LabFormat:
    """Implements `agentlearn.serving.chat_format.ChatFormat`."""

    tokenizer: LabTokenizer

    @property
    def stop_ids(self) -> frozenset[int]:
        """The token that ends a message."""
        return frozenset({self.tokenizer.id_of(chatml.END)})

    def render(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:
        """The prompt for the assistant's next message; of tools it is told the names alone."""
        return chatml.written(messages, [tool.name for tool in tools])

    def encode(self, text: str) -> list[int]:
        """Its tokens."""
        return self.tokenizer.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Their text."""
        return self.tokenizer.decode(ids)

    def parse(self, text: str) -> Spoken:
        """Text and tool calls."""
        return hermes(text)
