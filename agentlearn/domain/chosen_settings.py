"""What a recipe or a source adds to the settings that a user gave, and reading the source's tasks."""

import shlex
from pathlib import Path
from typing import Any

from agentlearn.config import GivenSettings, TaskFileOptions, default_recipe, is_source, packaged_recipe, read_recipe
from agentlearn.data import ReadableTasks, parse_columns, readable_tasks
from agentlearn.domain.base import Domain
from agentlearn.domain.custom import CustomTasks
from agentlearn.domain.custom.own_functions import names_object
from agentlearn.errors import ConfigError
from agentlearn.types.task import Split


def learn_fields(what: str, given: GivenSettings) -> dict[str, Any]:
    """All fields of a learn run: options over a recipe, the environment, and the domain's default recipe."""
    path, recipe, usual = packaged_recipe(what) or Path(what), dict[str, Any](), dict[str, Any]()
    if path.suffix in {".yaml", ".yml"}:
        recipe = read_recipe(path)
    elif is_source(what):
        recipe = custom_task_fields("learn", what, given)
    else:
        default = None if "from_store" in given else default_recipe(what)
        usual = {**(read_recipe(default) if default else {}), "domain": what}
    if "from_store" in given:
        usual["epochs"] = 1  # the same rollouts teach little a second time
    fields = usual | given.over(recipe)
    return with_domain(fields, what) if path.suffix in {".yaml", ".yml"} else fields


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
            f"the recipe {recipe!r} says no tasks; write `domain: math`, or `data: FILE` and `reward: number`"
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


def with_chosen_columns(domain: Domain, options: TaskFileOptions) -> Domain:
    """Return the domain, which reads the columns that the user chose, if any. Raises ConfigError."""
    return domain if options.columns is None else domain.with_columns(parse_columns(options.columns))


def read_source(
    domain: Domain, source: str, options: TaskFileOptions, *, split: Split, limit: int | None = None
) -> ReadableTasks:
    """Return the tasks of a source whose expected answer the verifier can read, and a note about the others.

    Raises DataError for a row that cannot be read, and when more answers than `max_unreadable` cannot be read.
    """
    return readable_tasks(
        domain.read(Path(source), split=split, limit=limit),
        source,
        domain.unreadable_gold,
        most=options.max_unreadable,
        check=_check_command(domain, source, options),
    )


def _check_command(domain: Domain, source: str, options: TaskFileOptions) -> str:
    """Return the command that lists what is wrong with the source; empty where no command can."""
    if names_object(source):
        return ""
    own = isinstance(domain, CustomTasks)
    judge = ["--reward", domain.reward.name] if own else ["--domain", domain.name]
    columns = [] if options.columns is None else ["--columns", options.columns]
    return shlex.join(["agentlearn", "data", "check", source, *judge, *columns])
