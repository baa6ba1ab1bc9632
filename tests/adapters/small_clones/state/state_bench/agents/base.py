"""An agent that is evaluated."""

from typing import Any


class BaseAgent:
    def generate_next_turn(self, *, system_prompt: str, conversation: list[Any], tools: list[Any]) -> dict[str, Any]:
        raise NotImplementedError
