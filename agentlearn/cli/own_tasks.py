"""Tasks of one's own on the command line: the settings that they stand for, and the model that they need."""

from collections.abc import Container
from typing import Any

from agentlearn.cli.options import GivenSettings
from agentlearn.config import SIMULATED_MODEL, RunSettings
from agentlearn.errors import ConfigError

EXAMPLE_MODEL = "http://localhost:8000/v1#MODEL"
"""A model in the messages, which the user replaces."""


def require_model(settings: RunSettings, given: Container[str], command: str) -> None:
    """Raise ConfigError for tasks from a source without a named model, unless the domain brings a model for them.

    given: the settings that were given. command: the command without a model, for the message.
    """
    if settings.data is None or "model" in given or settings.model != SIMULATED_MODEL:
        return
    raise ConfigError(
        f"no model is named for the tasks in {settings.data!r}, and {SIMULATED_MODEL} can only solve the bundled"
        f" problems; name one: {command} --model {EXAMPLE_MODEL}",
        code="no_model",
    )


def with_domain(fields: dict[str, Any], recipe: str) -> dict[str, Any]:
    """The fields of a recipe, with a name for tasks of one's own that it gives none.

    Raises ConfigError when it names neither a domain nor tasks with a reward.
    """
    from agentlearn.domain.custom import name_for

    if "domain" in fields:
        return fields
    source, reward = fields.get("data"), fields.get("reward")
    if source is None or reward is None:
        raise ConfigError(
            f"the recipe {recipe!r} says no tasks; write `domain: math`, or `data: FILE` and `reward: number`",
            code="no_task",
        )
    return {**fields, "domain": fields.get("name") or name_for(str(source))}


def custom_task_fields(command: str, source: str, given: GivenSettings) -> dict[str, Any]:
    """The settings that a source of tasks stands for, where a command names one in place of a domain."""
    from agentlearn.domain.custom import default_reward, name_for

    reward = given.get("reward") or default_reward(source)
    if reward is None:
        raise ConfigError(
            f"say how answers in {source!r} are judged: --reward exact, number, choice, contains, judge or"
            f" module:function; or name the domain that judges them: agentlearn {command} math --data {source}",
            code="no_reward",
        )
    return {"domain": given.get("name") or name_for(source), "data": source, "reward": reward}
