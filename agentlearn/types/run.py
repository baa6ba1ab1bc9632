"""A run: one learn, solve, eval, train or import command, told as events. The latest event is the run's state."""

from datetime import datetime
from typing import Literal

from agentlearn.types.ids import LibraryVersion, RunId, TaskId
from agentlearn.types.value import Value

RunKind = Literal["learn", "solve", "eval", "train", "import"]
RunState = Literal["running", "done", "failed", "interrupted"]


class RunEvent(Value):
    """What became of a run at one moment. Events are only ever added."""

    run: RunId
    domain: str
    kind: RunKind
    state: RunState
    model: str
    """Endpoint, as the user names it."""
    simulated: bool
    seed: int
    settings: str
    """JSON of the resolved settings."""
    package_version: str
    at: datetime
    report: str = ""
    """JSON of the final report; empty until the run is done."""


class RunInputs(Value):
    """What a learn run stands on, beside its settings: whoever resumes it must find the same."""

    train: tuple[TaskId, ...]
    test: tuple[TaskId, ...]
    library: LibraryVersion
    """The version that it starts from."""
