"""Optimiser steps: which rows they get, in which order, when they are skipped, and with which settings."""

import dataclasses
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

from agentlearn.train.arguments import GradientArguments, gradient_arguments  # noqa: E402
from agentlearn.train.update.sequences import TrainingRow  # noqa: E402
from agentlearn.train.update.updater import Updater  # noqa: E402
from agentlearn.train.weights.model import weights_hash  # noqa: E402
from tests.support.tiny_lm import some_rows, tiny_lm  # noqa: E402


def told(**fields: Any) -> GradientArguments:
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
