"""What a run has spent, checked against its limits."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from agentlearn.config import BudgetOptions
from agentlearn.errors import BudgetExceeded
from agentlearn.types.trajectory import Usage

LimitName = Literal["max_cost_usd", "max_tokens", "max_minutes"]


@dataclass(slots=True)
class Budget:
    """Running totals and their limits. Call `check` before every call and `spend` after it."""

    limits: BudgetOptions
    clock: Callable[[], float] = time.monotonic
    """Returns seconds."""
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    """Cost of the calls whose price is known."""
    unpriced_calls: int = 0
    """Calls to models without a known price. Their cost is unknown, not zero."""
    reached: LimitName | None = None
    """The limit that stopped the run; None while none has."""
    started: float = field(init=False)
    """Time of `clock` when the budget was made."""

    def __post_init__(self) -> None:
        self.started = self.clock()

    def check(self) -> None:
        """Raise BudgetExceeded when a limit is reached."""
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
        """Add one call. cost_usd: None when the price is unknown."""
        self.usage += usage
        if cost_usd is None:
            self.unpriced_calls += 1
        else:
            self.cost_usd += cost_usd
