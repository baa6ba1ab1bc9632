# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""Weights in bf16 without a copy in fp32: small updates add up, and a resumed run has the same bits."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import Arguments, gradient_arguments
from agentlearn.train.update import rounded_adamw
from agentlearn.train.update.rounded_adamw import RoundedAdamW, rounded
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import restore_checkpoint, save_checkpoint
from agentlearn.train.weights.model import load_for_training, weights_hash
from tests.support.gradients import gradients
from tests.support.tiny_lm import some_rows, tiny_lm, tiny_tokenizer, worst_difference

ADAM: dict[str, Any] = {"betas": (0.9, 0.999), "eps": 1e-8}


def told(**fields: Any) -> Arguments:
    return gradient_arguments({"dtype": "bf16", "master_weights": False, "learning_rate": 1e-3} | fields)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tiny_lm().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@given(exact=st.floats(-(2.0**90), 2.0**90, width=32), seed=st.integers(0, 1000))
def test_a_number_is_rounded_to_one_of_its_two_neighbours(exact: float, seed: int) -> None:
    number = torch.tensor([exact])
    found = float(rounded(number, torch.Generator().manual_seed(seed)))
    below = float((number.view(torch.int32) & -(2**16)).view(torch.float32))
    above = float(((number.view(torch.int32) & -(2**16)) + 2**16).view(torch.float32))
    assert found in (below, above)
    assert found == exact or below != exact


def test_rounding_is_right_on_average_for_both_signs() -> None:
    chance = torch.Generator().manual_seed(0)
    for exact in (1.001, -1.001, 0.3, -7e-5):
        found = rounded(torch.full((200_000,), exact), chance).double()
        assert float(found.mean()) == pytest.approx(exact, rel=1e-4)


def test_updates_far_below_the_precision_add_up() -> None:
    """At the default learning rate torch's AdamW changes no weight in bf16. Ours moves them as much as in fp32."""
    count, steps, rate = 20_000, 100, 1e-6
    ours, theirs, exact = (torch.nn.Parameter(torch.ones(count, dtype=one)) for one in (*[torch.bfloat16] * 2, None))
    optimizers = (
        RoundedAdamW([{"params": [ours]}], lr=rate, seed=0, **ADAM),
        torch.optim.AdamW([theirs], lr=rate, weight_decay=0, **ADAM),
        torch.optim.AdamW([exact], lr=rate, weight_decay=0, **ADAM),
    )
    for _ in range(steps):
        for weight, optimizer in zip((ours, theirs, exact), optimizers, strict=True):
            weight.grad = torch.ones_like(weight)
            optimizer.step()
    moved = [float((one.detach().double() - 1).mean()) for one in (ours, theirs, exact)]
    assert moved[1] == 0
    assert moved[2] == pytest.approx(-rate * steps, rel=0.1)
    assert moved[0] == pytest.approx(moved[2], rel=0.4)


def test_the_exact_result_is_that_of_adamw() -> None:
    """With weights in fp32 of which the rounding takes the last 16 bits, beside torch's AdamW on the same numbers."""
    torch.manual_seed(0)
    start, grads = torch.randn(64, 8).bfloat16().float(), [torch.randn(64, 8) for _ in range(3)]
    ours = torch.nn.Parameter(start.bfloat16())
    exact = torch.nn.Parameter(start.clone())
    mine = RoundedAdamW([{"params": [ours], "weight_decay": 0.1}], lr=0.01, seed=0, **ADAM)
    beside = torch.optim.AdamW([exact], lr=0.01, weight_decay=0.1, **ADAM)
    for grad in grads:
        with torch.no_grad():
            exact.copy_(ours)
        ours.grad_dtype = torch.float32
        ours.grad, exact.grad = grad, grad.clone()
        mine.step()
        beside.step()
        assert torch.all((ours.detach().float() - exact.detach()).abs() <= exact.detach().abs() / 2**7 + 1e-9)
    for name in ("exp_avg", "exp_avg_sq"):
        assert torch.allclose(mine.state[ours][name], beside.state[exact][name], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    ("decay", "changes"), [(0.0, {}), (0.3, {}), (0.1, {"eps": 0.1}), (0.1, {"betas": (0.5, 0.7)})]
)
def test_without_rounding_the_weights_are_those_of_adamw(
    decay: float, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounding to bf16 would hide a small mistake, so it is left out here."""

    def not_rounded(exact: Tensor, _chance: torch.Generator) -> Tensor:
        return exact

    monkeypatch.setattr(rounded_adamw, "rounded", not_rounded)
    torch.manual_seed(0)
    start, grads = torch.randn(64, 8), [torch.randn(64, 8) for _ in range(4)]
    ours, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    how = ADAM | changes
    mine = RoundedAdamW([{"params": [ours], "weight_decay": decay}], lr=0.01, seed=0, **how)
    beside = torch.optim.AdamW([theirs], lr=0.01, weight_decay=decay, **how)
    for grad in grads:
        ours.grad, theirs.grad = grad.clone(), grad.clone()
        mine.step()
        beside.step()
        assert torch.allclose(ours.detach(), theirs.detach(), rtol=1e-6, atol=1e-7)


def moved_by_rounding(*, seed: int = 0, steps: int = 1, skipped: int = 0) -> list[Tensor]:
    """Return which weights the rounding of the last step moved, in two groups of the same weights and gradients."""
    groups = [torch.nn.Parameter(torch.ones(4000, dtype=torch.bfloat16)) for _ in range(2)]
    optimizer = RoundedAdamW([{"params": [one], "weight_decay": 0.0} for one in groups], lr=1e-3, seed=seed, **ADAM)
    for step in range(steps):
        for one in groups:
            with torch.no_grad():
                one.fill_(1)
            one.grad = torch.ones_like(one) if step >= skipped else None
        optimizer.step()
    return [one.detach() != 1 for one in groups]


def test_rounding_is_by_chance_anew_in_each_step_group_and_seed() -> None:
    """The same weights would be moved again and again otherwise, and all others never."""
    first, other_group = moved_by_rounding()
    (other_seed, _), (second, _) = moved_by_rounding(seed=1), moved_by_rounding(steps=2)
    same_by_chance = 0.62  # about a quarter moves, so independent ones agree in 1/16 + 9/16 of the weights
    assert 0.2 < float(first.double().mean()) < 0.3
    for one in (other_group, other_seed, second):
        assert float((one == first).double().mean()) == pytest.approx(same_by_chance, abs=0.05)
    assert torch.equal(moved_by_rounding()[0], first)
    assert not torch.equal(moved_by_rounding(steps=2, skipped=1)[0], first)  # a step without a gradient counts too


def test_a_restored_state_is_a_copy_in_fp32() -> None:
    def one_step(weight: Any, optimizer: Any) -> None:
        weight.grad = torch.full_like(weight, 1 / 3)
        optimizer.step()

    def fresh() -> tuple[Any, RoundedAdamW]:
        weight = torch.nn.Parameter(torch.ones(8, dtype=torch.bfloat16))
        return weight, RoundedAdamW([{"params": [weight], "weight_decay": 0.0}], lr=1e-3, seed=0, **ADAM)

    weight, optimizer = fresh()
    weight.grad_dtype = torch.float32
    weight.grad = torch.rand(8)
    optimizer.step()
    saved = optimizer.state_dict()
    before = {name: value.clone() for name, value in saved["state"][0].items()}
    other, restored = fresh()
    restored.load_state_dict(saved)
    for name, value in before.items():
        assert torch.equal(restored.state[other][name], value), name
    one_step(other, restored)
    assert restored.param_groups[0]["steps"] == 2
    for name, value in before.items():
        assert torch.equal(saved["state"][0][name], value), name
        assert not torch.equal(restored.state[other][name], value), name


def test_weights_are_loaded_and_stay_in_bf16(saved: str) -> None:
    loaded = load_for_training(saved, told())
    assert {one.dtype for one in loaded.model.parameters()} == {torch.bfloat16}
    updater = Updater(loaded.model, told())
    before = weights_hash(loaded.model)
    assert updater.step(some_rows(6)).steps == 1
    assert weights_hash(loaded.model) != before
    assert {one.dtype for one in loaded.model.parameters()} == {torch.bfloat16}
    state = updater.state_dict()["optimizer"]["state"]
    assert {one["exp_avg"].dtype for one in state.values()} == {torch.float32}


def test_gradients_of_many_micro_batches_add_up_in_fp32(saved: str) -> None:
    rows = some_rows(40)
    loaded = load_for_training(saved, told()).model
    one, many = (gradients(Updater(loaded, told(tokens_per_microbatch=n)), rows) for n in (10_000, 1))
    assert {grad.dtype for grad in many.values()} == {torch.float32}
    assert worst_difference(many, one) < 0.01


def test_a_resumed_run_has_the_same_bits(saved: str, tmp_path: Path) -> None:
    batches = [some_rows(6, seed=n) for n in range(4)]
    whole, first, second = (Updater(load_for_training(saved, told()).model, told()) for _ in range(3))
    for rows in batches:
        whole.step(rows)
    for rows in batches[:2]:
        first.step(rows)
    path = save_checkpoint(tmp_path, first, tiny_tokenizer())
    restore_checkpoint(path, second)
    for rows in batches[2:]:
        second.step(rows)
    assert weights_hash(second.model) == weights_hash(whole.model)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"dtype": "fp32"},
            "master_weights is false, but dtype is 'fp32'; set dtype=bf16, or leave master_weights out",
        ),
        (
            {"lora_rank": 8},
            (
                "master_weights is false, but with lora_rank=8 only the small adapter is fp32; leave master_weights "
                "out, or set lora_rank=0"
            ),
        ),
        (
            {"optimizer": "sgd"},
            "master_weights is false, but optimizer=sgd would round small steps away; set optimizer=adamw",
        ),
    ],
)
def test_settings_that_would_not_work_are_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        told(**fields)
    assert str(refused.value) == sentence
