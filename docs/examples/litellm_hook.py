"""Lessons in LiteLLM's proxy: put this file beside its configuration, and name it there.

    litellm_settings:
      callbacks: litellm_hook.agentlearn_lessons

The variable AGENTLEARN_LIBRARY names the library, AGENTLEARN_STORE its store. A new version is used from the next call
on. Nothing is recorded; for records and feedback use `agentlearn serve`.
"""

import os
from typing import Any

from litellm.integrations.custom_logger import CustomLogger

from agentlearn import lessons


class AgentlearnLessons(CustomLogger):
    """Adds lessons to the system message of each chat call."""

    def __init__(self) -> None:
        super().__init__()
        self._lessons = lessons(os.environ["AGENTLEARN_LIBRARY"], follow=True, missing="empty")

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> Any:
        """Return the request with lessons. Called by LiteLLM before each call."""
        messages = data.get("messages")
        if call_type in {"completion", "acompletion"} and isinstance(messages, list):
            asked = next((one for one in reversed(messages) if one.get("role") == "user"), {})
            advice = self._lessons.for_query(str(asked.get("content", "")))
            data["messages"] = advice.messages(messages)
        return data


agentlearn_lessons = AgentlearnLessons()
