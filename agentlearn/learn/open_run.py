"""What every run over tasks opens in the same way, from its settings."""

from agentlearn.config import RunSettings
from agentlearn.domain.base import Domain, installed_domains, load_domain
from agentlearn.domain.custom import custom_tasks
from agentlearn.models.budget import Budget, BudgetLimits
from agentlearn.models.endpoint import EndpointOptions
from agentlearn.store import Store
from agentlearn.types.ids import RunId
from agentlearn.types.trajectory import Usage


def domain_of(settings: RunSettings) -> Domain:
    """The installed domain, under one of its rewards, or the one that your own tasks and a reward make.

    Raises ConfigError.
    """
    if settings.reward is None:
        return load_domain(settings.domain)
    if settings.domain in installed_domains() and (domain := load_domain(settings.domain)).rewards:
        return domain.with_reward(settings.reward)
    return custom_tasks(settings.domain, settings.reward, tools=settings.tools, instructions=settings.instructions)


def options_of(settings: RunSettings) -> EndpointOptions:
    """How the run uses its endpoints."""
    return EndpointOptions(
        concurrency=settings.concurrency,
        deadline_s=settings.call_deadline_s,
        api_key=settings.api_key.get_secret_value() if settings.api_key else None,
        seed=settings.seed,
    )


def budget_of(settings: RunSettings, store: Store, resume: RunId | None) -> Budget:
    """The run's budget, with what it spent before it was interrupted."""
    limits = BudgetLimits(
        max_cost_usd=settings.max_cost_usd, max_tokens=settings.max_tokens, max_minutes=settings.max_minutes
    )
    if resume is None:
        return Budget(limits)
    totals = store.stage_totals(resume)
    usage = Usage(
        requests=sum(one.calls for one in totals),
        tokens_in=sum(one.tokens_in for one in totals),
        tokens_cached=sum(one.tokens_cached for one in totals),
        tokens_out=sum(one.tokens_out for one in totals),
    )
    cost_usd, unpriced = sum(one.cost_usd for one in totals), sum(one.unpriced for one in totals)
    return Budget(limits, usage=usage, cost_usd=cost_usd, unpriced_calls=unpriced)
