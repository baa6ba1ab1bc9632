"""Whether the first calls of one kind have been answered: if none was, the service does not do what the run needs.

A kind of call is who asks (rollouts, the reflector, the judge) and the settings that are sent. A service may answer
one kind and refuse another. Calls are counted in the order in which they began, because refusals come faster than
answers.
"""

from dataclasses import dataclass, field

from agentlearn.errors import AgentlearnError, EndpointError, EndpointGone, NeverAnswered
from agentlearn.models.endings import fault_remedy

FIRST = 8
"""Number of calls, the first of their kind, that all fail before the run is stopped."""
_ROLES = {"rollout": "the rollouts", "judge": "the judge", "probe": "the probe"}
REFLECTOR = "the model that writes the lessons"


def role_of(stage: str) -> str:
    """Return who makes the calls of a stage, in words."""
    return _ROLES.get(stage, REFLECTOR)


@dataclass(slots=True)
class KindOfCall:
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


@dataclass(slots=True)
class FirstCalls:
    """The kinds of calls to one endpoint."""

    kinds: dict[str, KindOfCall] = field(default_factory=dict[str, KindOfCall])

    def begin(self, stage: str, settings: str) -> tuple[KindOfCall, int]:
        """Count a call that begins. Return its kind, and its number among those of its kind, from 0."""
        role = role_of(stage)
        kind = self.kinds.setdefault(f"{role} {settings}", KindOfCall(role))
        kind.begun += 1
        return kind, kind.begun - 1

    @staticmethod
    def fail(kind: KindOfCall, number: int, failure: EndpointError, *, permanent: bool) -> bool:
        """Count a call that failed in all attempts. Return whether all the first calls have now failed."""
        kind.failed += 1
        kind.failed_first += number < FIRST
        kind.failure = kind.failure or failure
        kind.permanent = kind.permanent or permanent
        return not kind.answered and kind.failed_first >= FIRST

    def silent(self) -> KindOfCall | None:
        """Return a kind of call of which some failed and none was answered; None if there is none."""
        return next((one for one in self.kinds.values() if one.failed and not one.answered), None)


def unanswered(kind: KindOfCall, *, any_answer: bool) -> AgentlearnError:
    """Return the error that ends a run in which no call of this kind was answered.

    any_answer: whether the run has other answers, which a resumed run can use.
    """
    whose = f" of {kind.role}" if any_answer or kind.role != role_of("rollout") else ""
    unused = kind.failure is not None and fault_remedy(kind.failure.code) is not None
    got = "got a reply that can be used" if unused else "been answered"
    words = f"no call{whose} has {got} ({kind.failed} tried): {kind.failure}"
    return EndpointGone(words) if any_answer and not kind.permanent else NeverAnswered(words)
