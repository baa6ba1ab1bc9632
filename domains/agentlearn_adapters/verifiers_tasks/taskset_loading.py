"""Tasksets of verifiers by name, and their tasks as our tasks."""

import math
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import packages_distributions, requires
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any

from agentlearn.errors import ConfigError, MissingExtra, ToolError
from agentlearn.plugins import cause_words
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Verdict
from agentlearn_adapters.foreign_domain import undecided, unknown, verdict_of

if TYPE_CHECKING:
    from verifiers.v1 import Env

# verifiers cannot be installed together with the packages that types are checked with.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false


INSTALL = "pip install 'agentlearn-lib[verifiers]' and then pip install --no-deps verifiers==0.4.0"
MOST_OF_ENDLESS = 1000
"""How many tasks are taken of a taskset that yields tasks for ever."""


def load_env(name: str) -> "Env[Any]":
    """Return the environment of an installed taskset. Raises ConfigError, MissingExtra."""
    _require()
    from verifiers.v1 import environment_class, import_taskset, resolve_env_config
    from verifiers.v1.envs.single_agent import SingleAgentEnv

    from agentlearn_adapters.verifiers_tasks.chat_harness import harness_name

    if not name:
        raise _unknown(name)
    try:
        import_taskset(name)
    except ModuleNotFoundError as error:
        if "not found (tried to import" in str(error):
            raise _unknown(name) from error
        raise _not_loaded(name, error) from error
    except Exception as error:
        raise _not_loaded(name, error) from error
    if environment_class(name) is not SingleAgentEnv:
        raise ConfigError(
            f"the verifiers taskset {name!r} brings an environment with roles of its own, and this adapter runs only"
            " tasksets for one agent; choose another taskset",
            code="unsupported_taskset",
        )
    chosen = {
        "taskset": {"id": name},
        "agent": {"harness": {"id": harness_name()}, "runtime": {"type": "subprocess"}},
        "interception": {"type": "server"},
    }
    try:
        env = SingleAgentEnv(resolve_env_config(chosen))
    except Exception as error:
        raise _not_loaded(name, error) from error
    if type(env.taskset).task_type().NEEDS_CONTAINER:
        raise ConfigError(
            f"the tasks of the verifiers taskset {name!r} need a container, which this adapter does not start; choose a"
            " taskset that needs none",
            code="needs_sandbox",
        )
    return env


def _require() -> None:
    """Raise MissingExtra when verifiers, or something that it imports, is not installed."""
    if find_spec("verifiers") is None:
        raise MissingExtra(f"the adapter 'verifiers:' needs the package verifiers: {INSTALL}")
    try:
        import verifiers.v1.tasksets  # noqa: F401 - its import shows what is missing
    except ImportError as error:
        raise MissingExtra(
            f"the adapter 'verifiers:' cannot import verifiers 0.4 or later ({error}): {INSTALL}"
        ) from error


def _unknown(name: str) -> ConfigError:
    return unknown("verifiers taskset", name, _installed_tasksets(), "install its package, or name one of these")


def _not_loaded(name: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"the verifiers taskset {name!r} cannot be loaded: {cause_words(error)}; try `eval {name}` of verifiers",
        code="taskset_not_loaded",
    )


def _installed_tasksets() -> list[str]:
    """Return the names of installed packages that need verifiers, and of the tasksets that it ships."""
    import pkgutil

    from verifiers.v1 import tasksets

    shipped = [one.name for one in pkgutil.iter_modules(tasksets.__path__)]
    others = {
        module
        for module, packages in packages_distributions().items()
        if any(_needs_verifiers(package) for package in packages)
    }
    return sorted({*shipped, *others} - {"verifiers", "tests"})


def _needs_verifiers(package: str) -> bool:
    return any(one.replace("_", "-").startswith("verifiers") for one in requires(package) or ())


def tasks_of(domain: str, env: "Env[Any]") -> tuple[Task, ...]:
    """Return the tasks of a taskset. Raises ConfigError when they cannot be read.

    Tasks with the same prompt differ in what only verifiers knows, so their number becomes part of the problem.
    """
    try:
        found = list(islice(env.taskset, None if env.taskset.bounded else MOST_OF_ENDLESS))
    except Exception as error:
        raise _not_loaded(domain.partition(":")[2], error) from error
    for one in found:
        if one.data.image is not None:
            raise ConfigError(
                f"the task {one.data.idx} of {domain!r} needs the container image {one.data.image!r}, which this"
                " adapter does not start; choose another taskset",
                code="needs_sandbox",
            )
    times = Counter(one.data.prompt_text for one in found)
    return tuple(_task(domain, one, index, unique=times[one.data.prompt_text] == 1) for index, one in enumerate(found))


def _task(domain: str, task: Any, index: int, *, unique: bool) -> Task:
    text = task.data.prompt_text
    answer = getattr(task.data, "answer", None)
    return Task.of(
        domain,
        text if text.strip() and unique else f"{text}\n(task {index + 1})",
        answer if isinstance(answer, str) and answer else None,
        source=f"{domain}:{task.data.id or task.data.name or index}",
        fields={"index": index, "key": task.key},
    )


def foreign_task(env: "Env[Any]", task: Task) -> Any:
    """Return verifiers' task of one of ours. Raises ToolError when the taskset has changed."""
    index, key = task.fields["index"], task.fields["key"]
    found = next(islice(env.taskset, index, index + 1), None)
    if found is None or found.key != key:
        raise ToolError(
            f"the taskset of {task.domain!r} no longer has its task {index + 1} as it was; start a new run",
            code="task_gone",
        )
    return found


Rewards = Mapping[str, tuple[float, float] | None]
"""Score and weight of each reward by name; None: it was not computed."""


def verdict_of_rewards(rewards: Rewards, metrics: Mapping[str, float | None], error: str = "") -> Verdict:
    """Return the verdict for the rewards of one rollout.

    Each score must be from 0 to 1. The weighted sum is then from the sum of the negative weights to the sum of the
    positive ones, and the reward is its place between the two.
    """
    if error:
        return undecided(error)
    if not rewards:
        return undecided("the task has no reward")
    known: dict[str, tuple[float, float]] = {}
    for name, one in rewards.items():
        if one is None:
            return undecided(f"the reward {name!r} was not computed")
        if not (math.isfinite(one[0]) and 0 <= one[0] <= 1):
            return undecided(f"the reward {name!r} gave {one[0]!r}, which is not from 0 to 1")
        known[name] = one
    least = sum(min(weight, 0.0) for _, weight in known.values())
    greatest = sum(max(weight, 0.0) for _, weight in known.values())
    if not greatest > least:
        return undecided("all weights of the rewards are 0")
    total = sum(score * weight for score, weight in known.values())
    reward = (total - least) / (greatest - least)
    return verdict_of(min(max(reward, 0.0), 1.0), _words(known, metrics))


def _words(rewards: Mapping[str, tuple[float, float]], metrics: Mapping[str, float | None]) -> str:
    """Return the scores as a sentence for the stages that learn."""
    parts = [f"{name}: {score:g} (weight {weight:g})" for name, (score, weight) in rewards.items()]
    parts += [f"{name}: {value:g}" for name, value in metrics.items() if value is not None]
    return "; ".join(parts)
