"""Settings of `train`, and what is refused before a model is loaded."""

from pathlib import Path
from typing import Any

import pytest

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import SequenceClipping
from agentlearn.train.settings import TrainSettings, train_settings
from tests.support.cases import cases


def given(**fields: Any) -> TrainSettings:
    return train_settings({"domain": "math", "model": "weights/small", **fields})


def test_the_update_draws_at_the_temperature_and_from_the_seed_of_the_run() -> None:
    settings = given(temperature=0.8, seed=5)
    assert (settings.gradient.temperature, settings.gradient.seed) == (0.8, 5)
    assert settings.endpoint == "local:weights/small"
    assert settings.folder == Path(".agentlearn/weights/math")


def test_a_model_may_name_its_sampler() -> None:
    settings = given(model="vllm:Qwen/Qwen3-0.6B")
    assert (settings.sampler, settings.model, settings.endpoint) == ("vllm", "Qwen/Qwen3-0.6B", "vllm:Qwen/Qwen3-0.6B")


def test_the_loss_chooses_the_arguments() -> None:
    assert given(gradient={"loss": "gspo"}).gradient.loss_settings == SequenceClipping()
    assert given().gradient.loss == "dapo"


def test_without_a_model_the_domain_s_lab_model_is_trained() -> None:
    assert train_settings({"domain": "math"}).model == "lab:novice"


@pytest.mark.parametrize("loss", ["dapo", "gspo"])
def test_settings_are_stored_and_read_again(loss: str) -> None:
    settings = given(gradient={"loss": loss, "learning_rate": 1e-4, "lora_rank": 4})
    assert TrainSettings.model_validate_json(settings.resolved()) == settings


def test_what_cannot_be_meant_is_one_sentence(subtests: pytest.Subtests) -> None:
    for fields, code, sentence in cases(__file__, "what_cannot_be_meant_is_one_sentence"):
        with subtests.test(repr((fields, code, sentence))):
            with pytest.raises(ConfigError, match=sentence) as refused:
                given(**fields)
            assert refused.value.code == code
            assert refused.value.exit_status == 2
