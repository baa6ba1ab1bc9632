"""What a training run can be told: tasks, model and measuring as every run, and beside them how weights are updated."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SerializeAsAny, model_validator

from agentlearn.config import LAB, RunSettings, default_model, given_settings
from agentlearn.errors import ConfigError
from agentlearn.train.arguments import Arguments, GRPOArguments, gradient_arguments

SAMPLERS = ("local", "vllm")


class TrainSettings(RunSettings):
    """Everything that `train` can be told."""

    model: str = ""
    """A folder or hub id of a causal language model, or of an adapter; `lab:NAME` for a lab model."""
    sampler: Literal["local", "vllm"] = "local"
    """Who draws the rollouts: the weights in training themselves, or a vLLM server that gets them after each step."""
    gradient: SerializeAsAny[Arguments] = Field(default_factory=GRPOArguments)
    """How weights are updated."""
    name: str | None = None
    """Name under which the weights are kept; None: the domain's."""
    temperature: float = Field(default=1.0, gt=0, le=2)
    """Of the rollouts that are trained on, and of the probabilities in training."""
    batch_size: int = Field(default=8, ge=1, le=10_000)
    """Tasks per update."""
    group_size: int = Field(default=8, ge=2, le=256)
    """Rollouts per task, G."""
    eval_temperature: float = Field(default=1.0, ge=0, le=2)
    answer_tokens: int = Field(default=1024, ge=1)
    """Tokens that one answer of the model may have."""
    reproducible: bool = True
    """Draw the rollouts of a batch in rounds, so that the same run gives the same weights, bit by bit on a CPU; False
    spares the wait for the slowest of each round. With the sampler `local` only."""
    save_every: int = Field(default=20, ge=1)
    """Updates between two checkpoints from which a run can be taken up again; the last is always kept."""
    keep_checkpoints: int = Field(default=2, ge=1)
    tensorboard: bool = True
    """Write the numbers of each update for TensorBoard too."""

    @property
    def weights_name(self) -> str:
        """Name of the result."""
        return self.name or self.domain

    @property
    def in_rounds(self) -> bool:
        """Whether what a batch draws depends on nothing but the batch, bit by bit."""
        return self.reproducible and self.sampler == "local"

    @property
    def endpoint(self) -> str:
        """The endpoint that draws the rollouts."""
        return f"{self.sampler}:{self.model}"

    @property
    def folder(self) -> Path:
        """Where the weights and the checkpoints of this name are kept."""
        return self.store / "weights" / self.weights_name

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.gradient.temperature != self.temperature:
            raise ConfigError(
                f"rollouts are drawn at temperature {self.temperature:g}, but gradient.temperature is"
                f" {self.gradient.temperature:g}, so the probabilities would not be those of the sampler; give one"
                " temperature for both",
                code="temperature_mismatch",
            )
        if self.sampler == "local" and self.max_staleness:
            raise ConfigError(
                "max_staleness 1 draws rollouts while weights change, but sampler 'local' draws with those very"
                " weights; use --sampler vllm, or max_staleness 0",
                code="contradiction",
            )
        return self


def train_settings(fields: Mapping[str, Any]) -> TrainSettings:
    """Settings from options or a recipe, `gradient` as a mapping. Raises ConfigError in one sentence.

    Temperature and seed of `gradient` are the run's unless they are given.
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
    """The domain's lab model. Raises ConfigError where it has none."""
    model = default_model(domain)
    if not model.startswith(LAB):
        raise ConfigError(
            "say whose weights are to be trained: --model with a folder or hub id of a causal language model",
            code="no_model",
        )
    return model
