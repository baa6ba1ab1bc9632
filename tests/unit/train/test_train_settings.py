"""Settings of `train`, and what is refused before a model is loaded."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentlearn.errors import ConfigError
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
    assert given(gradient={"loss": "gspo"}).gradient.eps_low == 3e-4
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


def test_the_command_imports_no_torch_before_a_run_starts() -> None:
    program = (
        "import sys\n"
        "for name in ('torch', 'transformers', 'peft', 'accelerate', 'vllm'): sys.modules[name] = None\n"
        "import agentlearn.cli.train, agentlearn_demo.lab_command, agentlearn.doctor\n"
        "import agentlearn.train.arguments, agentlearn.train.report, agentlearn.train.settings\n"
        "import agentlearn.train.serving.local, agentlearn.train.serving.vllm\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
