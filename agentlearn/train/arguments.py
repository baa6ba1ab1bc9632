"""Settings of a weight update: `GradientArguments`, with those of the loss in a model of their own.

They do not need torch, so recipes are checked before torch is imported.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from agentlearn.config import OptionGroup, given_settings
from agentlearn.config.solve_options import FunctionName, function_name
from agentlearn.domain.custom.own_functions import OwnKind, check_function
from agentlearn.errors import ConfigError

LossName = Literal["grpo", "dr_grpo", "bnpo", "dapo", "cispo", "sapo", "vespo", "gspo", "luspo", "distill"]
Divergence = Literal["none", "k1", "k2", "k3"]
Importance = Literal["none", "token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]
Scaling = Literal["group", "batch", "none", "leave_one_out", "max_rl"]
Combination = Literal["sum_then_normalise", "normalise_then_sum"]
ReferenceModel = Literal["none", "adapter_off", "copy", "follow"]
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


class LossSettings(OptionGroup):
    """Settings of every loss, and all those of `distill`."""

    kl_ratio: bool = True
    """Whether the divergence is weighted by the ratio, which makes its gradient correct off-policy. Without it, the
    gradient of k1 has mean 0."""
    off_policy_mask_threshold: float | None = Field(default=None, gt=0)
    """Rows with a negative advantage lose their policy loss when their tokens' mean log-probability has fallen by more
    than this since they were sampled (DeepSeek-V3.2, arXiv:2512.02556). None: no row is masked."""


class Clipping(LossSettings):
    """GRPO (group relative policy optimisation) and its variants, which clip the ratio of each token."""

    eps_low: float = Field(default=0.2, ge=0, lt=1)
    """Clipping from below: a ratio below 1 - eps_low no longer lowers the probability of a bad token."""
    eps_high: float = Field(default=0.28, ge=0)
    """Clipping from above: a ratio above 1 + eps_high no longer raises the probability of a good token (clip-higher,
    DAPO, arXiv:2503.14476)."""
    delta: float | None = Field(default=None, gt=1)
    """Upper bound of the ratio for advantages of either sign (arXiv:2505.07291). None: no bound."""

    @model_validator(mode="after")
    def _free_above_the_clip(self) -> Self:
        if self.delta is not None and self.delta <= 1 + self.eps_high:
            raise ConfigError(
                f"delta is {self.delta}, but ratios are clipped at {1 + self.eps_high:g} already; give a delta above 1"
                " + eps_high"
            )
        return self


class ConstantLength(Clipping):
    """Dr. GRPO, which clips the ratio of each token and divides by a constant length."""

    completion_length: int = Field(ge=1)
    """Length that it divides by: the largest number of tokens of a rollout."""


class SequenceClipping(Clipping):
    """Losses that clip one ratio per sequence, the geometric mean over its tokens.

    It changes about a hundred times less than that of a token. GSPO: arXiv:2507.18071. LUSPO, which does not divide a
    row's loss by its length: arXiv:2602.05261.
    """

    eps_low: float = Field(default=3e-4, ge=0, lt=1)
    """Clipping from below: a sequence ratio below 1 - eps_low no longer lowers the probability of a bad sequence."""
    eps_high: float = Field(default=4e-4, ge=0)
    """Clipping from above: a sequence ratio above 1 + eps_high no longer raises the probability of a good sequence."""


class Cispo(LossSettings):
    """CISPO, which caps the weight of a token's gradient (arXiv:2506.13585)."""

    cap: float = Field(default=5.0, gt=0)
    """Largest ratio that weights a token's gradient."""


class Sapo(LossSettings):
    """SAPO, which has a smooth bound (arXiv:2511.20347)."""

    temperature_pos: float = Field(default=1.0, gt=0)
    """How fast tokens with a positive advantage lose weight as their ratio leaves 1."""
    temperature_neg: float = Field(default=1.05, gt=0)
    """The same for tokens with a negative advantage."""


class Vespo(LossSettings):
    """VESPO, which has a smooth bound for whole rows (arXiv:2602.10693)."""

    k_pos: float = Field(default=2.0, ge=0)
    """Advantage at least 0: how fast rows lose weight as their ratio falls below 1."""
    lambda_pos: float = Field(default=3.0, ge=1e-4)
    """Advantage at least 0: how fast rows lose weight as their ratio rises above 1."""
    k_neg: float = Field(default=3.0, ge=0)
    """Negative advantage: how fast rows lose weight as their ratio falls below 1."""
    lambda_neg: float = Field(default=2.0, ge=1e-4)
    """Negative advantage: how fast rows lose weight as their ratio rises above 1."""


LOSS_SETTINGS: Mapping[str, type[LossSettings]] = {
    **dict.fromkeys(("grpo", "bnpo", "dapo"), Clipping),
    **dict.fromkeys(("gspo", "luspo"), SequenceClipping),
    "dr_grpo": ConstantLength,
    "cispo": Cispo,
    "sapo": Sapo,
    "vespo": Vespo,
    "distill": LossSettings,
}
"""The model of the settings of each loss."""


class Distillation(OptionGroup):
    """Settings of the divergence from a teacher that reads lessons."""

    coef: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Weight of the divergence: the mean over a step's tokens is added to the loss. 0: no distillation. With --distill
    the default is 1."""
    alpha: float = Field(default=1.0, ge=0, le=1)
    """Kind of that divergence. 1: reverse, KL(student || teacher); 0: forward, KL(teacher || student); between them
    the Jensen-Shannon divergence."""
    top_k: int = Field(default=100, ge=1)
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


class GradientArguments(OptionGroup):
    """Settings of an update."""

    help_group = "Weights"
    common = ("loss", "learning_rate", "lora_rank")

    loss: LossName | FunctionName = "dapo"
    """Loss. distill: rewards are not learned from, only the lessons of a library. Or one of your own, as
    module:function or the name that a package announces (`OwnLoss` in `train/update/losses.py`)."""
    loss_settings: SerializeAsAny[LossSettings] = Field(default_factory=Clipping)
    """Settings of that loss: in a recipe a mapping, with --set loss_settings.NAME=VALUE."""
    distillation: Distillation = Field(default_factory=Distillation)
    """Settings of distillation: in a recipe a mapping, with --set distillation.NAME=VALUE."""
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

    advantages: Scaling | FunctionName = "group"
    """How advantages follow from rewards. group, batch, none: rewards minus their group's mean, divided by the std of
    the group, by that of the batch, or by nothing. leave_one_out: rewards minus the mean of the group's other rewards.
    max_rl: rewards minus their group's mean, divided by that mean (arXiv:2602.02710). Or a function of your own, as
    module:function or the name that a package announces: it gets the rewards of a group and returns as many numbers."""
    advantage_eps: float = Field(default=1e-6, gt=0, le=1)
    """Added to the std that advantages are divided by."""
    rewards: RewardWeights = Field(default_factory=dict[str, float])
    """Further rewards and their weights: functions of yours, called with every answer. In a recipe a mapping of
    module:function, or of the name that a package announces, to its weight; with --set the text
    module:function=WEIGHT,…"""
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
    reference: ReferenceModel = "none"
    """Model that the divergence is measured against. adapter_off: the model without its adapter. copy: a copy of the
    loaded model. follow: such a copy that moves towards the weights in training (TR-DPO, arXiv:2404.09656)."""
    reference_steps: int = Field(default=512, ge=1)
    """With reference=follow: number of optimiser steps between two moves."""
    reference_rate: float = Field(default=0.6, gt=0, le=1)
    """With reference=follow: share of the present weights in the reference after a move."""

    stop_after_equal: int | None = Field(default=None, ge=1, le=1000)
    """The run ends when in this many updates in a row at most a tenth of the groups had different rewards: there is
    hardly anything left to learn. None: never; a note says so after 5 such updates."""
    stop_at_entropy: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The run ends when the sampled tokens of an update have a mean entropy below this, in nats: the model says nearly
    the same each time. None: never; weights with a tenth of the first entropy and no higher rewards are not published.
    """
    largest_difference: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The run ends, without publishing, when sampler and trainer give the tokens of an update log-probabilities that
    differ by more than this on average, in nats, or those of one row of N tokens by more than 1 + 8 / sqrt(N) times as
    much. None: 0.002 where both compute in fp32; 0.1 with dtype=bf16 or a vLLM server."""

    importance_sampling: Importance = "token_truncate"
    """Correction for differences between the sampler's and the trainer's probabilities: the ratio of each token or of
    the whole sequence, limited to the cap (truncate) or set to 0 above it (mask)."""
    importance_cap: float = Field(default=2.0, ge=1)
    """Largest correction: larger ones are limited to it or set to 0."""
    importance_floor: float | None = Field(default=None, gt=0, lt=1)
    """Smallest correction: smaller ones are raised to it (truncate) or set to 0 (mask). None: no bound."""
    entropy_coef: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Weight of the mean entropy of a step's tokens, which is subtracted from the loss."""
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

    overlong: Literal["train", "mask"] = "train"
    """Treatment of rollouts that were cut at a limit of tokens: train them, or mask their tokens."""
    overlong_window: int | None = Field(default=None, ge=1)
    """Number of tokens before the limit over which a penalty rises from 0 to 1 that is taken off the reward (DAPO,
    arXiv:2503.14476). None: no penalty."""

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
        return self.distillation.coef > 0

    @property
    def own_loss(self) -> bool:
        """Whether the loss is a function of the user's own."""
        return self.loss not in LOSS_SETTINGS

    @property
    def own_functions(self) -> tuple[tuple[str, OwnKind], ...]:
        """The functions of the user's own: the name of each, and what it is."""
        rewards: list[tuple[str, OwnKind]] = [(name, "reward") for name in self.rewards]
        loss: list[tuple[str, OwnKind]] = [(self.loss, "loss")] * self.own_loss
        scaled: list[tuple[str, OwnKind]] = [(self.advantages, "advantage")]
        return (*rewards, *loss, *(scaled if self.advantages not in get_args(Scaling) else ()))

    @property
    def couples_rows(self) -> bool:
        """Whether the loss of a token depends on all rows of its rollout, which must be computed together."""
        own, by_sequence = self.loss_settings, self.importance_sampling.startswith("sequence")
        return isinstance(own, SequenceClipping | Vespo) or own.off_policy_mask_threshold is not None or by_sequence

    @property
    def passes(self) -> int:
        """Number of optimiser steps per batch."""
        return self.iterations * self.minibatches

    @model_validator(mode="before")
    @classmethod
    def _with_loss(cls, fields: Any) -> Any:
        """Read the settings of the loss as those of its own model. Raises ConfigError for one that stands elsewhere."""
        given = with_groups(fields)
        loss = function_name(given.get("loss", "dapo"))
        if not isinstance(loss, str):
            return given
        kind = LOSS_SETTINGS.get(loss, LossSettings)
        foreign = [f"loss_settings.{name}" for name in given["loss_settings"].keys() - kind.model_fields]
        for name in (*(given.keys() - cls.model_fields), *foreign):
            if place := _place(name.rpartition(".")[2], loss):
                raise ConfigError(f"there is no setting {name!r}; write {place}")
        own = given_settings(kind, given["loss_settings"], group="loss_settings.")
        told = given_settings(Distillation, given["distillation"], group="distillation.")
        return {**given, "loss_settings": own, "distillation": told}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (contradiction := next(self._contradictions(), None)) is not None:
            raise ConfigError(contradiction)
        return self

    def _contradictions(self) -> Iterator[str]:
        """What does not go together, as error messages."""
        cut = f"a sampler with top_p={self.top_p}, top_k={self.top_k} and min_p={self.min_p}"
        cuts = self.top_p < 1 or self.top_k > 0 or self.min_p > 0
        if self.importance_sampling != "none" and cuts:
            yield (
                f"importance_sampling is {self.importance_sampling!r}, but {cut} excludes tokens and does not report"
                " the resulting probabilities; set top_p=1, top_k=0 and min_p=0, or importance_sampling=none"
            )
        if self.loss_settings.off_policy_mask_threshold is not None and cuts:
            yield (
                f"off_policy_mask_threshold is {self.loss_settings.off_policy_mask_threshold}, but {cut} does not"
                " report the probabilities that it is measured with; set top_p=1, top_k=0 and min_p=0, or leave it out"
            )
        if self.loss == "vespo" and self.importance_sampling.startswith("sequence"):
            yield (
                f"importance_sampling is {self.importance_sampling!r}, but vespo takes the ratio of the whole "
                "sequence from the ratios of its tokens; set token_truncate, token_mask or none"
            )
        if self.importance_sampling == "none" and self.importance_floor is not None:
            yield (
                f"importance_floor is {self.importance_floor}, but importance_sampling=none corrects nothing; "
                "set importance_sampling, or leave importance_floor out"
            )
        parts = [self.kl != "none", self.kl_beta > 0, self.reference != "none"]
        if len({*(parts[:2] if self.distils and self.distillation.teacher == "base" else parts)}) > 1:
            yield (
                f"kl is {self.kl!r}, kl_beta is {self.kl_beta:g} and reference is {self.reference!r}, but a divergence"
                " needs all three; set each, such as kl=k3, kl_beta=0.01 and reference=copy, or leave all out"
            )
        moves = {name: getattr(self, name) for name in ("reference_steps", "reference_rate")}
        if self.reference != "follow" and any(type(self).model_fields[name].default != moves[name] for name in moves):
            yield f"reference is {self.reference!r}, but {moves} move one that follows; set reference=follow"
        fits = self.dtype == "bf16" and self.lora_rank == 0 and self.optimizer == "adamw"
        if not self.master_weights and not fits:
            yield (
                f"master_weights is false, but dtype is {self.dtype}, lora_rank is {self.lora_rank} and optimizer is"
                f" {self.optimizer}; set dtype=bf16, lora_rank=0 and optimizer=adamw, or leave master_weights out"
            )
        if self.dynamic_sampling_limit is not None and self.schedule != "constant":
            yield (
                f"schedule is {self.schedule!r} and falls to 0 at the last step, but with dynamic_sampling_limit the "
                "number of steps is not known before; set schedule=constant, or leave dynamic_sampling_limit out"
            )
        yield from self._of_distillation()
        each = self.reward_combination == "normalise_then_sum"
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
        if self.advantages == "max_rl" and self.overlong_window is not None:
            yield (
                "advantages is 'max_rl', which needs rewards of at least 0, but overlong_window makes rewards negative;"
                " leave it out, set overlong=mask, or other advantages"
            )

    def _of_distillation(self) -> Iterator[str]:
        """What does not go together with a teacher, or without one."""
        told = self.distillation
        if not self.distils and (self.loss == "distill" or told != Distillation()):
            changed = told.model_dump(exclude_defaults=True) or "its defaults"
            yield (
                f"loss is {self.loss!r} and distillation has {changed}, but no lessons are distilled; give a library"
                " with --distill, or leave both out"
            )
        if self.distils and told.teacher == "base" and self.reference in {"none", "follow"}:
            yield (
                "teacher is 'base', but no weights of the start are kept; set reference=adapter_off for a new adapter,"
                " or reference=copy"
            )
        if self.loss == "distill" and self.stop_after_equal is not None:
            yield (
                f"stop_after_equal is {self.stop_after_equal}, but loss=distill does not learn from rewards; leave"
                " stop_after_equal out"
            )
        if told.teacher != "ema" and "teacher_update_rate" in told.model_dump(exclude_defaults=True):
            yield f"teacher_update_rate is {told.teacher_update_rate}, but teacher is {told.teacher!r}; set teacher=ema"
        if self.distils and self.dynamic_sampling_limit is not None:
            yield (
                f"dynamic_sampling_limit is {self.dynamic_sampling_limit}, but it leaves out groups without an"
                " advantage, which lessons can be distilled from too; leave dynamic_sampling_limit out"
            )
        if told.stop_at_kl is not None and self.kl == "none":
            yield (
                f"stop_at_kl is {told.stop_at_kl}, but kl=none measures no divergence; set kl=k3, kl_beta and reference"
            )


def with_groups(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the mappings of both groups, also with what is named `GROUP.NAME`. Raises ConfigError."""
    given = dict(fields)
    for group in ("loss_settings", "distillation"):
        own = given.get(group) or {}
        if not isinstance(own, Mapping):
            raise ConfigError(f"{group} is {own!r}; write a mapping of settings, or --set {group}.NAME=VALUE")
        dotted = [name for name in given if name.startswith(f"{group}.")]
        given[group] = {**own, **{name.removeprefix(f"{group}."): given.pop(name) for name in dotted}}
    return given


def _place(name: str, loss: str) -> str:
    """Return where the setting of that bare name stands; empty for an unknown one. loss: which has precedence."""
    if (inner := name.removeprefix("distill_")) in Distillation.model_fields:
        return f"distillation.{inner}"
    for one, kind in ((loss, LOSS_SETTINGS.get(loss, LossSettings)), *LOSS_SETTINGS.items()):
        if (inner := name.removeprefix(f"{one}_")) in kind.model_fields:
            return f"loss_settings.{inner}" + ("" if one == loss else f" with loss={one}")
    return ""


def gradient_arguments(fields: Mapping[str, Any]) -> GradientArguments:
    """Return the arguments from options or a recipe. Raises ConfigError, also for names that no function has."""
    found = given_settings(GradientArguments, fields)
    known = {"loss": LOSS_SETTINGS, "advantage": get_args(Scaling)}
    for name, what in found.own_functions:
        if ":" not in name:
            check_function(name, what, own=known.get(what, ()))
    return found
