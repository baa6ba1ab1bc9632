"""Settings of an update, and error messages for contradictory ones. Needs no torch."""

import inspect
import subprocess
import sys
from typing import Any

import pytest
import yaml

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments, GRPOArguments, GSPOArguments, gradient_arguments

WITH_KL = {"kl": "k3", "kl_beta": 0.1, "reference": "copy"}


def test_the_methods_are_told_apart_by_the_loss_and_have_their_own_defaults() -> None:
    assert gradient_arguments({}) == GRPOArguments(loss="dapo", eps_low=0.2, eps_high=0.28)
    assert gradient_arguments({"loss": "gspo"}) == GSPOArguments(eps_low=3e-4, eps_high=4e-4)
    assert isinstance(gradient_arguments({"loss": "gspo"}), GradientArguments)


def test_a_recipe_names_them() -> None:
    recipe = """
        loss: dr_grpo
        completion_length: 512
        learning_rate: 1.0e-5
        betas: [0.9, 0.95]
        lora_rank: 8
        lora_targets: q_proj
        kl: k3
        kl_beta: 0.01
        reference: adapter_off
    """
    told = gradient_arguments(yaml.safe_load(recipe))
    assert told.betas == (0.9, 0.95)
    assert told.lora_targets == ("q_proj",)
    assert told.reference == "adapter_off"
    assert gradient_arguments(told.model_dump()) == told


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"top_p": 0.9},
            (
                "importance_sampling is 'token_truncate', but a sampler with top_p=0.9 and top_k=0 excludes tokens "
                "and does not report the resulting probabilities; set top_p=1 and top_k=0, or importance_sampling=none"
            ),
        ),
        (
            {"top_k": 20, "importance_sampling": "sequence_mask"},
            (
                "importance_sampling is 'sequence_mask', but a sampler with top_p=1.0 and top_k=20 excludes tokens "
                "and does not report the resulting probabilities; set top_p=1 and top_k=0, or importance_sampling=none"
            ),
        ),
        (
            {"kl": "k1", "kl_beta": 0.1, "reference": "adapter_off"},
            "reference is 'adapter_off', but lora_rank=0 trains without an adapter; set lora_rank, or reference=copy",
        ),
        (
            {"kl": "k1", "kl_beta": 0.1},
            "kl is 'k1', but there is no reference; set reference=adapter_off or copy",
        ),
        (
            {"kl": "k1", "reference": "copy"},
            "kl is 'k1', but kl_beta=0 gives it no weight; set kl_beta, or kl=none",
        ),
        ({"kl_beta": 0.1}, "kl_beta is 0.1, but kl=none estimates no divergence; set kl=k3, or kl_beta=0"),
        (
            {"reference": "copy"},
            "reference is 'copy', but kl=none does not use it; set kl and kl_beta, or reference=none",
        ),
        (
            {"loss": "cispo", "delta": 2.0},
            "delta is 2.0, but cispo bounds its ratio by cispo_cap; leave delta out",
        ),
        (
            {"delta": 1.1},
            "delta is 1.1, but ratios are clipped at 1.28 already; give a delta above 1 + eps_high",
        ),
        (
            {"loss": "dr_grpo"},
            (
                "loss is 'dr_grpo' and completion_length is None, but only dr_grpo divides by it, and needs "
                "it; set it to the largest number of tokens of a rollout, or leave it out"
            ),
        ),
        (
            {"overlong": "punish"},
            "overlong is 'punish', but there is no window over which the penalty rises; set overlong_window",
        ),
        (
            {"overlong_window": 10},
            "overlong_window is 10, but overlong is 'train'; set overlong=punish",
        ),
        (
            {"lora_dropout": 0.1},
            "lora_dropout is 0.1, but lora_rank=0 trains without an adapter; set lora_rank",
        ),
    ],
)
def test_contradictions_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        gradient_arguments(given)
    assert str(refused.value) == sentence
    assert refused.value.code == "contradiction"


@pytest.mark.parametrize(
    "given",
    [
        {"top_p": 0.9, "importance_sampling": "none"},
        WITH_KL,
        WITH_KL | {"reference": "adapter_off", "lora_rank": 4},
        WITH_KL | {"reference": "copy_int8", "loss": "gspo"},
        {"loss": "dr_grpo", "completion_length": 9},
        {"overlong": "punish", "overlong_window": 9},
        {"delta": 2.0},
    ],
)
def test_what_goes_together_is_taken(given: dict[str, Any]) -> None:
    assert gradient_arguments(given).passes == 1


@pytest.mark.parametrize(
    "given",
    [
        {"learning_rate": 0},
        {"eps_low": 1},
        {"delta": 1},
        {"temperature": 0},
        {"tokens_per_microbatch": 0},
        {"iterations": 0},
        {"importance_cap": 0.5},
        {"lora_targets": []},
        {"betas": [0.9, 1.0]},
    ],
)
def test_each_field_has_a_range(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        gradient_arguments(given)
    assert refused.value.code == "out_of_range"


def test_a_field_of_the_other_method_is_unknown() -> None:
    with pytest.raises(ConfigError, match="there is no setting 'cispo_cap'"):
        gradient_arguments({"loss": "gspo", "cispo_cap": 2.0})


def test_every_field_says_what_it_is() -> None:
    source = inspect.getsource(sys.modules[GradientArguments.__module__])
    for name in GRPOArguments.model_fields:
        after = source.split(f"    {name}: ", 1)[1].split("\n    ", 2)[1]
        assert after.startswith('"""'), name


def test_reading_them_costs_no_torch() -> None:
    script = "import sys; import agentlearn.train.arguments; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"
