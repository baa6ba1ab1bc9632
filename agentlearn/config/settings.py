"""Settings of `learn`, `train` and `solve` as frozen models, stored with each run, and where a user writes them.

A user gives settings on the command line or in a recipe, a YAML file; installed domains ship recipes too. `${NAME}` is
replaced by an environment variable in secret fields only. So a recipe can be shared, and a variable cannot get into a
prompt or a report.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, cast

from pydantic import AfterValidator, Field, ValidationError, model_validator

from agentlearn.config.defaults import (
    SIMULATED_MODEL,
    GivenText,
    default_model,
    default_reflector,
    is_lab,
    name_of_result,
)
from agentlearn.config.endpoint_address import credentials_of, has_login
from agentlearn.config.options import (
    HARBOR,
    LOGIN,
    ONLINE,
    SITE_FILES,
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
from agentlearn.config.solve_options import OwnPartOptions
from agentlearn.errors import ConfigError
from agentlearn.plugins import announced, guarded
from agentlearn.text import meant_or_known, nearest_name
from agentlearn.text.files import readable
from agentlearn.types.value import Value

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRETS = frozenset({"api_key"})
_DEEPEST = 32
_LONGEST_NUMBER = 100
_NUMBER = re.compile(r"[-+]?(?:0x[\da-fA-F_]+|[\d._:]+(?:[eE][-+]?\d+)?)")
_PATHS = ("data", "test_data", "prompt", *SITE_FILES)


LEARN_OPTION_NAMES = {"library": "--from", "evaluate": "--eval"}
"""Options of `learn` that are not called like their setting."""


@dataclass(frozen=True, slots=True)
class GivenSettings:
    """Settings that the user gave, not yet validated."""

    options: Mapping[str, Any]
    """Settings given as options on the command line."""
    environment: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings given as environment variables."""

    def over(self, recipe: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """All fields, in order of precedence: options, then `recipe`, then environment variables."""
        return {**self.environment, **(recipe or {}), **self.options}

    def __contains__(self, name: str) -> bool:
        return name in self.options or name in self.environment

    def get(self, name: str, default: Any = None) -> Any:
        """The value from the command line, or from the environment, or the default."""
        return self.options.get(name, self.environment.get(name, default))


def read_recipe(path: Path) -> dict[str, Any]:
    """The fields of a YAML recipe. Raises ConfigError that names the file and the cause."""
    loaded = _read_yaml(path, "recipe")
    if not isinstance(loaded, dict):
        raise ConfigError(
            f"the recipe {str(path)!r} must hold fields such as 'domain: math', not a {type(loaded).__name__}"
        )
    fields = {str(key): _expand(str(key), value, path) for key, value in loaded.items()}
    if isinstance(login := fields.get(LOGIN), str):
        fields[LOGIN] = read_login(path.parent / login)

    def near(source: object) -> object:
        """A task source or a file; file names are relative to the folder of the recipe."""
        if isinstance(source, dict):
            return {name: near(file) for name, file in source.items()}
        if isinstance(source, list):
            return tuple(map(near, source))
        if not isinstance(source, str) or source.startswith(ONLINE):
            return source
        prefix = HARBOR if source.startswith(HARBOR) else ""
        return f"{prefix}{path.parent / source.removeprefix(prefix)}"

    paths = (*_PATHS, "on") if str(fields.get("on")).endswith((".md", ".markdown", ".txt")) else _PATHS
    return fields | {key: near(fields[key]) for key in paths if key in fields}


def read_login(path: Path) -> list[Any]:
    """The acts of a login in a YAML file. Raises ConfigError that names the file and the cause."""
    loaded = _read_yaml(path, "login file")
    if not isinstance(loaded, list):
        raise ConfigError(
            f"the login file {str(path)!r} must hold a list of acts, such as '- open: https://example.org/login'"
        )
    return loaded


def _read_yaml(path: Path, kind: str) -> object:
    import yaml

    try:
        text = readable(path).read_text(encoding="utf-8")
        if fault := _yaml_fault(text):
            raise ConfigError(f"the {kind} {str(path)!r} {fault}")
        return yaml.safe_load(text)
    except FileNotFoundError as error:
        raise ConfigError(f"there is no {kind} {str(path)!r}; check the path") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the {kind} {str(path)!r} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        mark, cause = getattr(error, "problem_mark", None), getattr(error, "problem", None) or error
        where = "" if mark is None else f" line {mark.line + 1} column {mark.column + 1}"
        raise ConfigError(f"the {kind} {str(path)!r}{where} is not YAML: {cause}; correct it") from error
    except ValueError as error:  # a date that does not exist
        raise ConfigError(
            f"the {kind} {str(path)!r} has a value that cannot be read: {error}; put texts between quotes"
        ) from error


def _yaml_fault(text: str) -> str:
    """Why a YAML text is more than plain settings, as the end of a sentence; empty when it is not."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        where = f"in line {event.start_mark.line + 1}"
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            return f"has an anchor or an alias {where}; write the value itself there"
        if depth > _DEEPEST:
            return f"nests more than {_DEEPEST} values {where}; no setting is that deep"
        if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and len(event.value) > _LONGEST_NUMBER:
            if not _NUMBER.fullmatch(event.value):
                continue
            return f"has a number of {len(event.value):,} characters {where}; write one of at most {_LONGEST_NUMBER}"
    return ""


def packaged_recipe(name: str) -> Path | None:
    """The file of the recipe `DOMAIN/RECIPE` in the package of an installed domain; None when no domain is named.

    Raises ConfigError when the domain has no such recipe; the message lists those it has.
    """
    domain, slash, recipe = name.partition("/")
    folder = _recipes(domain)
    if not slash or folder is None:
        return None
    path = folder / f"{recipe}.yaml"
    if path.parent != folder or not path.is_file():
        known = ", ".join(repr(f"{domain}/{one.stem}") for one in sorted(folder.glob("*.yaml"))) or "none"
        meant = nearest_name(name, (f"{domain}/{one.stem}" for one in folder.glob("*.yaml")))
        hint = f"; did you mean {meant!r}?" if meant else ""
        raise ConfigError(f"there is no recipe {name!r} (found: {known}){hint}")
    return path


def default_recipe(domain: str) -> Path | None:
    """The file of a domain's default recipe; None when its package ships none."""
    folder = _recipes(domain)
    path = None if folder is None else folder / "default.yaml"
    return path if path is not None and path.is_file() else None


def _recipes(domain: str) -> Path | None:
    """The folder of a domain's recipes; None when no domain of that name is installed."""
    plugin = announced("agentlearn.domains").usable.get(domain)
    if plugin is None:
        return None

    def folder() -> Path | None:
        """The folder of its package; None for a module, which is one file."""
        package = plugin.value.partition(":")[0]
        return Path(str(files(package))) if hasattr(import_module(package), "__path__") else None

    found = guarded(plugin, "domain", folder)
    return found / "recipes" if isinstance(found, Path) else None


def _expand(name: str, value: object, path: Path) -> object:
    if not isinstance(value, str) or not _REFERENCE.search(value):
        return value
    if name not in _SECRETS:
        raise ConfigError(
            f"{str(path)!r} uses {value!r} in {name!r}, but environment variables are read in secret fields only"
            f" ({', '.join(sorted(_SECRETS))}); write the value itself"
        )

    def read(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ConfigError(
                f"{str(path)!r} needs the environment variable {match[1]!r} for {name!r}; set it and run again"
            )
        return os.environ[match[1]]

    return _REFERENCE.sub(read, value)


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
