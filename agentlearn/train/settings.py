"""Settings of a training run: those of every run, and how weights are updated."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SerializeAsAny, model_validator

from agentlearn.config import LAB, RunSettings, default_model, given_settings
from agentlearn.config.result_names import name_of_result
from agentlearn.errors import ConfigError
from agentlearn.train.arguments import Arguments, GRPOArguments, gradient_arguments

SAMPLERS = ("local", "vllm")


class TrainSettings(RunSettings):
    """All settings of `train`."""

    model: str = ""
    """Model to train: a folder or hub id of a causal language model or an adapter, or lab:NAME."""
    sampler: Literal["local", "vllm"] = "local"
    """What samples rollouts: local, the weights in training; or vllm, a server that gets them after each update."""
    gradient: SerializeAsAny[Arguments] = Field(default_factory=GRPOArguments)
    """Settings of the update; set with --set NAME=VALUE or in a recipe."""
    name: str | None = None
    """Name of the resulting weights. Default: the domain's name."""
    temperature: float = Field(default=1.0, gt=0, le=2)  # pyright: ignore[reportIncompatibleVariableOverride]
    """Sampling temperature of rollouts to train on, and of the probabilities in training."""
    batch_size: int = Field(default=8, ge=1, le=10_000)
    """Tasks per update."""
    group_size: int = Field(default=8, ge=2, le=256)
    """Rollouts per task (G)."""
    eval_temperature: float = Field(default=1.0, ge=0, le=2)  # pyright: ignore[reportIncompatibleVariableOverride]
    """Sampling temperature on held-out tasks."""
    max_output_tokens: int = Field(default=1024, ge=1)
    """Largest number of tokens in one answer of the model."""
    reproducible: bool = True
    """Sample in rounds, so that the same run gives the same weights, bit by bit on a CPU. False is faster, because no
    rollout waits for the slowest of its round. Only with the sampler `local`."""
    save_every: int = Field(default=20, ge=1)
    """Updates between two checkpoints that a run can resume from. The last update is always saved."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """Number of newest checkpoints to keep."""
    tensorboard: bool = True
    """Also write the metrics of each update for TensorBoard."""

    @model_validator(mode="before")
    @classmethod
    def _earlier_name(cls, fields: Any) -> Any:
        """Read `answer_tokens`, the name of max_output_tokens in earlier recipes and stored settings."""
        if isinstance(fields, Mapping) and "answer_tokens" in fields:
            rest = {name: value for name, value in fields.items() if name != "answer_tokens"}
            return {"max_output_tokens": fields["answer_tokens"], **rest}
        return fields

    @property
    def weights_name(self) -> str:
        """Name of the resulting weights."""
        return self.name or name_of_result(self.domain)

    @property
    def samples_in_rounds(self) -> bool:
        """Whether the rollouts of a batch are sampled in rounds, so that results do not depend on timing."""
        return self.reproducible and self.sampler == "local"

    @property
    def endpoint(self) -> str:
        """Endpoint that samples the rollouts."""
        return f"{self.sampler}:{self.model}"

    @property
    def folder(self) -> Path:
        """Folder of the resulting weights."""
        return self.store / "weights" / self.weights_name

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.gradient.temperature != self.temperature:
            raise ConfigError(
                f"rollouts are sampled at temperature {self.temperature:g}, but gradient.temperature is"
                f" {self.gradient.temperature:g}; set both to the same temperature, so that trainer and sampler compute"
                " the same probabilities",
                code="temperature_mismatch",
            )
        if self.sampler == "local" and self.max_staleness:
            raise ConfigError(
                "max_staleness 1 samples rollouts while weights change, but the sampler 'local' uses these weights"
                " itself; use --sampler vllm, or max_staleness 0",
                code="contradiction",
            )
        return self


def train_settings(fields: Mapping[str, Any]) -> TrainSettings:
    """Return settings from options or a recipe, with `gradient` as a mapping. Raises ConfigError.

    `gradient` uses the run's temperature and seed unless it has its own.
    """
    model = str(fields.get("model") or _own_model(str(fields.get("domain"))))
    fields = {**fields, "model": model}
    prefix, _, rest = model.partition(":")
    if prefix in SAMPLERS and rest:
        fields = {"sampler": prefix, **fields, "model": rest}
    elif model.startswith(("sim:", "http:", "https:")):
        raise ConfigError(
            f"the weights of {model!r} cannot be trained here; give a folder or hub id with --model", code="no_weights"
        )
    given = dict(fields.get("gradient") or {})
    shared = {"temperature": fields.get("temperature", 1.0), "seed": fields.get("seed", 0)}
    return given_settings(TrainSettings, {**fields, "gradient": gradient_arguments({**shared, **given})})


def _own_model(domain: str) -> str:
    """Return the domain's lab model. Raises ConfigError when it has none."""
    model = default_model(domain)
    if not model.startswith(LAB):
        raise ConfigError(
            "training needs a model; give --model with a folder or hub id of a causal language model",
            code="no_model",
        )
    return model
