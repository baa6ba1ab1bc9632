# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""Each setting of loading has its effect: adapters, references, number formats and recomputed layers."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from agentlearn.train.arguments import Arguments, gradient_arguments
from agentlearn.train.weights.model import Int8Linear, load_for_training, quantised, weights_hash
from tests.support.tiny_lm import tiny_lm, tiny_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of transformers, in what peft reads


def told(**fields: Any) -> Arguments:
    return gradient_arguments(fields)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("tiny")
    tiny_lm(seed=3).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def test_the_adapter_has_the_rank_the_scale_and_the_dropout_that_are_set(saved: str) -> None:
    given = told(lora_rank=4, lora_alpha=6.0, lora_dropout=0.25, lora_targets=["q_proj", "up_proj"])
    model: Any = load_for_training(saved, given).model
    adapted = {name: one for name, one in model.named_modules() if hasattr(one, "lora_A") and hasattr(one, "scaling")}
    assert {name.rpartition(".")[2] for name in adapted} == {"q_proj", "up_proj"}
    for one in adapted.values():
        assert one.lora_A["default"].weight.shape[0] == 4
        assert one.scaling["default"] == 1.5
        assert one.lora_dropout["default"].p == 0.25


def test_all_linear_leaves_out_the_head(saved: str) -> None:
    model: Any = load_for_training(saved, told(lora_rank=2)).model
    names = {name.rpartition(".")[2] for name, one in model.named_modules() if hasattr(one, "lora_A")}
    assert {"q_proj", "o_proj", "down_proj"} <= names
    assert "lm_head" not in names


@pytest.mark.parametrize("wanted", [False, True])
def test_layers_are_recomputed_when_asked_for(saved: str, wanted: bool) -> None:
    model: Any = load_for_training(saved, told(gradient_checkpointing=wanted)).model
    assert model.is_gradient_checkpointing == wanted


@pytest.mark.parametrize(("kind", "rounded"), [("copy", 0), ("copy_int8", 14)])
def test_a_reference_is_a_frozen_copy_of_its_kind(saved: str, kind: str, rounded: int) -> None:
    loaded = load_for_training(saved, told(reference=kind, kl="k3", kl_beta=0.1))
    reference: Any = loaded.reference
    assert not any(one.requires_grad for one in reference.parameters())
    assert not reference.training
    assert sum(isinstance(one, Int8Linear) for one in reference.modules()) == rounded
    assert torch.equal(reference.lm_head.weight, tiny_lm(seed=3).lm_head.weight)
    assert reference is not loaded.model
    assert weights_hash(loaded.model) == weights_hash(tiny_lm(seed=3))


@pytest.mark.parametrize(("rank", "formats"), [(0, {torch.float32}), (2, {torch.float32, torch.bfloat16})])
def test_bf16_is_for_frozen_weights_only(saved: str, rank: int, formats: set[Any]) -> None:
    model = load_for_training(saved, told(dtype="bf16", lora_rank=rank)).model
    assert {one.dtype for one in model.parameters()} == formats
    assert {one.dtype for one in model.parameters() if one.requires_grad} == {torch.float32}


def test_int8_rounds_each_output_to_the_nearest_of_its_own_steps() -> None:
    torch.manual_seed(0)
    linear = torch.nn.Linear(8, 3)
    with torch.no_grad():
        linear.weight[1] *= 1000
        linear.bias.fill_(0.5)
    rounded = Int8Linear(linear)
    step = linear.weight.abs().amax(1, keepdim=True) / 127
    apart = rounded(torch.eye(8)).T - 0.5 - linear.weight
    assert (apart.abs() <= step / 2 * 1.001).all()


def test_the_head_of_a_rounded_model_stays_whole() -> None:
    model: Any = quantised(tiny_lm())
    assert type(model.lm_head) is torch.nn.Linear
