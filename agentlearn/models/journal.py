"""The journal: every answered model call and every tool result is committed before it is used.

The protocol stands here, low in the layers, so that calls need not know the store that implements it.
"""

from datetime import datetime
from typing import Literal, Protocol

from agentlearn.types.ids import CallId, RunId
from agentlearn.types.value import Value

JOURNAL_SCHEMA = 1

Stage = Literal["rollout", "summarise", "compare", "consolidate", "judge", "probe", "solve"]


class CallRecord(Value):
    """One entry of the journal: an answered model call, or a tool's result."""

    id: CallId
    """Hash of (run, stage, unit, kind, ordinal, request): the same question of a run has the same id when it is asked
    again by whoever resumes the run, and another question has another."""
    run: RunId
    stage: Stage
    unit: str
    """What the call belongs to: a rollout id, or the stage's own key."""
    ordinal: int
    """Place among the unit's records of its kind."""
    kind: Literal["model", "tool"]
    name: str
    """Model name or tool name."""
    ok: bool
    error: str = ""
    """Stable code and sentence when not ok."""
    response: str = ""
    """Parsed `ModelResponse` as pydantic-ai JSON, or the tool's text."""
    request_hash: str = ""
    """Hash of what was asked; part of the id."""
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    attempts: int = 1
    """Requests sent for it, retries included."""
    seconds: float = 0.0
    at: datetime


class Journal(Protocol):
    """Where records go."""

    async def record(self, record: CallRecord) -> None:
        """Return only when the record is durable. Raises StoreError."""
        ...

    def recorded(self, identity: CallId) -> CallRecord | None:
        """What the interrupted run that is being resumed had recorded under that id; None when nothing."""
        ...

    def began(self, unit: str) -> bool:
        """Whether that run had recorded anything for that unit, and had not finished it."""
        ...
