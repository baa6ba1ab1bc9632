"""What all calls to one endpoint share: the limiter, the deadline, the retry policy and the counts."""

from collections import Counter
from dataclasses import dataclass, field

from agentlearn.models.budget import Budget
from agentlearn.models.endings import FaultCode, ReplyFault
from agentlearn.models.first_calls import FirstCalls, unanswered
from agentlearn.models.limiter import Limiter
from agentlearn.models.outage import Outage
from agentlearn.models.price import ObservedPrice
from agentlearn.models.retry import RetryPolicy
from agentlearn.models.token_estimate import TokenEstimates


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
    first_calls: FirstCalls = field(default_factory=FirstCalls)
    """Which kinds of calls have been answered."""
    name: str = "the service"
    """Endpoint, as the user named it."""
    outage: Outage = field(default_factory=Outage)
    """Whether the service is silent, and the calls that wait for it."""
    tokens: TokenEstimates = field(default_factory=TokenEstimates)
    """Estimates of what a call takes."""
    cut_off: Counter[str] = field(default_factory=Counter[str])
    """Replies by stage that ended at the limit of their request on output tokens."""
    faults: dict[FaultCode, Counter[str]] = field(default_factory=dict[FaultCode, Counter[str]])
    """Replies that were not used, by fault and by stage."""
    fault_words: dict[FaultCode, str] = field(default_factory=dict[FaultCode, str])
    """The first fault of each kind in words. The service is their subject."""
    without_usage: int = 0
    """Replies without believable numbers of tokens."""
    price: ObservedPrice = field(default_factory=ObservedPrice)
    """Prices that the replies with a known cost show."""
    refused_output: int | None = None
    """Smallest limit on the output, set by the budget, that the service has refused; None when it refused none."""
    refused_outputs: int = 0
    """Requests that were sent again without such a limit."""
    garbled_in_a_row: int = 0
    """Calls that began after the last answer and got only replies that cannot be decoded."""

    @property
    def takes_all(self) -> bool:
        """Whether the service waits for a fixed number of calls, so that none may be held back."""
        return not self.limiter.adaptive

    @property
    def answers(self) -> int:
        """Number of answers so far."""
        return self.models.total()

    def count_fault(self, stage: str, fault: ReplyFault) -> None:
        """Count a reply that is not used."""
        self.faults.setdefault(fault.code, Counter())[stage] += 1
        self.fault_words.setdefault(fault.code, fault.words)

    def refuse_silence(self, budget: Budget) -> None:
        """Raise an error when all calls of one kind have failed. Call it when no call is in flight.

        budget: of the run; it knows whether the run has paid for any answer.
        """
        if (kind := self.first_calls.silent()) is not None:
            raise unanswered(kind, any_answer=budget.usage.requests > 0)
