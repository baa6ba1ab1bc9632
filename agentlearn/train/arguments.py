"""Settings of a weight update: `GRPOArguments` and `GSPOArguments` with a common base.

They do not need torch, so recipes are checked before torch is imported. GSPO has its own class because its defaults
differ: it clips the ratio of a whole sequence, which changes about a hundred times less than that of a token.
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


def _as_tuple(given: object) -> object:
    return (given,) if isinstance(given, str) else given


class GradientArguments(OptionGroup):
    """Settings that GRPO and GSPO share."""

    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    """Seed of a new adapter's weights, of dropout, and of the minibatches."""

    learning_rate: float = Field(default=1e-6, gt=0, le=10)
    """Highest learning rate. Adapters usually need ten times as much."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Learning rate after the warm-up: constant, or falling to 0 at the last step."""
    warmup_steps: int = Field(default=0, ge=0)
    """Optimiser steps over which the learning rate rises from 0."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """AdamW with decoupled decay, or plain gradient descent without momentum."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    """AdamW's decay rates of the mean and of the mean square."""
    adam_eps: float = Field(default=1e-8, gt=0, le=1)
    """Added to the root mean square in AdamW."""
    weight_decay: float = Field(default=0.0, ge=0, le=1)
    """Weight decay of matrices. Vectors such as biases and norms do not decay."""
    max_grad_norm: float | None = Field(default=1.0, gt=0)
    """Gradients with a larger norm are scaled down to it. None: no limit."""

    eps_low: float = Field(default=0.2, ge=0, lt=1)
    """Clipping from below: a ratio below 1 - eps_low no longer lowers the probability of a bad token."""
    eps_high: float = Field(default=0.28, ge=0)
    """Clipping from above: a ratio above 1 + eps_high no longer raises the probability of a good token (clip-higher,
    DAPO, arXiv:2503.14476)."""
    delta: float | None = Field(default=None, gt=1)
    """Upper bound of the ratio for advantages of either sign (arXiv:2505.07291). None: no bound."""

    advantages: Scaling = "group"
    """What rewards minus their group's mean are divided by: the std of the group, that of the batch, or nothing."""
    advantage_eps: float = Field(default=1e-6, gt=0, le=1)
    """Added to the std that advantages are divided by."""

    kl: Divergence = "none"
    """Estimator of the KL divergence from the reference, added to each token's loss."""
    kl_beta: float = Field(default=0.0, ge=0)
    """Weight of the divergence in the loss."""
    kl_ratio: bool = True
    """Whether the divergence is weighted by the ratio, which makes its gradient correct off-policy. Without it, the
    gradient of k1 has mean 0."""
    reference: ReferenceModel = "none"
    """Model that the divergence is measured against. adapter_off: the model without its adapter. copy: a copy of the
    loaded model. copy_int8: a copy in int8, with a quarter of the memory, rounded to 1/127 of the row's maximum."""

    importance_sampling: Importance = "token_truncate"
    """Correction for differences between the sampler's and the trainer's probabilities: the ratio of each token or of
    the whole sequence, limited to the cap (truncate) or set to 0 above it (mask)."""
    importance_cap: float = Field(default=2.0, ge=1)
    """Largest correction: larger ones are limited to it or set to 0."""
    max_staleness: int = Field(default=4, ge=0)
    """Rows are dropped when more optimiser steps than this were made since their weights. Dropped rows are counted."""

    iterations: int = Field(default=1, ge=1, le=64)
    """Number of passes over each batch."""
    minibatches: int = Field(default=1, ge=1, le=1024)
    """Number of optimiser steps in one pass."""
    tokens_per_microbatch: int = Field(default=8192, ge=1)
    """Tokens in one forward pass, padding included; a longer row is computed alone. Affects memory, not gradients."""
    logits_mib: int = Field(default=150, ge=1)
    """Memory for logits in MiB, which hold two fp32 copies of the logits of the tokens computed at once."""

    overlong: Literal["train", "mask", "punish"] = "train"
    """Treatment of rollouts that were cut at a limit of tokens: train them, mask their tokens, or reduce the reward of
    long rollouts."""
    overlong_window: int | None = Field(default=None, ge=1)
    """With overlong=punish: number of tokens before the limit over which the penalty rises from 0 to 1."""

    temperature: float = Field(default=1.0, gt=0, le=2)
    """Temperature of sampler and trainer."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Top-p of the sampler; 1: all tokens."""
    top_k: int = Field(default=0, ge=0)
    """Top-k of the sampler; 0: all tokens."""

    dtype: Literal["fp32", "bf16"] = "fp32"
    """Number format of products and of frozen weights. Trained weights are always fp32."""
    gradient_checkpointing: bool = False
    """Recompute layers in the backward pass: less memory, about a third more time."""

    lora_rank: int = Field(default=0, ge=0, le=4096)
    """Rank of the LoRA adapter to train; 0: train all weights."""
    lora_alpha: float = Field(default=32.0, gt=0)
    """Scale of the adapter's output: alpha / rank."""
    lora_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout on the adapter's inputs in training."""
    lora_targets: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = Field(default=("all-linear",), min_length=1)
    """Names of the layers that get an adapter; all-linear: all linear layers except the head."""

    @property
    def passes(self) -> int:
        """Number of optimiser steps per batch."""
        return self.iterations * self.minibatches

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _refuse(*_contradictions(self))
        return self


class GRPOArguments(GradientArguments):
    """Settings of GRPO (group relative policy optimisation), which has a ratio per token."""

    loss: Literal["grpo", "dr_grpo", "bnpo", "dapo", "cispo"] = "dapo"
    """Loss: how token losses are averaged, and for cispo also the token loss."""
    cispo_cap: float = Field(default=5.0, gt=0)
    """For cispo: largest ratio that weights a token's gradient (arXiv:2506.13585)."""
    completion_length: int | None = Field(default=None, ge=1)
    """For dr_grpo: constant length that it divides by, the largest number of tokens of a rollout."""

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
                    f"loss is {self.loss!r} and completion_length is {self.completion_length}, but only dr_grpo "
                    "divides by it, and needs it; set it to the largest number of tokens of a rollout, or leave it out"
                ),
            ),
        )
        return self


class GSPOArguments(GradientArguments):
    """Settings of GSPO (arXiv:2507.18071), which has one ratio per sequence, the geometric mean over its tokens."""

    loss: Literal["gspo"] = "gspo"
    eps_low: float = Field(default=3e-4, ge=0, lt=1)
    """Clipping from below: a sequence ratio below 1 - eps_low no longer lowers the probability of a bad sequence."""
    eps_high: float = Field(default=4e-4, ge=0)
    """Clipping from above: a sequence ratio above 1 + eps_high no longer raises the probability of a good sequence."""


Arguments = GRPOArguments | GSPOArguments


def gradient_arguments(fields: Mapping[str, Any]) -> Arguments:
    """Return the arguments from options or a recipe; `loss: gspo` selects GSPO. Raises ConfigError."""
    return given_settings(GSPOArguments if fields.get("loss") == "gspo" else GRPOArguments, fields)


def _refuse(*findings: tuple[bool, str]) -> None:
    for wrong, sentence in findings:
        if wrong:
            raise ConfigError(sentence, code="contradiction")


def _contradictions(given: GradientArguments) -> tuple[tuple[bool, str], ...]:
    """Contradictory combinations: whether each applies, and its error message."""
    full = given.lora_rank == 0
    cut = given.top_p < 1 or given.top_k > 0
    return (
        (
            given.importance_sampling != "none" and cut,
            (
                f"importance_sampling is {given.importance_sampling!r}, but a sampler with top_p={given.top_p} and "
                f"top_k={given.top_k} excludes tokens and does not report the resulting probabilities; "
                "set top_p=1 and top_k=0, or importance_sampling=none"
            ),
        ),
        (
            full and given.reference == "adapter_off",
            "reference is 'adapter_off', but lora_rank=0 trains without an adapter; set lora_rank, or reference=copy",
        ),
        (
            given.kl != "none" and given.reference == "none",
            f"kl is {given.kl!r}, but there is no reference; set reference=adapter_off or copy",
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
            f"reference is {given.reference!r}, but kl=none does not use it; set kl and kl_beta, or reference=none",
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
            "overlong is 'punish', but there is no window over which the penalty rises; set overlong_window",
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
