# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""The denominator of a step counts every row and token of its batch, whatever their advantages."""

import dataclasses
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentlearn.train.arguments import Arguments, gradient_arguments
from agentlearn.train.update.training_row import TrainingRow
from agentlearn.train.update.updater import Updater
from tests.support.gradients import gradients
from tests.support.tiny_lm import some_rows, tiny_lm, worst_difference


def told(**fields: Any) -> Arguments:
    fixed = {"learning_rate": 1e-3, "optimizer": "sgd", "max_grad_norm": None, "importance_sampling": "none"}
    return gradient_arguments(fixed | fields)


def halves() -> tuple[list[TrainingRow], list[TrainingRow]]:
    """Rows with an advantage, and rows without one."""
    rows = some_rows(6, model=tiny_lm())
    return rows[:3], [dataclasses.replace(row, advantage=0.0) for row in rows[3:]]


def scaled(found: dict[str, Any], factor: float) -> dict[str, Any]:
    return {name: one * factor for name, one in found.items()}


def tokens(rows: list[TrainingRow]) -> int:
    return sum(row.trained for row in rows)


def moved(updater: Updater, rows: list[TrainingRow]) -> dict[str, Any]:
    """How far a step moves each weight."""
    before = {name: one.detach().clone() for name, one in updater.model.named_parameters()}
    updater.step(rows)
    return {name: one.detach() - before[name] for name, one in updater.model.named_parameters()}


@pytest.mark.parametrize("loss", ["grpo", "gspo", "bnpo", "dapo", "cispo"])
def test_rows_without_an_advantage_are_in_the_denominator(loss: str) -> None:
    good, flat = halves()
    alone, beside = (gradients(Updater(tiny_lm(), told(loss=loss)), rows) for rows in (good, good + flat))
    by_rows = loss in ("grpo", "gspo")
    share = len(good) / len(good + flat) if by_rows else tokens(good) / tokens(good + flat)
    assert worst_difference(beside, scaled(alone, share)) < 1e-4


@pytest.mark.parametrize(("given", "other"), [(8, 16), (16, 32)])
def test_dr_grpo_divides_by_the_length_that_is_given(given: int, other: int) -> None:
    rows, _ = halves()
    short, long = (
        gradients(Updater(tiny_lm(), told(loss="dr_grpo", completion_length=length)), rows) for length in (given, other)
    )
    assert worst_difference(scaled(long, other / given), short) < 1e-5


@pytest.mark.parametrize("loss", ["dapo", "cispo"])
def test_each_of_two_steps_divides_by_half_of_the_tokens(loss: str) -> None:
    """So two steps together move twice as far as one step over the whole batch, to first order."""
    rows = some_rows(8, model=tiny_lm())
    rate = {"loss": loss, "learning_rate": 1e-4}
    once, twice = (moved(Updater(tiny_lm(), told(minibatches=n, **rate)), rows) for n in (1, 2))
    assert worst_difference(twice, scaled(once, 2.0)) < 0.02


def test_a_row_without_an_advantage_is_pulled_to_the_reference() -> None:
    """Beside rows with an advantage, all terms of the divergence are in the gradient."""
    good, flat = halves()
    kl = {"loss": "grpo", "kl": "k2", "kl_beta": 0.5, "reference": "copy", "kl_ratio": False}
    policy, reference = tiny_lm(), tiny_lm(seed=7)
    total = torch.tensor(0.0)
    for row in flat:
        ids = torch.from_numpy(row.ids_T)[None]
        ours, theirs = (
            one(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0] for one in (policy, reference)
        )
        kept = torch.from_numpy(row.mask_T[1:])
        total = total + 0.5 * ((theirs.detach() - ours)[kept].square() / 2).mean() / len(flat)
    total.backward()
    written = {name: one.grad for name, one in policy.named_parameters()}
    found = gradients(Updater(tiny_lm(), told(**kl), reference=tiny_lm(seed=7)), flat)
    assert worst_difference(found, written) < 1e-4
    assert good


@pytest.mark.parametrize("budget", [1, 24])
def test_no_forward_pass_holds_more_tokens_than_the_budget(budget: int) -> None:
    rows = some_rows(6, model=tiny_lm())
    model, seen = tiny_lm(), []
    model.model.register_forward_pre_hook(
        lambda _module, _args, given: seen.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    Updater(model, told(tokens_per_microbatch=budget)).step(rows)
    assert len(seen) > 1
    assert all(count == 1 or count * length <= budget for count, length in seen)
