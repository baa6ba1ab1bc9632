"""What benchmarks with customers share: they are imported from a clone, and our agent calls their tools."""

import importlib
import json
import os
import sys
from abc import abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from pydantic_ai import FunctionToolset, RunContext, Tool

from agentlearn.domain.base import Answer
from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.plugins import cause_words
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Step, UserTurn
from agentlearn_adapters.foreign_domain import ForeignDomain


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
