"""The texts that an agent sent to its model, read from the stored messages of a rollout."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SentTexts:
    """Texts of a rollout's requests, each once, in order of first use."""

    instructions: tuple[str, ...]
    """Instructions as sent: the agent's own text and the lessons. Several when they changed during the rollout."""
    system: tuple[str, ...]
    """Other system messages."""
    user: tuple[str, ...]
    """User messages: the problem as the agent was asked it."""

    @classmethod
    def of(cls, messages: bytes) -> "SentTexts":
        """Read pydantic-ai's JSON of the messages. What has another form is left out."""
        requests = [one for one in _objects(_loaded(messages)) if one.get("kind") == "request"]
        parts = [part for request in requests for part in _objects(request.get("parts"))]
        return cls(
            instructions=_unique(one["instructions"] for one in requests if one.get("instructions")),
            system=_unique(_content(part) for part in parts if part.get("part_kind") == "system-prompt"),
            user=_unique(_content(part) for part in parts if part.get("part_kind") == "user-prompt"),
        )

    @property
    def as_json(self) -> dict[str, list[str]]:
        """The texts for JSON output."""
        return {"instructions": list(self.instructions), "system": list(self.system), "user": list(self.user)}

    def hold(self, text: str) -> bool:
        """Whether the text is part of any instructions or system message."""
        return any(text in one for one in (*self.instructions, *self.system))


def _loaded(messages: bytes) -> object:
    try:
        return json.loads(messages)
    except ValueError:
        return []


def _objects(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, dict))


def _content(part: dict[str, Any]) -> str:
    """The text of a part; what is not text, such as an image, is named by its kind."""
    content = part.get("content")
    if isinstance(content, str):
        return content
    pieces = content if isinstance(content, list) else [content]
    return "\n".join(one if isinstance(one, str) else f"[{_kind(one)}]" for one in pieces)


def _kind(piece: object) -> str:
    return str(piece.get("kind", "object")) if isinstance(piece, dict) else type(piece).__name__


def _unique(texts: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(one) for one in texts))
