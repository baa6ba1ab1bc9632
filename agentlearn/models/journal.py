"""The journal of a run: every answered model call and every tool result is committed before it is used.

The store implements the protocol that is defined here, so that model calls do not import the store.
"""

from datetime import datetime
from typing import Literal, Protocol

from agentlearn.types.ids import CallId, RunId
from agentlearn.types.value import Value

Stage = Literal["rollout", "summarise", "compare", "consolidate", "judge", "probe", "solve"]


class CallRecord(Value):
    """An answered model call or a tool result."""

    id: CallId
    """Hash of (run, stage, unit, kind, ordinal, request). A resumed run gets the same id for the same call."""
    run: RunId
    stage: Stage
    unit: str
    """Unit of work that made the call: a rollout id, or the stage's own key."""
    ordinal: int
    """Index among the unit's records of the same kind, from 0."""
    kind: Literal["model", "tool"]
    name: str
    """Model name or tool name."""
    ok: bool
    error: str = ""
    """Status of a failed tool call; empty when ok."""
    response: str = ""
    """JSON of pydantic-ai's `ModelResponse`, or the tool's text."""
    request_hash: str = ""
    """Hash of the request; part of the id."""
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    """None when the price is unknown."""
    attempts: int = 1
    """Number of requests sent, including retries."""
    seconds: float = 0.0
    at: datetime


class Journal(Protocol):
    """Stores the records of a run."""

    async def record(self, record: CallRecord) -> None:
        """Store the record durably before returning. Raises StoreError."""
        ...

    def recorded(self, identity: CallId) -> CallRecord | None:
        """Return the record with that id from the interrupted run that is being resumed; None when there is none."""
        ...

    def began(self, unit: str) -> bool:
        """Whether the interrupted run has records of that unit of work and did not finish it."""
        ...
