"""Updating weights: optimiser steps from one batch of training rows."""

import gc
import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.distributed.sharding import Processes, Reduction, gather_optimizer, is_sharded, shard_optimizer
from agentlearn.train.update.logprob_model import LogprobModel, device_of
from agentlearn.train.update.losses import TeacherScores, TokenScores, loss_share, own_loss, row_weights, token_losses
from agentlearn.train.update.memory_plan import (
    MemoryPlan,
    RowMemory,
    fixed_bytes,
    longest_row,
    memory_at_hand,
    said_when_out_of_memory,
)
from agentlearn.train.update.metrics import Meter, StepMetrics, highest_entropies, peak_memory_mib
from agentlearn.train.update.microbatch import (
    MicroBatch,
    canonical_order,
    check_rows,
    divide_rows,
    forward_length,
    packs_rows,
    plan_microbatches,
    plan_shared,
    shares_prompts,
)
from agentlearn.train.update.rounded_adamw import AverageWeights, RoundedAdamW
from agentlearn.train.update.sequences import TrainingRow
from agentlearn.types.ids import derive_seed


@dataclass(frozen=True, slots=True, eq=False)
class _ScoredBatch:
    """A micro-batch, with values that are the same in all passes."""

    batch: MicroBatch
    weights_B: Tensor
    old_N: Tensor | None
    """Under the old weights, as the ratio needs it; None: as the pass itself computes it."""
    exact_N: Tensor | None
    """Under the old weights without dropout; None: `old_N`, because there is no dropout."""
    reference_N: Tensor | None
    idle: bool
    """Whether it is computed only because other processes have one more; its weight is 0."""
    entropy_tokens: float
    """Number of tokens in the whole step whose entropy counts in the entropy bonus."""
    chosen_N: Tensor | None = None
    """Whether each token's entropy is high enough for a policy loss; None: all tokens have one."""
    teacher: TeacherScores | None = None
    """What the teacher gives; None without distillation."""

    @property
    def forward_inputs(self) -> tuple[Tensor | None, ...]:
        """What `LogprobModel` takes; with a teacher, its tokens are further targets."""
        ids_BT, places_N, targets_N, *layout = self.batch.forward_inputs
        if self.teacher is not None and targets_N is not None:
            targets_N = torch.cat([targets_N.unsqueeze(1), self.teacher.tokens_N_K], dim=1)
        return ids_BT, places_N, targets_N, *layout

    def scored(self, logprobs: Tensor) -> TokenScores:
        """logprobs: of the sampled tokens, shape (N,); with a teacher, also of its tokens, shape (N, 1 + K)."""
        logprobs_N = logprobs if self.teacher is None else logprobs[:, 0]
        old_N = logprobs_N.detach() if self.old_N is None else self.old_N
        return TokenScores(
            logprobs_N=logprobs_N,
            old_N=old_N,
            sampler_N=self.batch.sampler_N,
            reference_N=self.reference_N,
            row_N=self.batch.row_N,
            advantages_B=self.batch.advantages_B,
            weights_B=self.weights_B,
            comparable_B=self.batch.comparable_B,
            rollout_N=self.batch.rollout_B[self.batch.row_N],
            before_N=old_N if self.exact_N is None else self.exact_N,
            numbers_B=self.batch.numbers_B,
            chosen_N=self.chosen_N,
            teacher=self.teacher,
            student_N_K=None if self.teacher is None else logprobs[:, 1:],
        )


class Updater:
    """Trains a model's weights on rows. With several processes, each gets all rows and computes its share."""

    def __init__(
        self,
        model: nn.Module,
        arguments: GradientArguments,
        *,
        reference: nn.Module | None = None,
        total_steps: int | None = None,
        accelerator: Any = None,
    ) -> None:
        """model: a causal language model, with adapters or without; its trainable weights are trained.

        reference: copy that a divergence is measured against; None when there is none, or when it is the model without
        its adapter. total_steps: number of optimiser steps of the run, needed by a falling schedule. accelerator: an
        `accelerate.Accelerator` under `torchrun`. Raises ConfigError.
        """
        if (arguments.reference == "copy") != (reference is not None):
            wanted = "needs" if reference is None else "does not use"
            raise ConfigError(
                f"reference={arguments.reference} {wanted} a reference model; load it with `load_reference_model`"
            )
        if arguments.reference == "adapter_off" and not hasattr(model, "disable_adapter"):
            raise ConfigError(
                f"reference=adapter_off needs a model with an adapter, and {type(model).__name__} has none; load it "
                "with `load_for_training`"
            )
        if arguments.schedule != "constant" and total_steps is None:
            raise ConfigError(
                f"schedule={arguments.schedule} falls to 0 at the last step; pass total_steps, or set schedule=constant"
            )
        self.arguments = arguments
        self._users_loss = own_loss(arguments.loss) if arguments.own_loss else None
        self.steps = 0
        """Number of optimiser steps so far."""
        self.skipped = 0
        """Number of optimiser steps skipped because the loss or gradient was not finite."""
        self.batches = 0
        """Number of calls of `step` so far."""
        self._total = total_steps
        self._averages: dict[str, AverageWeights] = {}
        """Weights that follow those in training: of a teacher, and of a reference."""
        self._processes = Processes(accelerator)
        scorer = LogprobModel(model, temperature=arguments.temperature, logits_mib=arguments.logits_mib)
        self._vocabulary = scorer.vocabulary
        # Gradients of all micro-batches add up in fp32, also for weights in bf16, where a sum of hundreds of gradients
        # would lose the small ones. Several processes exchange them in the format of the weights.
        for one in model.parameters() if self._processes.count == 1 else ():
            if one.requires_grad and one.dtype == torch.bfloat16 and hasattr(one, "grad_dtype"):
                one.grad_dtype = torch.float32
        precision = self._precision_on(device_of(model))
        self._shared = shares_prompts(scorer, arguments, precision)
        self._packed = not self._shared and packs_rows(scorer, arguments, precision)
        memory = RowMemory.measured(scorer, precision, packed=self._packed or self._shared)
        self._scorer, self.optimizer = self._processes.prepare(scorer, _optimizer(model, arguments))
        if self._processes.count > 1:
            self._packed, memory = self._agreed(memory)
        told, unwrapped = arguments.distillation, self._processes.unwrap(self._scorer)
        if arguments.distils and told.teacher == "ema":
            self._averages["teacher"] = AverageWeights(unwrapped, told.teacher_update_rate)
        if arguments.reference == "follow":
            self._averages["reference"] = AverageWeights(unwrapped, arguments.reference_rate)
        self._reference = None
        if reference is not None:
            self._reference = LogprobModel(
                reference.to(device_of(model)), temperature=arguments.temperature, logits_mib=arguments.logits_mib
            )
        fixed, stepping = self._fixed_bytes()
        self.memory = MemoryPlan.of(
            memory,
            arguments,
            at_hand=self._memory_at_hand(),
            fixed=fixed,
            stepping=stepping,
            gpu=device_of(model).type == "cuda",
        )
        """How many tokens are computed at once. A resumed run keeps the number it was started with."""

    @property
    def model(self) -> nn.Module:
        """The model in training, without accelerate's wrapper."""
        return cast("LogprobModel", self._processes.unwrap(self._scorer)).model

    @property
    def main(self) -> bool:
        """Whether this is the only or the first process, which writes files."""
        return self._processes.rank == 0

    def wait(self) -> None:
        """Wait until every process has called this."""
        self._processes.all_reduce(torch.zeros(1, device=device_of(self.model)), "sum")

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next optimiser step."""
        return self.arguments.learning_rate * rate_factor(self.arguments, self.steps, self._total)

    def step(
        self, rows: Sequence[TrainingRow], *, forks: int | None = None, zero_std_share: float | None = None
    ) -> StepMetrics:
        """Learn from one batch: `iterations` passes of `minibatches` optimiser steps; returns the metrics.

        Rows with advantage 0 count in the denominator, but are computed only if a divergence, an entropy bonus or the
        choice of tokens needs them; otherwise metrics over tokens do not include them. A step with only such rows is
        not made. A step whose loss or gradient is not finite is skipped. forks, zero_std_share: number of forked turns
        and share of groups with equal rewards, for metrics.
        Raises ConfigError for rows with missing log-probabilities, and when the memory does not suffice.
        """
        began_s = time.perf_counter()
        check_rows(rows, self._vocabulary)
        masks = self.arguments.overlong == "mask"
        kept = canonical_order([row for row in rows if row.trained and not (masks and row.overlong)])
        self._check_memory(kept)
        meter, before = Meter(), (self.steps, self.skipped)
        norms: list[float] = []
        rate = self.learning_rate
        with said_when_out_of_memory(self.arguments, self.memory.tokens):
            cut = divide_rows(kept, self.arguments.minibatches, (self.arguments.seed, self.batches))
            batch_tokens = sum(row.trained for row in kept) / max(1, len(cut))
            repeated = len(cut) * self.arguments.iterations > 1
            # Steps with nothing to learn are left out.
            work = [one for window in cut if (one := self._batches(window, batch_tokens, repeated=repeated))]
            for _ in range(self.arguments.iterations):
                norms += [self._optimise(batches, meter) for batches in work]
        self._scorer.eval()  # no dropout while the model is sampled from
        self.batches += 1
        seconds = time.perf_counter() - began_s
        tokens = sum(row.trained for row in kept)
        made = len(norms)
        figures = meter.figures(
            self._processes, device_of(self.model), cispo=self.arguments.loss == "cispo", steps=made
        )
        finite = [norm for norm in norms if math.isfinite(norm)]
        rollouts = {row.rollout: row for row in kept}.values()
        figures |= {
            "learning_rate": rate,
            "masked_token_share": 1 - tokens / max(1, sum(row.length for row in kept)),
            "tokens_per_s": tokens * self.arguments.iterations / seconds,
            "peak_memory_mib": peak_memory_mib(device_of(self.model)),
            "tokens_per_microbatch": float(self.memory.tokens),
            **({"grad_norm": sum(finite) / len(finite)} if finite else {}),
            **({"zero_advantage_share": sum(not one.advantage for one in rollouts) / len(rollouts)} if kept else {}),
            **({"reward": sum(one.reward for one in rollouts) / len(rollouts)} if kept else {}),
            **({"forks": float(forks)} if forks is not None else {}),
            **({"frac_reward_zero_std": zero_std_share} if zero_std_share is not None else {}),
        }
        return StepMetrics(
            steps=self.steps - before[0],
            skipped=self.skipped - before[1],
            rows=len(kept),
            masked=len(rows) - len(kept),
            tokens=tokens * self.arguments.iterations,
            seconds=seconds,
            figures=figures,
            farthest=kept[meter.farthest].rollout if meter.farthest >= 0 else None,
        )

    def release(self) -> None:
        """Free accelerate's wrappers before the processes disconnect. No further step can be made."""
        self._scorer = cast("LogprobModel", self._processes.unwrap(self._scorer))
        self._processes.release()
        gc.collect()

    def state_dict(self) -> dict[str, Any]:
        """The state that later steps depend on, except the weights and the random generators.

        With sharded weights every process must call this, and the first one gets the full state.
        """
        counts = {
            "steps": self.steps,
            "skipped": self.skipped,
            "batches": self.batches,
            "tokens_per_microbatch": self.memory.tokens,
            **{name: one.state_dict() for name, one in self._averages.items()},
        }
        if is_sharded(self.model):
            return {"optimizer": gather_optimizer(self.model, self.optimizer), **counts}
        return {"optimizer": self.optimizer.state_dict(), **counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        if is_sharded(self.model):
            shard_optimizer(self.model, self.optimizer, state["optimizer"])
        else:
            self.optimizer.load_state_dict(dict(state["optimizer"]))
        self.steps, self.skipped, self.batches = state["steps"], state["skipped"], state["batches"]
        for name, one in self._averages.items():
            one.load_state_dict(state[name])
        if self.arguments.tokens_per_microbatch is None:
            self.memory = replace(self.memory, tokens=state["tokens_per_microbatch"], chosen_by="start")

    def _batches(self, window: Sequence[TrainingRow], batch_tokens: float, *, repeated: bool) -> list[_ScoredBatch]:
        weights = row_weights(
            self.arguments.loss,
            [row.trained for row in window],
            [row.rollout for row in window],
            batch_tokens=batch_tokens,
            completion_length=getattr(self.arguments.loss_settings, "completion_length", None),
        )
        # Without these, a row with advantage 0 has no gradient: it counts in the denominator but need not be computed.
        all_learn = self.arguments.kl != "none" or self.arguments.entropy_coef > 0 or self.arguments.own_loss
        rewarded = self.arguments.loss != "distill"
        taught = sum(row.taught for row in window) if self.arguments.distils else 0
        chooses = self.arguments.top_entropy_quantile < 1 and (all_learn or any(row.advantage for row in window))
        lengths = [
            forward_length(row)
            if all_learn or chooses or (rewarded and row.advantage) or (taught and row.taught)
            else 0
            for row in window
        ]
        rollouts = [row.rollout for row in window]
        together = rollouts if self.arguments.couples_rows and len(set(rollouts)) < len(window) else None
        shared = self._shared and together is None  # the rows of a rollout have other prompts
        parts = (
            plan_shared(window, lengths, self.memory.tokens)
            if shared
            else plan_microbatches(lengths, self.memory.tokens, packed=self._packed, together_B=together)
        )
        drops = self.arguments.lora_dropout > 0
        count, rank = self._processes.count, self._processes.rank
        batches: list[_ScoredBatch] = []
        entropies: list[Tensor | None] = []
        tokens = float(sum(row.trained for row in window))
        for turn in range(math.ceil(len(parts) / count)):
            number = turn * count + rank
            idle = number >= len(parts)
            part = parts[0 if idle else number]
            batch = self._collated([window[b] for b in part], shared=shared)
            weights_B = torch.tensor([0.0 if idle else weights[b] for b in part], device=batch.ids_BT.device)
            exact_N, entropy_N = self._scored(self._scorer, batch) if repeated or chooses or drops else (None, None)
            old_N = self._scored(self._scorer, batch, drops=True)[0] if repeated and drops else exact_N
            entropies.append(entropy_N)
            reference_N = None
            if self.arguments.kl != "none":
                with self._as_reference() as scorer:
                    reference_N = self._scored(scorer, batch)[0]
            batches.append(
                _ScoredBatch(
                    batch=batch,
                    weights_B=weights_B,
                    old_N=old_N if repeated else None,
                    exact_N=exact_N if drops else None,
                    reference_N=reference_N,
                    idle=idle,
                    entropy_tokens=tokens,
                    teacher=self._taught([window[b] for b in part], 0 if idle else taught) if taught else None,
                )
            )
        if not chooses:
            return batches
        return self._with_choice(batches, entropies, [sum(window[b].trained for b in part) for part in parts])

    def _with_choice(
        self, batches: Sequence[_ScoredBatch], entropies: Sequence[Tensor | None], tokens_P: Sequence[int]
    ) -> list[_ScoredBatch]:
        """Return this process's micro-batches with the step's tokens of highest entropy chosen.

        tokens_P: number of tokens of each micro-batch of the step, over all processes. The entropies are those under
        the weights before the batch.
        """
        starts = [sum(tokens_P[:number]) for number in range(len(tokens_P))]
        count, rank = self._processes.count, self._processes.rank
        device = device_of(self.model)
        step_N = torch.zeros(sum(tokens_P), device=device)
        places = [slice(0, 0)] * len(batches)
        for turn, (one, entropy_N) in enumerate(zip(batches, entropies, strict=True)):
            number = 0 if one.idle else turn * count + rank
            places[turn] = slice(starts[number], starts[number] + tokens_P[number])
            if not one.idle and entropy_N is not None:
                step_N[places[turn]] = entropy_N
        chosen_N = highest_entropies(self._processes.all_reduce(step_N, "sum"), self.arguments.top_entropy_quantile)
        counted = float(chosen_N.sum())
        return [
            replace(one, chosen_N=chosen_N[place].float(), entropy_tokens=counted)
            for one, place in zip(batches, places, strict=True)
        ]

    def _collated(self, rows: Sequence[TrainingRow], *, shared: bool) -> MicroBatch:
        """The tensors of one forward pass. shared: whether rows share their prompts."""
        most = self.memory.tokens
        made = MicroBatch.shared(rows, most=most) if shared else MicroBatch.of(rows, packed=self._packed)
        return made.to(device_of(self.model))

    def _taught(self, rows: Sequence[TrainingRow], step_tokens: int) -> TeacherScores:
        """What the teacher gives the tokens of a micro-batch. step_tokens: taught tokens of the step; 0: no weight."""
        batch = self._collated([row.for_teacher() for row in rows], shared=self._shared)
        with self._as_teacher() as scorer:
            tokens_N_K, logprobs_N_K = self._scored(scorer, batch, top=self.arguments.distillation.top_k)
        taught_B = torch.tensor([float(row.taught > 0) for row in rows], device=batch.row_N.device)
        weight = self.arguments.distillation.coef / step_tokens if step_tokens else 0.0
        return TeacherScores(tokens_N_K, logprobs_N_K, taught_B[batch.row_N], weight)

    @contextmanager
    def _as_teacher(self) -> Generator[nn.Module]:
        """The teacher's weights inside the block: those of the start, the present ones, or their average."""
        if self.arguments.distillation.teacher == "live":
            yield self._scorer
        elif "teacher" in self._averages:
            with self._averages["teacher"].in_use():
                yield self._scorer
        else:
            with self._as_reference() as scorer:
                yield scorer

    @contextmanager
    def _as_reference(self) -> Generator[nn.Module]:
        """The reference's weights inside the block: a copy, one that follows, or the model without its adapter."""
        if self._reference is not None:
            yield self._reference
            return
        follows = self._averages.get("reference")
        with cast("Any", self.model).disable_adapter() if follows is None else follows.in_use():
            yield self._scorer

    def _scored(self, scorer: nn.Module, batch: MicroBatch, *, top: int = 0, drops: bool = False) -> tuple[Tensor, ...]:
        """Log-probabilities and entropies of the tokens, without gradient.

        top: as in `LogprobModel`; 0: none. drops: with the dropout that the passes over this micro-batch have.
        """
        scorer.train(drops)
        with torch.no_grad(), self._precision(), self._dropout(batch):
            return scorer(*batch.forward_inputs, top=top or None)

    @contextmanager
    def _dropout(self, batch: MicroBatch) -> Generator[None]:
        """Inside the block, an adapter's dropout is the same in each pass over this micro-batch, so that ratios are
        those of the weights."""
        device, drops = device_of(self.model), self.arguments.lora_dropout > 0
        with torch.random.fork_rng([device] if device.type == "cuda" else [], enabled=drops):
            if drops:
                torch.manual_seed(derive_seed("dropout", self.arguments.seed, self.batches, int(batch.numbers_B[0])))
            yield

    def _optimise(self, batches: Sequence[_ScoredBatch], meter: Meter) -> float:
        """Make one optimiser step; returns the gradient's norm before clipping."""
        loss = self.accumulate(batches, meter)
        trained = [one for one in self._scorer.parameters() if one.grad is not None]
        norm = self._processes.clip_gradients(trained, self.arguments.max_grad_norm)
        total = float(self._processes.all_reduce(torch.tensor(loss, device=device_of(self.model)), "sum"))
        if math.isfinite(norm) and math.isfinite(total):
            for group in self.optimizer.param_groups:
                group["lr"] = self.learning_rate
            self.optimizer.step()
            self.steps += 1
            for name, one in self._averages.items():
                if name == "teacher" or self.steps % self.arguments.reference_steps == 0:
                    one.update()
        else:
            self.skipped += 1
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def accumulate(self, batches: Sequence[_ScoredBatch], meter: Meter) -> float:
        """Add up the gradients of one optimiser step; returns this process's share of the loss."""
        self._scorer.train()
        shares: list[Tensor] = []
        for number, scored_batch in enumerate(batches, start=1):
            with self._processes.accumulating(self._scorer, last=number == len(batches)):
                with self._precision(), self._dropout(scored_batch.batch):
                    logprobs, entropy_N = self._scorer(*scored_batch.forward_inputs)
                scored = scored_batch.scored(logprobs)
                losses = token_losses(scored, self.arguments, self._users_loss)
                share = loss_share(losses, scored)
                if self.arguments.entropy_coef > 0 and not scored_batch.idle:
                    chosen_N = entropy_N if scored.chosen_N is None else entropy_N * scored.chosen_N
                    share = share - self.arguments.entropy_coef * chosen_N.sum() / scored_batch.entropy_tokens
                self._processes.backward(share)
            if not scored_batch.idle:
                meter.add(losses, scored, entropy_N, share)
                shares.append(share.detach())
        return float(torch.stack(shares).sum()) if shares else 0.0

    def _precision(self) -> AbstractContextManager[Any]:
        return self._precision_on(device_of(self.model))()

    def _precision_on(self, device: torch.device) -> Callable[[], AbstractContextManager[Any]]:
        """Makes the context of a forward pass on this device."""
        if self.arguments.dtype == "fp32":
            return nullcontext
        return lambda: torch.autocast(device.type, dtype=torch.bfloat16)

    def _memory_at_hand(self) -> int:
        """The least memory at hand in any process."""
        return int(self._over_processes([memory_at_hand(device_of(self.model))], "min")[0])

    def _fixed_bytes(self) -> tuple[float, float]:
        """The most that an update allocates in any process whatever its rows, and that the optimiser's step needs
        beside it. Shards may differ in size."""
        trained = [one for one in self._scorer.parameters() if one.requires_grad]
        own = fixed_bytes(trained, self.optimizer, self._processes.unwrap(self._scorer), self.arguments)
        fixed, stepping = self._over_processes(own, "max").tolist()
        return fixed, stepping

    def _agreed(self, memory: RowMemory | None) -> tuple[bool, RowMemory | None]:
        """Whether rows are packed, and what they need, as the processes know it that have read the weights.

        All must plan alike, because each computes its share of the same micro-batches. A process that gets its shards
        from the first one had no weights to measure.
        """
        known = (-1.0,) * 3 if memory is None else (memory.constant, memory.per_token, memory.per_token_squared)
        packed, *measured = self._over_processes([float(self._packed), *known], "max").tolist()
        longest = longest_row(self.model, packed=bool(packed))
        return bool(packed), None if measured[0] < 0 else RowMemory(*measured, longest=longest)

    def _over_processes(self, values: Sequence[float], reduction: Reduction) -> Tensor:
        """Combine exact numbers of all processes, element by element."""
        device = device_of(self.model) if self._processes.count > 1 else None  # not every device has float64
        return self._processes.all_reduce(torch.tensor(values, dtype=torch.float64, device=device), reduction)

    def _check_memory(self, rows: Sequence[TrainingRow]) -> None:
        """Raise ConfigError when the longest row does not fit into the memory at hand."""
        longest = max(map(forward_length, rows), default=0)
        if self.memory.rows is None or not longest:
            return
        fixed, stepping = self._fixed_bytes()
        if device_of(self.model).type == "cpu":
            self.memory.set_allocator(fixed)
        at_hand = self._memory_at_hand()
        self.memory.rows.refuse_too_little(
            self.arguments, tokens=longest, at_hand=at_hand, fixed=fixed, stepping=stepping
        )


def rate_factor(arguments: GradientArguments, step: int, total: int | None) -> float:
    """Return the factor of the learning rate at a step, counted from 0: above 0 and at most 1.

    It rises over `warmup_steps`, is 1 at the following step, then stays or falls, reaching 0 just after the last step.
    """
    if step < arguments.warmup_steps:
        return (step + 1) / (arguments.warmup_steps + 1)
    if arguments.schedule == "constant" or total is None:
        return 1.0
    done = min(1.0, (step - arguments.warmup_steps) / max(1, total - arguments.warmup_steps))
    return 1 - done if arguments.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2


def _optimizer(model: nn.Module, arguments: GradientArguments) -> torch.optim.Optimizer:
    """Return the optimiser of the trainable weights. Raises ConfigError when there are none."""
    trained = [one for one in model.parameters() if one.requires_grad]
    if not trained:
        raise ConfigError("no weight of the model is trainable; load it with `load_for_training`")
    groups = [
        {"params": [one for one in trained if one.ndim >= 2], "weight_decay": arguments.weight_decay},
        {"params": [one for one in trained if one.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if arguments.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=arguments.learning_rate)
    if not arguments.master_weights:
        return RoundedAdamW(
            groups, lr=arguments.learning_rate, betas=arguments.betas, eps=arguments.adam_eps, seed=arguments.seed
        )
    return torch.optim.AdamW(groups, lr=arguments.learning_rate, betas=arguments.betas, eps=arguments.adam_eps)
