"""Updating weights: optimiser steps from one batch of training rows."""

import gc
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import Arguments, GradientArguments
from agentlearn.train.distributed.processes import Processes
from agentlearn.train.distributed.shards import gather_optimizer, is_sharded, shard_optimizer
from agentlearn.train.update.logprob_model import LogprobModel, device_of, vocabulary_of
from agentlearn.train.update.losses import TokenScores, loss_share, row_weights, token_losses
from agentlearn.train.update.metrics import Meter, StepMetrics, peak_memory_mib
from agentlearn.train.update.microbatch import MicroBatch, collate, forward_length, plan_microbatches
from agentlearn.train.update.minibatches import check_rows, divide_rows, select_rows
from agentlearn.train.update.training_row import TrainingRow


@dataclass(frozen=True, slots=True, eq=False)
class _ScoredBatch:
    """A micro-batch, with values that are the same in all passes."""

    batch: MicroBatch
    weights_B: Tensor
    old_N: Tensor | None
    reference_N: Tensor | None
    idle: bool
    """Whether it is computed only because other processes have one more; its weight is 0."""


class Updater:
    """Trains a model's weights on rows. With several processes, each gets all rows and computes its share."""

    def __init__(
        self,
        model: nn.Module,
        arguments: Arguments,
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
        if (arguments.reference in ("copy", "copy_int8")) != (reference is not None):
            wanted = "needs" if reference is None else "does not use"
            raise ConfigError(
                f"reference={arguments.reference} {wanted} a reference model; load it with `load_reference_model`",
                code="bad_reference",
            )
        if arguments.reference == "adapter_off" and not hasattr(model, "disable_adapter"):
            raise ConfigError(
                f"reference=adapter_off needs a model with an adapter, and {type(model).__name__} has none; load it "
                "with `load_for_training`",
                code="bad_reference",
            )
        if arguments.schedule != "constant" and total_steps is None:
            raise ConfigError(
                f"schedule={arguments.schedule} falls to 0 at the last step; pass total_steps, or set "
                "schedule=constant",
                code="no_total_steps",
            )
        self.arguments = arguments
        self.steps = 0
        """Number of optimiser steps so far."""
        self.skipped = 0
        """Number of optimiser steps skipped because the loss or gradient was not finite."""
        self.batches = 0
        """Number of calls of `step` so far."""
        self._total = total_steps
        self._processes = Processes(accelerator)
        self._vocabulary = vocabulary_of(model)
        scorer = LogprobModel(model, temperature=arguments.temperature, logits_mib=arguments.logits_mib)
        self._scorer, self.optimizer = self._processes.prepare(scorer, _optimizer(model, arguments))
        self._reference = None
        if reference is not None:
            self._reference = LogprobModel(
                reference.to(device_of(model)), temperature=arguments.temperature, logits_mib=arguments.logits_mib
            )

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

        Without a divergence, rows with advantage 0 count in the denominator but are not computed, and metrics over
        tokens do not include them. A step with only such rows is not made. A step whose loss or gradient is not finite
        is skipped. forks, zero_std_share: number of forked turns and share of groups with equal rewards, for metrics.
        Raises ConfigError for rows with missing log-probabilities.
        """
        began_s = time.perf_counter()
        check_rows(rows, self._vocabulary)
        kept = select_rows(rows, self.arguments)
        work = self._work(kept.rows)
        meter, before = Meter(), (self.steps, self.skipped)
        norms: list[float] = []
        rate = self.learning_rate
        for _ in range(self.arguments.iterations):
            norms += [self._optimise(batches, meter) for batches in work]
        self._scorer.eval()  # no dropout while the model is sampled from
        self.batches += 1
        seconds = time.perf_counter() - began_s
        tokens = sum(row.trained for row in kept.rows)
        made = len(norms)
        figures = meter.figures(
            self._processes, device_of(self.model), cispo=self.arguments.loss == "cispo", steps=made
        )
        finite = [norm for norm in norms if math.isfinite(norm)]
        figures |= {
            "learning_rate": rate,
            "masked_token_share": 1 - tokens / max(1, sum(row.length for row in kept.rows)),
            "tokens_per_s": tokens * self.arguments.iterations / seconds,
            "peak_memory_mib": peak_memory_mib(device_of(self.model)),
            **({"grad_norm": sum(finite) / len(finite)} if finite else {}),
            **({"zero_advantage_share": _share_without_advantage(kept.rows)} if kept.rows else {}),
            **({"reward": sum(row.reward for row in kept.rows) / len(kept.rows)} if kept.rows else {}),
            **({"forks": float(forks)} if forks is not None else {}),
            **({"frac_reward_zero_std": zero_std_share} if zero_std_share is not None else {}),
        }
        return StepMetrics(
            steps=self.steps - before[0],
            skipped=self.skipped - before[1],
            rows=len(kept.rows),
            stale=kept.stale,
            masked=kept.masked,
            tokens=tokens * self.arguments.iterations,
            staleness=dict(sorted(kept.staleness.items())),
            seconds=seconds,
            figures=figures,
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
        counts = {"steps": self.steps, "skipped": self.skipped, "batches": self.batches}
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

    def _work(self, rows: Sequence[TrainingRow]) -> list[list[_ScoredBatch]]:
        """This process's micro-batches of each optimiser step. Steps with nothing to learn are left out."""
        cut = divide_rows(rows, self.arguments.minibatches, (self.arguments.seed, self.batches))
        batch_tokens = sum(row.trained for row in rows) / max(1, len(cut))
        repeated = len(cut) * self.arguments.iterations > 1
        work = [self._batches(window, batch_tokens, repeated=repeated) for window in cut]
        return [batches for batches in work if batches]

    def _batches(self, window: Sequence[TrainingRow], batch_tokens: float, *, repeated: bool) -> list[_ScoredBatch]:
        weights = row_weights(
            self.arguments.loss,
            [row.trained for row in window],
            batch_tokens=batch_tokens,
            completion_length=getattr(self.arguments, "completion_length", None),
        )
        # A row with advantage 0 has no gradient: it counts in the denominator but need not be computed.
        lengths = [forward_length(row) if row.advantage or self.arguments.kl != "none" else 0 for row in window]
        parts = plan_microbatches(lengths, self.arguments.tokens_per_microbatch)
        count, rank = self._processes.count, self._processes.rank
        batches: list[_ScoredBatch] = []
        for turn in range(math.ceil(len(parts) / count)):
            number = turn * count + rank
            idle = number >= len(parts)
            part = parts[0 if idle else number]
            batch = collate([window[b] for b in part]).to(device_of(self.model))
            weights_B = torch.tensor([0.0 if idle else weights[b] for b in part], device=batch.ids_BT.device)
            old_N = self._scored(self._scorer, batch) if repeated else None
            batches.append(_ScoredBatch(batch, weights_B, old_N, self._reference_logprobs(batch), idle))
        return batches

    def _reference_logprobs(self, batch: MicroBatch) -> Tensor | None:
        if self.arguments.kl == "none":
            return None
        if self._reference is not None:
            return self._scored(self._reference, batch)
        with cast("Any", self.model).disable_adapter():
            return self._scored(self._scorer, batch)

    def _scored(self, scorer: nn.Module, batch: MicroBatch) -> Tensor:
        scorer.eval()
        with torch.no_grad(), self._precision():
            return scorer(batch.ids_BT, batch.places_N, batch.targets_N)[0]

    def _optimise(self, batches: Sequence[_ScoredBatch], meter: Meter) -> float:
        """Make one optimiser step; returns the gradient's norm before clipping."""
        loss = self._accumulate(batches, meter)
        trained = [one for one in self._scorer.parameters() if one.grad is not None]
        norm = self._processes.clip_gradients(trained, self.arguments.max_grad_norm)
        total = float(self._processes.all_reduce(torch.tensor(loss, device=device_of(self.model)), "sum"))
        if math.isfinite(norm) and math.isfinite(total):
            for group in self.optimizer.param_groups:
                group["lr"] = self.learning_rate
            self.optimizer.step()
            self.steps += 1
        else:
            self.skipped += 1
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def _accumulate(self, batches: Sequence[_ScoredBatch], meter: Meter) -> float:
        """Add up the gradients of one optimiser step; returns this process's share of the loss."""
        self._scorer.train()
        shares: list[Tensor] = []
        for number, scored_batch in enumerate(batches, start=1):
            with self._processes.accumulating(self._scorer, last=number == len(batches)):
                with self._precision():
                    batch = scored_batch.batch
                    logprobs_N, entropy_N = self._scorer(batch.ids_BT, batch.places_N, batch.targets_N)
                scored = _token_scores(scored_batch, logprobs_N)
                losses = token_losses(scored, self.arguments)
                share = loss_share(losses, scored)
                self._processes.backward(share)
            if not scored_batch.idle:
                meter.add(losses, scored, entropy_N, share)
                shares.append(share.detach())
        return float(torch.stack(shares).sum()) if shares else 0.0

    def _precision(self) -> AbstractContextManager[Any]:
        if self.arguments.dtype == "fp32":
            return nullcontext()
        return torch.autocast(device_of(self.model).type, dtype=torch.bfloat16)


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


def _share_without_advantage(rows: Sequence[TrainingRow]) -> float:
    return sum(1 for row in rows if not row.advantage) / len(rows)


def _token_scores(batch: _ScoredBatch, logprobs_N: Tensor) -> TokenScores:
    return TokenScores(
        logprobs_N=logprobs_N,
        old_N=logprobs_N.detach() if batch.old_N is None else batch.old_N,
        sampler_N=batch.batch.sampler_N,
        reference_N=batch.reference_N,
        row_N=batch.batch.row_N,
        advantages_B=batch.batch.advantages_B,
        weights_B=batch.weights_B,
    )


def _optimizer(model: nn.Module, arguments: GradientArguments) -> torch.optim.Optimizer:
    """Return the optimiser of the trainable weights. Raises ConfigError when there are none."""
    trained = [one for one in model.parameters() if one.requires_grad]
    if not trained:
        raise ConfigError(
            "no weight of the model is trainable; load it with `load_for_training`", code="nothing_to_train"
        )
    groups = [
        {"params": [one for one in trained if one.ndim >= 2], "weight_decay": arguments.weight_decay},
        {"params": [one for one in trained if one.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if arguments.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=arguments.learning_rate)
    return torch.optim.AdamW(groups, lr=arguments.learning_rate, betas=arguments.betas, eps=arguments.adam_eps)
