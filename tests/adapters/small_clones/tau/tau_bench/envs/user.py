"""Who plays the readers."""

from typing import Any

from litellm import completion


class LLMUserSimulationEnv:
    """A model, which is asked by its constructor already."""

    def __init__(self, model: str = "") -> None:
        self.messages: list[dict[str, Any]] = []
        self.reset()

    def generate_next_message(self, messages: list[dict[str, Any]]) -> str:
        text = completion(messages=messages).choices[0].message.content
        self.messages.append({"role": "assistant", "content": text})
        return text

    def reset(self, instruction: str | None = None) -> str:
        told = {"role": "system", "content": f"You are a reader. {instruction} Write ###STOP### at the end."}
        self.messages = [told, {"role": "user", "content": "Welcome to the desk!"}]
        return self.generate_next_message(self.messages)

    def step(self, content: str) -> str:
        self.messages.append({"role": "user", "content": content})
        return self.generate_next_message(self.messages)
