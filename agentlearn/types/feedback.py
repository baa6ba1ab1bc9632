"""What a person or a program said about a recorded rollout, after it was recorded."""

from datetime import datetime

from pydantic import Field

from agentlearn.types.ids import RolloutId
from agentlearn.types.value import Value


class Feedback(Value):
    """One piece of feedback. All are kept; the last reward counts."""

    id: RolloutId
    """Its own id. A demonstration becomes a rollout with this id."""
    name: str
    """Name of the recorder."""
    rollout: RolloutId | None = None
    """The rollout that it is about; None when it is about an episode."""
    episode: str = ""
    """The episode that it is about; empty when it is about one rollout."""
    reward: float | None = Field(default=None)
    """None for a comment or a demonstration without a reward."""
    reason: str = ""
    """Why, in words."""
    demonstration: str = ""
    """A right answer, written by a person; empty for none."""
    by: str = ""
    """Who gave it."""
    at: datetime
