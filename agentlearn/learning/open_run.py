"""The domain and the budget of a run, from its settings."""

from agentlearn.config import BudgetOptions, LearnSettings, TaskOptions
from agentlearn.domain.base import Domain, is_domain, load_domain
from agentlearn.domain.custom import custom_tasks
from agentlearn.domain.task_source import with_chosen_columns
from agentlearn.models.answer_limit import AnswerLimit, local_answer_limit
from agentlearn.models.budget import Budget
from agentlearn.models.call_settings import CallSettings, call_settings
from agentlearn.store import Store
from agentlearn.types.ids import RunId
from agentlearn.types.trajectory import Usage


def domain_of(settings: TaskOptions, *, imports_reward: bool = True) -> Domain:
    """Return the installed domain, with its reward of that name if one is given, or a domain for tasks from a file.

    imports_reward: False for a plan, which judges nothing: the module of a reward `module:function` does not run.
    Raises ConfigError.
    """
    return with_chosen_columns(_judging_domain(settings, imports_reward=imports_reward), settings)


def _judging_domain(settings: TaskOptions, *, imports_reward: bool) -> Domain:
    if settings.reward is None:
        return load_domain(settings.domain)
    if is_domain(settings.domain) and (domain := load_domain(settings.domain)).rewards:
        return domain.with_reward(settings.reward)
    return custom_tasks(
        settings.domain,
        settings.reward,
        tools=settings.tools,
        instructions=settings.instructions,
        only_instructions=settings.only_instructions,
        imports_reward=imports_reward,
    )


def service_settings(settings: LearnSettings) -> CallSettings:
    """Return what every request to the model contains. Without temperatures, the judge sends none either."""
    return call_settings(
        settings, temperature=settings.temperature is not None or settings.eval_temperature is not None
    )


def answer_limit_of(settings: LearnSettings, domain: Domain) -> AnswerLimit | None:
    """Return the default limit of the model's answers; None where the user set one or the service has its own."""
    if settings.max_output_tokens is not None:
        return None
    return local_answer_limit(settings.model, domain.rollout_shape(settings.data).turn_out)


def reflector_limit_of(settings: LearnSettings, domain: Domain) -> AnswerLimit | None:
    """Return the default limit of a reflector of its own; None where its service has one."""
    return local_answer_limit(settings.reflector_name, domain.rollout_shape(settings.data).turn_out)


def budget_of(settings: BudgetOptions, store: Store, resume: RunId | None) -> Budget:
    """Return the run's budget; of a resumed run, with what it spent before it was interrupted."""
    if resume is None:
        return Budget(settings)
    totals = store.stage_totals(resume)
    usage = Usage(
        requests=sum(one.calls for one in totals),
        tokens_in=sum(one.tokens_in for one in totals),
        tokens_cached=sum(one.tokens_cached for one in totals),
        tokens_out=sum(one.tokens_out for one in totals),
    )
    cost_usd, unpriced = sum(one.cost_usd for one in totals), sum(one.unpriced for one in totals)
    return Budget(settings, usage=usage, cost_usd=cost_usd, unpriced_calls=unpriced)
