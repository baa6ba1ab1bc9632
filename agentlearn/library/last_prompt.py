"""What an agent is asked, as text: the query of retrieval."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast


def text_of(prompt: object) -> str:
    """The texts of a user prompt, without its images, files and other content."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Mapping):
        return text_of(cast("Mapping[str, Any]", prompt).get("text"))
    if isinstance(prompt, Sequence):
        return "\n".join(filter(None, map(text_of, cast("Sequence[object]", prompt))))
    found = getattr(prompt, "content", None) or getattr(prompt, "text", None)
    return found if isinstance(found, str) else ""


def asked_in(messages: Iterable[Any]) -> str:
    """The last user prompt in messages of pydantic-ai, for a run that continues without one of its own."""
    for message in reversed(list(messages)):
        for part in reversed(getattr(message, "parts", ())):
            if getattr(part, "part_kind", "") == "user-prompt":
                return text_of(part.content)
    return ""
