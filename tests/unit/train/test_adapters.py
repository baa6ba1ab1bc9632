"""Training continues from an adapter: it keeps its weights, rank and layers, also in checkpoints and served copies."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")

from agentlearn.errors import ConfigError  # noqa: E402
from agentlearn.train.arguments import GradientArguments, gradient_arguments  # noqa: E402
from agentlearn.train.serving.local import load_for_serving  # noqa: E402
from agentlearn.train.serving.weight_sync import served_state  # noqa: E402
from agentlearn.train.update.updater import Updater  # noqa: E402
from agentlearn.train.weights.checkpoint import CheckpointStore  # noqa: E402
from agentlearn.train.weights.model import load_for_training, weights_hash  # noqa: E402
from tests.support.cases import cases  # noqa: E402
from tests.support.families import family_folder, family_model  # noqa: E402
from tests.support.tiny_lm import some_rows  # noqa: E402
from tests.support.tiny_model import forward_logprobs  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def told(**fields: Any) -> GradientArguments:
    return gradient_arguments({"learning_rate": 0.02} | fields)


def make_adapter(folder: Path, base: Path, *, family: str = "qwen3", named: str | None = None, **fields: Any) -> Path:
    """Save an adapter that changes the base model, and return its folder. named: the base model that it names."""
    torch.manual_seed(5)
    wanted = {"r": 3, "lora_alpha": 7, "target_modules": ["q_proj", "down_proj"], "init_lora_weights": False}
    config = peft.LoraConfig(**(wanted | {"task_type": "CAUSAL_LM"} | fields))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = peft.get_peft_model(family_model(family), config)
        adapted.peft_config["default"].base_model_name_or_path = str(base) if named is None else named
        adapted.save_pretrained(folder, save_embedding_layers=False)
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return family_folder("qwen3", tmp_path_factory.mktemp("base") / "qwen3")


@pytest.fixture(scope="module")
def adapter(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_adapter(tmp_path_factory.mktemp("adapter") / "own", base)


def adapter_weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "adapter_model.safetensors")


def logprobs(model: Any) -> list[float]:
    return forward_logprobs(model.eval(), IDS[:2], IDS[2:])


def published(updater: Updater, tokenizer: Any, folder: Path) -> Path:
    return CheckpointStore(folder / "checkpoints", folder / "out", tokenizer).publish(updater)


def test_training_continues_from_the_adapter(base: Path, adapter: Path, tmp_path: Path) -> None:
    loaded = load_for_training(str(adapter), told())
    trained = {name for name, one in loaded.model.named_parameters() if one.requires_grad}
    assert trained
    assert all("lora_" in name for name in trained)
    assert len(trained) == len(adapter_weights(adapter))
    plain = load_for_training(str(base), told()).model
    start = logprobs(loaded.model)
    assert max(abs(one - other) for one, other in zip(start, logprobs(plain), strict=True)) > 0.1

    updater = Updater(loaded.model, told())
    unchanged = adapter_weights(published(updater, loaded.tokenizer, tmp_path / "start"))
    given = adapter_weights(adapter)
    assert unchanged.keys() == given.keys()
    assert all(torch.equal(unchanged[name], given[name]) for name in given)

    assert updater.step(some_rows(4)).steps == 1
    out = published(updater, loaded.tokenizer, tmp_path / "end")
    moved = adapter_weights(out)
    assert any(not torch.equal(moved[name], given[name]) for name in given)
    again = load_for_training(str(out), told()).model
    assert weights_hash(again) == weights_hash(updater.model)
    assert logprobs(again) == logprobs(updater.model)
    config = json.loads((out / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], set(config["target_modules"])) == (3, 7, {"q_proj", "down_proj"})
    assert config["base_model_name_or_path"] == str(base)


def test_a_resumed_run_continues_the_adapter(adapter: Path, tmp_path: Path) -> None:
    loaded = load_for_training(str(adapter), told())
    updater = Updater(loaded.model, told())
    updater.step(some_rows(4))
    files = CheckpointStore(tmp_path / "checkpoints", tmp_path / "out", loaded.tokenizer)
    path = files.save(updater, batches=1)
    again = Updater(load_for_training(str(adapter), told()).model, told())
    assert files.restore(again, path) == 1
    assert weights_hash(again.model) == weights_hash(updater.model)
    for one in (updater, again):
        one.step(some_rows(4, seed=1))
    assert weights_hash(again.model) == weights_hash(updater.model)


def test_a_served_copy_holds_the_continued_adapter(adapter: Path) -> None:
    model = load_for_training(str(adapter), told()).model
    Updater(model, told()).step(some_rows(4))
    merged = family_model("qwen3")
    merged.load_state_dict(dict(served_state(model)))
    assert logprobs(merged) == pytest.approx(logprobs(model), abs=1e-4)


@pytest.mark.parametrize(
    ("fields", "code", "sentence"),
    cases(__file__, "another_shape_than_the_adapter_s_is_refused"),
)
def test_another_shape_than_the_adapter_s_is_refused(
    adapter: Path, fields: dict[str, Any], code: str, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        load_for_training(str(adapter), told(**fields))
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("fields", "sentence"),
    cases(__file__, "adapters_of_other_kinds_are_refused_by_name"),
)
def test_adapters_of_other_kinds_are_refused_by_name(
    base: Path, tmp_path: Path, fields: dict[str, Any], sentence: str
) -> None:
    folder = make_adapter(tmp_path / "other", base, **fields)
    with pytest.raises(ConfigError) as refused:
        load_for_training(str(folder), told())
    assert sentence in refused.value.message
    assert refused.value.code == "bad_config"


@pytest.mark.parametrize("change", ["left out", "added"])
def test_an_adapter_whose_weights_are_not_all_there_is_refused(adapter: Path, tmp_path: Path, change: str) -> None:
    from safetensors.torch import save_file

    folder = shutil.copytree(adapter, tmp_path / "part")
    weights = adapter_weights(adapter)
    first = min(weights)
    changed = dict(weights) | {first.replace("layers.0", "layers.7"): weights[first].clone()}
    if change == "left out":
        changed = {name: one for name, one in weights.items() if name != first}
    save_file(changed, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    counts = "1 of its weights are missing and 0" if change == "left out" else "0 of its weights are missing and 1"
    for load in (lambda: load_for_training(str(folder), told()), lambda: load_for_serving(str(folder))):
        with pytest.raises(ConfigError, match=counts) as refused:
            load()
        assert refused.value.code == "bad_config"
