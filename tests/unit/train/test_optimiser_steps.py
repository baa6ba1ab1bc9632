# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""Optimiser steps: which rows they get, in which order, when they are skipped, and with which settings."""

import dataclasses
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numpy as np

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import Arguments, gradient_arguments
from agentlearn.train.update.sequences import TrainingRow
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.model import weights_hash
from tests.support.gradients import gradients
from tests.support.tiny_lm import some_rows, tiny_lm, worst_difference


def told(**fields: Any) -> Arguments:
    return gradient_arguments({"learning_rate": 0.05, "optimizer": "sgd", "max_grad_norm": None} | fields)


def lengths_of_steps(updater: Updater, rows: list[TrainingRow]) -> tuple[int, ...]:
    """The gradient's norm at each optimiser step, as a whole number by which the rows can be told apart."""
    found: list[int] = []
    optimizer: Any = updater.optimizer
    hook = optimizer.register_step_pre_hook(
        lambda *_: found.append(
            round(1e4 * float(torch.cat([one.grad.flatten() for one in updater.model.parameters()]).norm()))
        )
    )
    updater.step(rows)
    hook.remove()
    return tuple(found)


def orders(batches: int, **fields: Any) -> list[tuple[int, ...]]:
    """Order of the rows in batches that all have the same rows, one row to an optimiser step."""
    updater = Updater(tiny_lm(), told(minibatches=8, learning_rate=1e-9, loss="grpo", **fields))
    rows = some_rows(8, model=tiny_lm())
    return [lengths_of_steps(updater, rows) for _ in range(batches)]


def test_every_batch_is_shuffled_in_another_order_by_the_seed() -> None:
    first, second = orders(2)
    assert sorted(first) == sorted(second)
    assert first != second
    assert orders(2) == [first, second]
    assert orders(1, seed=5) != [first]


def test_a_resumed_updater_continues_the_shuffles_and_counts() -> None:
    rows = some_rows(8, model=tiny_lm())
    arguments = told(minibatches=8, learning_rate=1e-9, loss="grpo")
    whole, again = Updater(tiny_lm(), arguments), Updater(tiny_lm(), arguments)
    whole.step(rows)
    whole.skipped = 3
    again.load_state_dict(whole.state_dict())
    assert (again.steps, again.skipped, again.batches) == (8, 3, 1)
    assert lengths_of_steps(again, rows) == lengths_of_steps(whole, rows)


@pytest.mark.parametrize("differs", ["advantage", "logprobs_T", "ids_T"])
def test_the_order_in_which_rows_come_changes_no_bit(differs: str) -> None:
    """Also for rows that differ in one thing only."""
    one = some_rows(1, model=tiny_lm())[0]
    changed = {
        "advantage": lambda n: float(n + 1),
        "logprobs_T": lambda n: (one.logprobs_T * (1 + n / 10)).astype(np.float32),
        "ids_T": lambda n: np.where(one.mask_T, (one.ids_T + n) % 40 + 3, one.ids_T),
    }[differs]
    rows = [dataclasses.replace(one, **{"advantage": 1.0, differs: changed(n)}) for n in range(4)]
    hashes: set[str] = set()
    for order in (rows, rows[::-1], [rows[2], rows[0], rows[3], rows[1]]):
        updater = Updater(tiny_lm(), told(minibatches=4, loss="bnpo"))
        updater.step(order)
        hashes.add(weights_hash(updater.model))
    assert len(hashes) == 1


def test_a_gradient_whose_norm_is_infinite_makes_no_step() -> None:
    """The loss alone is still finite."""
    rows = [dataclasses.replace(row, advantage=1e27) for row in some_rows(2, model=tiny_lm())]
    updater = Updater(tiny_lm(), told(loss="grpo"))
    before = weights_hash(updater.model)
    made = updater.step(rows)
    assert (made.steps, made.skipped, updater.steps, updater.skipped) == (0, 1, 0, 1)
    assert weights_hash(updater.model) == before
    assert np.isfinite(made.figures["loss"])
    assert "grad_norm" not in made.figures


def test_a_loss_that_is_infinite_makes_no_step() -> None:
    """The gradient of k1 alone is still finite: it does not depend on the reference."""
    reference = tiny_lm()
    with torch.no_grad():
        reference.lm_head.weight.mul_(5e37)
    arguments = told(loss="grpo", kl="k1", kl_beta=1e3, kl_ratio=False, reference="copy")
    rows = some_rows(6, model=tiny_lm())
    updater = Updater(tiny_lm(), arguments, reference=reference)
    before = weights_hash(updater.model)
    made = updater.step(rows)
    assert (made.steps, made.skipped) == (0, 1)
    assert not np.isfinite(made.figures["loss"])
    assert weights_hash(updater.model) == before


def test_no_gradient_is_left_for_the_next_step() -> None:
    """Also after a step that was skipped."""
    rows = some_rows(4, model=tiny_lm())
    spoiled = [dataclasses.replace(row, advantage=1e27) for row in rows]
    updater, fresh = Updater(tiny_lm(), told()), Updater(tiny_lm(), told())
    updater.step(spoiled)
    updater.step(rows)
    fresh.step(rows)
    assert weights_hash(updater.model) == weights_hash(fresh.model)


def test_what_was_skipped_is_not_in_the_mean_norm() -> None:
    rows = some_rows(4, model=tiny_lm())
    mixed = [dataclasses.replace(row, advantage=1e27 if n == 0 else 1.0) for n, row in enumerate(rows)]
    made = Updater(tiny_lm(), told(minibatches=4)).step(mixed)
    assert (made.steps, made.skipped) == (3, 1)
    assert np.isfinite(made.figures["grad_norm"])


@pytest.mark.parametrize(
    "setting",
    [
        {"betas": (0.5, 0.9)},
        {"adam_eps": 0.1},
        {"weight_decay": 0.3},
        {"learning_rate": 0.02},
        {"optimizer": "sgd"},
        {"warmup_steps": 3},
    ],
    ids=str,
)
def test_each_setting_of_the_optimiser_is_torch_s_own(setting: dict[str, Any]) -> None:
    """Two steps equal those of torch's optimiser, given the same gradients."""
    rows = some_rows(4, model=tiny_lm())
    given = {"optimizer": "adamw", "learning_rate": 0.01} | setting
    updater, model = Updater(tiny_lm(), told(**given)), tiny_lm()
    groups: list[dict[str, Any]] = [
        {"params": [one for one in model.parameters() if one.ndim > 1], "weight_decay": given.get("weight_decay", 0.0)},
        {"params": [one for one in model.parameters() if one.ndim == 1], "weight_decay": 0.0},
    ]
    betas, eps = given.get("betas", (0.9, 0.999)), given.get("adam_eps", 1e-8)
    sgd = given["optimizer"] == "sgd"
    plain = torch.optim.SGD(groups) if sgd else torch.optim.AdamW(groups, betas=betas, eps=eps)
    pairs = list(zip(model.parameters(), updater.model.parameters(), strict=True))

    def follow(*_: object) -> None:
        for own, theirs in pairs:
            own.grad = None if theirs.grad is None else theirs.grad.clone()

    optimizer: Any = updater.optimizer
    optimizer.register_step_pre_hook(follow)
    for step in range(2):
        updater.step(rows)
        for group in plain.param_groups:
            group["lr"] = given["learning_rate"] * ((step + 1) / 4 if "warmup_steps" in given else 1.0)
        plain.step()
    assert all(torch.equal(own, theirs) for own, theirs in pairs)
    assert weights_hash(model) != weights_hash(tiny_lm())


def test_bf16_is_the_format_of_products() -> None:
    rows = some_rows(4, model=tiny_lm())
    exact, rounded = (gradients(Updater(tiny_lm(), told(dtype=dtype)), rows) for dtype in ("fp32", "bf16"))
    assert 1e-4 < worst_difference(rounded, exact) < 0.1


def test_a_batch_with_a_bad_row_is_refused_before_a_step() -> None:
    row, *others = some_rows(4, model=tiny_lm())
    updater = Updater(tiny_lm(), told())
    before = weights_hash(updater.model)
    with pytest.raises(ConfigError, match="whose log-probability is not a number"):
        updater.step([*others, dataclasses.replace(row, logprobs_T=np.full_like(row.logprobs_T, np.inf))])
    assert (updater.steps, weights_hash(updater.model)) == (0, before)
