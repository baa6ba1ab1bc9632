"""A rollout in several rows counts as one: all losses equal a loop that knows neither micro-batches nor rows."""

import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from agentlearn.train.arguments import GradientArguments, LossName, gradient_arguments  # noqa: E402
from agentlearn.train.update.sequences import TrainingRow  # noqa: E402
from agentlearn.train.update.updater import Updater  # noqa: E402
from agentlearn.types.ids import RolloutId  # noqa: E402
from tests.support.tiny_lm import some_rows, tiny_lm, worst_difference  # noqa: E402

ROLLOUTS = (0, 0, 1, 2, 2, 2, 3)
"""The rollout of each row."""
SPECIAL: dict[str, dict[str, Any]] = {
    "dr_grpo": {"loss_settings.completion_length": 24},
    "distill": {"distillation.coef": 1.0, "distillation.teacher": "live", "distillation.top_k": 5},
    "gspo": {"loss_settings.eps_low": 0.02, "loss_settings.eps_high": 0.02},
    "luspo": {"loss_settings.eps_low": 0.02, "loss_settings.eps_high": 0.02},
}
OTHERS: dict[str, dict[str, Any]] = {
    "tokens": {},
    "sequences": {"importance_sampling": "sequence_truncate"},
    "drifted": {"importance_sampling": "none", "loss_settings.off_policy_mask_threshold": 0.02},
}


def told(loss: str, **fields: Any) -> GradientArguments:
    plain = {"optimizer": "sgd", "learning_rate": 0.5, "max_grad_norm": None, "iterations": 2}
    return gradient_arguments({"loss": loss, **plain, "tokens_per_microbatch": 40, **SPECIAL.get(loss, {}), **fields})


def forked_rows(model: Any) -> list[TrainingRow]:
    """Rows of four rollouts, all rows of a rollout with its advantage."""
    rows = some_rows(len(ROLLOUTS), model=model, jitter=0.05, seed=3)
    first = {of: rows[ROLLOUTS.index(of)].advantage for of in ROLLOUTS}
    return [
        replace(
            row,
            rollout=RolloutId(f"r{of}"),
            advantage=first[of],
            teacher_ids_T=np.concatenate([[5, 6], row.ids_T]),
        )
        for row, of in zip(rows, ROLLOUTS, strict=True)
    ]


def logprobs_of(model: Any, row: TrainingRow, *, teacher: bool = False) -> Any:
    """All log-probabilities at the sampled tokens, and those of these tokens."""
    ids = torch.from_numpy(row.teacher_ids_T if teacher else row.ids_T)  # pyright: ignore[reportArgumentType]
    places = torch.from_numpy(np.flatnonzero(row.mask_T)) + (len(ids) - row.length)
    every = model(input_ids=ids[None]).logits[0].float().log_softmax(-1)[places - 1]
    return every, every.gather(1, ids[places][:, None])[:, 0]


def loop_step(
    model: Any, rows: list[TrainingRow], arguments: GradientArguments, old: list[Any], teacher: list[Any]
) -> None:
    """One step of gradient descent, written down rollout by rollout from the papers. old, teacher: of each row."""
    own: Any = arguments.loss_settings
    loss: Any = 0.0
    count = len(set(ROLLOUTS))
    tokens = sum(row.trained for row in rows)
    for of in range(count):
        mine = [at for at, row in enumerate(rows) if row.rollout == f"r{of}"]
        every, now, before = [], [], torch.cat([old[at] for at in mine])
        for at in mine:
            all_logprobs, logprobs = logprobs_of(model, rows[at])
            every.append(all_logprobs)
            now.append(logprobs)
        now, n, a = torch.cat(now), sum(rows[at].trained for at in mine), rows[mine[0]].advantage
        sampled = torch.cat([torch.from_numpy(rows[at].logprobs_T[rows[at].mask_T]) for at in mine])
        ratio = (now - before).exp()
        if arguments.importance_sampling == "sequence_truncate":
            weight = (before - sampled).sum().exp().clamp(max=2.0).expand(n)
        else:
            weight = (before - sampled).exp().clamp(max=2.0)
        weight = torch.ones(n) if arguments.importance_sampling == "none" else weight
        match arguments.loss:
            case "gspo" | "luspo":
                s = (now - before).mean().exp()
                each = -torch.minimum(s * a, s.clamp(1 - own.eps_low, 1 + own.eps_high) * a).expand(n)
            case "cispo":
                each = -ratio.detach().clamp(max=own.cap) * a * now
            case "sapo":
                t = own.temperature_pos if a > 0 else own.temperature_neg
                each = -4 / t * torch.sigmoid(t * (ratio - 1)) * a
            case "vespo":
                k, lam = (own.k_pos, own.lambda_pos) if a >= 0 else (own.k_neg, own.lambda_neg)
                log_w = ((now - before).detach() + weight.log()).sum().clamp(math.log(1e-8), 20)
                each, weight = -(lam + k * log_w - lam * log_w.exp()).exp() * a * now, torch.ones(n)
            case "distill":
                each = torch.zeros(n)
            case _:
                each = -torch.minimum(ratio * a, ratio.clamp(1 - own.eps_low, 1 + own.eps_high) * a)
        if own.off_policy_mask_threshold is not None:
            each = each * float(a >= 0 or float((sampled - now.detach()).mean()) <= own.off_policy_mask_threshold)
        each = each * weight
        match arguments.loss:
            case "grpo" | "gspo" | "sapo":
                loss = loss + each.mean() / count
            case "luspo":
                loss = loss + each.sum() / count
            case "dr_grpo":
                loss = loss + each.sum() / (count * own.completion_length)
            case _:
                loss = loss + each.sum() / tokens
        for at, student in zip(mine, every, strict=True) if arguments.distils else ():
            best, names = teacher[at].topk(5, dim=-1)
            both = (student.gather(1, names), best)
            p, q = (torch.cat([one, torch.log1p(-one.exp().sum(-1, keepdim=True))], -1) for one in both)
            loss = loss + (p.exp() * (p - q)).sum() / tokens
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for one in model.parameters():
            one.sub_(arguments.learning_rate * one.grad)


def moved(model: Any, start: Any) -> dict[str, Any]:
    first = dict(start.named_parameters())
    return {name: (one - first[name]).detach() for name, one in model.named_parameters()}


@pytest.mark.parametrize("loss", get_args(LossName))
@pytest.mark.parametrize("kind", OTHERS)
def test_all_losses_equal_a_loop_over_rollouts(loss: str, kind: str) -> None:
    if loss == "vespo" and kind == "sequences":
        pytest.skip("vespo refuses it")
    start, ours, theirs = tiny_lm(), tiny_lm(), tiny_lm()
    rows, arguments = forked_rows(start), told(loss, **OTHERS[kind])
    updater = Updater(ours, arguments)
    figures = updater.step(rows).figures
    assert loss in {"sapo", "vespo", "distill", "cispo"} or figures["clip_ratio/region_mean"] > 0.02
    with torch.no_grad():
        old = [logprobs_of(theirs, row)[1] for row in rows]
        teacher = [logprobs_of(theirs, row, teacher=True)[0] for row in rows]
    for _ in range(2):
        loop_step(theirs, rows, arguments, old, teacher)
    assert worst_difference(moved(ours, start), moved(theirs, start)) < 1e-5


def cut_in_two(row: TrainingRow) -> list[TrainingRow]:
    """The row as two rows of its rollout, whose tokens have the same contexts."""
    middle = int(np.flatnonzero(row.mask_T)[row.trained // 2])
    before = np.arange(row.length) < middle
    return [replace(row, mask_T=row.mask_T & before), replace(row, mask_T=row.mask_T & ~before)]


@pytest.mark.parametrize("loss", get_args(LossName))
def test_it_does_not_matter_whether_a_rollout_is_one_row_or_two(loss: str) -> None:
    whole = some_rows(3, model=tiny_lm(), jitter=0.05, seed=5)
    cut = [*cut_in_two(whole[0]), whole[1], *cut_in_two(whole[2])]
    models = tiny_lm(), tiny_lm()
    fields = {"distillation.teacher": "live", "kl": "none"} if loss == "distill" else {}
    for model, rows in zip(models, (whole, cut), strict=True):
        read = [replace(row, teacher_ids_T=np.concatenate([[5, 6], row.ids_T])) for row in rows]
        Updater(model, told(loss, **fields, minibatches=3)).step(read if loss == "distill" else rows)
    assert worst_difference(*(moved(model, tiny_lm()) for model in models)) < 2e-5


def test_rewards_are_averaged_over_rollouts() -> None:
    first, second, *_ = some_rows(2, model=tiny_lm(), seed=5)
    rows = [*cut_in_two(replace(first, reward=1.0)), replace(second, reward=0.0, advantage=0.0)]
    figures = Updater(tiny_lm(), told("dapo")).step(rows).figures
    assert figures["reward"] == figures["zero_advantage_share"] == 0.5
