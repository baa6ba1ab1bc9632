"""What all calls to one endpoint share: the limiter, the deadline, the retry policy and the counts."""

from collections import Counter
from dataclasses import dataclass, field

from agentlearn.models.limiter import Limiter
from agentlearn.models.retry import RetryPolicy


@dataclass(slots=True)
class EndpointState:
    """State of one open endpoint, shared by its units of work."""

    limiter: Limiter
    deadline_s: float = 120.0
    """Seconds before one request is abandoned."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    free: bool = False
    """Whether answers cost nothing, as those of a simulated or a local model do."""
    failures: Counter[str] = field(default_factory=Counter[str])
    """Requests that got no answer, by kind of failure. Requests that a retry saved are included."""
    models: Counter[str] = field(default_factory=Counter[str])
    """Answers by the model name that the service reported."""
    answered: Counter[str] = field(default_factory=Counter[str])
    """Answers by stage, including those replayed from the journal of an interrupted run."""
    replayed: Counter[str] = field(default_factory=Counter[str])
    """Answers by stage that were taken from the journal of an interrupted run."""
    failed_in_a_row: int = 0
    """Calls that began after the last answer and failed in all attempts."""

    @property
    def answers(self) -> int:
        """Number of answers so far."""
        return self.models.total()
