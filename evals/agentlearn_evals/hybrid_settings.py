"""Settings of `hybrid`: what all stages share, and the settings of each stage in a mapping of its own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field

from agentlearn.config import (
    LAB,
    LearnSettings,
    SeedOptions,
    StoreOptions,
    TaskSource,
    given_settings,
    is_lab,
    learn_settings,
    packaged_recipe,
)
from agentlearn.config.endpoint_address import has_login
from agentlearn.config.names import default_reflector, name_of_result
from agentlearn.config.options import CustomTaskOptions
from agentlearn.errors import ConfigError
from agentlearn.train.settings import TrainSettings, train_settings
from agentlearn_evals.compare_settings import CompareSettings

_Stage = Literal["learn", "train", "compare"]
ProposalEvidence = Literal["verdict", "margin"]
_GIVEN = ("domain", "data", "reward", "tools", "instructions", "columns", "seed", "store", "otel")
"""Fields at the top of a recipe that every stage gets as they are."""
_SHARED = frozenset({*_GIVEN, "test_data", "model", "name"})
_DECIDED: Mapping[_Stage, frozenset[str]] = {
    "learn": frozenset({"pilot", "from_store", "from_run", "from_phase"}),
    "train": frozenset({"distill", "library", "sampler"}),
    "compare": frozenset({"arms", "methods", "domains", "models", "margin", "planned_looks", "fresh"}),
}
"""Fields of a stage that `hybrid` sets itself."""
T = TypeVar("T")


def _mapping(given: object) -> object:
    """A stage of a recipe; one that is empty in YAML has no settings."""
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(
            f"a stage is {given!r}, but learn, train and compare hold settings; write them below it, one per line, such"
            " as `epochs: 2`",
            code="bad_recipe",
        )
    return {str(name): value for name, value in (given or {}).items()}


_StageFields = Annotated[dict[str, Any], BeforeValidator(_mapping)]


class HybridSettings(CustomTaskOptions, SeedOptions, StoreOptions):
    """Settings of `hybrid`."""

    domain: str
    """Name of an installed domain; with `reward`, a name for tasks from a file."""
    model: str
    """Model to learn with and to train: a folder, an adapter or a fetched model, or lab:NAME; vllm:FOLDER samples with
    a vLLM server."""
    data: TaskSource | None = None
    """Tasks to learn from: a file, hf:NAME or gym:TASK. Without it, the domain's own tasks."""
    test_data: TaskSource | None = None
    """Held-out tasks, needed with `data`: a file, hf:NAME or gym:TASK."""
    columns: str | None = None
    """Columns of the task files, such as 'problem=Body+Question answer=Answer choices=options family=Type'."""
    name: str | None = None
    """Name of the library, and the start of the names of the weights. Default: the domain's name."""
    rounds: int = Field(default=1, ge=1, le=10)
    """Rounds. A further one starts from the trained weights, and from the library without the proposed lessons."""
    margin: float = Field(default=0.05, gt=0, lt=1)
    """Largest loss that counts as not worse: of the trained weights against the lessons, and of removing a lesson."""
    evidence: ProposalEvidence = "verdict"
    """What proposes a lesson for removal. verdict: the verdict that its removal is not worse. margin: the corrected
    test against the margin alone, also where there are too few tasks for a verdict; the result says so."""
    removals: int = Field(default=20, ge=0, le=1000)
    """Largest number of lessons whose removal is measured, those with the most tokens first; 0: none."""
    removal_rollouts: int | None = Field(default=None, ge=1, le=4096)
    """Rollouts per task and arm to measure removals. Default: `k` of the stage compare."""
    learn: _StageFields = Field(default_factory=dict[str, Any])
    """Settings of the stage learn, as of `agentlearn learn`."""
    train: _StageFields = Field(default_factory=dict[str, Any])
    """Settings of the stage train, as of `agentlearn train`, with `gradient` for the update."""
    compare: _StageFields = Field(default_factory=dict[str, Any])
    """Settings of the stage compare, as of `agentlearn compare`."""

    @property
    def result_name(self) -> str:
        """Name of the library."""
        return self.name or name_of_result(self.domain)

    @property
    def sampler(self) -> Literal["local", "vllm"]:
        """What samples the model's rollouts."""
        return "vllm" if self.model.startswith("vllm:") else "local"

    @property
    def bare_model(self) -> str:
        """The model without the name of what samples it: a folder, a fetched model or lab:NAME."""
        return self.model.removeprefix("vllm:").removeprefix("local:")

    def start_of(self, model: str) -> str:
        """The endpoint of a model as training starts from it. Training writes a lab model to the store first."""
        return f"{self.sampler}:{self.store / 'lab' / model.removeprefix(LAB) if model.startswith(LAB) else model}"

    def learn_stage(self, model: str, library: str | None = None) -> LearnSettings:
        """Settings that learn lessons with a model.

        model: folder, fetched model or lab:NAME. library: where a further round starts; None: where the recipe says.
        """
        fields = self._shared() | {"name": self.result_name, **self.learn}
        fields |= {"model": model if model.startswith(LAB) else f"{self.sampler}:{model}"}
        fields |= {} if library is None else {"library": library}
        if is_lab(self.bare_model):  # too small to write lessons, also when it is trained
            fields.setdefault("reflector", default_reflector(LAB))
        return named_stage("learn", lambda: learn_settings(fields))

    def train_stage(self, model: str, library: str, number: int = 1) -> TrainSettings:
        """Settings that distil a library into a model. number: of the round, from 1."""
        decided = {"model": model, "sampler": self.sampler, "distill": library, "name": f"{self.result_name}-{number}"}
        return named_stage("train", lambda: train_settings(self._shared() | decided | self.train))

    def compare_stage(self, arms: Sequence[str], k: int | None = None) -> CompareSettings:
        """Settings that compare arms on the held-out tasks. k: rollouts per task and arm; None: as the recipe says."""
        fields = {**self._shared(), **self.compare, "margin": self.margin, "arms": tuple(arms)}
        own, held_out = fields.pop("domain"), fields.pop("test_data", (None,))[0]
        data = fields.pop("data", None)
        if held_out is not None and self.reward is not None:
            fields |= {"domains": (held_out,)}
        else:
            fields |= {"domains": (own,), "data": held_out if data is not None else None}
        fields |= {} if k is None else {"k": k}
        return named_stage("compare", lambda: given_settings(CompareSettings, fields))

    def _shared(self) -> dict[str, Any]:
        """The fields that every stage has, those left out that nobody gave."""
        fields = {name: getattr(self, name) for name in _GIVEN if name in self.model_fields_set or name == "seed"}
        return fields | ({} if self.test_data is None else {"test_data": (self.test_data,)})

    def check_stages(self) -> None:
        """Raise ConfigError for what a stage of a recipe cannot have."""
        for stage in ("learn", "train", "compare"):
            for name, value in getattr(self, stage).items():
                if name in _SHARED or name in _DECIDED[stage]:
                    why = (
                        "all stages share it, at the top of the recipe" if name in _SHARED else "hybrid sets it itself"
                    )
                    raise ConfigError(f"{stage}.{name} is {value!r}, but {why}; leave it out", code="contradiction")
                if name == "api_key" or (name in {"reflector", "judge"} and has_login(str(value))):
                    raise ConfigError(
                        f"{stage}.{name} holds a key or a password, which would be stored with the run (it is not shown"
                        " here); leave it out, and give the key of the service in its environment variable",
                        code="secret_in_recipe",
                    )
        if not isinstance(self.train.get("gradient", {}), Mapping | None):
            raise ConfigError(
                f"train.gradient is {self.train['gradient']!r}; write its settings below it, such as `learning_rate:"
                " 1.0e-4`",
                code="bad_recipe",
            )


def hybrid_settings(fields: Mapping[str, Any]) -> HybridSettings:
    """Settings from a recipe and options. Raises ConfigError for what cannot be said in a recipe of `hybrid`.

    The stages' own settings are checked when they are made.
    """
    if not fields.get("model"):
        raise ConfigError(
            "hybrid trains weights and needs a local model; write `model: FOLDER` into the recipe, or give --model",
            code="no_model",
        )
    settings = given_settings(HybridSettings, fields)
    served = settings.sampler == "vllm" and settings.bare_model.startswith(LAB)
    if served or settings.bare_model.startswith(("sim:", "http:", "https:")):
        raise ConfigError(
            f"the weights of {settings.model!r} cannot be trained here; give a folder or lab:NAME as the model",
            code="no_weights",
        )
    if "," in str(settings.store):
        raise ConfigError(
            f"the store is {str(settings.store)!r}, and the name of a compared model cannot hold a comma; choose"
            " another folder",
            code="out_of_range",
        )
    if settings.data is not None and settings.test_data is None:
        raise ConfigError(
            f"data is {settings.data!r}, but there are no held-out tasks to compare on; add `test_data: FILE`",
            code="no_tasks",
        )
    settings.check_stages()
    return settings


def recipe_name(what: str) -> str:
    """The recipe that the user named; of a domain, its recipe `hybrid`."""
    bare = "/" not in what and not what.endswith((".yaml", ".yml"))
    return f"{what}/hybrid" if bare and packaged_recipe(f"{what}/hybrid") is not None else what


def named_stage(stage: _Stage, make: Callable[[], T]) -> T:
    """What is made of a stage. Raises ConfigError that names the stage."""
    try:
        return make()
    except ConfigError as error:
        raise ConfigError(f"{stage}: {error.message}", code=error.code) from error
