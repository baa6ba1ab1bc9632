"""What all calls to one endpoint share: the limiter, the deadline, the retry policy and the counts.

A kind of call is who asks (rollouts, the reflector, the judge) and the settings that are sent. A service may answer
one kind and refuse another. Calls are counted in the order in which they began, because refusals come faster than
answers.
"""

from collections import Counter
from dataclasses import dataclass, field

from agentlearn.errors import AgentlearnError, EndpointError, EndpointGone, NeverAnswered
from agentlearn.models.budget import Budget
from agentlearn.models.endings import FaultCode, ReplyFault, fault_remedy
from agentlearn.models.limiter import Limiter
from agentlearn.models.outage import Outage, RetryPolicy
from agentlearn.models.price import ObservedPrice
from agentlearn.models.replicas import Replicas
from agentlearn.models.token_estimate import TokenEstimates

FIRST = 8
"""Number of calls, the first of their kind, that all fail before the run is stopped."""
GARBLED = "endpoint_garbled"
"""Error code of a call whose replies cannot be decoded."""
_GONE_AFTER = 3
"""Number of failed calls after which the service counts as gone.

Only calls during which no other call was answered count. Where many requests fail, the calls that fail in all attempts
take the longest and so end last and together, although others were answered in the meantime.
"""
_GARBLED_GONE_AFTER = 100
"""The same number for calls whose replies cannot be decoded. Such a service is there and may read other requests."""
_KEY_REFUSED = frozenset({"endpoint_401", "endpoint_402", "endpoint_403", "endpoint_quota"})
"""Error codes that concern the API key or its account, so every request would be refused."""
_REQUEST_REFUSED = frozenset({"endpoint_400", "endpoint_413", "endpoint_422"})
"""Error codes that concern one request, such as a prompt that is too long. They say nothing about the service."""
_ROLES = {"rollout": "the rollouts", "judge": "the judge", "user": "the user of a task", "probe": "the probe"}


@dataclass(slots=True)
class _KindOfCall:
    """The calls of one kind, until one is answered."""

    role: str
    begun: int = 0
    failed: int = 0
    failed_first: int = 0
    """Failed calls among the first."""
    answered: bool = False
    failure: EndpointError | None = None
    """The first failure."""
    permanent: bool = False
    """Whether the same request will be refused again, because a setting is refused."""

    def unanswered(self, *, any_answer: bool) -> AgentlearnError:
        """Return the error that ends a run in which no call of this kind was answered.

        any_answer: whether the run has other answers, which a resumed run can use.
        """
        whose = f" of {self.role}" if any_answer or self.role != _ROLES["rollout"] else ""
        unused = self.failure is not None and fault_remedy(self.failure.code) is not None
        got = "got a reply that can be used" if unused else "been answered"
        words = f"no call{whose} has {got} ({self.failed} tried): {self.failure}"
        return EndpointGone(words) if any_answer and not self.permanent else NeverAnswered(words)


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
    kinds: dict[str, _KindOfCall] = field(default_factory=dict[str, _KindOfCall])
    """The kinds of calls, and which of them have been answered."""
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
    streamed: int = 0
    """Replies that came as a stream although none was asked for."""
    price: ObservedPrice = field(default_factory=ObservedPrice)
    """Prices that the replies with a known cost show."""
    refused_output: int | None = None
    """Smallest limit on the output, set by the budget, that the service has refused; None when it refused none."""
    refused_outputs: int = 0
    """Requests that were sent again without such a limit."""
    garbled_in_a_row: int = 0
    """Calls that began after the last answer and got only replies that cannot be decoded."""
    replicas: Replicas | None = None
    """The endpoints of a model that has several; None: it has one."""

    @property
    def takes_all(self) -> bool:
        """Whether the service waits for a fixed number of calls, so that none may be held back."""
        return not self.limiter.adaptive

    @property
    def answers(self) -> int:
        """Number of answers so far."""
        return self.models.total()

    def begin(self, stage: str, settings: str) -> tuple[_KindOfCall, int]:
        """Count a call that begins. Return its kind, and its number among those of its kind, from 0."""
        role = _ROLES.get(stage, "the model that writes the lessons")
        kind = self.kinds.setdefault(f"{role} {settings}", _KindOfCall(role))
        kind.begun += 1
        return kind, kind.begun - 1

    def failed(
        self, kind: _KindOfCall, number: int, failure: EndpointError, *, any_answer: bool, in_a_row: bool
    ) -> AgentlearnError | None:
        """Count a call that failed in all attempts. Return why the run must stop; None when it need not.

        number: of the call among those of its kind. any_answer: whether the run has any answer. in_a_row: whether no
        call was answered meanwhile.
        """
        kind.failed += 1
        kind.failed_first += number < FIRST
        kind.failure = kind.failure or failure
        kind.permanent = kind.permanent or bool(failure.refused) or fault_remedy(failure.code) is not None
        garbled = failure.code == GARBLED
        self.garbled_in_a_row += garbled and in_a_row
        self.failed_in_a_row += failure.code not in _REQUEST_REFUSED and in_a_row and not (garbled and any_answer)
        if not kind.answered and kind.failed_first >= FIRST:
            return kind.unanswered(any_answer=any_answer)
        gone = self.failed_in_a_row >= _GONE_AFTER or self.garbled_in_a_row >= _GARBLED_GONE_AFTER
        if not gone and (failure.code not in _KEY_REFUSED or self.models):
            return None
        failed = max(self.failed_in_a_row, self.garbled_in_a_row if garbled else 0)
        if any_answer:
            return EndpointGone(f"none of the last {failed} calls has been answered: {failure.message}")
        return NeverAnswered(f"no call has been answered ({max(failed, 1)} tried): {failure.message}")

    def count_fault(self, stage: str, fault: ReplyFault) -> None:
        """Count a reply that is not used."""
        self.faults.setdefault(fault.code, Counter())[stage] += 1
        self.fault_words.setdefault(fault.code, fault.words)

    def refuse_silence(self, budget: Budget) -> None:
        """Raise an error when all calls of one kind have failed. Call it when no call is in flight.

        budget: of the run; it knows whether the run has paid for any answer.
        """
        if (kind := next((one for one in self.kinds.values() if one.failed and not one.answered), None)) is not None:
            raise kind.unanswered(any_answer=budget.usage.requests > 0)
