"""Settings of a weight update: `GRPOArguments` and `GSPOArguments` with a common base.

They do not need torch, so recipes are checked before torch is imported. GSPO and LUSPO have their own class because
their defaults differ: they clip the ratio of a whole sequence, which changes about a hundred times less than that of a
token.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from agentlearn.config import OptionGroup, given_settings
from agentlearn.errors import ConfigError

LossName = Literal["grpo", "dr_grpo", "bnpo", "dapo", "cispo", "sapo", "vespo", "gspo", "luspo", "distill"]
Divergence = Literal["none", "k1", "k2", "k3"]
Importance = Literal["none", "token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]
Scaling = Literal["group", "batch", "none", "leave_one_out", "max_rl"]
Combination = Literal["sum_then_normalise", "normalise_then_sum"]
ReferenceModel = Literal["none", "adapter_off", "copy"]
TeacherWeights = Literal["base", "live", "ema"]


def _as_names(given: object) -> object:
    """Names given as text, `q_proj,v_proj`, as separate names."""
    return tuple(name.strip() for name in given.split(",")) if isinstance(given, str) else given


def _as_weights(given: object) -> object:
    """Rewards given as text, `module:function=WEIGHT,…`, as names with weights; a weight that is left out is 1."""
    if not isinstance(given, str):
        return given
    pairs = [one.partition("=") for one in given.split(",")]
    return {name.strip(): weight.strip() or "1" for name, _, weight in pairs}


RewardWeights = Annotated[dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]], BeforeValidator(_as_weights)]
"""Weights of rewards by name."""


class GradientArguments(OptionGroup):
    """Settings that all losses share."""

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
    """How advantages follow from rewards. group, batch, none: rewards minus their group's mean, divided by the std of
    the group, by that of the batch, or by nothing. leave_one_out: rewards minus the mean of the group's other rewards.
    max_rl: rewards minus their group's mean, divided by that mean (arXiv:2602.02710)."""
    advantage_eps: float = Field(default=1e-6, gt=0, le=1)
    """Added to the std that advantages are divided by."""
    rewards: RewardWeights = Field(default_factory=dict[str, float])
    """Further rewards and their weights: functions of yours, called with every answer. In a recipe a mapping of
    module:function to its weight; with --set the text module:function=WEIGHT,…"""
    reward_weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Weight of the domain's own reward among several rewards."""
    reward_combination: Combination = "sum_then_normalise"
    """How several rewards become one advantage. sum_then_normalise: the advantage of their weighted sum.
    normalise_then_sum: each minus its mean and divided by its std in the group, then the weighted sum divided by its
    std in the batch (GDPO, arXiv:2601.05242)."""
    dynamic_sampling_limit: int | None = Field(default=None, ge=2, le=1000)
    """Dynamic sampling (DAPO, arXiv:2503.14476): groups without an advantage are left out, and an update waits until it
    has batch_size other groups, or until this number of batches was sampled for it. None: every batch is an update."""

    kl: Divergence = "none"
    """Estimator of the KL divergence from the reference, added to each token's loss."""
    kl_beta: float = Field(default=0.0, ge=0)
    """Weight of the divergence in the loss."""
    kl_ratio: bool = True
    """Whether the divergence is weighted by the ratio, which makes its gradient correct off-policy. Without it, the
    gradient of k1 has mean 0."""
    reference: ReferenceModel = "none"
    """Model that the divergence is measured against. adapter_off: the model without its adapter. copy: a copy of the
    loaded model."""

    distill_coef: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Weight of the divergence from a teacher that reads lessons: the mean over a step's tokens is added to the loss.
    0: no distillation. With --distill the default is 1."""
    distill_alpha: float = Field(default=1.0, ge=0, le=1)
    """Kind of that divergence. 1: reverse, KL(student || teacher); 0: forward, KL(teacher || student); between them
    the Jensen-Shannon divergence."""
    distill_top_k: int = Field(default=100, ge=1)
    """Number of the teacher's likeliest tokens that are told apart at each position. All others count as one."""
    teacher: TeacherWeights = "base"
    """Weights of the teacher. base: those at the start, as `reference` keeps them. live: the present ones before each
    update. ema: a moving average of the present ones."""
    teacher_update_rate: float = Field(default=0.05, gt=0, le=1)
    """With teacher=ema: share of the present weights in the average after each optimiser step."""
    guided_share: float = Field(default=0.0, ge=0, lt=1)
    """Share of each group's rollouts that are sampled with the lessons, for behaviour that the model never shows
    without them. They are learned from as the others, but not by their rewards."""
    stop_at_length: float = Field(default=0.5, ge=0, lt=1)
    """The run ends when answers have shrunk to this share of their length in the first updates; 0: never."""
    stop_at_kl: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The run ends when the mean divergence from the reference in an update is above this, in nats per token; needs kl.
    None: never."""

    stop_after_equal: int | None = Field(default=None, ge=1, le=1000)
    """The run ends when in this many updates in a row at most a tenth of the groups had different rewards: there is
    hardly anything left to learn. None: never; a note says so after 5 such updates."""
    largest_difference: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The run ends, without publishing, when sampler and trainer give the tokens of an update log-probabilities that
    differ by more than this on average, in nats. None: 0.002 where both compute in fp32; 0.1 with dtype=bf16, a vLLM
    server or lora_dropout."""

    importance_sampling: Importance = "token_truncate"
    """Correction for differences between the sampler's and the trainer's probabilities: the ratio of each token or of
    the whole sequence, limited to the cap (truncate) or set to 0 above it (mask)."""
    importance_cap: float = Field(default=2.0, ge=1)
    """Largest correction: larger ones are limited to it or set to 0."""
    importance_floor: float | None = Field(default=None, gt=0, lt=1)
    """Smallest correction: smaller ones are raised to it (truncate) or set to 0 (mask). None: no bound."""
    off_policy_mask_threshold: float | None = Field(default=None, gt=0)
    """Rows with a negative advantage lose their policy loss when their tokens' mean log-probability has fallen by more
    than this since they were sampled (DeepSeek-V3.2, arXiv:2512.02556). None: no row is masked."""

    entropy_coef: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Weight of the mean entropy of a step's tokens, which is subtracted from the loss."""
    entropy_target: float | None = Field(default=None, gt=0)
    """Adaptive entropy (Skywork-OR1, arXiv:2505.22312): entropy_coef rises after each step whose entropy in nats is at
    most this, falls after the others, and counts only while the entropy is at most this. None: it is constant."""
    entropy_coef_delta: float = Field(default=0.005, gt=0, allow_inf_nan=False)
    """With entropy_target: change of entropy_coef after each step."""
    entropy_coef_min: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """With entropy_target: smallest entropy_coef."""
    entropy_coef_max: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """With entropy_target: largest entropy_coef."""
    top_entropy_quantile: float = Field(default=1.0, ge=0, le=1)
    """Share of a step's tokens, those with the highest entropy, that get a policy loss (arXiv:2506.01939)."""

    iterations: int = Field(default=1, ge=1, le=64)
    """Number of passes over each batch."""
    minibatches: int = Field(default=1, ge=1, le=1024)
    """Number of optimiser steps in one pass."""
    tokens_per_microbatch: int | None = Field(default=None, ge=1)
    """Tokens in one forward pass, padding included; a longer row is computed alone. Affects memory, not gradients.
    None: as many as the free memory allows, up to 8,192 on a CPU and 65,536 on a GPU."""
    packing: bool | None = None
    """Lay the rows of a forward pass end to end instead of padding them. None: only with flash attention. Other kinds
    of attention compute the whole square of the packed length. Refused for models that do not keep the rows apart."""
    share_prompts: bool = False
    """Compute the prompt of a group once, with all its answers behind it: less work where prompts are long and answers
    short. Needs layers that see all tokens before them, and attention that takes masks (sdpa or eager)."""
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
    min_p: float = Field(default=0.0, ge=0, le=1)
    """Min-p of the sampler: it leaves out tokens whose probability is below this share of the likeliest token's; 0: all
    tokens (arXiv:2407.01082)."""

    dtype: Literal["fp32", "bf16"] = "fp32"
    """Number format of products and of frozen weights. Trained weights are fp32, unless master_weights is false."""
    master_weights: bool = True
    """Whether trained weights are fp32. False, with dtype=bf16 and no adapter: they are bf16 too. This saves a fifth of
    the memory for weights, gradients and AdamW. A step rounds each weight up or down by chance, so that small changes
    add up."""
    gradient_checkpointing: bool = False
    """Recompute layers in the backward pass: less memory, about a third more time."""

    lora_rank: int = Field(default=0, ge=0, le=4096)
    """Rank of the LoRA adapter to train; 0: train all weights of a model, or an adapter on as it is."""
    lora_alpha: float = Field(default=32.0, gt=0)
    """Scale of the adapter's output: alpha / rank."""
    lora_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout on the adapter's inputs in training."""
    lora_targets: Annotated[tuple[str, ...], BeforeValidator(_as_names)] = Field(default=("all-linear",), min_length=1)
    """Names of the layers that get an adapter; all-linear: all linear layers except the head."""

    @property
    def distils(self) -> bool:
        """Whether lessons are distilled into the weights."""
        return self.distill_coef > 0

    @property
    def passes(self) -> int:
        """Number of optimiser steps per batch."""
        return self.iterations * self.minibatches

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (contradiction := next(self._contradictions(), None)) is not None:
            raise ConfigError(contradiction, code="contradiction")
        return self

    def _changed(self, *names: str) -> Iterator[str]:
        """Those of the settings that do not have their default."""
        return (name for name in names if getattr(self, name) != type(self).model_fields[name].default)

    def _contradictions(self) -> Iterator[str]:
        """What does not go together, as error messages."""
        cut = f"a sampler with top_p={self.top_p}, top_k={self.top_k} and min_p={self.min_p}"
        cuts = self.top_p < 1 or self.top_k > 0 or self.min_p > 0
        if self.importance_sampling != "none" and cuts:
            yield (
                f"importance_sampling is {self.importance_sampling!r}, but {cut} excludes tokens and does not report"
                " the resulting probabilities; set top_p=1, top_k=0 and min_p=0, or importance_sampling=none"
            )
        if self.off_policy_mask_threshold is not None and cuts:
            yield (
                f"off_policy_mask_threshold is {self.off_policy_mask_threshold}, but {cut} does not report the"
                " probabilities that it is measured with; set top_p=1, top_k=0 and min_p=0, or leave it out"
            )
        if self.importance_sampling == "none" and self.importance_floor is not None:
            yield (
                f"importance_floor is {self.importance_floor}, but importance_sampling=none corrects nothing; "
                "set importance_sampling, or leave importance_floor out"
            )
        if self.kl != "none" and self.reference == "none":
            yield f"kl is {self.kl!r}, but there is no reference; set reference=adapter_off or copy"
        if self.kl != "none" and self.kl_beta == 0:
            yield f"kl is {self.kl!r}, but kl_beta=0 gives it no weight; set kl_beta, or kl=none"
        if self.kl == "none" and self.kl_beta > 0:
            yield f"kl_beta is {self.kl_beta}, but kl=none estimates no divergence; set kl=k3, or kl_beta=0"
        if self.kl == "none" and self.reference != "none" and not (self.distils and self.teacher == "base"):
            yield f"reference is {self.reference!r}, but kl=none does not use it; set kl and kl_beta, or reference=none"
        if self.delta is not None and self.delta <= 1 + self.eps_high:
            yield (
                f"delta is {self.delta}, but ratios are clipped at {1 + self.eps_high:g} already; "
                "give a delta above 1 + eps_high"
            )
        if self.overlong == "punish" and self.overlong_window is None:
            yield "overlong is 'punish', but there is no window over which the penalty rises; set overlong_window"
        if self.overlong != "punish" and self.overlong_window is not None:
            yield f"overlong_window is {self.overlong_window}, but overlong is {self.overlong!r}; set overlong=punish"
        if not self.master_weights and self.dtype != "bf16":
            yield f"master_weights is false, but dtype is {self.dtype!r}; set dtype=bf16, or leave master_weights out"
        if not self.master_weights and self.lora_rank > 0:
            yield (
                f"master_weights is false, but with lora_rank={self.lora_rank} only the small adapter is fp32; leave "
                "master_weights out, or set lora_rank=0"
            )
        if not self.master_weights and self.optimizer == "sgd":
            yield "master_weights is false, but optimizer=sgd would round small steps away; set optimizer=adamw"
        if self.dynamic_sampling_limit is not None and self.schedule != "constant":
            yield (
                f"schedule is {self.schedule!r} and falls to 0 at the last step, but with dynamic_sampling_limit the "
                "number of steps is not known before; set schedule=constant, or leave dynamic_sampling_limit out"
            )
        if self.entropy_target is None:
            for name in self._changed("entropy_coef_delta", "entropy_coef_min", "entropy_coef_max"):
                yield (
                    f"{name} is {getattr(self, name)}, but entropy_coef changes only with a target; set "
                    f"entropy_target, or leave {name} out"
                )
        elif not self.entropy_coef_min <= self.entropy_coef <= self.entropy_coef_max:
            yield (
                f"entropy_coef is {self.entropy_coef}, but with entropy_target it stays between entropy_coef_min="
                f"{self.entropy_coef_min} and entropy_coef_max={self.entropy_coef_max}; give a value between them"
            )
        yield from self._of_distillation()
        names = [name for name in self.rewards if not all(name.partition(":"))]
        each = self.reward_combination == "normalise_then_sum"
        if names:
            yield (
                f"rewards names {', '.join(map(repr, names))}, but a further reward is a function; write"
                " module:function"
            )
        if not self.rewards and (self.reward_weight != 1 or each):
            yield (
                f"reward_weight is {self.reward_weight} and reward_combination is {self.reward_combination!r}, but "
                "there is only one reward; add rewards, or leave both out"
            )
        if each and self.advantages != "group":
            yield (
                f"advantages is {self.advantages!r}, but reward_combination=normalise_then_sum has an advantage of "
                "its own; leave advantages out, or set reward_combination=sum_then_normalise"
            )
        if self.advantages == "max_rl" and self.overlong == "punish":
            yield (
                "advantages is 'max_rl', which needs rewards of at least 0, but overlong=punish makes rewards "
                "negative; set overlong=mask, or other advantages"
            )

    def _of_distillation(self) -> Iterator[str]:
        """What does not go together with a teacher, or without one."""
        only = ("distill_alpha", "distill_top_k", "teacher", "teacher_update_rate")
        if not self.distils:
            for name in self._changed(*only, "guided_share", "stop_at_length", "stop_at_kl"):
                yield (
                    f"{name} is {getattr(self, name)!r}, but no lessons are distilled; give a library with --distill,"
                    f" or leave {name} out"
                )
        if self.distils and self.teacher == "base" and self.reference == "none":
            yield (
                "teacher is 'base', but no weights of the start are kept; set reference=adapter_off for a new adapter,"
                " or reference=copy"
            )
        if getattr(self, "loss", "") == "distill" and self.stop_after_equal is not None:
            yield (
                f"stop_after_equal is {self.stop_after_equal}, but loss=distill does not learn from rewards; leave"
                " stop_after_equal out"
            )
        if self.teacher != "ema" and any(self._changed("teacher_update_rate")):
            yield f"teacher_update_rate is {self.teacher_update_rate}, but teacher is {self.teacher!r}; set teacher=ema"
        if self.distils and self.dynamic_sampling_limit is not None:
            yield (
                f"dynamic_sampling_limit is {self.dynamic_sampling_limit}, but it leaves out groups without an"
                " advantage, which lessons can be distilled from too; leave dynamic_sampling_limit out"
            )
        if self.stop_at_kl is not None and self.kl == "none":
            yield (
                f"stop_at_kl is {self.stop_at_kl}, but kl=none measures no divergence; set kl=k3, kl_beta and reference"
            )


class GRPOArguments(GradientArguments):
    """Settings of losses that have a ratio per token: GRPO (group relative policy optimisation) and its variants."""

    loss: Literal["grpo", "dr_grpo", "bnpo", "dapo", "cispo", "sapo", "vespo", "distill"] = "dapo"
    """Loss: how token losses are averaged, and for cispo, sapo and vespo also the token loss. distill: rewards are not
    learned from, only the lessons of a library."""
    cispo_cap: float = Field(default=5.0, gt=0)
    """For cispo: largest ratio that weights a token's gradient (arXiv:2506.13585)."""
    completion_length: int | None = Field(default=None, ge=1)
    """For dr_grpo: constant length that it divides by, the largest number of tokens of a rollout."""
    sapo_temperature_pos: float = Field(default=1.0, gt=0)
    """For sapo (arXiv:2511.20347): how fast tokens with a positive advantage lose weight as their ratio leaves 1."""
    sapo_temperature_neg: float = Field(default=1.05, gt=0)
    """For sapo: the same for tokens with a negative advantage."""
    vespo_k_pos: float = Field(default=2.0, ge=0)
    """For vespo (arXiv:2602.10693), advantage at least 0: how fast rows lose weight as their ratio falls below 1."""
    vespo_lambda_pos: float = Field(default=3.0, ge=1e-4)
    """For vespo, advantage at least 0: how fast rows lose weight as their ratio rises above 1."""
    vespo_k_neg: float = Field(default=3.0, ge=0)
    """For vespo, negative advantage: how fast rows lose weight as their ratio falls below 1."""
    vespo_lambda_neg: float = Field(default=2.0, ge=1e-4)
    """For vespo, negative advantage: how fast rows lose weight as their ratio rises above 1."""

    def _contradictions(self) -> Iterator[str]:
        yield from super()._contradictions()
        bounded = {
            "cispo": "bounds its ratio by cispo_cap",
            "sapo": "has a smooth bound",
            "vespo": "has a smooth bound",
            "distill": "has no ratio",
        }
        if self.loss in bounded:
            for name in self._changed("delta", "eps_low", "eps_high"):
                yield f"{name} is {getattr(self, name)}, but {self.loss} {bounded[self.loss]}; leave {name} out"
        if (self.loss == "dr_grpo") != (self.completion_length is not None):
            yield (
                f"loss is {self.loss!r} and completion_length is {self.completion_length}, but only dr_grpo "
                "divides by it, and needs it; set it to the largest number of tokens of a rollout, or leave it out"
            )
        if self.loss == "distill" and not self.distils:
            yield "loss is 'distill', but no lessons are distilled; give a library with --distill, or another loss"
        if self.loss == "vespo" and self.importance_sampling.startswith("sequence"):
            yield (
                f"importance_sampling is {self.importance_sampling!r}, but vespo takes the ratio of the whole "
                "sequence from the ratios of its tokens; set token_truncate, token_mask or none"
            )
        for loss in ("cispo", "sapo", "vespo"):
            own = (name for name in type(self).model_fields if name.startswith(f"{loss}_"))
            for name in self._changed(*own) if self.loss != loss else ():
                yield (
                    f"{name} is {getattr(self, name)}, but loss is {self.loss!r}, which does not use it; set"
                    f" loss={loss}, or leave it out"
                )


class GSPOArguments(GradientArguments):
    """Settings of losses that have one ratio per sequence, the geometric mean over its tokens.

    GSPO: arXiv:2507.18071. LUSPO, which does not divide a row's loss by its length: arXiv:2602.05261.
    """

    loss: Literal["gspo", "luspo"] = "gspo"
    """Loss: gspo takes the mean over a row's tokens, luspo the sum."""
    eps_low: float = Field(default=3e-4, ge=0, lt=1)
    """Clipping from below: a sequence ratio below 1 - eps_low no longer lowers the probability of a bad sequence."""
    eps_high: float = Field(default=4e-4, ge=0)
    """Clipping from above: a sequence ratio above 1 + eps_high no longer raises the probability of a good sequence."""


Arguments = GRPOArguments | GSPOArguments


def gradient_arguments(fields: Mapping[str, Any]) -> Arguments:
    """Return the arguments from options or a recipe; the loss selects the class. Raises ConfigError."""
    return given_settings(GSPOArguments if fields.get("loss") in ("gspo", "luspo") else GRPOArguments, fields)
