"""Who plays the customers."""

from typing import Any

from state_bench.client import LLMClient


class UserSimulator:
    def __init__(self, client: LLMClient, system_prompt: str) -> None:
        self.client, self.system_prompt = client, system_prompt

    def respond(self, conversation: list[dict[str, Any]]) -> str:
        lines = []
        for one in conversation:
            called = "".join(f"[{call['name']}] " for call in one.get("tool_calls") or ())
            lines.append(f"{one['role']}: {called}{one['content']}")
        said = "So far:\n" + "\n".join(lines) + "\nYour reply:"
        return self.client.complete_chat(
            messages=[{"role": "system", "content": self.system_prompt}, {"role": "user", "content": said}]
        ).strip()
