"""A unit of work: one rollout, one summary, one comparison, with the calls that it has made."""

import asyncio
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentlearn.models.call_context import CallContext, CallRecord, Stage
from agentlearn.types.ids import CallId, content_hash

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability


@dataclass(slots=True)
class WorkUnit:
    """One unit of work of a run, and its calls so far."""

    call_context: CallContext
    stage: Stage
    name: str
    """A rollout id, or the stage's own key; unique within run and stage."""
    seed: int
    """Seed from which the seed of each request is derived."""
    asked: Counter[str] = field(default_factory=Counter[str])
    """Number of records so far, by kind (`model`, `tool`)."""
    calls: list[CallRecord] = field(default_factory=list[CallRecord])
    """Answered model calls, in order."""
    live: bool = False
    """Whether a call was made that the journal does not hold. From then on nothing is replayed."""
    deadline: asyncio.Timeout | None = None
    """Time limit of the unit; None: it has none."""

    @contextmanager
    def clock_stopped(self) -> Generator[None]:
        """Stop the unit's time limit during the block."""
        started = asyncio.get_running_loop().time()
        until = None if self.deadline is None else self.deadline.when()
        if self.deadline is None or until is None or self.deadline.expired():
            yield
            return
        self.deadline.reschedule(None)
        try:
            yield
        finally:
            self.deadline.reschedule(until + asyncio.get_running_loop().time() - started)

    def give_back(self, seconds: float) -> None:
        """Move the unit's time limit by seconds that it has lost to a silent service."""
        until = None if self.deadline is None else self.deadline.when()
        if self.deadline is not None and until is not None and not self.deadline.expired():
            self.deadline.reschedule(until + seconds)

    def next_ordinal(self, kind: str) -> int:
        """Return the index, from 0, of the next record of that kind."""
        self.asked[kind] += 1
        return self.asked[kind] - 1

    def call_id(self, kind: str, ordinal: int, request_hash: str) -> CallId:
        """Return the id of a call; a resumed run gets the same id for the same call."""
        return CallId(content_hash("call", self.call_context.run, self.stage, self.name, kind, ordinal, request_hash))

    async def recorded(self, identity: CallId) -> CallRecord | None:
        """Return the record with that id from an interrupted run; None from the first call that has none."""
        past = None if self.live else await self.call_context.journal.recorded(identity)
        self.live = past is None
        return past

    @contextmanager
    def traced(self, attributes: Mapping[str, str] | None = None) -> Generator[list["AbstractCapability[Any]"]]:
        """Open a span for this unit, and yield what its agent needs to add its own spans; [] without tracing.

        attributes: added to run, stage and unit; each name gets the prefix `agentlearn.`.
        """
        tracing = self.call_context.tracing
        if tracing is None:
            yield []
            return
        named = {"run": self.call_context.run, "stage": self.stage, "unit": self.name, **(attributes or {})}
        with tracing.span(self.stage, named) as capabilities:
            yield capabilities
