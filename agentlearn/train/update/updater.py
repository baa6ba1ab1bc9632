"""One batch of rows becomes optimiser steps."""

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
from agentlearn.train.distributed.shards import gathered_optimizer, in_shards, spread_optimizer
from agentlearn.train.update.logprob_model import LogprobModel, device_of, vocabulary_of
from agentlearn.train.update.losses import TokenScores, row_weights, summed, token_losses
from agentlearn.train.update.metrics import Meter, StepMetrics, peak_memory_mib
from agentlearn.train.update.microbatch import MicroBatch, collate, passed, plan
from agentlearn.train.update.minibatches import checked, chosen, windows
from agentlearn.train.update.training_row import TrainingRow


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """A micro-batch with what stays the same over all passes."""

    batch: MicroBatch
    weights_B: Tensor
    old_N: Tensor | None
    reference_N: Tensor | None
    idle: bool
    """Whether it only keeps pace with the other processes, and counts for nothing."""


class Updater:
    """Changes a model's weights by rows. With several processes, each is given the same rows and takes its part."""

    def __init__(
        self,
        model: nn.Module,
        arguments: Arguments,
        *,
        reference: nn.Module | None = None,
        total_steps: int | None = None,
        accelerator: Any = None,
    ) -> None:
        """model: a causal language model, with adapters or without; its trainable weights are those that learn.

        reference: the copy that a divergence is taken from; None where there is none, or it is the model without its
        adapter. total_steps: optimiser steps of the whole run, which a falling schedule needs. accelerator: an
        `accelerate.Accelerator` under `torchrun`. Raises ConfigError.
        """
        if (arguments.reference in ("copy", "copy_int8")) != (reference is not None):
            wanted = "needs" if reference is None else "has no use for"
            raise ConfigError(
                f"reference={arguments.reference} {wanted} a reference model; load it with `load_reference_model`",
                code="bad_reference",
            )
        if arguments.reference == "adapter_off" and not hasattr(model, "disable_adapter"):
            raise ConfigError(
                f"reference=adapter_off needs a model with an adapter, and {type(model).__name__} has none; load it "
                "with `load`",
                code="bad_reference",
            )
        if arguments.schedule != "constant" and total_steps is None:
            raise ConfigError(
                f"schedule={arguments.schedule} falls to 0 at the last step; say how many steps there are, or set "
                "schedule=constant",
                code="no_total_steps",
            )
        self.arguments = arguments
        self.steps = 0
        """Optimiser steps so far."""
        self.skipped = 0
        """Steps not made because something was not finite."""
        self.batches = 0
        """Calls of `step` so far."""
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
        """The model as it is now, without what several processes wrap around it."""
        return cast("LogprobModel", self._processes.unwrapped(self._scorer)).model

    @property
    def main(self) -> bool:
        """Whether this is the one process, or the first of several: the one that writes."""
        return self._processes.rank == 0

    def wait(self) -> None:
        """Until every process is here."""
        self._processes.together(torch.zeros(1, device=device_of(self.model)), "sum")

    @property
    def learning_rate(self) -> float:
        """Of the next optimiser step."""
        return self.arguments.learning_rate * rate_factor(self.arguments, self.steps, self._total)

    def step(
        self, rows: Sequence[TrainingRow], *, forks: int | None = None, zero_std_share: float | None = None
    ) -> StepMetrics:
        """Learn from one batch: `iterations` passes of `minibatches` optimiser steps.

        Without a divergence, rows of advantage 0 count in the denominator but do not pass the model, nor in figures
        that are taken over tokens; an optimiser step of such rows alone is not made.
        forks: of the trajectories that the rows were made of; zero_std_share: of their groups; both only passed on to
        the figures. A step whose loss or gradient is not finite is skipped. Raises ConfigError for rows without whole
        log-probabilities.
        """
        began_s = time.perf_counter()
        checked(rows, self._vocabulary)
        kept = chosen(rows, self.arguments)
        work = self._work(kept.rows)
        meter, before = Meter(), (self.steps, self.skipped)
        norms: list[float] = []
        rate = self.learning_rate
        for _ in range(self.arguments.iterations):
            norms += [self._optimise(pieces, meter) for pieces in work]
        self._scorer.eval()  # whoever samples from the model wants no dropout
        self.batches += 1
        seconds = time.perf_counter() - began_s
        tokens = sum(row.trained for row in kept.rows)
        made = len(norms)
        figures = meter.figures(
            self._processes, device_of(self.model), cispo=self.arguments.loss == "cispo", windows=made
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

    def gradients(self, rows: Sequence[TrainingRow]) -> dict[str, Tensor]:
        """The gradient of each trainable weight that one optimiser step over these rows would use, before clipping."""
        checked(rows, self._vocabulary)
        window = chosen(rows, self.arguments).rows
        tokens = sum(row.trained for row in window)
        self._accumulate(self._pieces(window, tokens, repeated=False), Meter())
        found = {name: one.grad.detach().clone() for name, one in self.model.named_parameters() if one.grad is not None}
        self.optimizer.zero_grad(set_to_none=True)
        return found

    def disband(self) -> None:
        """Leave the other processes; no further step is made."""
        self._scorer = cast("LogprobModel", self._processes.unwrapped(self._scorer))
        self._processes.disband()
        gc.collect()

    def state_dict(self) -> dict[str, Any]:
        """All of it that later steps depend on, beside the weights and the generators of chance.

        With weights in shards every process calls it, and the first has the whole.
        """
        counts = {"steps": self.steps, "skipped": self.skipped, "batches": self.batches}
        if in_shards(self.model):
            return {"optimizer": gathered_optimizer(self.model, self.optimizer), **counts}
        return {"optimizer": self.optimizer.state_dict(), **counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Back to what `state_dict` gave."""
        if in_shards(self.model):
            spread_optimizer(self.model, self.optimizer, state["optimizer"])
        else:
            self.optimizer.load_state_dict(dict(state["optimizer"]))
        self.steps, self.skipped, self.batches = state["steps"], state["skipped"], state["batches"]

    def _work(self, rows: Sequence[TrainingRow]) -> list[list[_Piece]]:
        """The micro-batches of each optimiser step that this process has to do; no step where nothing is learned."""
        cut = windows(rows, self.arguments.minibatches, (self.arguments.seed, self.batches))
        batch_tokens = sum(row.trained for row in rows) / max(1, len(cut))
        repeated = len(cut) * self.arguments.iterations > 1
        work = [self._pieces(window, batch_tokens, repeated=repeated) for window in cut]
        return [pieces for pieces in work if pieces]

    def _pieces(self, window: Sequence[TrainingRow], batch_tokens: float, *, repeated: bool) -> list[_Piece]:
        weights = row_weights(
            self.arguments.loss,
            [row.trained for row in window],
            batch_tokens=batch_tokens,
            completion_length=getattr(self.arguments, "completion_length", None),
        )
        # A row without advantage has no gradient: it counts in the denominator, and need not pass the model.
        lengths = [passed(row) if row.advantage or self.arguments.kl != "none" else 0 for row in window]
        parts = plan(lengths, self.arguments.tokens_per_microbatch)
        count, rank = self._processes.count, self._processes.rank
        pieces: list[_Piece] = []
        for turn in range(math.ceil(len(parts) / count)):
            number = turn * count + rank
            idle = number >= len(parts)
            part = parts[0 if idle else number]
            batch = collate([window[b] for b in part]).to(device_of(self.model))
            weights_B = torch.tensor([0.0 if idle else weights[b] for b in part], device=batch.ids_BT.device)
            old_N = self._scored(self._scorer, batch) if repeated else None
            pieces.append(_Piece(batch, weights_B, old_N, self._reference_logprobs(batch), idle))
        return pieces

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

    def _optimise(self, pieces: Sequence[_Piece], meter: Meter) -> float:
        """One optimiser step; returns the gradient's length before clipping."""
        loss = self._accumulate(pieces, meter)
        trained = [one for one in self._scorer.parameters() if one.grad is not None]
        norm = self._processes.shorten(trained, self.arguments.max_grad_norm)
        total = float(self._processes.together(torch.tensor(loss, device=device_of(self.model)), "sum"))
        if math.isfinite(norm) and math.isfinite(total):
            for group in self.optimizer.param_groups:
                group["lr"] = self.learning_rate
            self.optimizer.step()
            self.steps += 1
        else:
            self.skipped += 1
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def _accumulate(self, pieces: Sequence[_Piece], meter: Meter) -> float:
        """Gradients of one optimiser step's loss; returns this process's share of the loss."""
        self._scorer.train()
        shares: list[Tensor] = []
        for number, piece in enumerate(pieces, start=1):
            with self._processes.accumulating(self._scorer, last=number == len(pieces)):
                with self._precision():
                    batch = piece.batch
                    logprobs_N, entropy_N = self._scorer(batch.ids_BT, batch.places_N, batch.targets_N)
                scored = _scored_of(piece, logprobs_N)
                losses = token_losses(scored, self.arguments)
                share = summed(losses, scored)
                self._processes.backward(share)
            if not piece.idle:
                meter.add(losses, scored, entropy_N, share)
                shares.append(share.detach())
        return float(torch.stack(shares).sum()) if shares else 0.0

    def _precision(self) -> AbstractContextManager[Any]:
        if self.arguments.dtype == "fp32":
            return nullcontext()
        return torch.autocast(device_of(self.model).type, dtype=torch.bfloat16)


def rate_factor(arguments: GradientArguments, step: int, total: int | None) -> float:
    """What the learning rate is multiplied with at the step, counted from 0: above 0 and at most 1.

    It rises over `warmup_steps`, is 1 at the step after, then stays or falls, reaching 0 just after the last step.
    """
    if step < arguments.warmup_steps:
        return (step + 1) / (arguments.warmup_steps + 1)
    if arguments.schedule == "constant" or total is None:
        return 1.0
    done = min(1.0, (step - arguments.warmup_steps) / max(1, total - arguments.warmup_steps))
    return 1 - done if arguments.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2


def _share_without_advantage(rows: Sequence[TrainingRow]) -> float:
    return sum(1 for row in rows if not row.advantage) / len(rows)


def _scored_of(piece: _Piece, logprobs_N: Tensor) -> TokenScores:
    return TokenScores(
        logprobs_N=logprobs_N,
        old_N=logprobs_N.detach() if piece.old_N is None else piece.old_N,
        sampler_N=piece.batch.sampler_N,
        reference_N=piece.reference_N,
        row_N=piece.batch.row_N,
        advantages_B=piece.batch.advantages_B,
        weights_B=piece.weights_B,
    )


def _optimizer(model: nn.Module, arguments: GradientArguments) -> torch.optim.Optimizer:
    """Over the weights that are trained. Raises ConfigError where there are none."""
    trained = [one for one in model.parameters() if one.requires_grad]
    if not trained:
        raise ConfigError("no weight of the model is trainable; load it with `load`", code="nothing_to_train")
    groups = [
        {"params": [one for one in trained if one.ndim >= 2], "weight_decay": arguments.weight_decay},
        {"params": [one for one in trained if one.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if arguments.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=arguments.learning_rate)
    return torch.optim.AdamW(groups, lr=arguments.learning_rate, betas=arguments.betas, eps=arguments.adam_eps)
