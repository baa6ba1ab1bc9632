"""Groups of settings that belong together. Each setting is defined once, here, with its default and its meaning.

The settings of a command inherit the groups that it needs, so recipes and stored settings stay flat. A function takes
the group that it needs and is handed the settings unchanged: `LearnSettings` is a `SamplingOptions`, a `BudgetOptions`
and so on. Command-line options are generated from these fields; a field's docstring is its help text.
"""

import ast
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from agentlearn.config.defaults import SIMULATED_MODEL, default_store
from agentlearn.config.endpoint_address import endpoint_name, has_login, one_model
from agentlearn.errors import ConfigError
from agentlearn.types.rendering import ASKED_LESSON_WORDS, MAX_LESSON_WORDS
from agentlearn.types.value import TrustedAuthor, Value

ONLINE = ("hf:", "gym:")
"""Prefixes of task sources that are not files."""
HARBOR = "harbor:"
"""Prefix of a folder with tasks of Harbor."""
TASK_FILES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
"""Endings of task files. All but Parquet may also be packed."""
PACKED = ".gz"
"""Ending of a packed file."""


def is_source(name: str) -> bool:
    """Whether a name is a source of tasks (a file, a folder with a `/`, `hf:...`, `harbor:...`) and not a domain."""
    if name.startswith((*ONLINE, HARBOR)) or name.lower().removesuffix(PACKED).endswith(TASK_FILES):
        return True
    return ("/" in name or os.sep in name) and Path(name).is_dir()


TaskSource = Annotated[str, BeforeValidator(lambda given: str(given) if isinstance(given, Path) else given)]
"""A task file, `hf:NAME`, `gym:TASK` or `harbor:DIR`."""

ModelName = Annotated[str, AfterValidator(endpoint_name)]
"""Name of a model or an endpoint. Credentials in an address are taken out and kept in memory only."""


Temperature = Annotated[float, Field(ge=0, le=2)] | None
"""A sampling temperature; None: no temperature is sent, so the service uses its own."""
_TopP = Annotated[float, Field(gt=0, le=1)] | None
"""A share of probability to sample from; None: none is sent."""


if TYPE_CHECKING:
    from agentlearn.types.ranking import Retrieval

    class FolderPath:
        """A folder: a program may give its path as text, and reads a `Path`."""

        def __get__(self, instance: object, owner: type) -> Path: ...
        def __set__(self, instance: object, value: Path | str) -> None: ...

else:
    FolderPath = Path


def _may_be_none(annotation: object) -> bool:
    """Whether a type has None and no text, of which `none` could be one."""
    kinds = {get_args(one)[0] if get_origin(one) is Annotated else one for one in get_args(annotation)}
    return NoneType in kinds and not {str, Path, SecretStr} & kinds


class OptionGroup(Value):
    """Base of all option groups: the docstring of a field is its help text."""

    help_group: ClassVar[str] = "Learning"
    """Heading under which `--help` lists the options of this class."""
    common: ClassVar[tuple[str, ...]] = ()
    """Settings whose options `--help` lists; `--help-all` lists the others too."""

    @model_validator(mode="before")
    @classmethod
    def _none_in_words(cls, fields: Any) -> Any:
        """Read the word `none` as None for settings that may be None and are not a text."""
        if not isinstance(fields, Mapping):
            return fields
        words = {name for name, value in fields.items() if str(value).strip().lower() in {"none", "null"}}
        without = {name for name in words & cls.model_fields.keys() if _may_be_none(cls.model_fields[name].annotation)}
        return {**fields, **dict.fromkeys(without)}


def help_text(kind: type[BaseModel], name: str) -> str:
    """The docstring of a field, on one line. A field that only changes the default has the docstring of its base."""
    classes = ((one.__module__, one.__name__) for one in kind.__mro__ if name in vars(one).get("__annotations__", ()))
    return next((words for module, known in classes if (words := _docstrings(module).get((known, name)))), "")


@cache
def _docstrings(module: str) -> dict[tuple[str, str], str]:
    """The docstrings of the fields of a module's classes, by class and field. Read when help is asked for."""
    classes = [one for one in ast.parse(inspect.getsource(sys.modules[module])).body if isinstance(one, ast.ClassDef)]
    return {
        (kind.name, field.target.id): " ".join(words.value.value.split())
        for kind in classes
        for field, words in pairwise(kind.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(words, ast.Expr) and isinstance(words.value, ast.Constant) and isinstance(words.value.value, str)
    }


def as_tuple(given: object) -> object:
    """A single text, path or function as a tuple of one, so that a recipe or a program may give either."""
    return (given,) if isinstance(given, str | Path) or callable(given) else given


class StoreOptions(OptionGroup):
    """Where results are kept, and whether traces are sent."""

    help_group = "Output"
    common = ("store",)

    store: FolderPath = Field(default_factory=cast("Callable[[], FolderPath]", default_store))
    """Directory of the trajectory store, the libraries and the reports; with --tenant NAME, that tenant's own in it."""
    otel: bool = False
    """Send OpenTelemetry spans. Also on when OTEL_EXPORTER_OTLP_ENDPOINT is set; needs the otel extra."""


class SeedOptions(OptionGroup):
    """The seed of a run."""

    common = ("seed",)

    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    """Seed of every random choice."""


class _CustomTaskOptions(OptionGroup):
    """How tasks from a file are answered and judged, for tasks without a domain package."""

    help_group = "Tasks and reward"
    common = ("reward", "tools")

    reward: str | None = None
    """How an answer is judged: exact, number, choice, contains, judge, gym, or module:function."""
    tools: Literal["none", "python"] = "none"
    """Tools of the agent for tasks from a file."""
    instructions: str | None = None
    """Extra instructions for the agent for tasks from a file."""
    only_instructions: bool = False
    """Give the agent your instructions alone, without agentlearn's own on how to solve and answer."""


class OwnAgentOptions(_CustomTaskOptions):
    """An agent of one's own, which a command names in place of a domain, or how tasks from a file are answered."""

    common = ("deps",)

    agent: str | None = None
    """Your own agent or function, as module:name."""
    deps: str | None = None
    """What the tools of your own agent get: module:name of a value, or of a function from a task to one."""


class TaskFileOptions(OptionGroup):
    """How task files are read."""

    help_group = "Tasks and reward"
    common = ("columns",)

    columns: str | None = None
    """Columns of the task files, such as 'problem=Body+Question answer=Answer choices=options family=Type'."""
    max_unreadable: float = Field(default=0.1, ge=0, le=1)
    """Largest share of expected answers that the verifier cannot read; such tasks are left out."""


class TaskOptions(_CustomTaskOptions, TaskFileOptions):
    """Which tasks a run learns from and which are held out."""

    common = ("data", "test_data", "limit")

    domain: str
    """Name of an installed domain; with `reward`, a name for tasks from a file."""
    data: TaskSource | None = None
    """Tasks to learn from: a file, hf:NAME, gym:TASK, or MODULE:NAME for an agent of your own. Without it, the domain's
    own tasks."""
    test_data: Annotated[tuple[TaskSource, ...], BeforeValidator(as_tuple)] = ()
    """Held-out tasks: one or more sources. Without it, a share of `data`, or the domain's own test tasks."""
    test_share: float = Field(default=0.3, ge=0, lt=1)
    """Share of `data` that is held out when `test_data` is not given."""
    limit: int | None = Field(default=None, ge=1)
    """Largest number of tasks to read from `data`, or to use of the domain's own."""


class CallOptions(OptionGroup):
    """How a model service is called."""

    help_group = "Model"
    common = ("concurrency",)

    api_key: SecretStr | None = None
    """API key for http(s)://…#model endpoints."""
    concurrency: int = Field(default=32, ge=1, le=4096)
    """Largest number of model calls in flight. Up to half as many more rollouts run at the same time."""
    call_deadline_s: float = Field(default=120.0, gt=0)
    """Seconds before one model call is abandoned."""
    max_attempts: int = Field(default=5, ge=1, le=100)
    """Largest number of times that one request is sent while it fails for reasons that may pass."""
    max_outage_minutes: float = Field(default=5.0, ge=0, le=10_080)
    """Minutes that a run waits for a model service that has answered and now does not; 0: do not wait."""
    served_at: dict[ModelName, tuple[ModelName, ...]] = Field(
        default_factory=dict[str, tuple[str, ...]], exclude_if=lambda given: not given
    )
    """The endpoints of each model that has several, by the name under which it is recorded."""

    @model_validator(mode="before")
    @classmethod
    def _several_endpoints(cls, fields: Any) -> Any:
        """Take a list of endpoints, or `?replicas=N`, as one model. Raises ConfigError for endpoints of others."""
        if not isinstance(fields, Mapping):
            return fields
        given, served = dict(cast("Mapping[str, Any]", fields)), dict[str, Any]()
        for setting in {"model", "reflector", "judge"} & given.keys():
            if isinstance(names := as_tuple(given[setting]), list | tuple) and names:
                given[setting], where = one_model(cast("Sequence[str]", names))
                served[given[setting]] = where
        if isinstance(names := as_tuple(given.get("models")), list | tuple):
            groups = dict[str, list[str]]()
            for name in cast("Sequence[str]", names):
                groups.setdefault(endpoint_name(name).partition("#")[2] or name, []).append(name)
            found = dict(map(one_model, groups.values()))
            given["models"], served = tuple(found), served | found
        several = {name: names for name, names in served.items() if names}
        return {**given, "served_at": {**given.get("served_at", {}), **several}} if several else given

    def endpoints_of(self, model: str) -> tuple[str, ...]:
        """The endpoints of the model that is recorded under that name."""
        return self.served_at.get(model, (model,))


class RequestOptions(OptionGroup):
    """What is sent with each request to a model service, and what is left out."""

    help_group = "Model"

    no_seed: bool = False
    """Send no seed to the model service. The seed of the run still decides everything else."""
    top_p: _TopP = None
    """Sample from the most likely tokens that together have this probability, or none. Default: none is sent."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    """Largest number of tokens in one answer of the model. Default: the limit of the service; for local: and vllm:
    models, a number that fits the domain, and at most a quarter of the model's context."""
    reasoning_effort: Literal["minimal", "low", "medium", "high"] | None = None
    """How much a reasoning model thinks before it answers. Default: the effort of the service."""
    fold_system: bool = False
    """Put the instructions at the start of the first user message, for a model that takes no system message."""


class UserOptions(OptionGroup):
    """Who plays the users of tasks in which the agent talks with one."""

    help_group = "Model"

    user_model: ModelName | None = None
    """Model that plays the users of tasks. Default: the model that judges or writes lessons."""


class ModelOptions(CallOptions):
    """The model that solves the tasks."""

    common = ("model",)

    model: ModelName = SIMULATED_MODEL
    """Model that solves the tasks; repeated for several addresses of one model. Default: the domain's lab model if it
    has one, else sim:novice (simulated)."""


# How tools reach sites. No secret is part of these settings, because settings are stored with the run: a login and a
# proxy name environment variables, and a saved session stays in its file.

_ACTS = ("open", "fill", "click", "expect")
"""The acts of a login."""
SITE_FILES = ("storage_state", "ca_file")
"""Settings that name a file."""
LOGIN = "login"
"""Setting whose value recipes and the command line can also give as the name of a file."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXAMPLE = "such as {fill: Password, env: SITE_PASSWORD}"


class LoginAct(Value):
    """One act of a login: one of `open`, `fill`, `click` and `expect`."""

    open: str = ""
    """Address to open."""
    fill: str = ""
    """Label, placeholder or name of the field to fill."""
    env: str = ""
    """With `fill`: the environment variable whose value is filled in."""
    click: str = ""
    """Name of the button or link to click."""
    expect: str = ""
    """Text that the page must show now. Without it, a login that was refused is not noticed."""


def _login_acts(given: object) -> object:
    """Return the acts in a list. Errors show no value of an act."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ConfigError(f"a login is a list of acts, {_EXAMPLE}, not a {type(given).__name__}")
    acts = list[LoginAct]()
    for number, one in enumerate(cast("Sequence[object]", given), start=1):
        fields: Mapping[Any, Any] = cast("Mapping[Any, Any]", one) if isinstance(one, Mapping) else {}
        try:
            act = one if isinstance(one, LoginAct) else LoginAct.model_validate(fields)
        except ValidationError:
            act = LoginAct()
        named = [name for name in _ACTS if getattr(act, name)]
        if len(named) != 1 or bool(act.env) != bool(act.fill) or (act.env and not _VARIABLE.fullmatch(act.env)):
            raise ConfigError(
                f"act {number} of the login is not one of: open, click or expect with a text, or fill with env, the"
                f" name of an environment variable; write it {_EXAMPLE}"
            )
        if act.open and (has_login(act.open) or not _is_web_address(act.open)):
            raise ConfigError(
                f"act {number} of the login opens something else than a web address without a user name and password;"
                " give one such as https://example.org/login"
            )
        acts.append(act)
    return tuple(acts)


def _proxy_address(given: str) -> str:
    if has_login(given):
        raise ConfigError(
            "the address of the proxy has a user name or a password, which the store would keep (it is not shown"
            " here); put user:password into an environment variable and name it in site_proxy_login"
        )
    if not _is_web_address(given) or urlsplit(given).path not in {"", "/"}:
        raise ConfigError(f"{given!r} is not the address of a proxy; give one such as http://proxy.example.org:3128")
    return given


def _variable_name(given: str) -> str:
    if not _VARIABLE.fullmatch(given):
        raise ConfigError(
            "site_proxy_login is not the name of an environment variable (its text is not shown here, because it may be"
            " the login itself); put user:password into a variable and give its name"
        )
    return given


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class SiteOptions(OptionGroup):
    """How tools that visit sites reach them."""

    help_group = "Sites"

    allow_host: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """A host that may be visited, as HOST or HOST:PORT, also at a private address; may be repeated. Only these hosts
    and that of the task's start can then be reached."""
    storage_state: Path | None = None
    """Cookies and local storage to start with: a file in Playwright's format. It is read and never stored."""
    login: Annotated[tuple[LoginAct, ...], BeforeValidator(_login_acts)] = ()
    """File with the acts of a login (YAML), which is done once per run; its values come from environment variables."""
    site_proxy: Annotated[str, AfterValidator(_proxy_address)] | None = None
    """Proxy through which public sites are reached, such as http://proxy.example.org:3128. It must allow CONNECT."""
    site_proxy_login: Annotated[str, AfterValidator(_variable_name)] | None = None
    """Name of the environment variable that holds user:password for `site_proxy`."""
    site_proxy_lookup: bool = False
    """Let `site_proxy` look up names that this machine cannot. Where such a name leads is then not checked."""
    ca_file: Path | None = None
    """Certificates (PEM) of authorities or sites to trust in addition to the usual ones."""

    @property
    def sites(self) -> "SiteOptions":
        """These settings alone."""
        return SiteOptions(**{name: getattr(self, name) for name in SiteOptions.model_fields})


class RolloutOptions(SiteOptions):
    """Limits of one rollout, where the model's code runs, and which sites its tools reach."""

    help_group = "Rollouts"

    rollout_deadline_s: float = Field(default=600.0, gt=0)
    """Seconds before one rollout is ended as failed."""
    max_turns: int = Field(default=16, ge=1, le=1000)
    """Largest number of model calls in one rollout."""
    sandbox: str | None = None
    """Sandbox for code that the model writes. Default: zygote, which isolates it."""
    history_tokens: int | None = Field(default=None, ge=500)
    """Largest size of a request in tokens (estimated). Above it, the oldest tool results are replaced by short notes,
    and the model that writes lessons looks things up in trajectories. Default: no limit."""
    record: Path | None = None
    """Folder for recordings of rollouts, such as screenshots; each rollout gets a folder of its own in it."""


class SamplingOptions(OptionGroup):
    """How rollouts to learn from are sampled."""

    common = ("group_size", "temperature")

    group_size: int = Field(default=5, ge=1, le=256)
    """Rollouts per task (G)."""
    temperature: Temperature = 0.7
    """Sampling temperature of rollouts to learn from; none: send no temperature."""


class LoopOptions(OptionGroup):
    """How the tasks are divided into updates."""

    common = ("epochs", "batch_size")

    epochs: int = Field(default=3, ge=1, le=100)
    """Passes over the tasks."""
    batch_size: int = Field(default=20, ge=1, le=10_000)
    """Tasks per update."""
    max_staleness: int = Field(default=0, ge=0, le=1)
    """1: start the rollouts of the next batch while the current update is still being computed."""
    labels: Literal["gold", "none"] = "gold"
    """none: learn without expected answers; the majority answer of a group counts as right."""


class AllocationOptions(OptionGroup):
    """How many rollouts to learn from are made, and on which tasks."""

    stop_after: int = Field(default=3, ge=2, le=256)
    """Rollouts that a task gets at first. It gets more only while all are wrong; `group_size` or more: always all."""
    revisit_every: int = Field(default=4, ge=1, le=100)
    """Visit a task that was all right when last seen in one of this many epochs; 1: in every epoch."""
    end_when_settled: float = Field(default=0.8, gt=0, le=1)
    """Start no further epoch when more than this share of the tasks was all right when last seen; 1: run all epochs."""
    reward_margin: float = Field(default=0.05, ge=0, le=1)
    """Rewards of a group that differ by no more than this count as equal."""


class SelectionOptions(OptionGroup):
    """Which version of the library a run continues with and publishes."""

    select: Literal["best", "last"] = "best"
    """best: choose the version with the best evidence; last: take the last one, as published."""
    finalists: int = Field(default=3, ge=1, le=20)
    """Versions that are compared on validation tasks at the end."""
    validation_rollouts: int = Field(default=3, ge=0, le=64)
    """Largest number of rollouts per validation task and version; 0: choose by the rollouts to learn from alone."""
    publish: bool = True
    """Publish the selected version where nothing speaks against it; without, it waits for a person in any case."""


class EvidenceOptions(OptionGroup):
    """How the effect of single lessons is measured while a run learns."""

    help_group = "Measuring"

    hidden_rollouts: int = Field(default=0, ge=0, le=255)
    """Rollouts of each group that a lesson is hidden from, to measure its effect; 0: hide none."""


class WorkerOptions(RolloutOptions):
    """Where rollouts are made."""

    help_group = "Machines"
    common = ("workers", "ray")

    workers: int = Field(default=0, ge=0, le=1024)
    """Processes that make the rollouts, so that agents, sandboxes and browsers use several cores. 0: this process."""
    ray: str | None = Field(default=None, min_length=1)
    """Address of the Ray cluster on which the workers run, or `auto` for that of this machine. Default: this machine,
    without Ray."""
    worker_start_s: float = Field(default=300.0, gt=0, le=7200)
    """Seconds that a worker has to answer once the Ray cluster has given it a place."""


class StoredRolloutOptions(OptionGroup):
    """Learning from rollouts that the store already holds."""

    common = ("from_store",)

    from_store: bool = False
    """Learn from stored rollouts instead of making new ones."""
    from_run: str | None = None
    """With `from_store`: only rollouts of this run, given by the start of its id."""
    from_phase: str | None = None
    """With `from_store`: only rollouts of this phase. Default: every phase that is not a measurement."""
    min_rollouts: int = Field(default=2, ge=1)
    """With `from_store`: smallest number of stored rollouts that a task needs. Recorded ones with feedback that says in
    words what was wrong need no second one."""


class EvalOptions(OptionGroup):
    """How the result is measured on held-out tasks."""

    help_group = "Measuring"
    common = ("evaluate", "eval_rollouts")

    evaluate: bool = True
    """Measure on held-out tasks before and after learning."""
    eval_rollouts: int = Field(default=4, ge=1, le=1024)
    """Rollouts per held-out task, before and after. `learn` with a lab model: 2 where none is given."""
    eval_every: int = Field(default=0, ge=0)
    """Also measure after every N updates; 0: only before and after."""
    eval_temperature: Temperature = 0.3
    """Sampling temperature on held-out tasks, or none; none where `temperature` is none."""


class BudgetOptions(OptionGroup):
    """What a run may spend. A run that reaches a limit stops with status 3 and can be resumed."""

    help_group = "Limits"
    common = ("max_cost_usd", "max_tokens", "max_minutes")

    max_cost_usd: float | None = Field(default=None, gt=0)
    """Stop at this cost in US dollars."""
    max_tokens: int | None = Field(default=None, gt=0)
    """Stop at this number of tokens, input and output together."""
    max_minutes: float | None = Field(default=None, gt=0)
    """Stop after this many minutes."""


class TrustOptions(OptionGroup):
    """Whose text may shape lessons that are published without asking, and whose lessons a run may change."""

    help_group = "Trust"
    common = ("trust",)
    trust: Annotated[tuple[TrustedAuthor, ...], BeforeValidator(as_tuple)] = ()
    """Publish lessons that text of these authors could have shaped without asking: function, instructions, pages,
    reasons, tasks, tools or traffic, or one of a kind such as tools:search; may be repeated. Without it, such a version
    waits for a person."""
    min_acceptance: float = Field(default=0.2, ge=0, le=1)
    """Share of a source's lessons that persons must have approved for it to be asked as often as others. Below it,
    groups with its text are used at the rate share / `min_acceptance`, at least 1 in 10. 0: always ask."""
    change_written: bool = False
    """Also change, merge and delete lessons that a person wrote with `library add` and `library edit`."""


class LessonOptions(TrustOptions):
    """Limits on proposals and on the library."""

    help_group = "Lessons"

    max_proposals: int = Field(default=3, ge=1, le=20)
    """Largest number of proposals taken from one group."""
    lesson_words: int = Field(default=ASKED_LESSON_WORDS, ge=8, le=MAX_LESSON_WORDS)
    """Largest number of words of a lesson that the reflector proposes. Lessons of people may have up to 80."""
    reflect: Literal["stages", "once"] = "stages"
    """How a batch becomes lessons. stages: in three stages, as published; once: one request shows its tasks and what
    was expected (else the answers), and asks for new lessons only. For short answers and small reflectors."""
    drafts: int = Field(default=1, ge=1, le=20)
    """With `reflect: once`, how often each request is asked. Each reply makes a version to choose from (see
    `finalists`)."""
    edits: int = Field(default=4, ge=1, le=50)
    """Largest number of changes that the first update makes to a document (with --on); it falls to 1 over the run."""
    max_deletes: int = Field(default=3, ge=0, le=100)
    """Largest number of lessons that one update may delete."""
    max_lessons: int = Field(default=100, ge=1, le=10_000)
    """Largest number of lessons in the library."""
    max_library_tokens: int = Field(default=4_000, ge=32)
    """Largest size of the library in tokens."""


class RetrievalOptions(OptionGroup):
    """Which lessons of a library an agent is shown, where they may be too many to show all."""

    help_group = "Lessons"

    max_shown_tokens: int = Field(default=4_000, ge=1)
    """Show all lessons while they have at most this many tokens (estimated); above that, those that fit the task."""
    shown_lessons: int = Field(default=8, ge=0, le=1_000)
    """Largest number of lessons to show of a library above that size; 0: always show all."""
    embedder: str | None = None
    """Embedding model that helps to choose lessons, such as openai:text-embedding-3-small. Default: words alone."""
    lesson_tags: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Show only lessons with this tag; may be repeated."""
    lesson_domains: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Show only lessons that have the name of this domain among their tags; may be repeated."""

    @property
    def retrieval(self) -> "Retrieval":
        """The settings of retrieval."""
        from agentlearn.types.ranking import Retrieval  # here: help needs no ranking

        return Retrieval(
            max_shown_tokens=self.max_shown_tokens,
            shown_lessons=self.shown_lessons,
            embedder=self.embedder,
            tags=self.lesson_tags,
            domains=self.lesson_domains,
        )


class OwnTaskOptions(OptionGroup):
    """What a rollout to learn from sees of earlier work on its own task."""

    own_task_lessons: Literal["show", "hide"] = "show"
    """hide: lessons that were learned from a task are not shown in further rollouts to learn from on that task."""


class GroupOptions(OptionGroup):
    """Which groups of rollouts teach besides those whose rewards differ."""

    all_wrong: Literal["teach", "skip"] = "teach"
    """teach: a task whose attempts are all wrong teaches too, where a reason or the expected answer says what was
    wanted; skip: it teaches nothing, as published."""
