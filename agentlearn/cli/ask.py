"""Nothing is spent unasked: the estimate first, then the question, unless an option answered it."""

import sys

from agentlearn.calls.endpoint import is_paid
from agentlearn.config import LearnSettings
from agentlearn.errors import ConfigError
from agentlearn.learn.estimate import estimate


def spend_or_stop(settings: LearnSettings, *, yes: bool) -> None:
    """Return when the run may spend. Raises ConfigError when nobody allowed it."""
    paid = [name for name in dict.fromkeys((settings.model, settings.reflector_name)) if is_paid(name)]
    if not paid or yes or settings.max_cost_usd is not None:
        return
    words = f"{' and '.join(paid)}: {estimate(settings).sentence()}"
    if not sys.stdin.isatty():
        raise ConfigError(f"{words}; add --yes or --max-cost-usd to allow it", code="not_allowed_to_spend")
    print(words, file=sys.stderr)
    if input("Go on? [y/N] ").strip().lower() not in {"y", "yes"}:
        raise ConfigError("nothing was spent", code="not_allowed_to_spend")
