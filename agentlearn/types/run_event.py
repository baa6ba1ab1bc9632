"""A run: one learn, solve, eval, train or import command, or the records of one process, stored as events.

The latest event is the state of the run.
"""

from datetime import datetime
from typing import Literal

from pydantic import Field

from agentlearn.types.ids import LibraryVersion, RunId, TaskId
from agentlearn.types.value import Value

RunKind = Literal["learn", "solve", "eval", "train", "import", "live"]
RunState = Literal["running", "done", "failed", "interrupted"]


class RunEvent(Value):
    """A change of a run's state. Events are added and never changed."""

    run: RunId
    domain: str
    kind: RunKind
    state: RunState
    model: str
    """Endpoint, as the user names it."""
    simulated: bool
    seed: int
    settings: str
    """JSON of the settings."""
    package_version: str
    at: datetime
    report: str = ""
    """JSON of the final report; empty until the run is done."""


class RunFailure(Value):
    """Why a run ended without a report."""

    at: datetime
    """Time of the event `failed` or `interrupted` that it explains."""
    code: str
    """Stable code of the error; for a bug, the name of the exception."""
    message: str


class RunInputs(Value):
    """Tasks and library of a run. They must be the same when the run is resumed."""

    train: tuple[TaskId, ...]
    """Tasks to learn from."""
    test: tuple[TaskId, ...]
    """Held-out tasks."""
    library: LibraryVersion
    """Library version that the run started from."""
    distilled: LibraryVersion | None = Field(default=None, exclude_if=lambda version: version is None)
    """Library version whose lessons are distilled into weights; None: none."""
