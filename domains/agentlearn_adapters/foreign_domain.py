"""What the domains of all adapters share: their rollouts run themselves, and errors of foreign code are failures.

Benchmarks with customers are imported from a clone, and our agent calls their tools.
"""

import asyncio
import importlib
import json
import os
import sys
from abc import abstractmethod
from collections.abc import Awaitable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic_ai import FunctionToolset, RunContext, Tool
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings, merge_model_settings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RunUsage, UsageLimits

from agentlearn.data.overlap import hold_out
from agentlearn.domain.base import Answer, Domain, RolloutContext, Work, checked_limit
from agentlearn.errors import ConfigError, MissingExtra, VerifierError
from agentlearn.plugins import cause_words
from agentlearn.types.ids import content_hash
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import ModelTurn, PromptRef, Step, Trajectory, UserTurn, Verdict
from agentlearn.types.value import Author

if TYPE_CHECKING:
    from pydantic_ai import Agent


HELD_OUT = 0.3
"""Share of the other project's tasks that is the test split."""
NEARLY_ONE = 1 - 1e-9
"""Smallest reward that counts as right. Weighted sums of floats may miss 1 by their last digits."""


class ForeignDomain(Domain):
    """Tasks of another project. A subclass gives `all_tasks` and `work`, and `verify` or `judge`."""

    runs_itself = True
    errors_are_failures = True
    threshold = NEARLY_ONE

    @abstractmethod
    def all_tasks(self) -> Sequence[Task]:
        """Return every task of the other project, in its order. Called once. Raises ConfigError."""

    @cached_property
    def _splits(self) -> dict[Split, tuple[Task, ...]]:
        return self.in_splits()

    def in_splits(self) -> dict[Split, tuple[Task, ...]]:
        """Return the tasks by split. Called once. Default: a share of all tasks is held out by their content."""
        tasks = {task.id: task for task in self.all_tasks()}
        train, test = hold_out(tuple(tasks.values()), HELD_OUT, self.answer_key)
        return {"train": train, "validation": (), "test": test}

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> tuple[Task, ...]:
        """Return tasks of a split in an order that depends on the seed. Near-copies are in one split."""
        ranked = sorted(self._splits[split], key=lambda task: content_hash("order", seed, task.id))
        return tuple(ranked[: checked_limit(limit)])

    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> Sequence[Task]:
        """Raises ConfigError: the tasks come from the other project."""
        raise ConfigError(
            f"{self.name!r} has its own tasks and cannot judge those in {str(path)!r}; leave out --data, or name a"
            " domain or --reward that judges the file"
        )

    def agent(self) -> "Agent[Any, Any]":
        """Raises ConfigError: a domain that runs itself has no agent."""
        raise ConfigError(f"{self.name!r} runs the other project's own loop and has no agent")

    def prompts(self) -> tuple[PromptRef, ...]:
        """Return no prompt: the other project writes them, and the stored messages show them."""
        return ()

    def question(self, task: Task) -> str:
        """Return the problem."""
        return task.problem

    def open(self, context: RolloutContext) -> AbstractAsyncContextManager[object]:
        """Open nothing."""
        return nullcontext()

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict | Awaitable[Verdict]:
        """Raises VerifierError: the other project's scorer needs the whole output."""
        raise VerifierError(
            f"{self.name!r} is scored by the other project's code, which needs the output of the rollout"
        )

    def answer_key(self, answer: str) -> str | None:
        """Return the answer without surrounding white space."""
        return answer.strip()

    def author_of(self, tool: str, place: str) -> Author:
        """Return those who wrote the tasks: the tools are theirs too."""
        return Author(kind="tasks", name=self.name)

    def answer_of(self, output: Any) -> Answer:
        """Return the answer in the output of `work`."""
        return Answer(text=output.reply, answer=output.reply or None)


def verdict_of(reward: float, reason: str = "") -> Verdict:
    """Return the verdict for a reward from 0 to 1; one that misses 1 by its last digits is 1."""
    return Verdict.of(1.0 if reward >= NEARLY_ONE else reward, reason)


def undecided(reason: str) -> Verdict:
    """Return the verdict for a rollout that the other project's scorer did not judge."""
    return Verdict(status="undecided", reason=reason)


def unknown(kind: str, name: str, known: Sequence[str], next_step: str) -> ConfigError:
    """Return the error for a name that the other project does not have. known: the names that it has."""
    found = ", ".join(repr(one) for one in known) or "none"
    return ConfigError(f"there is no {kind} {name!r} (found: {found}); {next_step}")


T = TypeVar("T")


@dataclass(slots=True)
class ModelCalls:
    """The calls of one rollout."""

    work: Work
    count: int = 0
    error: Exception | None = None
    """The first error of a call."""
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a call has failed."""

    async def ask(
        self,
        messages: Sequence[ModelMessage],
        tools: Sequence[ToolDefinition] = (),
        settings: ModelSettings | None = None,
    ) -> ModelResponse:
        """Return the model's response to a conversation, with the lessons as instructions of its last request.

        settings: what the other project asks for; the rollout's own settings win.
        """
        said, lessons = list(messages), self.work.lessons
        if lessons and said and isinstance(said[-1], ModelRequest):
            said[-1] = replace(said[-1], instructions="\n\n".join(filter(None, [said[-1].instructions, lessons])))
        self.count += 1
        try:
            UsageLimits(request_limit=self.work.max_turns).check_before_request(RunUsage(requests=self.count - 1))
            return await model_request(
                self.work.model,
                said,
                model_settings=merge_model_settings(settings, self.work.settings),
                model_request_parameters=ModelRequestParameters(
                    function_tools=list(tools), output_mode="text", allow_text_output=True
                ),
            )
        except Exception as error:
            self.error = self.error or error
            self.failed.set()
            raise

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of the other project's code. Ends it when a call fails, and raises the error of the call.

        Such code may hide the error in one of its own, or ask again and again.
        """
        running, failing = asyncio.ensure_future(work), asyncio.ensure_future(self.failed.wait())
        try:
            await asyncio.wait({running, failing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            failing.cancel()
            running.cancel()
            await asyncio.gather(running, failing, return_exceptions=True)
        if self.error is not None:
            raise self.error
        return running.result()


def reply_text(response: ModelResponse) -> str:
    """Return the text of a response, without its thoughts and tool calls."""
    return "\n".join(part.content for part in response.parts if isinstance(part, TextPart))


def joined(messages: Iterable[ModelMessage]) -> list[ModelMessage]:
    """Return the messages with neighbouring requests as one, as model services expect them."""
    said: list[ModelMessage] = []
    for one in messages:
        if said and isinstance(one, ModelRequest) and isinstance(last := said[-1], ModelRequest):
            said[-1] = replace(last, parts=[*last.parts, *one.parts])
        else:
            said.append(one)
    return said


class Episode(Protocol):
    """The environment of one rollout."""

    @abstractmethod
    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Return the result of a tool."""
        ...


class CustomerDomain(ForeignDomain):
    """Tasks in which our agent talks with a customer and calls tools that change a database."""

    runs_itself = False

    def question(self, task: Task) -> str:
        """Return the problem. Raises ConfigError for one that is no task of the benchmark."""
        if not task.fields:
            raise ConfigError(
                f"{self.name!r} has its own customers and cannot solve {task.problem!r}; leave the problem out, or use"
                " the lessons in your own agent with Experiences"
            )
        return task.problem

    def answer_of(self, output: str | None) -> Answer:
        """Return the agent's last message; none where a tool ended the conversation."""
        return Answer(text=output or "", answer=output or None)

    def answer_key(self, answer: str) -> str | None:
        """Return None: the reward depends on the database, so last messages do not vote."""
        return None


def toolset(schemas: Iterable[Mapping[str, Any]]) -> FunctionToolset[Episode]:
    """Return tools that the episode in the agent's deps runs, one after the other.

    schemas: `name`, `description` and `parameters` of each.
    """

    def tool(schema: Mapping[str, Any]) -> Tool[Episode]:
        async def call(context: RunContext[Episode], **arguments: Any) -> str:
            return context.deps.call(schema["name"], arguments)

        words = (schema["name"], schema["description"], schema["parameters"])
        return Tool.from_schema(call, *words, takes_ctx=True, sequential=True)

    return FunctionToolset(list(map(tool, schemas)))


def acts_in(steps: Sequence[Step]) -> Iterator[tuple[str, Any]]:
    """Yield what happened, in order: `tool NAME` with its arguments, `agent` and `user` with what they said.

    Calls whose arguments are no JSON object are left out: they were refused, and the model was asked again.
    """
    for step in steps:
        if isinstance(step, UserTurn):
            yield "user", step.text
        elif isinstance(step, ModelTurn):
            for call in step.tool_calls:
                try:
                    arguments = json.loads(call.arguments or "{}")
                except ValueError:
                    continue
                if isinstance(arguments, dict):
                    yield f"tool {call.tool}", arguments
            if not step.tool_calls and step.text:
                yield "agent", step.text


@contextmanager
def _standing_in(modules: Mapping[str, Mapping[str, object]]) -> Generator[None]:
    """Let modules with these contents stand in for packages while others are imported that need their names only."""
    added: list[str] = []
    for name, contents in modules.items():
        if name not in sys.modules:
            module = ModuleType(name)
            vars(module).update(contents)
            sys.modules[name] = module
            added.append(name)
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]


def import_clone(
    package: str, variable: str, address: str, parts: tuple[str, ...], needs: Mapping[str, Mapping[str, object]]
) -> tuple[ModuleType, ...]:
    """Return modules of a package, from the clone that the environment variable names, else as it is installed.

    parts: the modules, below the package. needs: contents of modules that it imports and does not use here.

    Raises MissingExtra when there is none, ConfigError when the folder is no such clone or cannot be imported.
    """
    named = os.environ.get(variable)
    folder = None if not named else Path(named).expanduser().resolve()
    if folder is not None and not (folder / package).is_dir():
        raise ConfigError(
            f"{variable}={named!r} is no clone of {address}: it has no folder {package!r}; clone it there, or name"
            " another folder"
        )
    if folder is None and find_spec(package) is None:
        raise MissingExtra(
            f"there is no package {package!r}: git clone {address} and set {variable} to the folder of the clone"
        )
    try:
        with _standing_in(needs):
            if folder is not None:
                sys.path.insert(0, str(folder))
            try:
                return tuple(importlib.import_module(f"{package}.{part}") for part in parts)
            finally:
                if folder is not None:
                    sys.path.remove(str(folder))
    except Exception as error:  # code of the clone may raise anything
        raise ConfigError(
            f"{package!r} cannot be imported from {str(folder or 'where it is installed')!r}: {cause_words(error)};"
            " check out another commit, or install what is missing"
        ) from error
