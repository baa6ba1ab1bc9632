"""What a run has spent and what its calls in flight have reserved, checked against its limits.

A call may take no more output than its reservation holds. Where that is less than the largest reply that is possible,
the request says so to the service, so that no reply can pass the limit, however long it would be. Calls share what is
left: each gets what few replies exceed, or its equal part of what is left, if that is more.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from agentlearn.config import BudgetOptions
from agentlearn.errors import BudgetExceeded
from agentlearn.models.token_estimate import ExpectedCall
from agentlearn.types.trajectory import Usage

_LimitName = Literal["max_cost_usd", "max_tokens", "max_minutes"]

_LARGEST_REPLY = 32_768
"""Output tokens that a reply is believed never to exceed when its request sets no limit."""
_BELOW_REFUSED = 0.5
"""A limit on the output is sent if it is below this part of the smallest one that the service has refused."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a call in flight can take."""

    tokens: int
    cost_usd: float
    output_limit: int | None
    """Limit on its output tokens that must be sent; None when the largest possible reply fits."""

    @classmethod
    def of(cls, call: ExpectedCall, room: float, out: float) -> "Reservation":
        """Return the reservation of a call. room: output tokens that are left. out: how many of them it gets."""
        refused, largest = call.refused_out, call.most_out or _LARGEST_REPLY
        if not may_send(out, refused):
            whole = max(
                min(refused or 0, room), call.tokens_out
            )  # the service allows less by itself, or takes no limit at all
            return cls(call.tokens_in + int(whole), call.cost_usd(whole), None)
        if out >= largest:
            return cls(call.tokens_in + largest, call.cost_usd(largest), None)
        return cls(call.tokens_in + int(out), call.cost_usd(out), int(out))


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
    reached: _LimitName | None = None
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

    @property
    def idle(self) -> bool:
        """Whether no call has a reservation."""
        return not self._reserved

    def fits_alone(self, call: ExpectedCall) -> bool:
        """Whether a call may be made when no other is in flight."""
        return self._missed(call) is None

    def reserve(self, call: ExpectedCall, slots: int = 1) -> Reservation | None:
        """Reserve what a call can take. Return None when it has to wait for calls in flight to end.

        slots: number of calls that may be in flight. Raises BudgetExceeded when none is and this one does not fit.
        """
        self._next = None
        room = self._room(call, 1)
        if self._reserved:
            unknown_cost = self.limits.max_cost_usd is not None and call.price is None
            if room < call.tokens_out or unknown_cost:
                return None
        elif (limit := self._missed(call)) is not None:
            self.reached, self._next = limit, call
            raise self.exceeded()
        share = self._room(call, max(1, slots - self._reserved))
        reserved = Reservation.of(call, room, min(room, max(share, call.tokens_out)))
        self._reserved += 1
        self.reserved_tokens += reserved.tokens
        self.reserved_usd += reserved.cost_usd
        return reserved

    def release(self, reserved: Reservation) -> None:
        """Give back what `reserve` reserved, when the call has ended."""
        self._reserved -= 1
        self.reserved_tokens -= reserved.tokens
        self.reserved_usd = self.reserved_usd - reserved.cost_usd if self._reserved else 0.0

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
            return f"${call.cost_usd(call.tokens_out_usual):.4f}"
        return f"{call.tokens_in + call.tokens_out_usual:,}"

    def _room(self, call: ExpectedCall, parts: int) -> float:
        """Return how many output tokens of a call fit into one of `parts` equal parts of what is left."""
        limits, room = self.limits, inf
        if limits.max_tokens is not None:
            room = (limits.max_tokens - self.tokens - self.reserved_tokens) // parts - call.tokens_in
        if limits.max_cost_usd is not None and call.price is not None and call.price[1] > 0:
            left_usd = (limits.max_cost_usd - self.cost_usd - self.reserved_usd) / parts - call.cost_usd(0)
            room = min(room, left_usd / call.price[1])
        return room

    def _missed(self, call: ExpectedCall) -> _LimitName | None:
        """Return the limit that a call would probably pass although no other is in flight; None when it fits.

        Only what was observed counts here. Otherwise a run with a small limit would end before its first call.
        """
        limits, out = self.limits, max(1, call.tokens_out_usual)
        if limits.max_tokens is not None and self.tokens + call.tokens_in + out > limits.max_tokens:
            return "max_tokens"
        if limits.max_cost_usd is not None and self.cost_usd + call.cost_usd(out) > limits.max_cost_usd:
            return "max_cost_usd"
        return None


def may_send(limit: float, refused: int | None) -> bool:
    """Whether a limit on the output is clearly below the smallest one that the service has refused, if any."""
    return refused is None or limit < _BELOW_REFUSED * refused
