"""Settings of an update, and error messages for contradictory ones. Needs no torch."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import yaml

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import (
    LOSS_SETTINGS,
    Distillation,
    GradientArguments,
    LossName,
    LossSettings,
    gradient_arguments,
)
from scripts.docs import update_settings
from tests.support.cases import cases

DISTILS = {"distillation": {"coef": 1.0}, "reference": "copy"}
WITH_KL = {"kl": "k3", "kl_beta": 0.1, "reference": "copy"}


def bounds(**fields: object) -> tuple[float, float]:
    own = gradient_arguments(fields).loss_settings.model_dump()
    return own["eps_low"], own["eps_high"]


def test_the_loss_chooses_its_settings_and_their_defaults() -> None:
    assert gradient_arguments({}) == GradientArguments()
    assert bounds() == bounds(loss="grpo") == (0.2, 0.28)
    assert bounds(loss="gspo") == bounds(loss="luspo") == (3e-4, 4e-4)
    given = {"loss": "gspo", "loss_settings": {"eps_low": 0.1}, "loss_settings.eps_high": "0.3"}
    assert bounds(**given) == (0.1, 0.3), "a recipe, and --set over it"
    assert type(gradient_arguments({"loss": "distill", **DISTILS}).loss_settings) is LossSettings


def test_a_recipe_names_them() -> None:
    recipe = """
        loss: dr_grpo
        loss_settings:
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


def test_stored_settings_of_every_loss_are_read_again(subtests: pytest.Subtests) -> None:
    for loss in get_args(LossName):
        with subtests.test(repr(loss)):
            needed = {"dr_grpo": {"loss_settings": {"completion_length": 9}}, "distill": DISTILS}
            told = gradient_arguments({"loss": loss} | needed.get(loss, {}))
            assert gradient_arguments(told.model_dump(mode="json")) == told


def test_contradictions_are_refused(subtests: pytest.Subtests) -> None:
    for given, sentence in cases(__file__, "contradictions_are_refused"):
        with subtests.test(repr((given, sentence))):
            with pytest.raises(ConfigError) as refused:
                gradient_arguments(given)
            assert str(refused.value) == sentence
            assert refused.value.code == "bad_config"


def test_what_goes_together_is_taken(subtests: pytest.Subtests) -> None:
    for given in [
        {"top_p": 0.9, "importance_sampling": "none"},
        WITH_KL,
        WITH_KL | {"reference": "adapter_off", "lora_rank": 4},
        WITH_KL | {"reference": "copy", "loss": "gspo"},
        {"loss": "dr_grpo", "loss_settings": {"completion_length": 9}},
        {"overlong_window": 9},
        {"loss_settings": {"delta": 2.0}},
        {"loss": "luspo", "loss_settings": {"delta": 2.0}},
        {"loss": "sapo", "loss_settings": {"temperature_neg": 2.0}},
        {"loss": "vespo", "importance_sampling": "token_mask", "importance_floor": 0.5},
        {"min_p": 0.1, "importance_sampling": "none"},
        {"rewards": {"my:brevity": 0.5}, "reward_weight": 0.0, "reward_combination": "normalise_then_sum"},
    ]:
        with subtests.test(repr(given)):
            assert gradient_arguments(given).passes == 1


def test_each_field_has_a_range(subtests: pytest.Subtests) -> None:
    for given in cases(__file__, "each_field_has_a_range"):
        with subtests.test(repr(given)):
            with pytest.raises(ConfigError) as refused:
                gradient_arguments(given)
            assert refused.value.code == "bad_config"


def test_a_setting_that_stands_elsewhere_is_named_with_its_place(subtests: pytest.Subtests) -> None:
    for given, sentence in cases(__file__, "settings_that_stand_elsewhere"):
        with subtests.test(repr(given)):
            with pytest.raises(ConfigError) as refused:
                gradient_arguments(given)
            assert str(refused.value) == sentence


def test_every_loss_and_setting_is_documented_and_tested() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs/train.md").read_text()
    documented = set(re.findall(r"[\w]+", " ".join(re.findall(r"`([^`]*)`", page + update_settings()))))
    files = [*root.glob("tests/unit/train/*.py"), root / "tests/support/trl_oracle.py"]
    tested = set(re.findall(r"\w+", " ".join(one.read_text() for one in files if one.name != Path(__file__).name)))
    kinds = (GradientArguments, Distillation, *LOSS_SETTINGS.values())
    both, losses = {name for kind in kinds for name in kind.model_fields}, {*LOSS_SETTINGS}
    assert losses == set(get_args(LossName))
    rows = set(re.findall(r"^\| `(\w+)`", page.split("## Losses")[1], re.MULTILINE))
    assert losses - rows == set(), "losses without a row in the table of losses in docs/train.md"
    assert (losses | both) - documented == set(), "not in docs/train.md"
    assert (losses | both) - tested == set(), "in no test"


def test_every_field_says_what_it_is() -> None:
    source = inspect.getsource(sys.modules[GradientArguments.__module__])
    for name in {
        name for kind in (GradientArguments, Distillation, *LOSS_SETTINGS.values()) for name in kind.model_fields
    }:
        after = source.split(f"    {name}: ", 1)[1].split("\n    ", 2)[1]
        assert after.startswith('"""'), name


def test_reading_them_costs_no_torch() -> None:
    script = "import sys; import agentlearn.train.arguments; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"
