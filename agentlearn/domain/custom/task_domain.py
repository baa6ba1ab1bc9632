"""Domains of custom tasks: the user's files, a reward, no package. Heavy modules are imported when first needed."""

import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentlearn.domain.base import Answer, Domain, JudgeModel, RolloutContext, installed_domains
from agentlearn.domain.custom.judge import JudgeReward
from agentlearn.domain.custom.own_functions import names_object
from agentlearn.domain.custom.reward import FunctionReward, GymReward, Reward, find_reward
from agentlearn.domain.custom.scoring import ScoringProcess
from agentlearn.errors import ConfigError, DataError, ToolError
from agentlearn.sandbox import CodeSandbox
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import PromptRef, Trajectory, Verdict
from agentlearn.types.value import Author, AuthorKind

if TYPE_CHECKING:
    from pydantic_ai import Agent

    from agentlearn.data import ColumnChoice, Columns

Tools = Literal["none", "python"]

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_TAKEN = frozenset({"none"})


def custom_tasks(
    name: str,
    reward: str,
    *,
    tools: Tools = "none",
    instructions: str | None = None,
    only_instructions: bool = False,
    imports_reward: bool = True,
) -> "CustomTasks":
    """Return a domain whose tasks come from the user's files.

    reward: `exact`, `number`, `choice`, `contains`, `judge`, `gym` for tasks of reasoning-gym, or `module:function`,
    which is imported here, also from the working directory. instructions: added to the agent's own, or its only ones.
    imports_reward: False for a plan, which judges nothing. Raises ConfigError.
    """
    return judged_tasks(
        name,
        find_reward(reward, imports=imports_reward),
        runs_code=tools == "python",
        instructions=instructions,
        only_instructions=only_instructions,
    )


def judged_tasks(
    name: str,
    reward: Reward,
    *,
    runs_code: bool = False,
    instructions: str | None = None,
    only_instructions: bool = False,
) -> "CustomTasks":
    """Return a domain of custom tasks that this reward judges. Raises ConfigError for a bad name."""
    if not _NAME.fullmatch(name) or name in _TAKEN:
        raise ConfigError(
            f"{name!r} cannot be a name of tasks and their library; write it in lower-case letters, digits,"
            " '.', '_' and '-', such as 'prices'"
        )
    kind = (
        JudgedTasks if isinstance(reward, JudgeReward) else GymTasks if isinstance(reward, GymReward) else CustomTasks
    )
    return kind(
        name=name,
        reward=reward,
        runs_code=runs_code,
        instructions=instructions,
        only_instructions=only_instructions,
    )


def name_for(source: Path | str) -> str:
    """Return a name for the tasks of a file and their library: the file's stem, made valid and different from any
    domain.
    """
    from agentlearn.data import name_of

    name = re.sub(r"[^a-z0-9_-]+", "-", name_of(source).lower()).strip("-_")[:50].strip("-_") or "tasks"
    return f"{name}-tasks" if name in _TAKEN or name in installed_domains() else name


@dataclass(frozen=True)
class CustomTasks(Domain):
    """Tasks from the user's files, judged by one reward."""

    name: str
    reward: Reward
    runs_code: bool = False
    instructions: str | None = None
    only_instructions: bool = False
    """Whether the agent has no other instructions."""
    sandbox: CodeSandbox | None = None
    """Running sandbox in which `open` starts its sessions."""
    columns: "ColumnChoice | None" = None
    """Columns of the files that the user chose."""
    threshold: float = 1.0

    description: str = field(init=False)

    def __post_init__(self) -> None:
        if self.only_instructions and not (self.instructions or "").strip():
            raise ConfigError(
                "only_instructions is set, but there are no instructions; give the agent's own with --instructions"
            )
        by: AuthorKind = "model" if isinstance(self.reward, JudgeReward) else "person"
        # a function may pass on what anybody wrote
        object.__setattr__(self, "reasons_by", "reasons" if isinstance(self.reward, FunctionReward) else by)
        object.__setattr__(self, "description", f"own tasks, judged by {self.reward.name}")

    def with_sandbox(self, sandbox: CodeSandbox) -> "CustomTasks":
        """Return the same domain with a running sandbox."""
        return replace(self, sandbox=sandbox)

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> Sequence[Task]:
        """Raise ConfigError: all tasks come from the user."""
        raise ConfigError(f"{self.name!r} has no tasks; give some with --data FILE")

    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> Sequence[Task]:
        """Return the tasks of a source: a file, `hf:NAME`, `gym:TASK`, or objects at `module:name`.

        Raises DataError, also for an expected answer that the reward cannot judge, and ConfigError for a bad module.
        """
        from agentlearn.data import read_tasks

        if names_object(path):
            from agentlearn.domain.objects import named_tasks

            return named_tasks(str(path), self, split=split, limit=limit)
        return read_tasks(
            path,
            domain=self.name,
            split=split,
            limit=limit,
            columns=self.data_columns(),
            gold=self.reward.gold,
            answer_required=self.reward.needs_gold,
            key=lambda answer: self.reward.answer_key(answer) or answer,
        )

    def with_columns(self, columns: "ColumnChoice") -> "CustomTasks":
        """Return the same domain, which reads these columns of files."""
        return replace(self, columns=columns)

    def data_columns(self) -> "Columns":
        """Return the usual columns, or those that the user chose."""
        from agentlearn.data import Columns

        return Columns(chosen=self.columns)

    def answer_reader(self, source: str | Path) -> Callable[[str], str]:
        """Return how the reward reads an expected answer."""
        return self.reward.gold

    def agent(self) -> "Agent[Any, Answer]":
        """Return the agent; its deps are the value that `open` yields."""
        return self._agent

    def prompts(self) -> tuple[PromptRef, ...]:
        """Return the agent's prompts, including the user's instructions."""
        return tuple(ref for ref, _ in self._words)

    def question(self, task: Task) -> str:
        """Return the problem as it is."""
        return task.problem

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator[object]:
        """Open a fresh interpreter, seeded by the rollout, or nothing. Raises ToolError when there is no sandbox."""
        if not self.runs_code:
            yield None
            return
        if self.sandbox is None:
            raise ToolError(
                f"{self.name!r} has no sandbox to run code in; bind one with `domain.with_sandbox(sandbox)`"
            )
        from agentlearn.sandbox.python_tool import CodeDeps

        async with self.sandbox.open(context.seed) as session:
            yield CodeDeps(session)

    def author_of(self, tool: str, place: str) -> Author:
        """Return our sandbox: it is the only tool, and it reaches nothing outside."""
        return Author(kind="sandbox")

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict | Awaitable[Verdict]:
        """Judge with the reward."""
        return self.reward.judge(task, trajectory)

    def answer_key(self, answer: str) -> str | None:
        """Return the reward's key for the answer; None when it has none."""
        return self.reward.answer_key(answer)

    @cached_property
    def _words(self) -> list[tuple[PromptRef, str]]:
        """The agent's instructions in order, each with its reference."""
        from agentlearn.prompts import load_prompt

        words: list[tuple[PromptRef, str]] = []
        if not self.only_instructions:
            solve = load_prompt("own_solve", 1)
            words.append((solve.ref, solve.fill({"form": self.reward.form})))
            if self.runs_code:
                python = load_prompt("own_python", 1)
                words.append((python.ref, python.text))
        if self.instructions is not None:
            sha256 = hashlib.sha256(self.instructions.encode()).hexdigest()
            words.append((PromptRef(name="own:instructions", version=1, sha256=sha256), self.instructions))
        return words

    @cached_property
    def _agent(self) -> "Agent[Any, Answer]":
        from pydantic_ai import Agent, ModelResponse, RunContext, TextOutput

        from agentlearn.answers.reply import final_answer_in
        from agentlearn.sandbox.python_tool import CodeDeps, code_tool

        async def tagged_answer(context: RunContext[Any], text: str) -> Answer:
            last = context.messages[-1]
            whole = not (isinstance(last, ModelResponse) and last.finish_reason == "length")
            return Answer(text=text, answer=final_answer_in(text, whole=whole))

        return Agent(
            deps_type=CodeDeps if self.runs_code else type(None),
            output_type=TextOutput(tagged_answer),
            instructions=[text for _, text in self._words],
            name=self.name,
            tools=[code_tool()] if self.runs_code else [],
        )


@dataclass(frozen=True)
class JudgedTasks(CustomTasks):
    """Custom tasks judged by a model."""

    uses_judge = True

    def with_judge(self, judge: JudgeModel) -> "JudgedTasks":
        """Return the same domain with a model that judges."""
        assert isinstance(self.reward, JudgeReward)
        return replace(self, reward=self.reward.with_model(judge))

    def prompts(self) -> tuple[PromptRef, ...]:
        """Return the agent's prompts and the judge's instructions."""
        assert isinstance(self.reward, JudgeReward)
        return (*super().prompts(), self.reward.instructions().ref)


@dataclass(frozen=True)
class GymTasks(CustomTasks):
    """Tasks of reasoning-gym, scored in a separate process."""

    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> Sequence[Task]:
        """Return the tasks of `gym:TASK`. Raises DataError, also for tasks without a scorer."""
        from agentlearn.data.gym import GYM

        tasks = super().read(path, split=split, limit=limit)
        if any(not task.source.startswith(GYM) for task in tasks):
            raise DataError(
                f"the reward 'gym' scores tasks of reasoning-gym, but {path.name!r} has none; give 'gym:TASK', or"
                " choose another --reward"
            )
        return tasks

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["GymTasks"]:
        """Start a scoring process; yields the domain that uses it."""
        assert isinstance(self.reward, GymReward)
        async with ScoringProcess.running() as scorer:
            yield replace(self, reward=self.reward.with_scorer(scorer))
