"""Nothing is spent unasked: the estimate first, then the question, unless an option answered it."""

import sys

from agentlearn.config import LearnSettings
from agentlearn.errors import ConfigError
from agentlearn.learn.estimate import estimate, refuse_unpriced_budget
from agentlearn.models.endpoint import is_paid


def spend_or_stop(settings: LearnSettings, *, yes: bool) -> None:
    """Say what the run may cost, and return when it may. Raises ConfigError when nobody allowed it."""
    refuse_unpriced_budget(settings)
    paid = [name for name in dict.fromkeys((settings.model, settings.reflector_name)) if is_paid(name)]
    if paid:
        words = f"{' and '.join(paid)}: {estimate(settings).sentence()}"
        allow(words, yes=yes or settings.max_cost_usd is not None, options="--yes or --max-cost-usd")


def allow(words: str, *, yes: bool, options: str = "--yes") -> None:
    """Say what something may cost, and return when it may. Raises ConfigError when nobody allowed it."""
    if not yes and not sys.stdin.isatty():
        raise ConfigError(f"{words}; add {options} to allow it", code="not_allowed_to_spend")
    print(words, file=sys.stderr)
    if not yes and input("Go on? [y/N] ").strip().lower() not in {"y", "yes"}:
        raise ConfigError("nothing was spent", code="not_allowed_to_spend")
