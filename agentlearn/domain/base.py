"""The plug-in protocol: what a package provides to make its tasks learnable.

A domain announces itself by the entry-point group `agentlearn.domains`; the library names none.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from agentlearn.config import ONLINE, TASK_FILES
from agentlearn.errors import ConfigError, UnknownDomain
from agentlearn.sandbox.protocol import CodeSandbox
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import PromptRef, Trajectory, Verdict
from agentlearn.types.value import Value

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.models import Model


class Answer(Value):
    """What a rollout's agent returns: its final text and the answer found in it."""

    text: str
    answer: str | None = None
    """None where the text holds no answer in the form that was asked for."""


class RolloutContext(Value):
    """What a domain may know when it opens the tools of one rollout."""

    task: Task
    seed: int
    sandbox: str = ""
    """Name of the code sandbox the user chose; empty for a domain that runs no code."""
    record: Path | None = None
    """A folder of this rollout's own for what its tools record beside their results, such as screenshots; None: no
    record is wanted."""


@runtime_checkable
class Domain(Protocol):
    """Tasks, an agent for them, and a verifier.

    `deps` below is the value that `open` yields; pydantic-ai hands it to the agent's tools.
    """

    @property
    def name(self) -> str:
        """How it is called."""
        ...

    @property
    def description(self) -> str:
        """One line for `agentlearn doctor`."""
        ...

    @property
    def threshold(self) -> float:
        """A reward of at least this is right."""
        ...

    @property
    def runs_code(self) -> bool:
        """Whether rollouts run code that a model wrote, and therefore need a sandbox."""
        ...

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> Sequence[Task]:
        """The domain's own tasks, the same for the same (split, seed); splits are disjoint for one seed."""
        ...

    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> Sequence[Task]:
        """Tasks from a user's file. Raises DataError with file, line and next step."""
        ...

    def agent(self) -> "Agent[Any, Answer]":
        """The typed agent, without a model and without lessons; both are given per run."""
        ...

    def prompts(self) -> tuple[PromptRef, ...]:
        """Which words the agent was built with."""
        ...

    def question(self, task: Task) -> str:
        """The user message for a task."""
        ...

    def open(self, context: RolloutContext) -> AbstractAsyncContextManager[object]:
        """The tools of one rollout as the agent's deps; closed when the rollout ends. Raises ToolError."""
        ...

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict | Awaitable[Verdict]:
        """Judge a finished rollout; raises VerifierError when it breaks. Awaitable where judging takes its time."""
        ...

    def answer_key(self, answer: str) -> str | None:
        """A canonical form under which equal answers are equal, for majority labels; None refuses to vote."""
        ...


@runtime_checkable
class UsesSandbox(Protocol):
    """What a domain with `runs_code = True` also provides."""

    def using(self, sandbox: CodeSandbox) -> Domain:
        """The same domain, bound to a running sandbox."""
        ...


@runtime_checkable
class Runs(Protocol):
    """What a domain whose rollouts share something running also provides: worker processes, a browser."""

    def running(self) -> AbstractAsyncContextManager[Domain]:
        """The same domain with what its rollouts share started; all of it ends on exit."""
        ...


@runtime_checkable
class ActsOnce(Protocol):
    """What a domain also says whose tools act on something that cannot be set back, such as a browser."""

    @property
    def repeatable(self) -> bool:
        """Whether an interrupted rollout is taken up by running its tools again; if not, it begins anew."""
        ...

    @property
    def at_once(self) -> int:
        """How many rollouts may be open at the same time, at least 1. Those that wait spend none of their time."""
        ...


@runtime_checkable
class ShowsPages(Protocol):
    """What a domain also provides whose tools show texts that others wrote, such as web pages."""

    def pages(self, trajectory: Trajectory) -> Iterable[str]:
        """The texts that the rollout saw. No lesson may copy from them: they may have been written to be copied."""
        ...


class RolloutShape(Value):
    """What a usual rollout asks for, for the estimate before a run. Tokens are rough."""

    turns: int = 5
    """Model calls."""
    prompt: int = 750
    """Tokens of instructions, tools and task."""
    turn_out: int = 760
    """Tokens that the model writes in one turn."""
    tool_result: int = 400
    """Tokens of what a tool gives back."""
    judged: bool = False
    """Whether most answers are judged by asking a model."""


@runtime_checkable
class HasShape(Protocol):
    """What a domain may provide whose rollouts are shaped otherwise than `RolloutShape` assumes."""

    def shape(self, data: str | None) -> RolloutShape:
        """What its rollouts ask for on tasks of that source; None: on its own."""
        ...


def shape_of(domain: Domain, data: str | None = None) -> RolloutShape:
    """What a rollout of the domain asks for, as far as is known before one was made."""
    return domain.shape(data) if isinstance(domain, HasShape) else RolloutShape()


@runtime_checkable
class Rewards(Protocol):
    """What a domain with several rewards also provides."""

    @property
    def rewards(self) -> tuple[str, ...]:
        """Their names, the usual one first."""
        ...

    def rewarded_by(self, reward: str) -> Domain:
        """The same domain under that reward. Raises ConfigError for one that it has not."""
        ...


JudgeModel = Callable[[str], "Model"]
"""From the name of one question to a model behind the run's own door, so that judging is journalled and counted."""


@runtime_checkable
class UsesJudge(Protocol):
    """What a domain whose verifier asks a model also provides."""

    def judged_by(self, judge: JudgeModel) -> Domain:
        """The same domain, with a model to ask."""
        ...


GROUP = "agentlearn.domains"


def installed_domains() -> tuple[str, ...]:
    """Names of the installed domains, sorted."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def is_source(name: str) -> bool:
    """Whether a name says where tasks come from, a file or a collection online, and not what they are about."""
    return name.startswith(ONLINE) or Path(name).suffix.lower() in TASK_FILES


def load_domain(name: str) -> Domain:
    """The installed domain of that name. Raises UnknownDomain (naming the installed ones) or ConfigError."""
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            loaded = entry.load()
            domain = loaded() if callable(loaded) else loaded
            if not isinstance(domain, Domain):
                raise ConfigError(
                    f"domain {name!r} ({entry.value}) does not implement agentlearn.domain.base.Domain;"
                    " see docs/domains.md for what it must provide",
                    code="bad_domain",
                )
            return domain
    found = ", ".join(repr(known) for known in installed_domains()) or "none"
    if is_source(name):
        raise UnknownDomain(
            f"{name!r} is a source of tasks and no domain (found: {found}); learn from it with"
            f" `agentlearn learn {name} --reward number`, and give the lessons to an agent of yours with Experiences",
            code="source_for_domain",
        )
    raise UnknownDomain(f"domain {name!r} is not installed (found: {found}); `agentlearn doctor` lists what is here")
