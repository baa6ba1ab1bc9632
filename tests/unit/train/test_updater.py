"""Updates: gradients independent of the batch layout, no step on a number that is not finite, correct metrics."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

from agentlearn.train.arguments import GradientArguments, gradient_arguments  # noqa: E402
from agentlearn.train.update.updater import Updater, rate_factor  # noqa: E402
from agentlearn.train.weights.model import weights_hash  # noqa: E402
from tests.support.gradients import gradients  # noqa: E402
from tests.support.tiny_lm import some_rows, tiny_lm, true_logprobs, worst_difference  # noqa: E402

LOSSES: tuple[dict[str, Any], ...] = (
    {"loss": "grpo"},
    {"loss": "dr_grpo", "loss_settings": {"completion_length": 24}},
    {"loss": "bnpo"},
    {"loss": "dapo"},
    {"loss": "cispo"},
    {"loss": "gspo"},
    {"loss": "luspo"},
    {"loss": "sapo"},
    {"loss": "vespo"},
)


def told(**fields: Any) -> GradientArguments:
    return gradient_arguments({"learning_rate": 0.05, "optimizer": "sgd", "max_grad_norm": None} | fields)


def test_gradients_do_not_depend_on_micro_batches_padding_or_order(subtests: pytest.Subtests) -> None:
    for fields in LOSSES:
        with subtests.test(repr(fields)):
            rows = some_rows(9, model=tiny_lm())
            whole = gradients(Updater(tiny_lm(), told(**fields)), rows)
            # Every row alone, and two ways of sharing.
            for budget, order in ((1, rows[::-1]), (30, [*rows[4:], *rows[:4]]), (60, rows[::-1])):
                arguments = told(tokens_per_microbatch=budget, logits_mib=1, **fields)
                assert worst_difference(gradients(Updater(tiny_lm(), arguments), order), whole) < 1e-5


def test_figures_by_hand() -> None:
    model = tiny_lm()
    rows = some_rows(4, model=model, jitter=0.3)
    figures = Updater(tiny_lm(), told()).step(rows, forks=2, zero_std_share=0.25).figures
    raw = np.concatenate([(true_logprobs(model, row.ids_T) - row.logprobs_T)[row.mask_T] for row in rows])
    ratio = np.exp(raw)
    assert figures["sampling/sampling_logp_difference/mean"] == pytest.approx(np.abs(raw).mean(), abs=1e-5)
    assert figures["sampling/sampling_logp_difference/max"] == pytest.approx(np.abs(raw).max(), abs=1e-5)
    assert figures["mismatch/kl"] == pytest.approx(-raw.mean(), abs=1e-5)
    assert figures["mismatch/ratio_min"] == pytest.approx(ratio.min(), rel=1e-5)
    assert figures["mismatch/ratio_mean"] == pytest.approx(ratio.mean(), rel=1e-5)
    assert figures["mismatch/ratio_max"] == pytest.approx(ratio.max(), rel=1e-5)
    assert figures["sampling/importance_sampling_ratio/max"] == pytest.approx(min(2.0, ratio.max()), rel=1e-5)
    assert figures["effective_sample_size"] == pytest.approx(ratio.sum() ** 2 / len(ratio) / (ratio**2).sum(), rel=1e-5)
    trained, all_tokens = sum(row.trained for row in rows), sum(row.length for row in rows)
    assert figures["masked_token_share"] == pytest.approx(1 - trained / all_tokens)
    assert (figures["forks"], figures["frac_reward_zero_std"], figures["reward"]) == (2.0, 0.25, 0.5)
    assert figures["learning_rate"] == 0.05
    assert figures["peak_memory_mib"] > 50
    assert figures["tokens_per_s"] > 0
    assert "kl" not in figures


def test_a_step_that_is_not_finite_is_skipped_counted_and_said() -> None:
    rows = some_rows(4, model=tiny_lm())
    updater = Updater(tiny_lm(), told(iterations=2, importance_sampling="token_truncate"))
    before = weights_hash(updater.model)
    with torch.no_grad():
        spoiled = dict(updater.model.named_parameters())["model.norm.weight"]
        kept = spoiled.clone()
        spoiled[0] = torch.inf
    made = updater.step(rows)
    with torch.no_grad():
        spoiled.copy_(kept)
    assert (made.steps, made.skipped, updater.steps, updater.skipped) == (0, 2, 0, 2)
    assert weights_hash(updater.model) == before
    assert made.skip_note == (
        "2 of 2 optimiser steps were skipped because the loss or the gradient was not finite; they changed no "
        "weights. Lower learning_rate, or set delta"
    )
    assert "grad_norm" not in made.figures
    assert not updater.model.training
    good = updater.step(rows)
    assert (good.steps, good.skip_note) == (2, None)


def test_rows_without_advantage_count_but_do_not_pass_the_model(subtests: pytest.Subtests) -> None:
    """Beside a divergence of next to no weight, for which they have to pass."""
    for fields in LOSSES:
        with subtests.test(repr(fields)):
            model = tiny_lm()
            rows = [
                dataclasses.replace(row, advantage=n % 2 * row.advantage)
                for n, row in enumerate(some_rows(8, model=model))
            ]
            updater = Updater(tiny_lm(), told(**fields))
            shares = gradients(updater, rows)
            kl = {"kl": "k3", "kl_beta": 1e-12, "reference": "copy"}
            passing = Updater(tiny_lm(), told(**fields, **kl), reference=tiny_lm())
            assert worst_difference(shares, gradients(passing, rows)) < 1e-5
            seen = [int(one.batch.advantages_B.count_nonzero()) for one in updater._batches(rows, 1, repeated=False)]
            assert (
                sum(seen) == sum(len(one.batch.advantages_B) for one in updater._batches(rows, 1, repeated=False)) == 4
            )
            assert updater.step(rows).figures["zero_advantage_share"] == 0.5


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1 / 3, 2 / 3, 1, 1, 1, 1]),
        ("linear", [1 / 3, 2 / 3, 1, 0.75, 0.5, 0.25]),
        ("cosine", [1 / 3, 2 / 3, 1, 0.8535534, 0.5, 0.1464466]),
    ],
)
def test_the_rate_rises_and_falls(schedule: str, expected: list[float]) -> None:
    arguments = told(schedule=schedule, warmup_steps=2)
    assert [rate_factor(arguments, step, 6) for step in range(6)] == pytest.approx(expected)


def written(model: Any, rows: list[Any], loss: Callable[..., Any]) -> dict[str, Any]:
    """The gradient of `loss(log-probabilities, entropies, row)` of each row's trained tokens, added over the rows."""
    total = torch.tensor(0.0)
    for row in rows:
        logits = model(torch.from_numpy(row.ids_T)[None]).logits[0, :-1]
        every = logits.log_softmax(-1)
        kept = torch.from_numpy(row.mask_T[1:])
        logprobs = every.gather(1, torch.from_numpy(row.ids_T)[1:, None])[:, 0][kept]
        total = total + loss(logprobs, -(every.exp() * every).sum(-1)[kept], row)
    total.backward()
    return {name: one.grad for name, one in model.named_parameters()}


def without_advantage(rows: list[Any]) -> list[Any]:
    return [dataclasses.replace(row, advantage=0.0) for row in rows]


@pytest.mark.parametrize("minibatches", [1, 2])
def test_only_tokens_of_high_entropy_are_trained(minibatches: int) -> None:
    """The choice is over the step, not over a micro-batch, and the denominator stays."""
    rows = some_rows(8, model=tiny_lm())
    fields = {"loss": "bnpo", "top_entropy_quantile": 0.3, "importance_sampling": "none", "minibatches": minibatches}
    one, other = (Updater(tiny_lm(), told(tokens_per_microbatch=budget, **fields)) for budget in (1, 8192))
    assert worst_difference(gradients(one, rows), gradients(other, rows)) < 1e-5
    for updater in (one, other):
        updater.step(rows)
    moved = (dict(updater.model.state_dict()) for updater in (one, other))
    assert worst_difference(*moved) < 1e-5
    figures = Updater(tiny_lm(), told(**fields)).step(rows).figures
    assert figures["high_entropy_share"] == pytest.approx(0.3, abs=0.03)
    if minibatches == 2:
        return
    model, entropies = tiny_lm(), []
    with torch.no_grad():
        for row in rows:
            every = model(torch.from_numpy(row.ids_T)[None]).logits[0, :-1].log_softmax(-1)
            entropies.append(-(every.exp() * every).sum(-1)[torch.from_numpy(row.mask_T[1:])])
    least = torch.quantile(torch.cat(entropies), 0.7) - 1e-6
    tokens = sum(row.trained for row in rows)

    def loss(logprobs: Any, entropy: Any, row: Any) -> Any:
        return -row.advantage * ((logprobs - logprobs.detach()).exp() * (entropy.detach() >= least)).sum() / tokens

    fresh = Updater(tiny_lm(), told(**fields))
    assert worst_difference(gradients(fresh, rows), written(model, rows, loss)) < 1e-5
    chosen = sum(int((one >= least).sum()) for one in entropies)

    def with_bonus(logprobs: Any, entropy: Any, row: Any) -> Any:
        return loss(logprobs, entropy, row) - 0.4 * (entropy * (entropy.detach() >= least)).sum() / chosen

    bonus = gradients(Updater(tiny_lm(), told(entropy_coef=0.4, **fields)), rows)
    assert worst_difference(bonus, written(tiny_lm(), rows, with_bonus)) < 1e-5
    assert fresh.step(without_advantage(rows)).steps == 0


def test_a_reference_follows_the_weights_in_training() -> None:
    """TR-DPO, arXiv:2404.09656: reference <- rate weights + (1 - rate) reference, every so many steps."""
    fields = {"kl": "k3", "kl_beta": 0.1, "reference": "follow", "reference_steps": 2, "reference_rate": 0.25}
    arguments = gradient_arguments({"learning_rate": 0.1, "optimizer": "sgd", **fields})
    one, rows = Updater(tiny_lm(), arguments), some_rows(4)
    name = "model.layers.0.mlp.up_proj.weight"
    start = dict(tiny_lm().named_parameters())[name].detach()
    assert one.step(rows).figures["kl"] == pytest.approx(0, abs=1e-9)
    assert one.step(rows).figures["kl"] > 1e-9
    moved = start + 0.25 * (dict(one.model.named_parameters())[name].detach() - start)
    (found,) = [value for key, value in one.state_dict()["reference"].items() if key.endswith(name)]
    assert torch.allclose(found, moved, atol=1e-6)
    again = Updater(copy.deepcopy(one.model), arguments)
    again.load_state_dict(one.state_dict())
    assert again.step(rows).figures["kl"] == one.step(rows).figures["kl"] > 1e-9
