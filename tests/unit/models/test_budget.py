"""A budget stops at the limit that was reached, and says which one."""

import pytest

from agentlearn.config import BudgetOptions
from agentlearn.errors import BudgetExceeded
from agentlearn.models.budget import Budget
from agentlearn.types.trajectory import Usage


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(
    ("limits", "reached"),
    [
        (BudgetOptions(max_tokens=30), "max_tokens"),
        (BudgetOptions(max_cost_usd=0.5), "max_cost_usd"),
        (BudgetOptions(max_minutes=2), "max_minutes"),
        (BudgetOptions(max_tokens=30, max_cost_usd=9.0), "max_tokens"),
    ],
)
def test_the_limit_that_was_reached_is_named(limits: BudgetOptions, reached: str) -> None:
    clock = Clock()
    budget = Budget(limits, clock=clock)
    budget.check()
    assert budget.reached is None
    budget.spend(Usage(requests=1, tokens_in=20, tokens_out=10), 0.5)
    clock.now_s = 120.0
    with pytest.raises(BudgetExceeded, match=f"--{reached.replace('_', '-')}"):
        budget.check()
    assert budget.reached == reached


def test_a_call_of_unknown_price_is_counted_separately() -> None:
    budget = Budget(BudgetOptions(max_cost_usd=0.5))
    budget.spend(Usage(requests=1, tokens_in=1), None)
    budget.check()
    assert (budget.unpriced_calls, budget.cost_usd) == (1, 0.0)
