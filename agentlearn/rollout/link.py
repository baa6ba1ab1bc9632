"""Messages between the driver of a run and the workers that make its rollouts.

A message is one of the values below, pickled. Both ends are the same program, and nobody else can write to the link.
"""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings

from agentlearn.config import RolloutOptions
from agentlearn.domain.base import Domain
from agentlearn.models.call_context import CallRecord, Stage
from agentlearn.types.experience import Library
from agentlearn.types.ids import CallId, ExperienceId, RunId
from agentlearn.types.ranking import ChosenLessons
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Treatment


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """What an agent has to know about a model that another process asks."""

    endpoint: str
    name: str
    system: str
    url: str
    profile: ModelProfile
    simulated: bool


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """What a worker is started with."""

    run: RunId
    options: RolloutOptions
    otel: bool


@dataclass(frozen=True, slots=True)
class OpenRollouts:
    """Open the rollouts of a domain on a model. From the driver."""

    opened: int
    """Number of these rollouts, in other messages."""
    domain: Domain
    models: Mapping[str, ModelDescription]
    """By role: `model`, `judge`, `user`."""


@dataclass(frozen=True, slots=True)
class OpenedRollouts:
    """The rollouts are open, or could not be opened. From the worker."""

    opened: int
    isolation: str = ""
    notes: tuple[str, ...] = ()
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Make:
    """Make a rollout. From the driver."""

    number: int
    """Of the rollout, in the answers to this message."""
    opened: int
    task: Task
    slot: Any
    """A `RolloutSlot`."""
    treatment: Treatment
    library: Library
    masked: tuple[ExperienceId, ...]
    choice: ChosenLessons
    instructions: str
    begun: bool = False
    """Whether calls of it may be recorded already: by an interrupted run, or of a worker that was lost."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Give up a rollout: the run was stopped. From the driver."""

    number: int


@dataclass(frozen=True, slots=True)
class Made:
    """A finished rollout, or the error that it raised. From the worker."""

    number: int
    finished: Any
    """A `Finished`; None after an error."""
    error: Exception | None = None
    peak_mib: float = 0.0
    """Largest memory of the worker so far."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to a model, which the driver makes. From the worker."""

    number: int
    call: int
    """Number of this message, in its answer."""
    role: str
    """Which model: `model`, `judge` or `user`."""
    stage: Stage
    unit: str
    seed: int
    kept: int
    """How many messages of the last request of this unit are the first ones of this request too."""
    messages: Sequence[ModelMessage]
    """The messages after those."""
    settings: ModelSettings | None
    parameters: ModelRequestParameters
    live: bool
    """Whether the unit has made a call that no journal holds."""
    history_tokens: int | None
    seconds: float | None
    """Seconds that its rollout has left; None: no limit."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Commit the result of a tool before it is used. From the worker."""

    number: int
    call: int
    record: CallRecord


@dataclass(frozen=True, slots=True)
class Recall:
    """Look for the recorded result of a tool. From the worker."""

    number: int
    call: int
    id: CallId


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to an `Ask`, a `Keep` or a `Recall`. From the driver."""

    call: int
    error: Exception | None = None
    response: ModelResponse | None = None
    record: CallRecord | None = None
    """The record of the call, without its response if that is given."""
    live: bool = False
    seconds: float | None = None
    """Seconds that the rollout has left."""


LinkMessage = WorkerPlan | OpenRollouts | OpenedRollouts | Make | Drop | Made | Ask | Keep | Recall | Answered


class Link(Protocol):
    """One end of a connection between the driver and a worker."""

    async def send(self, message: LinkMessage) -> None:
        """Send a message. Raises OSError when the other end is gone."""
        ...

    async def receive(self) -> LinkMessage:
        """Return the next message. Raises EOFError when the other end is gone."""
        ...


def can_be_sent(value: object) -> bool:
    """Whether a value comes through a link."""
    try:
        pickle.loads(pickle.dumps(value))  # noqa: S301  our own bytes
    except Exception:  # noqa: BLE001  any class may fail in its own way
        return False
    return True


def sendable(error: Exception) -> Exception:
    """Return the error, or one with its words where it does not come through a link."""
    return error if can_be_sent(error) else RuntimeError(f"{type(error).__name__}: {error}")
