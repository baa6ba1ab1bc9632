"""What an update of the weights can be told: `GRPOArguments` and `GSPOArguments` over one base.

Both are plain settings without torch, so that recipes are read and refused before anything heavy is imported. The
methods are kept apart because their defaults are: GSPO clips a sequence's ratio, which moves a hundred times less.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from agentlearn.config import OptionGroup, given_settings
from agentlearn.errors import ConfigError

LossName = Literal["grpo", "dr_grpo", "bnpo", "dapo", "cispo", "gspo"]
Divergence = Literal["none", "k1", "k2", "k3"]
Importance = Literal["none", "token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]
Scaling = Literal["group", "batch", "none"]
ReferenceModel = Literal["none", "adapter_off", "copy", "copy_int8"]


def _several(given: object) -> object:
    return (given,) if isinstance(given, str) else given


class GradientArguments(OptionGroup):
    """What GRPO and GSPO share."""

    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    """Decides the start of an adapter, dropout, and which rows share a minibatch."""

    learning_rate: float = Field(default=1e-6, gt=0, le=10)
    """At its highest. Adapters usually take ten times as much."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the rate falls after the warm-up: not at all, or to 0 at the last step."""
    warmup_steps: int = Field(default=0, ge=0)
    """Optimiser steps over which the rate rises from 0."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """AdamW with decoupled decay, or plain gradient descent without momentum."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    """AdamW's decay of the mean and of the mean square."""
    adam_eps: float = Field(default=1e-8, gt=0, le=1)
    """Added to AdamW's root mean square."""
    weight_decay: float = Field(default=0.0, ge=0, le=1)
    """Of matrices; vectors such as biases and norms do not decay."""
    max_grad_norm: float | None = Field(default=1.0, gt=0)
    """Longer gradients are shortened to it; None: never."""

    eps_low: float = Field(default=0.2, ge=0, lt=1)
    """A ratio below 1 - eps_low no longer pushes a bad token down."""
    eps_high: float = Field(default=0.28, ge=0)
    """A ratio above 1 + eps_high no longer pushes a good token up (clip-higher: DAPO, arXiv:2503.14476)."""
    delta: float | None = Field(default=None, gt=1)
    """Upper bound of the ratio whatever the advantage's sign (arXiv:2505.07291); None: none."""

    advantages: Scaling = "group"
    """What rewards, less their group's mean, are divided by: the group's std, the batch's, or nothing."""
    advantage_eps: float = Field(default=1e-6, gt=0, le=1)
    """Added to the std."""

    kl: Divergence = "none"
    """Estimator of the divergence from the reference, added to each token's loss."""
    kl_beta: float = Field(default=0.0, ge=0)
    """Its weight."""
    kl_ratio: bool = True
    """Whether the estimate is weighted by the ratio, which keeps its gradient right off-policy. Without it k1 has a
    gradient of mean 0."""
    reference: ReferenceModel = "none"
    """adapter_off: the model without its adapter; copy: the model as it was loaded, in int8 if asked (a quarter of the
    memory of fp32, rounded to 1/127 of each row's largest weight)."""

    importance_sampling: Importance = "token_truncate"
    """Correction for the sampler's probabilities being others than the trainer's: the ratio of a token or of a whole
    sequence, cut at the cap (truncate) or set to 0 above it (mask)."""
    importance_cap: float = Field(default=2.0, ge=1)
    """Where the correction is cut or set to 0."""
    max_staleness: int = Field(default=4, ge=0)
    """Rows drawn by weights of more optimiser steps ago are dropped, and counted."""

    iterations: int = Field(default=1, ge=1, le=64)
    """Passes over each batch."""
    minibatches: int = Field(default=1, ge=1, le=1024)
    """Optimiser steps in one pass."""
    tokens_per_microbatch: int = Field(default=8192, ge=1)
    """Tokens in one forward pass, padding included; a longer row passes alone. Changes memory, not gradients."""
    logits_mib: int = Field(default=150, ge=1)
    """Memory for logits: as many tokens at once as it holds twice, in fp32, over the whole vocabulary."""

    overlong: Literal["train", "mask", "punish"] = "train"
    """What becomes of rollouts cut at a limit of tokens: nothing, or their tokens are not trained, or long rollouts
    lose reward (`advantages.punished`)."""
    overlong_window: int | None = Field(default=None, ge=1)
    """Tokens before the limit over which the punishment rises to 1."""

    temperature: float = Field(default=1.0, gt=0, le=2)
    """Of the sampler and the trainer alike."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Of the sampler. 1: all tokens."""
    top_k: int = Field(default=0, ge=0)
    """0: all tokens."""

    dtype: Literal["fp32", "bf16"] = "fp32"
    """bf16: products are taken in it, and frozen weights kept in it; weights that train stay in fp32."""
    gradient_checkpointing: bool = False
    """Layers are computed again in the backward pass: less memory, about a third more time."""

    lora_rank: int = Field(default=0, ge=0, le=4096)
    """0: all weights are trained."""
    lora_alpha: float = Field(default=32.0, gt=0)
    """The adapter's product is scaled by alpha / rank."""
    lora_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of an adapter's inputs that is left out at random in training."""
    lora_targets: Annotated[tuple[str, ...], BeforeValidator(_several)] = Field(default=("all-linear",), min_length=1)
    """Names of the layers that get an adapter; `all-linear`: every one but the head."""

    @property
    def passes(self) -> int:
        """Optimiser steps that one batch makes."""
        return self.iterations * self.minibatches

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _refuse(*_contradictions(self))
        return self


class GRPOArguments(GradientArguments):
    """Group relative policy optimisation: a ratio per token."""

    loss: Literal["grpo", "dr_grpo", "bnpo", "dapo", "cispo"] = "dapo"
    """How token losses are averaged, and for cispo the token loss itself."""
    cispo_cap: float = Field(default=5.0, gt=0)
    """cispo's bound of the ratio that weights a token's gradient (arXiv:2506.13585); absolute."""
    completion_length: int | None = Field(default=None, ge=1)
    """The constant length that dr_grpo divides by: the most tokens that a rollout may draw."""

    @model_validator(mode="after")
    def _consistent_loss(self) -> Self:
        _refuse(
            (
                self.delta is not None and self.loss == "cispo",
                f"delta is {self.delta}, but cispo bounds its ratio by cispo_cap; leave delta out",
            ),
            (
                (self.loss == "dr_grpo") != (self.completion_length is not None),
                (
                    f"loss is {self.loss!r} and completion_length is {self.completion_length}, but dr_grpo, and no "
                    "other, divides by it; set it to the most tokens of a rollout, or leave it out"
                ),
            ),
        )
        return self


class GSPOArguments(GradientArguments):
    """Group sequence policy optimisation (arXiv:2507.18071): a ratio per sequence, its tokens' geometric mean."""

    loss: Literal["gspo"] = "gspo"
    eps_low: float = Field(default=3e-4, ge=0, lt=1)
    """A sequence's ratio below 1 - eps_low no longer pushes a bad one down."""
    eps_high: float = Field(default=4e-4, ge=0)
    """A sequence's ratio above 1 + eps_high no longer pushes a good one up."""


Arguments = GRPOArguments | GSPOArguments


def gradient_arguments(fields: Mapping[str, Any]) -> Arguments:
    """Arguments from options or a recipe: `loss: gspo` chooses GSPO. Raises ConfigError in one sentence."""
    return given_settings(GSPOArguments if fields.get("loss") == "gspo" else GRPOArguments, fields)


def _refuse(*findings: tuple[bool, str]) -> None:
    for wrong, sentence in findings:
        if wrong:
            raise ConfigError(sentence, code="contradiction")


def _contradictions(given: GradientArguments) -> tuple[tuple[bool, str], ...]:
    """What cannot be meant together: whether it is so, and the sentence that says it."""
    full = given.lora_rank == 0
    cut = given.top_p < 1 or given.top_k > 0
    return (
        (
            given.importance_sampling != "none" and cut,
            (
                f"importance_sampling is {given.importance_sampling!r}, but a sampler with top_p={given.top_p} and "
                f"top_k={given.top_k} draws from a cut distribution whose probabilities it does not report; "
                "set top_p=1 and top_k=0, or importance_sampling=none"
            ),
        ),
        (
            full and given.reference == "adapter_off",
            "reference is 'adapter_off', but lora_rank=0 trains without an adapter; set lora_rank, or reference=copy",
        ),
        (
            given.kl != "none" and given.reference == "none",
            f"kl is {given.kl!r}, but there is no reference to diverge from; set reference=adapter_off or copy",
        ),
        (
            given.kl != "none" and given.kl_beta == 0,
            f"kl is {given.kl!r}, but kl_beta=0 gives it no weight; set kl_beta, or kl=none",
        ),
        (
            given.kl == "none" and given.kl_beta > 0,
            f"kl_beta is {given.kl_beta}, but kl=none estimates no divergence; set kl=k3, or kl_beta=0",
        ),
        (
            given.kl == "none" and given.reference != "none",
            f"reference is {given.reference!r}, but kl=none never asks it; set kl and kl_beta, or reference=none",
        ),
        (
            given.delta is not None and given.delta <= 1 + given.eps_high,
            (
                f"delta is {given.delta}, but ratios are clipped at {1 + given.eps_high:g} already; "
                "give a delta above 1 + eps_high"
            ),
        ),
        (
            given.overlong == "punish" and given.overlong_window is None,
            "overlong is 'punish', but there is no window over which it rises; set overlong_window",
        ),
        (
            given.overlong != "punish" and given.overlong_window is not None,
            f"overlong_window is {given.overlong_window}, but overlong is {given.overlong!r}; set overlong=punish",
        ),
        (
            full and given.lora_dropout > 0,
            f"lora_dropout is {given.lora_dropout}, but lora_rank=0 trains without an adapter; set lora_rank",
        ),
    )
