"""`browsergym:TASKS`: tasks of BrowserGym, such as MiniWoB++, with its own browser, views, actions and reward.

The agent has one tool, whose argument is an action as BrowserGym writes it, such as `click('12')`. The browser is
BrowserGym's: the network boundary of the web domain does not hold for it. BrowserGym has one driver for all its
browsers, which belongs to one thread, so the environments of a run take turns.
"""

import asyncio
import importlib
import os
import re
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from pydantic_ai import Agent, RunContext

from agentlearn.domain.base import RolloutContext
from agentlearn.errors import MissingExtra
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ToolResult, Trajectory, Verdict
from agentlearn_adapters.foreign_domain import CustomerDomain, unknown, verdict_of

SEEDS = 5
"""Number of tasks of each kind, each with another seed."""
_MINIWOB = "MINIWOB_URL"
_ENDED = "\nThe task has ended: say so."
_REWARD = "reward: "
_NOISE = re.compile(r"\t*(InlineTextBox .*|\[\w+\] generic)")
"""Lines that repeat the text above them, and wrappers that nobody can click."""
T = TypeVar("T")


@dataclass(slots=True)
class _Episode:
    """The environment of one rollout, and what it shows."""

    env: Any
    in_thread: Callable[..., Any]
    seen: str = ""
    over: bool = False

    async def begin(self, seed: int) -> None:
        """Start the task."""
        seen, _ = await self.in_thread(self.env.reset, seed=seed)
        self._show(seen, 0.0)

    async def act(self, action: str) -> str:
        """Do an action, and return what the page shows then, with the reward in the first line."""
        if not self.over:
            seen, reward, ended, cut, _ = await self.in_thread(self.env.step, action)
            self.over = bool(ended or cut)
            self._show(seen, float(reward))
        return self.seen

    def _show(self, seen: dict[str, Any], reward: float) -> None:
        views = importlib.import_module("browsergym.utils.obs")
        shown = {"extra_properties": seen.get("extra_element_properties"), "with_clickable": True}
        tree = views.flatten_axtree_to_str(seen["axtree_object"], skip_generic=False, **shown)
        tree = "\n".join(line for line in tree.split("\n") if not _NOISE.fullmatch(line))
        error = f"\nerror: {seen['last_action_error']}" if seen.get("last_action_error") else ""
        end = _ENDED if self.over else ""
        self.seen = f"{_REWARD}{reward:g}\ngoal: {seen['goal']}{error}\nurl: {seen['url']}\n{tree}{end}"


class BrowserGymDomain(CustomerDomain):
    """The tasks whose names begin alike, each kind with several seeds."""

    def __init__(self, begins: str) -> None:
        self.name = f"browsergym:{begins}"
        self.description = f"tasks of BrowserGym whose names begin with {begins!r}"
        self.begins = begins

    @cached_property
    def _thread(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, thread_name_prefix="browsergym")

    async def _in_thread(self, call: Callable[..., T], /, *given: Any, **named: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: call(*given, **named))

    def all_tasks(self) -> tuple[Task, ...]:
        """Return each kind of task with `SEEDS` seeds."""
        kinds = sorted(one for one in _registered() if one.startswith(self.begins))
        made = ((kind, seed) for kind in kinds for seed in range(SEEDS))
        return tuple(
            Task.of(self.name, f"{kind}, seed {seed}", None, family=kind, fields={"kind": kind, "seed": seed})
            for kind, seed in made
        )

    def agent(self) -> Agent[_Episode, str]:
        """Return the agent, which reads the actions and the first view as its instructions."""
        agent = Agent(None, deps_type=_Episode, output_type=str)

        @agent.instructions
        def _(context: RunContext[_Episode]) -> str:
            actions = context.deps.env.unwrapped.action_mapping.__self__.describe()
            return f"You work in a browser until the goal is reached.\n\n{actions}\n\nThe page:\n\n{context.deps.seen}"

        @agent.tool(sequential=True)
        async def act(context: RunContext[_Episode], action: str) -> str:
            """Do one action in the browser, and see the page as it is then.

            Args:
                action: The action, such as click('12').
            """
            return await context.deps.act(action)

        return agent

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator[_Episode]:
        """Start the environment of a task, and close it at the end."""
        fields = context.task.fields
        gymnasium = importlib.import_module("gymnasium")
        env = await self._in_thread(gymnasium.make, f"browsergym/{fields['kind']}", disable_env_checker=True)
        try:
            episode = _Episode(env, self._in_thread)
            await episode.begin(int(fields["seed"]))
            yield episode
        finally:
            await self._in_thread(env.close)

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict:
        """Return the reward that the last action had."""
        seen = [step.content for step in trajectory.steps if isinstance(step, ToolResult)]
        last = next((one for one in reversed(seen) if one.startswith(_REWARD)), f"{_REWARD}0")
        reward = float(last.partition("\n")[0].removeprefix(_REWARD))
        return verdict_of(min(max(reward, 0.0), 1.0), "" if last.endswith(_ENDED) else "The task did not end.")


def adapter(name: str) -> BrowserGymDomain:
    """Return the domain of the tasks whose names begin like that: `miniwob`, or `miniwob.click-button`.

    Raises ConfigError, MissingExtra.
    """
    benchmark = name.partition(".")[0]
    if find_spec("browsergym") is None or find_spec(f"browsergym.{benchmark}") is None:
        package = f"browsergym-{benchmark}"
        raise MissingExtra(f"{name!r} needs {package}, which is not installed: pip install {package}, and its browser")
    page = find_spec("miniwob") if benchmark == "miniwob" else None
    if page is not None and page.origin is not None:  # its pages, without a server
        os.environ.setdefault(_MINIWOB, f"{(Path(page.origin).parent / 'html' / 'miniwob').as_uri()}/")
    importlib.import_module(f"browsergym.{benchmark}")
    known = sorted(one for one in _registered() if one.startswith(f"{benchmark}."))
    if not any(one.startswith(name) for one in known):
        raise unknown("BrowserGym task", name, known[:10], "name one of these, or the benchmark alone")
    return BrowserGymDomain(name)


def _registered() -> list[str]:
    """Return the names of all tasks of BrowserGym that have been imported."""
    registry = importlib.import_module("gymnasium").registry
    return [one.removeprefix("browsergym/") for one in registry if one.startswith("browsergym/")]
