"""What a run may spend, and what it has spent."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from agentlearn.errors import BudgetExceeded
from agentlearn.types.trajectory import Usage
from agentlearn.types.value import Value

LimitName = Literal["max_cost_usd", "max_tokens", "max_minutes"]


class BudgetLimits(Value):
    """Limits of a run; None is no limit."""

    max_cost_usd: float | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, gt=0)
    """Tokens in and out together."""
    max_minutes: float | None = Field(default=None, gt=0)


@dataclass(slots=True)
class Budget:
    """A running total held against limits. `check` stands before every call, `spend` after it."""

    limits: BudgetLimits
    clock: Callable[[], float] = time.monotonic
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    unpriced_calls: int = 0
    """Calls whose model has no known price: their cost is unknown, not zero."""
    reached: LimitName | None = None
    """The limit that stopped the run."""
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def check(self) -> None:
        """Raises BudgetExceeded when a limit is reached."""
        limits, tokens = self.limits, self.usage.tokens_in + self.usage.tokens_out
        minutes = (self.clock() - self.started) / 60
        if limits.max_cost_usd is not None and self.cost_usd >= limits.max_cost_usd:
            self.reached = "max_cost_usd"
            raise BudgetExceeded(f"the run has spent ${self.cost_usd:.4f} of --max-cost-usd {limits.max_cost_usd:g}")
        if limits.max_tokens is not None and tokens >= limits.max_tokens:
            self.reached = "max_tokens"
            raise BudgetExceeded(f"the run has used {tokens:,} tokens of --max-tokens {limits.max_tokens:,}")
        if limits.max_minutes is not None and minutes >= limits.max_minutes:
            self.reached = "max_minutes"
            raise BudgetExceeded(f"the run has taken {minutes:.1f} of --max-minutes {limits.max_minutes:g}")

    def spend(self, usage: Usage, cost_usd: float | None) -> None:
        """Add what one call used."""
        self.usage += usage
        if cost_usd is None:
            self.unpriced_calls += 1
        else:
            self.cost_usd += cost_usd
