"""`verifiers:NAME`: the tasks of an installed taskset of verifiers, run by verifiers and scored by its rewards.

verifiers prepares a task, serves its tools, applies its hooks and computes its weighted rewards. The conversation
itself is a plain chat with the task's tools, as in verifiers' own harness `null`, and the model is ours.
"""

# verifiers cannot be installed together with the packages that types are checked with.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import math
import pkgutil
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from copy import copy
from importlib.metadata import packages_distributions, requires
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from agentlearn.domain.base import RolloutShape, Work, Worked
from agentlearn.errors import ConfigError, MissingExtra, ToolError
from agentlearn.plugins import cause_words
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict
from agentlearn_adapters.foreign_domain import ForeignDomain, ModelCalls, undecided, unknown, verdict_of

if TYPE_CHECKING:
    from verifiers.v1 import Env

    from agentlearn_adapters.verifiers_tasks.episode_run import Served

__all__ = ["VerifiersDomain", "adapter"]

_INSTALL = "pip install 'agentlearn-lib[verifiers]' and then pip install --no-deps verifiers==0.4.0"
_MOST_OF_ENDLESS = 1000
"""How many tasks are taken of a taskset that yields tasks for ever."""
_Rewards = Mapping[str, tuple[float, float] | None]
"""Score and weight of each reward by name; None: it was not computed."""


class VerifiersDomain(ForeignDomain):
    """The tasks of one taskset."""

    replayable = False

    def __init__(self, name: str, env: "Env[Any]") -> None:
        self.name = f"verifiers:{name}"
        self.description = f"the verifiers taskset {name!r} with its own rewards"
        self.env = env
        self.served: Served | None = None

    def all_tasks(self) -> tuple[Task, ...]:
        """Return the tasks of the taskset; of an endless one, its first. Raises ConfigError when they cannot be read.

        Tasks with the same prompt differ in what only verifiers knows, so their number becomes part of the problem.
        """
        taskset = self.env.taskset
        try:
            found = list(islice(taskset, None if taskset.bounded else _MOST_OF_ENDLESS))
        except Exception as error:
            raise _not_loaded(self.name.partition(":")[2], error) from error
        times, tasks = Counter(one.data.prompt_text for one in found), list[Task]()
        for index, one in enumerate(found):
            text, answer = one.data.prompt_text, getattr(one.data, "answer", None)
            if one.data.image is not None:
                raise ConfigError(
                    f"the task {one.data.idx} of {self.name!r} needs the container image {one.data.image!r}, which this"
                    " adapter does not start; choose another taskset"
                )
            task = Task.of(
                self.name,
                text if text.strip() and times[text] == 1 else f"{text}\n(task {index + 1})",
                answer if isinstance(answer, str) and answer else None,
                source=f"{self.name}:{one.data.id or one.data.name or index}",
                fields={"index": index, "key": one.key},
            )
            tasks.append(task)
        return tuple(tasks)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        """Start what verifiers shares between rollouts, such as its tool servers."""
        from agentlearn_adapters.verifiers_tasks.episode_run import serve

        async with serve(self.env) as served:
            bound = copy(self)
            bound.served = served
            yield bound

    def question(self, task: Task) -> str:
        """Return the problem. Raises ConfigError for a problem that is no task of the taskset."""
        if "index" not in task.fields:
            raise ConfigError(
                f"{self.name!r} needs what its taskset knows about a task, and the problem {task.problem!r} is not one"
                " of its tasks; use the lessons in your own agent with Experiences"
            )
        return task.problem

    async def work(self, work: Work) -> Worked:
        """Let verifiers run one episode of the task. Raises ToolError when the taskset has changed."""
        self.question(work.task)
        if self.served is None:
            raise ToolError(f"{self.name!r} is not running; open it with `running`")
        index, calls = work.task.fields["index"], ModelCalls(work)
        found = next(islice(self.env.taskset, index, index + 1), None)
        if found is None or found.key != work.task.fields["key"]:
            raise ToolError(
                f"the taskset of {self.name!r} no longer has its task {index + 1} as it was; start a new run"
            )
        output = await calls.run(self.served.episode(found, calls))
        return Worked(output)

    def verify_output(self, task: Task, trajectory: Trajectory, output: Any) -> Verdict:
        """Return the weighted sum of the rewards, on a scale from the least to the greatest possible."""
        return _verdict_of_rewards(output.rewards, output.metrics, output.scoring_error)

    def rollout_shape(self, data: str | None = None) -> RolloutShape:
        """Return a size for tasksets of unknown length."""
        return RolloutShape(turns=3)


def adapter(name: str) -> VerifiersDomain:
    """Return the domain of an installed taskset. Raises ConfigError, MissingExtra."""
    if find_spec("verifiers") is None:
        raise MissingExtra(f"the adapter 'verifiers:' needs the package verifiers: {_INSTALL}")
    try:
        import verifiers.v1.tasksets  # noqa: F401 - its import shows what is missing
    except ImportError as error:
        raise MissingExtra(
            f"the adapter 'verifiers:' cannot import verifiers 0.4 or later ({error}): {_INSTALL}"
        ) from error
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
            " tasksets for one agent; choose another taskset"
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
            " taskset that needs none"
        )
    return VerifiersDomain(name, env)


def _unknown(name: str) -> ConfigError:
    """Return the error for a name that is none of the installed packages that need verifiers, or that it ships."""
    from verifiers.v1 import tasksets

    shipped = {one.name for one in pkgutil.iter_modules(tasksets.__path__)}
    others = {
        module
        for module, packages in packages_distributions().items()
        for package in packages
        if any(one.replace("_", "-").startswith("verifiers") for one in requires(package) or ())
    }
    known = sorted((shipped | others) - {"verifiers", "tests"})
    return unknown("verifiers taskset", name, known, "install its package, or name one of these")


def _not_loaded(name: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"the verifiers taskset {name!r} cannot be loaded: {cause_words(error)}; try `eval {name}` of verifiers"
    )


def _verdict_of_rewards(rewards: _Rewards, metrics: Mapping[str, float | None], error: str = "") -> Verdict:
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
    parts = [f"{name}: {score:g} (weight {weight:g})" for name, (score, weight) in known.items()]
    parts += [f"{name}: {value:g}" for name, value in metrics.items() if value is not None]
    return verdict_of(min(max(reward, 0.0), 1.0), "; ".join(parts))
