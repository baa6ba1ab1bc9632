"""What a run has spent and what its calls in flight have reserved, checked against its limits."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from agentlearn.config import BudgetOptions
from agentlearn.errors import BudgetExceeded
from agentlearn.models.token_estimate import ExpectedCall
from agentlearn.types.trajectory import Usage

LimitName = Literal["max_cost_usd", "max_tokens", "max_minutes"]


@dataclass(slots=True)
class Budget:
    """Running totals and their limits. A call is reserved before it is sent, and spent when it is answered."""

    limits: BudgetOptions
    clock: Callable[[], float] = time.monotonic
    """Returns seconds."""
    usage: Usage = field(default_factory=Usage)
    """Tokens that were served, as reported or, where the service reports none, estimated."""
    estimated: int = 0
    """How many of these tokens are estimated."""
    cost_usd: float = 0.0
    """Cost of the calls whose price is known."""
    unpriced_calls: int = 0
    """Calls to models without a known price. Their cost is unknown, not zero."""
    reached: LimitName | None = None
    """The limit that stopped the run; None while none has."""
    reserved_tokens: int = 0
    """Tokens that the calls in flight will probably take."""
    reserved_usd: float = 0.0
    """What the calls in flight will probably cost."""
    _reserved: int = 0
    """Number of calls with a reservation."""
    _next: ExpectedCall | None = None
    """The call that did not fit."""
    started: float = field(init=False)
    """Time of `clock` when the budget was made."""

    def __post_init__(self) -> None:
        self.started = self.clock()

    @property
    def tokens(self) -> int:
        """Tokens that were served, input and output together."""
        return self.usage.tokens_in + self.usage.tokens_out

    @property
    def limits_calls(self) -> bool:
        """Whether calls must be reserved."""
        return self.limits.max_tokens is not None or self.limits.max_cost_usd is not None

    def check(self) -> None:
        """Raise BudgetExceeded when a limit is reached."""
        limits = self.limits
        if limits.max_cost_usd is not None and self.cost_usd >= limits.max_cost_usd:
            self.reached = "max_cost_usd"
        elif limits.max_tokens is not None and self.tokens >= limits.max_tokens:
            self.reached = "max_tokens"
        elif limits.max_minutes is not None and self._minutes() >= limits.max_minutes:
            self.reached = "max_minutes"
        else:
            return
        raise self.exceeded()

    def reserve(self, call: ExpectedCall) -> bool:
        """Reserve what a call will probably take. Return False when it has to wait for calls in flight to end.

        Raises BudgetExceeded when no call is in flight and it does not fit.
        """
        self._next = None
        if self._reserved:
            if not self._fits(call.tokens, call.cost_usd):
                return False
        elif (limit := self._missed(call)) is not None:
            self.reached, self._next = limit, call
            raise self.exceeded()
        self._reserved += 1
        self.reserved_tokens += call.tokens
        self.reserved_usd += call.cost_usd or 0.0
        return True

    def release(self, call: ExpectedCall) -> None:
        """Give back what `reserve` reserved, when the call has ended."""
        self._reserved -= 1
        self.reserved_tokens -= call.tokens
        self.reserved_usd = self.reserved_usd - (call.cost_usd or 0.0) if self._reserved else 0.0

    def exceeded(self) -> BudgetExceeded:
        """Return the error for the limit that was reached, with what has been served by now."""
        limits = self.limits
        match self.reached:
            case "max_cost_usd":
                words = f"the run has spent ${self.cost_usd:.4f} of --max-cost-usd {limits.max_cost_usd:g}"
            case "max_tokens":
                about = "about " if self.estimated else ""
                words = f"the run has used {about}{self.tokens:,} tokens of --max-tokens {limits.max_tokens:,}"
            case _:
                words = f"the run has taken {self._minutes():.1f} of --max-minutes {limits.max_minutes or 0:g}"
        if self._next is not None:
            words += f", and the next call needs about {self._needs(self._next)}"
        return BudgetExceeded(words)

    def spend(self, usage: Usage, cost_usd: float | None, *, estimated: int = 0) -> None:
        """Add one call. cost_usd: None when the price is unknown. estimated: how many of its tokens are estimated."""
        self.usage += usage
        self.estimated += estimated
        if cost_usd is None:
            self.unpriced_calls += 1
        else:
            self.cost_usd += cost_usd

    def _minutes(self) -> float:
        return (self.clock() - self.started) / 60

    def _needs(self, call: ExpectedCall) -> str:
        if self.reached == "max_cost_usd":
            return f"${call.cost_known_usd:.4f}"
        return f"{call.tokens_in + call.tokens_out_known:,}"

    def _fits(self, tokens: int, cost_usd: float | None) -> bool:
        """Whether a call fits together with those in flight. One of unknown cost must be alone."""
        limits = self.limits
        if limits.max_tokens is not None and self.tokens + self.reserved_tokens + tokens > limits.max_tokens:
            return False
        if limits.max_cost_usd is None:
            return True
        return cost_usd is not None and self.cost_usd + self.reserved_usd + cost_usd <= limits.max_cost_usd

    def _missed(self, call: ExpectedCall) -> LimitName | None:
        """Return the limit that a call would pass although no other is in flight; None when it fits.

        Only what was observed counts here. Otherwise a run with a small limit would end before its first call.
        """
        limits, tokens = self.limits, call.tokens_in + call.tokens_out_known
        if limits.max_tokens is not None and self.tokens + tokens > limits.max_tokens:
            return "max_tokens"
        if limits.max_cost_usd is not None and self.cost_usd + call.cost_known_usd > limits.max_cost_usd:
            return "max_cost_usd"
        return None
