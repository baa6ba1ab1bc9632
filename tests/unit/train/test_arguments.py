"""Settings of an update, and error messages for contradictory ones. Needs no torch."""

import inspect
import subprocess
import sys
from typing import Any, get_args

import pytest
import yaml

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments, GRPOArguments, GSPOArguments, LossName, gradient_arguments

WITH_KL = {"kl": "k3", "kl_beta": 0.1, "reference": "copy"}


def test_the_methods_are_told_apart_by_the_loss_and_have_their_own_defaults() -> None:
    assert gradient_arguments({}) == GRPOArguments(loss="dapo", eps_low=0.2, eps_high=0.28)
    assert gradient_arguments({"loss": "gspo"}) == GSPOArguments(eps_low=3e-4, eps_high=4e-4)
    assert gradient_arguments({"loss": "luspo"}) == GSPOArguments(loss="luspo", eps_low=3e-4, eps_high=4e-4)
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


def test_layers_of_an_adapter_are_a_list_or_a_text() -> None:
    for given in ("q_proj, v_proj", ["q_proj", "v_proj"]):
        assert gradient_arguments({"lora_targets": given}).lora_targets == ("q_proj", "v_proj")


def test_further_rewards_are_a_mapping_or_a_text() -> None:
    assert gradient_arguments({"rewards": "my:brevity=0.5, my:form"}).rewards == {"my:brevity": 0.5, "my:form": 1.0}
    assert gradient_arguments({"rewards": {"my:brevity": 0.5}}).rewards == {"my:brevity": 0.5}
    for wrong in ("my:brevity=much", "my:brevity=-1", "brevity"):
        with pytest.raises(ConfigError):
            gradient_arguments({"rewards": wrong})


@pytest.mark.parametrize("loss", get_args(LossName))
def test_stored_settings_of_every_loss_are_read_again(loss: str) -> None:
    needed = {"dr_grpo": {"completion_length": 9}, "distill": {"distill_coef": 1.0, "reference": "copy"}}
    told = gradient_arguments({"loss": loss} | needed.get(loss, {}))
    assert gradient_arguments(told.model_dump(mode="json")) == told


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"top_p": 0.9},
            (
                "importance_sampling is 'token_truncate', but a sampler with top_p=0.9, top_k=0 and min_p=0.0 excludes "
                "tokens and does not report the resulting probabilities; set top_p=1, top_k=0 and min_p=0, or "
                "importance_sampling=none"
            ),
        ),
        (
            {"top_k": 20, "importance_sampling": "sequence_mask"},
            (
                "importance_sampling is 'sequence_mask', but a sampler with top_p=1.0, top_k=20 and min_p=0.0 excludes "
                "tokens and does not report the resulting probabilities; set top_p=1, top_k=0 and min_p=0, or "
                "importance_sampling=none"
            ),
        ),
        (
            {"min_p": 0.05},
            (
                "importance_sampling is 'token_truncate', but a sampler with top_p=1.0, top_k=0 and min_p=0.05 "
                "excludes tokens and does not report the resulting probabilities; set top_p=1, top_k=0 and min_p=0, or "
                "importance_sampling=none"
            ),
        ),
        (
            {"importance_sampling": "none", "top_k": 5, "off_policy_mask_threshold": 0.5},
            (
                "off_policy_mask_threshold is 0.5, but a sampler with top_p=1.0, top_k=5 and min_p=0.0 does not report "
                "the probabilities that it is measured with; set top_p=1, top_k=0 and min_p=0, or leave it out"
            ),
        ),
        (
            {"importance_sampling": "none", "importance_floor": 0.5},
            (
                "importance_floor is 0.5, but importance_sampling=none corrects nothing; set importance_sampling, or "
                "leave importance_floor out"
            ),
        ),
        (
            {"loss": "sapo", "delta": 2.0},
            "delta is 2.0, but sapo has a smooth bound; leave delta out",
        ),
        (
            {"loss": "cispo", "eps_high": 5.0},
            "eps_high is 5.0, but cispo bounds its ratio by cispo_cap; leave eps_high out",
        ),
        (
            {"loss": "vespo", "eps_low": 0.1},
            "eps_low is 0.1, but vespo has a smooth bound; leave eps_low out",
        ),
        (
            {"loss": "vespo", "importance_sampling": "sequence_truncate"},
            (
                "importance_sampling is 'sequence_truncate', but vespo takes the ratio of the whole sequence from the "
                "ratios of its tokens; set token_truncate, token_mask or none"
            ),
        ),
        (
            {"loss": "vespo", "sapo_temperature_pos": 2.0},
            ("sapo_temperature_pos is 2.0, but loss is 'vespo', which does not use it; set loss=sapo, or leave it out"),
        ),
        (
            {"vespo_k_neg": 2.0},
            "vespo_k_neg is 2.0, but loss is 'dapo', which does not use it; set loss=vespo, or leave it out",
        ),
        (
            {"cispo_cap": 2.0},
            "cispo_cap is 2.0, but loss is 'dapo', which does not use it; set loss=cispo, or leave it out",
        ),
        (
            {"entropy_coef": 0.1, "entropy_coef_max": 0.2},
            (
                "entropy_coef_max is 0.2, but entropy_coef changes only with a target; set entropy_target, or leave "
                "entropy_coef_max out"
            ),
        ),
        (
            {"entropy_coef": 0.1, "entropy_target": 0.3, "entropy_coef_max": 0.05},
            (
                "entropy_coef is 0.1, but with entropy_target it stays between entropy_coef_min=0.0 and "
                "entropy_coef_max=0.05; give a value between them"
            ),
        ),
        (
            {"rewards": {"exact": 1.0}},
            "rewards names 'exact', but a further reward is a function; write module:function",
        ),
        (
            {"reward_weight": 0.5},
            (
                "reward_weight is 0.5 and reward_combination is 'sum_then_normalise', but there is only one reward; "
                "add rewards, or leave both out"
            ),
        ),
        (
            {"rewards": {"my:brevity": 1.0}, "reward_combination": "normalise_then_sum", "advantages": "max_rl"},
            (
                "advantages is 'max_rl', but reward_combination=normalise_then_sum has an advantage of its own; leave "
                "advantages out, or set reward_combination=sum_then_normalise"
            ),
        ),
        (
            {"advantages": "max_rl", "overlong": "punish", "overlong_window": 9},
            (
                "advantages is 'max_rl', which needs rewards of at least 0, but overlong=punish makes rewards "
                "negative; set overlong=mask, or other advantages"
            ),
        ),
        (
            {"dynamic_sampling_limit": 5, "schedule": "linear"},
            (
                "schedule is 'linear' and falls to 0 at the last step, but with dynamic_sampling_limit the number of "
                "steps is not known before; set schedule=constant, or leave dynamic_sampling_limit out"
            ),
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
        {"loss": "luspo", "delta": 2.0},
        {"loss": "sapo", "sapo_temperature_neg": 2.0},
        {"loss": "vespo", "vespo_k_pos": 1.0, "importance_sampling": "token_mask", "importance_floor": 0.5},
        {"min_p": 0.1, "importance_sampling": "none"},
        {"entropy_target": 0.3},
        {"entropy_coef": 0.01, "entropy_target": 0.3, "entropy_coef_min": 0.01, "entropy_coef_max": 0.1},
        {"rewards": {"my:brevity": 0.5}, "reward_weight": 0.0, "reward_combination": "normalise_then_sum"},
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
        {"importance_floor": 1.0},
        {"off_policy_mask_threshold": 0},
        {"top_entropy_quantile": 1.1},
        {"entropy_coef": -0.1},
        {"min_p": 1.5},
        {"dynamic_sampling_limit": 1},
        {"rewards": {"my:brevity": -1.0}},
        {"loss": "sapo", "sapo_temperature_pos": 0},
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
