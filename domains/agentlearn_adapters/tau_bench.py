"""`tau-bench:ENV`: the airline and retail tasks of tau-bench, with its own tools, database and reward.

Our agent has the policy as its instructions and the environment's tools. Its user is played by a model that is told
what tau-bench tells it. The reward is computed from the record alone: the calls and messages are repeated in a new
environment of tau-bench, which then compares its database and the texts with what the task expects.

The package asks for the clients of several model services. None is called here, so that they need not be installed.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import Agent
from pydantic_ai.models import Model

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.data.files import read_bytes
from agentlearn.domain.base import Recording, RolloutContext, RolloutShape
from agentlearn.errors import DataError, ToolError
from agentlearn.formats.openai_chat import from_chat
from agentlearn.rollout.dialogue import PlayedUser
from agentlearn.types.task import Split, Task, User
from agentlearn.types.trajectory import PromptRef, Step, Trajectory, Verdict
from agentlearn.types.value import Value, first_fault
from agentlearn_adapters.foreign_domain import CustomerDomain, acts_in, import_clone, toolset, unknown, verdict_of

VARIABLE = "AGENTLEARN_TAU_BENCH"
"""Environment variable that names the folder of a clone."""
_ADDRESS = "https://github.com/sierra-research/tau-bench"
_STOP = "###STOP###"
"""What the model that plays the user writes when its goal is reached, as tau-bench tells it."""
_SPLITS = {"airline": ("test",), "retail": ("train", "dev", "test")}
"""Lists of tasks of each environment."""
_OURS: dict[str, Split] = {"train": "train", "dev": "validation", "test": "test"}


class _Recorded(Value):
    """One rollout in a file of results."""

    task_id: int
    reward: float
    trial: int
    info: dict[str, Any]
    traj: tuple[dict[str, Any], ...]


@dataclass(slots=True)
class _Episode:
    """The environment of one rollout, and whether the conversation has ended."""

    env: Any
    ends: frozenset[str]
    """Tools that end the conversation."""
    over: bool = False

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Return the result of a tool. The environment turns errors into text."""
        self.over = self.over or name in self.ends
        return self.env.step(_package().types.Action(name=name, kwargs=arguments)).observation


@dataclass(slots=True)
class _Customer:
    """The user of one rollout: a model with the instructions and the first words that tau-bench gives it."""

    episode: _Episode
    played: PlayedUser
    greeting: str
    farewell: str = ""

    @property
    def over(self) -> bool:
        return self.episode.over

    async def begin(self, question: str) -> str:
        return await self.played.says(self.greeting)

    async def reply(self, said: str) -> str | None:
        if self.over:
            return None
        text = await self.played.says(split_thoughts(said).said)
        self.episode.over = _STOP in text
        self.farewell = text if self.over else ""
        return None if self.over else text


class TauBenchDomain(CustomerDomain):
    """The tasks of one environment of tau-bench."""

    reasons_by = "person"

    def __init__(self, env: str, only: str = "") -> None:
        """only: the list of tasks whose tasks are all held out; empty: learn from some."""
        self.name = f"tau-bench:{env}/{only}" if only else f"tau-bench:{env}"
        self.description = f"customers of the {env} environment of tau-bench"
        self.env, self.only = env, only

    def all_tasks(self) -> tuple[Task, ...]:
        """Return the tasks in the order of tau-bench, those for learning first."""
        return tuple(task for split in _SPLITS[self.env] for task in self._listed(split))

    def _listed(self, split: str) -> tuple[Task, ...]:
        return tuple(
            Task.of(
                self.name,
                f"{one.user_id} writes to the {self.env} agent (task {index} of {split})",
                json.dumps({"actions": [act.model_dump() for act in one.actions], "outputs": one.outputs}),
                split=_OURS[split] if len(_SPLITS[self.env]) > 1 else "train",
                source=f"tau-bench:{self.env}/{split}:{index}",
                fields={"list": split, "index": index},
                user=User(goal=one.instruction, turns=1_000),
            )
            for index, one in enumerate(_environment(self.env, split, 0).tasks)
        )

    def in_splits(self) -> dict[Split, tuple[Task, ...]]:
        """Return the tasks by split. Of an environment with one list of tasks, 30 % are held out."""
        if self.only:
            held = tuple(one.model_copy(update={"split": "test"}) for one in self._listed(self.only))
            return {"train": (), "validation": (), "test": held}
        if len(_SPLITS[self.env]) == 1:
            return super().in_splits()
        return {_OURS[one]: self._listed(one) for one in _SPLITS[self.env]}

    def agent(self) -> Agent[Any, str]:
        """Return the agent: the policy as instructions, and the environment's tools."""
        env = _environment(self.env, _SPLITS[self.env][0], 0)
        tools = toolset(info["function"] for info in env.tools_info)
        return Agent(name="tau-bench", deps_type=_Episode, instructions=env.wiki, toolsets=[tools])

    def prompts(self) -> tuple[PromptRef, ...]:
        """Return the hash of the policy and the tools."""
        env = _environment(self.env, _SPLITS[self.env][0], 0)
        words = json.dumps([env.wiki, env.tools_info], sort_keys=True)
        return (PromptRef(name=f"tau-bench:{self.env}", version=0, sha256=hashlib.sha256(words.encode()).hexdigest()),)

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator[_Episode]:
        """Open an environment with a database of its own."""
        self.question(context.task)
        env = await asyncio.to_thread(_of_task, self.env, context.task)
        ends, env.terminate_tools = frozenset(env.terminate_tools), []  # the reward is computed by `verify`
        yield _Episode(env, ends)

    def user(self, task: Task, deps: _Episode, model: Callable[[], Model]) -> _Customer:
        """Return the customer, with the prompt and the greeting of tau-bench's own user."""
        theirs = _package().user.LLMUserSimulationEnv
        told: Any = theirs.__new__(theirs)  # its constructor asks a model
        told.generate_next_message = str  # reset gives it what the user is told, and we read that
        told.reset(instruction=deps.env.task.instruction)
        system, greeting = (one["content"] for one in told.messages)
        return _Customer(deps, PlayedUser(model, system), greeting)

    async def verify(self, task: Task, trajectory: Trajectory) -> Verdict:
        """Repeat the rollout in a new environment, and return the reward that tau-bench gives it."""
        result = await asyncio.to_thread(_tau_reward, self.env, task, trajectory.steps)
        missing = [words for words, found in getattr(result.info, "outputs", {}).items() if not found]
        reasons = [f"The agent did not tell the user {', '.join(map(repr, missing))}."] if missing else []
        if result.reward < 1 and not missing:
            reasons.append("The database is not in the expected state at the end.")
        return verdict_of(result.reward, " ".join(reasons))

    def recordings(self, path: Path) -> Iterator[Recording]:
        """Return the rollouts in a file of results, such as those in `historical_trajectories`.

        Where tau-bench recorded an error in place of a conversation, there is no reward: it counts such an error as 0.
        """
        try:
            found = TypeAdapter(tuple[_Recorded, ...]).validate_json(read_bytes(path))
        except ValidationError as error:
            raise DataError(
                f"{path.name} holds no results of tau-bench ({first_fault(error, 'file')}); give a file that run.py"
                " wrote"
            ) from error
        tasks = {one.fields["index"]: one for one in self._listed(self.only or "test")}
        for one in found:
            then, task = one.info.get("task") or {}, tasks.get(one.task_id)
            if task is None or not task.problem.startswith(f"{then.get('user_id', '')}"):
                raise DataError(
                    f"{path.name} has a rollout of task {one.task_id} ({then.get('user_id')!r}), which is another task"
                    f" in {self.name!r}; name the environment and the list of its tasks, as in 'tau-bench:retail/dev'"
                )
            failed = str(one.info.get("error") or "") if not one.traj else ""
            yield Recording(
                task=task, messages=from_chat(one.traj), reward=None if failed else one.reward, failed=failed
            )

    def rollout_shape(self, data: str | None = None) -> RolloutShape:
        """Return the mean size of the 200 recorded rollouts of gpt-4o on the airline tasks."""
        return RolloutShape(
            turns=12,
            prompt=3_500,
            turn_out=65,
            tool_result=100,
            user=RolloutShape(turns=7, prompt=450, turn_out=25, tool_result=60),
        )


def adapter(name: str) -> TauBenchDomain:
    """Return the domain of an environment: `airline` or `retail`, or `ENV/LIST` to hold out all tasks of a list.

    Raises ConfigError, MissingExtra.
    """
    env, _, only = name.partition("/")
    if env not in _SPLITS:
        raise unknown("tau-bench environment", env, list(_SPLITS), "choose one of these")
    if only and only not in _SPLITS[env]:
        raise unknown(f"list of {env} tasks", only, _SPLITS[env], "choose one of these")
    _package()
    return TauBenchDomain(env, only)


def _tau_reward(env_name: str, task: Task, steps: Sequence[Step]) -> Any:
    """Return tau-bench's result for a finished rollout: its `reward`, and `info` with the reason."""
    env = _of_task(env_name, task)
    ends, env.terminate_tools, action = frozenset(env.terminate_tools), [], _package().types.Action
    for what, given in acts_in(steps):
        who, _, name = what.partition(" ")
        if who == "agent":
            env.actions.append(action(name=_package().types.RESPOND_ACTION_NAME, kwargs={"content": given}))
        elif who == "tool":
            env.step(action(name=name, kwargs=given))
        if name in ends:
            break
    env.terminate_tools = sorted(ends)
    return env.calculate_reward()


def _of_task(env: str, task: Task) -> Any:
    """Return a new environment for a task. Raises ToolError when it is not the task that it was."""
    fields = task.fields
    made = _environment(env, fields["list"], fields["index"])
    if task.user is None or made.task.instruction != task.user.goal:
        raise ToolError(
            f"task {fields['index']} of {env}/{fields['list']} is another one in this clone of tau-bench; check out the"
            " commit that the run began with, or start a new run"
        )
    return made


def _environment(env: str, split: str, index: int) -> Any:
    """Return a new environment, whose user is nobody."""
    return _package().envs.get_env(env, user_strategy="human", user_model="", task_split=split, task_index=index)


@cache
def _package() -> Any:
    """Return the modules of tau-bench that are used. Raises MissingExtra, ConfigError."""
    names = ("envs", "types", "envs.user")
    envs, types, user = import_clone("tau_bench", VARIABLE, _ADDRESS, names, {"litellm": {"completion": None}})
    return SimpleNamespace(envs=envs, types=types, user=user)
