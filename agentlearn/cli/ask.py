"""Ask before spending money: print the estimate, then ask, unless an option has already allowed it."""

import sys

from agentlearn.config import LearnSettings
from agentlearn.errors import ConfigError
from agentlearn.learning.estimate import estimate, plan, refuse_unpriced_budget
from agentlearn.learning.open_run import domain_of
from agentlearn.models.endpoint import check_endpoint, is_paid
from agentlearn.printing import ask_line, print_line


def ask_before_spending(settings: LearnSettings, *, yes: bool) -> None:
    """Print what the run may cost and ask. Raises ConfigError when the user does not allow it.

    Raises ConfigError or MissingExtra first when a model cannot be used.
    """
    models = tuple(dict.fromkeys((settings.model, settings.reflector_name)))
    for name in models:
        check_endpoint(name, settings)
    refuse_unpriced_budget(settings)
    if settings.group_size == 1 and not settings.from_store:
        print_line(
            "note: with --group-size 1 nothing can be learned, because the rewards of one rollout cannot differ; give 2"
            " or more, or measure only, with compare",
            to_stderr=True,
        )
    paid = [name for name in models if is_paid(name)]
    if paid:
        found = (
            estimate(settings)
            if settings.from_store
            else plan(settings, domain_of(settings, imports_reward=False)).estimate
        )
        words = f"{' and '.join(paid)}: {found.sentence()}"
        ask(words, yes=yes or settings.max_cost_usd is not None, options="--yes or --max-cost-usd")


def ask(words: str, *, yes: bool, options: str = "--yes") -> None:
    """Print what something may cost and ask. Raises ConfigError when the user does not allow it.

    yes: an option has allowed it. options: the options that allow it.
    """
    if not yes and not sys.stdin.isatty():
        raise ConfigError(f"{words}; add {options} to allow it", code="not_allowed_to_spend")
    print_line(words, to_stderr=True)
    if not yes and ask_line("Go on? [y/N]").lower() not in {"y", "yes"}:
        raise ConfigError("nothing was spent", code="not_allowed_to_spend")
