"""The lab model's chat format: messages as a prompt, and answers as text and tool calls."""

from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn.serving import chat_request as chatml
from agentlearn.serving.chat_request import Message, ParsedAnswer, Tool
from agentlearn.serving.tool_calls import parse_calls
from agentlearn_demo.lab.tokenizer import LabTokenizer


@dataclass(frozen=True, slots=True, eq=False)
class LabFormat:
    """Implements `agentlearn.serving.chat_request.ChatFormat`."""

    tokenizer: LabTokenizer

    @property
    def stop_ids(self) -> frozenset[int]:
        """The token that ends a message."""
        return frozenset({self.tokenizer.id_of(chatml.END)})

    def render(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:
        """Return the prompt for the assistant's next message. It contains only the names of tools."""
        return chatml.conversation_text(messages, [tool.name for tool in tools])

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return self.tokenizer.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens."""
        return self.tokenizer.decode(ids)

    def parse(self, text: str, tools: Sequence[Tool], *, prompt: str) -> ParsedAnswer:
        """Split an answer into text and tool calls."""
        return parse_calls(text, tools, prompt=prompt)
