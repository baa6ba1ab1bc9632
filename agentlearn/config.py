"""Settings of a command, as one frozen model each; the resolved settings are stored with the run.

Recipes are YAML files with the same fields. `${NAME}` is read from the environment in declared secret fields only, so
that a recipe can be shared and an environment variable cannot slip into a prompt or a report.
"""

import os
import re
from collections.abc import Mapping
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, model_validator

from agentlearn.errors import ConfigError
from agentlearn.value import Value

SIMULATED_MODEL = "sim:novice"
SIMULATED_REFLECTOR = "sim:reflector"
LAB = "lab:"
"""How the names of lab models begin: tiny transformers that a domain ships, real but without talent."""
LAB_MODEL = "lab:novice"
DEFAULT_STORE = Path(".agentlearn")


def is_lab(model: str) -> bool:
    """Whether the name stands for a lab model, served as such or from a checkpoint of its own."""
    return model.startswith((LAB, f"local:{LAB}"))


def default_model(domain: str) -> str:
    """What rolls out where no model is named: the domain's lab model, else the simulated one."""
    return LAB_MODEL if any(one.name == domain for one in entry_points(group="agentlearn.lab")) else SIMULATED_MODEL


def default_reflector(model: str) -> str:
    """Who reflects where nobody is named: the model itself; for a lab model, which cannot, the simulated one."""
    return SIMULATED_REFLECTOR if is_lab(model) else model


Source = Annotated[str, BeforeValidator(lambda given: str(given) if isinstance(given, Path) else given)]
"""Where tasks come from: a file, `hf:NAME` or `gym:TASK`."""
ONLINE = ("hf:", "gym:")
"""How a source begins that is no file."""
TASK_FILES = (".jsonl", ".json", ".csv", ".parquet")
"""How the name of a file of tasks ends."""


S = TypeVar("S", bound=Value)


def _several(given: object) -> object:
    return (given,) if isinstance(given, str | Path) else given


class RunSettings(Value):
    """What every run over tasks can be told: which tasks, which model, how rollouts are made, measured and limited."""

    domain: str
    """Name of an installed domain; with `reward`, a name for your own tasks."""
    reward: str | None = None
    """How answers to your own tasks are judged: exact, number, choice, contains, judge, gym, or module:function."""
    tools: Literal["none", "python"] = "none"
    """What the agent for your own tasks may use."""
    instructions: str | None = None
    """What the agent for your own tasks is told beside its own words."""
    model: str = SIMULATED_MODEL
    """Endpoint of the rollouts; not given: the domain's lab model where it has one, else the simulated one."""
    api_key: SecretStr | None = None
    """Key for `http(s)://…#model` endpoints."""
    data: Source | None = None
    """Tasks to learn from: a file, `hf:…` or `gym:…`; None: the domain's own."""
    test_data: Annotated[tuple[Source, ...], BeforeValidator(_several)] = ()
    """Held-out tasks, of one source or several; none: a share of `data`, or the domain's own."""
    test_share: float = Field(default=0.3, ge=0, lt=1)
    """Share of `data` held out when `test_data` is not given."""
    limit: int | None = Field(default=None, ge=1)
    """Tasks read from `data`, or used of the domain's own."""
    library: str = "none"
    """Library to start from: `none`, `NAME`, `NAME@VERSION`, or a file."""
    epochs: int = Field(default=3, ge=1, le=100)
    batch_size: int = Field(default=20, ge=1, le=10_000)
    """Tasks per update."""
    group_size: int = Field(default=5, ge=1, le=256)
    """Rollouts per task, G."""
    temperature: float = Field(default=0.7, ge=0, le=2)
    eval_temperature: float = Field(default=0.3, ge=0, le=2)
    labels: Literal["gold", "none"] = "gold"
    """none: the majority answer of a group stands in for the expected one while learning."""
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    concurrency: int = Field(default=32, ge=1, le=4096)
    """Model calls in flight at once, as long as the endpoint takes them; half as many rollouts more are under way."""
    eval_rollouts: int = Field(default=4, ge=1, le=1024)
    """Rollouts per held-out task, before and after."""
    eval_every: int = Field(default=0, ge=0)
    """Measure on the held-out tasks after every so many updates too; 0: before and after alone."""
    evaluate: bool = True
    max_staleness: int = Field(default=0, ge=0, le=1)
    """1: a batch's rollouts begin while the batch before is still learned from, under the state before that."""
    call_deadline_s: float = Field(default=120.0, gt=0)
    rollout_deadline_s: float = Field(default=600.0, gt=0)
    max_turns: int = Field(default=16, ge=1, le=1000)
    """Model calls in one rollout."""
    sandbox: str | None = None
    """Where code that the model wrote is run; None: `zygote`, which isolates it."""
    max_cost_usd: float | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, gt=0)
    max_minutes: float | None = Field(default=None, gt=0)
    otel: bool = False
    """Send spans by OpenTelemetry, as is done too when OTEL_EXPORTER_OTLP_ENDPOINT is set; needs the extra `otel`."""
    store: Path = DEFAULT_STORE

    @model_validator(mode="before")
    @classmethod
    def _with_model(cls, fields: Any) -> Any:
        if isinstance(fields, Mapping) and "model" not in fields and isinstance(fields.get("domain"), str):
            own_tasks = fields.get("reward") is not None
            model = SIMULATED_MODEL if own_tasks else default_model(str(fields["domain"]))
            return {**fields, "model": model}
        return fields

    def resolved(self) -> str:
        """The settings as JSON with secrets masked, as they are stored with the run."""
        return self.model_dump_json()


class LearnSettings(RunSettings):
    """Everything that `learn` can be told."""

    reflector: str | None = None
    """Endpoint of the semantic stages; None: the model's, and for a lab model the simulated one."""
    name: str | None = None
    """Name under which the result is kept; None: the domain's."""
    max_proposals: int = Field(default=3, ge=1, le=20)
    """Proposals taken from one group."""
    max_deletes: int = Field(default=3, ge=0, le=100)
    """Experiences that one batch may delete."""
    max_lessons: int = Field(default=100, ge=1, le=10_000)
    max_library_tokens: int = Field(default=4_000, ge=32)
    from_store: bool = False
    """Learn from rollouts that the store holds already, and make none but for measuring."""
    from_run: str | None = None
    """Of these, those of one run, by the beginning of its id."""
    from_phase: str | None = None
    """Those of one phase; None: every phase that does not measure."""
    min_rollouts: int = Field(default=2, ge=2)
    """Rollouts that a task needs in the logs."""
    pilot: int | None = Field(default=None, ge=1)
    """Learn from so many tasks only, once, to measure what the whole run would cost; None: the whole run."""

    @property
    def reflector_name(self) -> str:
        """The stages' endpoint."""
        return self.reflector or default_reflector(self.model)

    @property
    def library_name(self) -> str:
        """Name of the result."""
        return self.name or self.domain

    def as_pilot(self) -> "LearnSettings":
        """How the pilot of the whole run is run: once, and without measuring; itself where none is asked for."""
        return self if self.pilot is None else self.model_copy(update={"epochs": 1, "evaluate": False})


def learn_settings(fields: Mapping[str, Any]) -> LearnSettings:
    """Settings from options or a recipe. Raises ConfigError: one sentence with the value and what is allowed."""
    return given_settings(LearnSettings, fields)


def given_settings(kind: type[S], fields: Mapping[str, Any]) -> S:
    """Settings of any command, likewise."""
    try:
        return kind.model_validate(dict(fields))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or "settings"
        if first["type"] == "extra_forbidden":
            known = ", ".join(sorted(kind.model_fields))
            raise ConfigError(f"there is no setting {name!r} (known: {known})", code="unknown_setting") from error
        raise ConfigError(
            f"{name} is {first['input']!r}, but {_lower(first['msg'])}; give a value in that range",
            code="out_of_range",
        ) from error


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRETS = frozenset({"api_key"})


def read_recipe(path: Path) -> dict[str, Any]:
    """The fields of a YAML recipe. Raises ConfigError naming file and cause."""
    import yaml

    try:
        loaded: object = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no recipe {str(path)!r}", code="missing_file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the recipe {str(path)!r} cannot be read: {error}", code="bad_recipe") from error
    except yaml.YAMLError as error:
        cause = " ".join(str(error).split())
        raise ConfigError(f"the recipe {str(path)!r} is not YAML: {cause}", code="bad_recipe") from error
    if not isinstance(loaded, dict):
        raise ConfigError(
            f"the recipe {str(path)!r} must hold fields such as 'domain: math', not {type(loaded).__name__}",
            code="bad_recipe",
        )
    fields = {str(key): _expand(str(key), value, path) for key, value in loaded.items()}
    return fields | {key: _beside(path, fields[key]) for key in ("data", "test_data") if key in fields}


def _beside(recipe: Path, source: object) -> object:
    """A recipe's files are named from where the recipe lies."""
    if isinstance(source, list):
        return tuple(_beside(recipe, one) for one in source)
    return str(recipe.parent / source) if isinstance(source, str) and not source.startswith(ONLINE) else source


def packaged_recipe(name: str) -> Path | None:
    """The recipe `DOMAIN/RECIPE` that an installed domain's package ships; None for a name that says no domain.

    Raises ConfigError naming the recipes that the domain has.
    """
    domain, slash, recipe = name.partition("/")
    folder = _recipes(domain)
    if not slash or folder is None:
        return None
    path = folder / f"{recipe}.yaml"
    if path.parent != folder or not path.is_file():
        known = ", ".join(repr(f"{domain}/{one.stem}") for one in sorted(folder.glob("*.yaml"))) or "none"
        raise ConfigError(f"there is no recipe {name!r} (found: {known})", code="missing_file")
    return path


DEFAULT_RECIPE = "default"


def default_recipe(domain: str) -> Path | None:
    """The recipe by which a domain is learned where no other is named; None where its package ships none."""
    folder = _recipes(domain)
    path = None if folder is None else folder / f"{DEFAULT_RECIPE}.yaml"
    return path if path is not None and path.is_file() else None


def _recipes(domain: str) -> Path | None:
    """Where an installed domain's package keeps its recipes; None for no domain."""
    packages = {one.name: one.value.partition(":")[0] for one in entry_points(group="agentlearn.domains")}
    return Path(str(files(packages[domain]))) / "recipes" if domain in packages else None


def _expand(name: str, value: object, path: Path) -> object:
    if not isinstance(value, str) or not _REFERENCE.search(value):
        return value
    if name not in _SECRETS:
        raise ConfigError(
            f"{str(path)!r} uses {value!r} in {name!r}, but the environment is read in secret fields only"
            f" ({', '.join(sorted(_SECRETS))}); write the value itself",
            code="bad_recipe",
        )

    def read(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ConfigError(
                f"{str(path)!r} needs the environment variable {match[1]!r} for {name!r}; set it and run again",
                code="missing_secret",
            )
        return os.environ[match[1]]

    return _REFERENCE.sub(read, value)
