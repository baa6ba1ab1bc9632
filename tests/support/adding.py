"""A typed agent that adds two numbers with a tool, and an engine that answers it with unusual tokens.

This module needs torch and transformers, so test modules that import it begin with `pytest.importorskip("torch")`.
"""

from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent

from agentlearn.serving.chat_service import Sampled, Sampling
from tests.support.tiny_model import tiny_tokenizer

CALLS = '<tool_call>\n{"name": "add", "arguments": {"a":2,  "b": 3}}\n</tool_call>'
HAND_IN = '<tool_call>\n{"name": "final_result", "arguments": {"total": 5}}\n</tool_call>'
SAID = (f"I add.\n\n{CALLS}", f"\n{HAND_IN}")


class Total(BaseModel):
    total: int


def adder(model: Any = None) -> Agent[None, Total]:
    agent = Agent(model, output_type=Total, instructions="Add.")

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return agent


def spelled(tokenizer: Any, text: str) -> list[int]:
    """Encode each character separately, unlike the tokenizer."""
    return [one for byte in text for one in tokenizer.encode(byte, add_special_tokens=False)]


@dataclass
class Reciting:
    """An engine that gives the two answers, partly encoded character by character, and keeps prompts and answers."""

    context: int = 512
    seen: list[tuple[list[int], list[int]]] = field(default_factory=list)

    async def sample(self, prompt: Any, sampling: Sampling) -> Sampled:
        tokenizer = tiny_tokenizer()
        text = SAID[min(len(self.seen), 1)].replace(CALLS, "@")
        before, _, after = text.partition("@")
        call = tokenizer.encode(CALLS, add_special_tokens=False) if "@" in text else []
        end = tokenizer.encode(after, add_special_tokens=False) if HAND_IN in after else spelled(tokenizer, after)
        whole = [*(spelled(tokenizer, before) if call else []), *call]
        ids = [*whole, *(end if call else tokenizer.encode(text, add_special_tokens=False)), tokenizer.eos_token_id]
        self.seen.append((list(prompt), ids))
        return Sampled(tuple(ids), (0.0,) * len(ids), "stop")
