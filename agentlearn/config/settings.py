"""Settings of `learn`, `train` and `solve` as frozen models. They are stored with each run."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, cast

from pydantic import AfterValidator, Field, ValidationError, model_validator

from agentlearn.config.endpoint_address import credentials_of, has_login
from agentlearn.config.environment import GivenText
from agentlearn.config.names import SIMULATED_MODEL, default_model, default_reflector, is_lab, name_of_result
from agentlearn.config.options import (
    AllocationOptions,
    BudgetOptions,
    EvalOptions,
    EvidenceOptions,
    GroupOptions,
    LessonOptions,
    LoopOptions,
    ModelName,
    ModelOptions,
    OwnAgentOptions,
    OwnTaskOptions,
    RequestOptions,
    RetrievalOptions,
    RolloutOptions,
    SamplingOptions,
    SeedOptions,
    SelectionOptions,
    StoredRolloutOptions,
    StoreOptions,
    TaskOptions,
    Temperature,
    UserOptions,
    WorkerOptions,
    as_tuple,
)
from agentlearn.config.own_code import OwnPartOptions
from agentlearn.errors import ConfigError
from agentlearn.text import meant_or_known
from agentlearn.types.value import Value

S = TypeVar("S", bound=Value)


class RunSettings(
    TaskOptions,
    ModelOptions,
    SamplingOptions,
    LoopOptions,
    RolloutOptions,
    RetrievalOptions,
    EvalOptions,
    BudgetOptions,
    SeedOptions,
    StoreOptions,
):
    """Settings that `learn` and `train` share."""

    help_group = "Output"
    common = ("name",)
    name: str | None = Field(default=None, min_length=1)
    """Name of the result. Default: the domain's name."""
    private_addresses: tuple[str, ...] = ()
    """Names of the endpoints whose addresses had credentials. They are not stored, so a resumed run asks for them."""
    given: tuple[str, ...] = ()
    """What a program gave as objects, such as its agent. They are not stored, so only it can resume the run."""

    @model_validator(mode="before")
    @classmethod
    def _with_model(cls, fields: Any) -> Any:
        if isinstance(fields, Mapping) and "model" not in fields and isinstance(fields.get("domain"), str):
            custom_tasks = fields.get("reward") is not None
            model = SIMULATED_MODEL if custom_tasks else default_model(str(fields["domain"]))
            return {**fields, "model": model}
        return fields

    @model_validator(mode="before")
    @classmethod
    def _no_temperature_anywhere(cls, fields: Any) -> Any:
        """Without a temperature in training, send none on held-out tasks either, unless one is given for them."""
        given = fields if isinstance(fields, Mapping) else {}
        if "eval_temperature" not in given and str(given.get("temperature", "")).strip().lower() in {"none", "null"}:
            return {**given, "eval_temperature": None}
        return fields

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Names of the endpoints that the settings name."""
        return self.endpoints_of(self.model)

    def resolved(self) -> str:
        """The settings as JSON with masked secrets, as stored with the run."""
        private = tuple(name for name in self.endpoints if credentials_of(name) or name in self.private_addresses)
        return self.model_copy(update={"private_addresses": private}).model_dump_json()


_OF_AGENT = ("instructions", "tools")
"""What of an agent can be improved as a document."""


def _document(given: str | None) -> str | None:
    if given is not None and given not in _OF_AGENT and Path(given).suffix.lower() not in {".md", ".markdown", ".txt"}:
        raise ConfigError(
            f"--on {given!r} is no document; give a file of Markdown such as SKILL.md, or instructions, or tools"
        )
    return given


class LearnSettings(
    RunSettings,
    OwnAgentOptions,
    RequestOptions,
    LessonOptions,
    OwnPartOptions,
    OwnTaskOptions,
    GroupOptions,
    AllocationOptions,
    SelectionOptions,
    EvidenceOptions,
    StoredRolloutOptions,
    UserOptions,
    WorkerOptions,
):
    """Settings of `learn`."""

    help_group = "Lessons"
    common = ("library", "reflector", "on")

    @model_validator(mode="before")
    @classmethod
    def _few_rollouts_of_a_lab_model(cls, fields: Any) -> Any:
        """A run with the lab model shows how learning works; two rollouts of each held-out task are enough for that."""
        given = fields if isinstance(fields, Mapping) else {"eval_rollouts": None}
        own_tasks = given.get("reward") is not None or not isinstance(given.get("domain"), str)
        models = as_tuple(given.get("model") or ("" if own_tasks else default_model(str(given["domain"]))))
        of_lab = isinstance(models, list | tuple) and any(is_lab(str(one)) for one in cast("Sequence[Any]", models))
        return {**given, "eval_rollouts": 2} if of_lab and "eval_rollouts" not in given else fields

    library: str | None = None
    """Library to start from: none, NAME, NAME@VERSION, or a file. Default: the one of the result's name, if there is
    one. Lessons that a person wrote stay in any case."""
    on: Annotated[str | None, AfterValidator(_document)] = None
    """Improve a document in small changes, in place of a list of lessons: FILE.md, or the word instructions for an
    agent's own ones, or tools for the descriptions of its tools. Defaults: --group-size 2 and --epochs 3."""
    batch_size: int = Field(default=5, ge=1, le=10_000)
    """Tasks per update. Small batches correct a wrong lesson sooner; the published recipe takes all tasks at once."""
    reflector: ModelName | None = None
    """Model that writes the lessons. Default: the model; for a lab model, the simulated reflector."""
    reflector_output_tokens: int | None = Field(default=None, ge=1)
    """Largest number of tokens in one answer of the reflector. Default: --max-output-tokens where the model itself
    writes the lessons, else the limit of its service."""
    pilot: int | None = Field(default=None, ge=1)
    """Learn from this many tasks once, and report what the whole run would cost."""

    @model_validator(mode="before")
    @classmethod
    def _small_groups_for_documents(cls, fields: Any) -> Any:
        """With `on`, two rollouts of a task and three epochs are the defaults: see docs/learn.md."""
        if not isinstance(fields, Mapping) or not fields.get("on"):
            return fields
        return {"group_size": 2, "epochs": 3, **fields}

    @model_validator(mode="after")
    def _once_for_lessons(self) -> Self:
        if self.reflect == "once" and self.on is not None:
            raise ConfigError("--reflect once writes new lessons, and --on changes a document; leave one of them out")
        if self.reflect == "stages" and self.drafts > 1:
            raise ConfigError(f"--drafts {self.drafts} is for --reflect once; add it")
        return self

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Names of the endpoints that the settings name."""
        named = (self.model, self.reflector_name, self.user_model)
        return tuple(dict.fromkeys(one for model in named if model for one in self.endpoints_of(model)))

    @property
    def reflector_name(self) -> str:
        """The model that writes the lessons."""
        return self.reflector or default_reflector(self.model)

    @property
    def library_name(self) -> str:
        """Name of the resulting library."""
        own = name_of_result(self.domain)
        return self.name or (own if self.on is None else name_of_result(f"{own}:{Path(self.on).stem}"))

    @property
    def on_file(self) -> bool:
        """Whether the document that is improved is a file."""
        return self.on is not None and self.on not in _OF_AGENT

    @property
    def document(self) -> str:
        """The name of the document that is improved: of the file without its folder; empty for lessons."""
        return "" if self.on is None else Path(self.on).name

    @property
    def tries_updates(self) -> bool:
        """Whether changes are tried on the tasks that they were made from: where a run selects by expected answers."""
        selects = self.select == "best" and self.validation_rollouts > 0 and self.labels == "gold"
        return selects and self.reflect == "stages" and not self.from_store and self.pilot is None

    def as_pilot(self) -> "LearnSettings":
        """The settings of the pilot: one epoch, not measured. The same settings when no pilot is asked for."""
        return self if self.pilot is None else self.model_copy(update={"epochs": 1, "evaluate": False})


def _without_login(start: str) -> str:
    if has_login(start):
        raise ConfigError(
            "the address to start at has a user name or a password, which the model would see and the store would"
            " keep (it is not shown here); leave them out"
        )
    return start


class SolveSettings(ModelOptions, RequestOptions, WorkerOptions, RetrievalOptions, SeedOptions, StoreOptions):
    """Settings of `solve`."""

    domain: str
    """Name of an installed domain."""
    problem: str
    """The problem to solve."""
    library: str = "none"
    """Lessons in the prompt: none, NAME, NAME@VERSION, or a file."""
    temperature: Temperature = 0.3
    """Sampling temperature; none: send no temperature."""
    start: Annotated[str, AfterValidator(_without_login)] = ""
    """Where the work on the problem starts, such as the address of a site for the domain `web`."""


def learn_settings(fields: Mapping[str, Any]) -> LearnSettings:
    """`LearnSettings` from options or a recipe. Raises ConfigError with the value and what is allowed."""
    return given_settings(LearnSettings, fields)


def given_settings(kind: type[S], fields: Mapping[str, Any], *, group: str = "") -> S:
    """Settings of any command from options, a recipe and environment variables.

    group: what stands before each name in an error message, such as `loss_settings.`. Raises ConfigError with the value
    and what is allowed.
    """
    try:
        return kind.model_validate(dict(fields))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or "settings"
        if first["type"] == "extra_forbidden":
            hint = meant_or_known(name, kind.model_fields)
            raise ConfigError(f"there is no setting {f'{group}{name}'!r}; {hint}") from error
        if first["type"] == "missing":
            raise ConfigError(f"{group}{name} is needed, and is not given; give it") from error
        if name == "api_key":
            raise ConfigError("api_key is not a text; put it into quotes") from None
        shown = first["input"].where if isinstance(first["input"], GivenText) else f"{group}{name}"
        if first["type"] == "value_error":  # a sentence of ours
            raise ConfigError(f"{shown}: {first.get('ctx', {}).get('error')}") from error
        words = re.sub("^(?:Input|String) should ", "", first["msg"]).partition(", unable to parse")[0]
        raise ConfigError(f"{shown} is {first['input']!r}, but should {words}") from error
