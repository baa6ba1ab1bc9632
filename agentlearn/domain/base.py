"""`Domain`, the base class of everything that can be learned, and how installed domains are loaded.

A package announces its domain under the entry-point group `agentlearn.domains`; the library names no domain. A package
that makes domains of other projects' tasks announces a prefix under `agentlearn.adapters`: a function from what follows
the prefix in a name such as `bfcl:multiple` to a `Domain`.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from difflib import SequenceMatcher
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from pydantic import ConfigDict

from agentlearn.config import SiteOptions, is_source
from agentlearn.errors import ConfigError, StopSignal, UnknownDomain
from agentlearn.plugins import Plugin, announced, cause_words, load, place_in
from agentlearn.sandbox import CodeSandbox
from agentlearn.text import nearest_name
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import PromptRef, Trajectory, Verdict
from agentlearn.types.value import Author, AuthorKind, OptionalReward, Value

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

    from agentlearn.data import ColumnChoice, Columns, SourceRow, StartAndPath


class CheckResult(Value):
    """One thing that was checked on this machine."""

    what: str
    state: Literal["ok", "missing", "broken", "note"]
    words: str
    """What was found."""
    mend: str = ""
    """Command or step that fixes it; empty when there is nothing to fix."""


_CLOSE = 0.8
"""Similarity (difflib, 0..1) from which a name counts as a misspelt member."""
_CLOSE_START = 0.65
"""The same for a name that is the first word or words of a member, such as `pages` of `pages_seen`."""
_EMPTY = inspect.Parameter.empty
_SETTINGS: dict[str, type] = {
    "name": str,
    "description": str,
    "threshold": Real,
    "runs_itself": bool,
    "errors_are_failures": bool,
    "runs_code": bool,
    "uses_judge": bool,
    "rewards": tuple,
    "replayable": bool,
    "worker_cpus": Real,
    "worker_memory_mib": int,
    "explains": bool,
    "reasons_by": str,
    "question_by": str,
}
"""Members that are plain values, and their types."""
_NEEDED_FOR = {"runs_itself": "work", "runs_code": "with_sandbox", "uses_judge": "with_judge", "rewards": "with_reward"}
"""Values that only make sense together with a method."""


def all_members(base: type) -> tuple[str, ...]:
    """Return the names of all members of the base class: values first, then methods."""
    names = dict.fromkeys((*inspect.get_annotations(base), *vars(base)))
    return tuple(name for name in names if not name.startswith("_"))


def required_members(base: type) -> tuple[str, ...]:
    """Return the members that have no default."""
    abstract: frozenset[str] = getattr(base, "__abstractmethods__", frozenset())
    return tuple(name for name in all_members(base) if name in abstract or not hasattr(base, name))


def optional_members(domain: object, base: type) -> tuple[str, ...]:
    """Return the optional members that the domain overrides or sets to something other than their default."""
    optional = (name for name in all_members(base) if name not in required_members(base))
    return tuple(
        name
        for name in optional
        if (getattr(domain, name) != getattr(base, name) if name in _SETTINGS else _overridden(domain, base, name))
    )


def _misspelt_members(domain: object, base: type) -> tuple[tuple[str, str], ...]:
    """Return each public attribute of the domain's class that looks like a misspelt member, with that member.

    A member that the class overrides under its right name is never the one that was meant.
    """
    members = all_members(base)
    open_members = [name for name in members if not _overridden(domain, base, name)]
    found: dict[str, str] = {}
    for name in (name for kind in _kinds(domain, base) for name in vars(kind)):
        likeness = {member: SequenceMatcher(None, name, member).ratio() for member in open_members}
        member = max(likeness, key=lambda member: likeness[member], default="")
        close = _CLOSE_START if member.startswith(f"{name}_") else _CLOSE
        if not name.startswith("_") and name not in members and likeness.get(member, 0.0) >= close:
            found[name] = member
    return tuple(found.items())


def method_signature(base: type, name: str) -> str:
    """Return how a method is called, such as `read(path, *, split='train', limit=None)`."""
    return f"{name}{_plain(_parameters(base, name))}"


def member_faults(domain: object, base: type) -> Iterator[str]:
    """Yield one sentence for each member that is missing, misspelt, of a wrong type, or set without its partner."""
    missing = [name for name in required_members(base) if not hasattr(domain, name)]
    if missing:
        yield f"{type(domain).__name__} has no {', '.join(map(repr, missing))}; see docs/domains.md"
        return
    for found, meant in _misspelt_members(domain, base):
        yield f"{found!r} is not a member of a domain; did you mean {meant!r}? Rename it, or start it with '_'"
    for name in all_members(base):
        value, kind = getattr(domain, name), _SETTINGS.get(name)
        if kind is None and not callable(value):
            yield f"{name} is {value!r}, but must be a method: `{method_signature(base, name)}`"
        elif kind is None and (taken := _other_parameters(value, base, name)) is not None:
            yield f"{name} takes {taken}, but is called as `{method_signature(base, name)}`"
        elif kind and (not isinstance(value, kind) or (kind is Real and isinstance(value, bool))):
            yield f"{name} is {value!r}, not of {kind.__module__}.{kind.__qualname__}"
        elif name == "rewards" and not all(isinstance(one, str) for one in cast("tuple[object, ...]", value)):
            yield f"rewards is {value!r}, not a tuple of names"
    for flag, method in _NEEDED_FOR.items():
        if getattr(domain, flag) and not _overridden(domain, base, method):
            yield f"it sets {flag!r}, so it needs `{method_signature(base, method)}`"
    for flag, method in (("uses_judge", "with_judge"), ("rewards", "with_reward")):
        if _overridden(domain, base, method) and not getattr(domain, flag):
            yield f"it has {method!r}, which is never called unless {flag!r} is set"


def _other_parameters(method: Callable[..., object], base: type, name: str) -> inspect.Signature | None:
    """The parameters of a method that cannot be called as the library does; None when it can.

    It may be called with every argument, and with the required ones only.
    """
    try:
        found = inspect.signature(method)
    except ValueError:  # built-in functions have none
        return None
    every = _parameters(base, name)
    for call in (every, [one for one in every if one.default is _EMPTY]):
        by_name = {one.name: None for one in call if one.kind is one.KEYWORD_ONLY}
        try:
            found.bind(*[None] * (len(call) - len(by_name)), **by_name)
        except TypeError:
            return _plain(list(found.parameters.values()))
    return None


def _parameters(base: type, name: str) -> list[inspect.Parameter]:
    return list(inspect.signature(getattr(base, name)).parameters.values())[1:]


def _plain(parameters: list[inspect.Parameter]) -> inspect.Signature:
    return inspect.Signature([one.replace(annotation=_EMPTY) for one in parameters])


def _overridden(domain: object, base: type, name: str) -> bool:
    own: dict[str, Any] = getattr(domain, "__dict__", {})
    return name in own or any(name in vars(kind) for kind in _kinds(domain, base))


def _kinds(domain: object, base: type) -> Iterator[type]:
    """The classes of the domain, without the base class and what it inherits."""
    return (kind for kind in type(domain).__mro__ if kind not in base.__mro__)


class Answer(Value):
    """What the agent of a rollout returns: its final text and the answer found in it."""

    text: str
    answer: str | None = None
    """None when the text holds no answer in the requested form."""


class RolloutContext(Value):
    """What a domain knows when it opens the tools of one rollout."""

    task: Task
    seed: int
    sandbox: str = ""
    """Name of the code sandbox that the user chose; empty for a domain that runs no code."""
    record: Path | None = None
    """Folder of this rollout for files that its tools record, such as screenshots; None: record nothing."""


class RolloutShape(Value):
    """Size of a typical rollout, for the cost estimate before a run. Token counts are rough."""

    turns: int = 5
    """Model calls."""
    prompt: int = 750
    """Tokens of instructions, tools and task."""
    turn_out: int = 760
    """Tokens that the model writes in one turn."""
    tool_result: int = 400
    """Tokens of one tool result."""
    judged: bool = False
    """Whether a model judges most answers."""
    user: "RolloutShape | None" = None
    """Size of the calls of the model that plays the user in one rollout; None: no model plays one."""
    question_to_judge: int = 900
    """Tokens of one question to the model that judges."""
    shipped: Mapping[str, "RolloutShape"] = {}
    """Measured sizes with the models that ship, by the start of their names: `lab:`, `sim:`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a domain that runs itself is given for one rollout (see `Domain.runs_itself`)."""

    task: Task
    lessons: str
    """The lessons as a block of advice; empty without lessons."""
    model: "Model"
    """The rollout's model. Its calls are recorded, counted, limited and repeated like all others."""
    deps: Any
    """What `Domain.open` yielded."""
    seed: int
    """Seed of this rollout."""
    settings: "ModelSettings"
    """Sampling settings of this rollout."""
    max_turns: int
    """Largest number of model calls that the rollout may make."""
    reply: "Callable[[str], Awaitable[str | None]] | None" = None
    """Return what the task's user says to a message; None when the conversation is over. None: the task has no user."""


@dataclass(frozen=True, slots=True)
class Worked:
    """The output of a rollout that the domain ran itself, with its messages if it has any."""

    output: Any
    messages: "Sequence[ModelMessage]" = ()
    """pydantic-ai messages of the work, for the record and for the stages that learn; empty: those that were seen."""


JudgeModel = Callable[[str], "Model"]
"""Return the model that judges the question of that name. The run records and counts its calls."""


class TaskUser(Protocol):
    """Who the agent talks with in one rollout."""

    @property
    def over(self) -> bool:
        """Whether the conversation has ended, also by something that a tool did. The agent is then not asked again."""
        ...

    @property
    def farewell(self) -> str:
        """What the user said at the end, for the record; the agent is not asked to answer it. Empty for nothing."""
        ...

    async def begin(self, question: str) -> str:
        """Return the user's first message. question: what `Domain.question` gives."""
        ...

    async def reply(self, said: str) -> str | None:
        """Return what the user says to a message of the agent; None when the conversation is over.

        Raises EndpointError or ToolError when the model that plays the user fails. The agent is not to blame then.
        """
        ...


class Recording(Value):
    """A rollout of a domain's task that another program made."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    task: Task
    messages: Sequence[Any]
    """pydantic-ai messages."""
    reward: OptionalReward
    """From 0 to 1; None when the program gave none."""
    model: str = ""
    """Name of the model; empty when the record does not say it."""
    failed: str = ""
    """Why there is no answer that could be judged, such as an error of the service; empty when there is one."""


class Domain(ABC):
    """Tasks, an agent that solves them, and a verifier.

    A subclass sets `name` and `description` and implements the abstract methods. Every other member is optional: its
    default here means that the domain does not need it. `with_sandbox`, `with_judge`, `with_reward`,
    `with_sites` and `running` give a copy of the domain and leave the original as it is.
    """

    name: str
    """Name for the command line and the store."""
    description: str
    """One line for `agentlearn doctor`."""
    threshold: float = 1.0
    """Smallest reward that counts as right."""

    @abstractmethod
    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> Sequence[Task]:
        """Return the domain's own tasks: the same for the same (split, seed), and no problem in two splits of a seed.

        Raises ConfigError when the domain has no tasks of its own.
        """

    @abstractmethod
    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> Sequence[Task]:
        """Return the tasks in a user's file. Raises DataError with file, line and next step."""

    @abstractmethod
    def agent(self) -> "Agent[Any, Any]":
        """Return the agent, without lessons; model and lessons are given per run. See `answer_of` for its output."""

    @abstractmethod
    def prompts(self) -> tuple[PromptRef, ...]:
        """Return the name, version and hash of each prompt that the agent uses."""

    @abstractmethod
    def question(self, task: Task) -> str:
        """Return the user message for a task."""

    @abstractmethod
    def open(self, context: RolloutContext) -> AbstractAsyncContextManager[object]:
        """Open the tools of one rollout; yields the `deps` of the agent. Raises ToolError."""

    @abstractmethod
    def verify(self, task: Task, trajectory: Trajectory) -> Verdict | Awaitable[Verdict]:
        """Judge a finished rollout. May be async. Raises VerifierError when the verifier itself fails."""

    @abstractmethod
    def answer_key(self, answer: str) -> str | None:
        """Return a canonical form that equal answers share, for majority votes; None: this answer gets no vote."""

    def answer_of(self, output: Any) -> Answer:
        """Return the answer in an output of the agent. Needed when the agent returns something else than `Answer`."""
        assert isinstance(output, Answer)
        return output

    def verify_output(self, task: Task, trajectory: Trajectory, output: Any) -> Verdict | Awaitable[Verdict]:
        """Judge a finished rollout that can see the agent's output itself. Default: `verify` judges."""
        return self.verify(task, trajectory)

    runs_itself: bool = False
    """Whether `work` does a rollout's work, and not the agent. If so, `agent` is never called."""

    async def work(self, work: Work) -> "Worked":
        """Do the work of one rollout. Called when `runs_itself` is true."""
        raise ConfigError(f"domain {self.name!r} runs itself but has no method work")

    errors_are_failures: bool = False
    """Whether any exception in a rollout is a failure of that rollout. If not, an unexpected one ends the run."""

    runs_code: bool = False
    """Whether rollouts run code that a model wrote. If so, implement `with_sandbox`."""

    def with_sandbox(self, sandbox: CodeSandbox) -> "Domain":
        """Return the same domain with a running sandbox. Called once per run when `runs_code` is true."""
        raise ConfigError(f"domain {self.name!r} runs code but takes no sandbox")

    uses_judge: bool = False
    """Whether `verify` may ask a model. If so, implement `with_judge`."""

    def with_judge(self, judge: JudgeModel) -> "Domain":
        """Return the same domain with a model that judges. Called once per run when `uses_judge` is true."""
        raise ConfigError(f"domain {self.name!r} uses a judge but takes none")

    rewards: tuple[str, ...] = ()
    """Names of the rewards to choose from with `--reward`, the default first; empty: there is only one."""

    def with_reward(self, reward: str) -> "Domain":
        """Return the same domain with another of its `rewards`. Raises ConfigError for an unknown reward."""
        raise ConfigError(f"domain {self.name!r} has no reward {reward!r}", code="bad_reward")

    def with_sites(self, sites: SiteOptions) -> "Domain":
        """Return the same domain, whose tools reach sites like that. Called only when an option is given.

        Raises ConfigError when the domain visits no sites, and for options that cannot be used.
        """
        given = sorted(sites.model_dump(exclude_defaults=True))
        raise ConfigError(
            f"domain {self.name!r} visits no sites and cannot use {', '.join(given)}; leave"
            f" {'it' if len(given) == 1 else 'them'} out"
        )

    def running(self) -> AbstractAsyncContextManager["Domain"]:
        """Start what all rollouts of a run share, such as a browser; yields the domain that uses it."""
        return nullcontext(self)

    def user(self, task: Task, deps: Any, model: "Callable[[], Model]") -> TaskUser | None:
        """Return who the agent talks with in one rollout; None: whom the task describes, or nobody.

        deps: what `open` yielded. model: returns the model that plays users; its calls are recorded and counted. A task
        whose user is played by a model must say so in `Task.user`.
        """
        return None

    def recordings(self, path: Path) -> Iterable[Recording]:
        """Return the rollouts of this domain's tasks in a file or folder of another program. Raises DataError.

        Raises ConfigError when the domain knows no such records.
        """
        raise ConfigError(
            f"domain {self.name!r} reads no records of other programs; give rows, see docs/other_programs_logs.md"
        )

    explains: bool = True
    """Whether the reasons of verdicts say what was right or wrong with an answer, for the stages that learn. False when
    they only say how answers were compared."""

    reasons_by: AuthorKind = "reasons"
    """Who writes the reasons of verdicts. A reward may quote anybody, so they are strangers' text unless the domain
    says otherwise: `person` for fixed words of its own code, `model` for a model's."""

    question_by: AuthorKind = "instructions"
    """Who writes what `question` adds to the problem: `person` for fixed words of the domain's own code."""

    replayable: bool = True
    """Whether tool calls can be repeated. If so, an interrupted rollout resumes by replaying them; else it restarts."""

    worker_cpus: float = 1.0
    """Cores that a worker of this domain needs, with its sandboxes and browsers. A Ray cluster reserves them."""

    worker_memory_mib: int = 1000
    """Memory that a worker may take, in MiB. A Ray cluster gives it so much; above it, the worker is replaced."""

    def max_open_rollouts(self) -> int | None:
        """Return how many rollouts may be open at once, at least 1; None: no limit. Waiting rollouts use no time."""
        return None

    def pages_seen(self, trajectory: Trajectory) -> Iterable[str]:
        """Return texts by unknown authors that the rollout saw, such as web pages. Lessons may not copy from them."""
        return ()

    def author_of(self, tool: str, place: str) -> Author:
        """Return who writes the results of a tool: a stranger, unless the domain says otherwise.

        place: what a result is about, such as a page's address; empty when the tool does not say.
        """
        return Author(kind="tools", name=tool)

    def for_lessons(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory as the lesson stages read it, without what no lesson may be learned from."""
        return trajectory

    def rollout_shape(self, data: str | None = None) -> RolloutShape:
        """Return the size of a typical rollout on tasks of that source; None: on the domain's own tasks."""
        return RolloutShape()

    def answer_reader(self, source: str | Path) -> Callable[[str], str]:
        """Return a function from an answer cell of that source to the expected answer, for `agentlearn data check`."""
        return str.strip

    def data_columns(self) -> "Columns":
        """Return the column names in which `agentlearn data check` looks for problem, answer and family."""
        from agentlearn.data import Columns

        return Columns()

    def with_columns(self, columns: "ColumnChoice") -> "Domain":
        """Return the same domain, which reads these columns of files. Raises ConfigError when it cannot choose."""
        raise ConfigError(f"domain {self.name!r} reads its own columns and cannot use '{columns}'; leave out --columns")

    def unreadable_gold(self, task: Task) -> str | None:
        """Return why `verify` cannot read the task's expected answer, as a sentence without a place; None when it can.

        Called for every task of a file before a run. A task whose answer cannot be read would never be decided.
        """
        return None

    def start_and_path(self, row: "SourceRow") -> "StartAndPath":
        """Return where a row's task starts and the known path to its answer, for `agentlearn data check`."""
        return "", ()

    def machine_checks(self) -> Iterable[CheckResult]:
        """Return what the domain needs of this machine, for `agentlearn doctor`. Leaves nothing running."""
        return ()


def checked_limit(limit: int | None) -> int | None:
    """Return a limit on the number of tasks as it is. Raises ConfigError when it is below 1."""
    if limit is not None and limit < 1:
        raise ConfigError(f"a limit of {limit!r} tasks leaves nothing to do; give at least 1")
    return limit


GROUP = "agentlearn.domains"
GROUP_OF_ADAPTERS = "agentlearn.adapters"


def installed_domains() -> tuple[str, ...]:
    """Return the names of the installed domains, sorted."""
    return tuple(sorted(announced(GROUP).usable))


def is_domain(name: str) -> bool:
    """Whether `load_domain` knows the name: an installed domain, or a name with the prefix of an installed adapter."""
    return name in installed_domains() or _adapter(name) is not None


def _adapter(name: str) -> Plugin | None:
    """Return the adapter whose prefix the name has; None when there is none."""
    prefix, colon, _ = name.partition(":")
    return announced(GROUP_OF_ADAPTERS).get(prefix) if colon else None


def load_domain(name: str) -> Domain:
    """Return the installed domain of that name, or the one that an adapter makes of `PREFIX:NAME`.

    Raises UnknownDomain (naming the installed ones) or ConfigError.
    """
    if (plugin := announced(GROUP).get(name)) is not None:
        return _loaded(plugin)
    if (adapter := _adapter(name)) is not None:
        return _loaded(adapter, name.partition(":")[2])
    found = ", ".join(repr(known) for known in installed_domains()) or "none"
    if is_source(name):
        raise UnknownDomain(
            f"{name!r} is a source of tasks, not a domain (found: {found}); learn from it with"
            f" `agentlearn learn {name} --reward number`, and give the lessons to your own agent with Experiences"
        )
    if ":" in name:
        found += "".join(f", {prefix + ':NAME'!r}" for prefix in sorted(announced(GROUP_OF_ADAPTERS).usable))
    from agentlearn.data.hub import HUB, PUBLISHED  # here: few runs read a dataset of the hub

    meant = nearest_name(name, installed_domains()) or (HUB + name if name.casefold() in PUBLISHED else None)
    hint = f"did you mean {meant!r}?" if meant else "run `agentlearn doctor`"
    if (Path(name) / "pyproject.toml").is_file():
        hint = f"the folder {name!r} is here: pip install -e {name}"
    raise UnknownDomain(f"domain {name!r} is not installed (found: {found}); {hint}")


def _loaded(plugin: Plugin, *arguments: str) -> Domain:
    """Return the domain of a plug-in. arguments: what an adapter is called with."""
    loaded = load(plugin, "adapter" if arguments else "domain")
    named = f"domain {':'.join([plugin.name, *arguments])!r} ({plugin.value})"
    try:
        domain = loaded(*arguments) if callable(loaded) else loaded
    except TypeError as error:  # the class still has abstract methods, or needs arguments
        raise ConfigError(
            f"{named} cannot be created: {error}; see docs/domains.md for what a domain must have"
        ) from error
    except (StopSignal, ConfigError):
        raise
    except BaseException as error:  # code of another package: it may raise anything
        raise ConfigError(
            f"{named} cannot be created: {cause_words(error)}{place_in(error, plugin)};"
            f" reinstall or uninstall the package {plugin.package!r}"
        ) from error
    if not isinstance(domain, Domain):
        raise ConfigError(
            f"{named} is not an instance of a subclass of agentlearn.Domain;"
            " see docs/domains.md for what a domain must have"
        )
    for found, meant in _misspelt_members(domain, Domain):
        raise ConfigError(
            f"{named} has {found!r}, which is not a member of a domain; did you mean {meant!r}? Rename it, or start"
            " it with '_'"
        )
    return domain
