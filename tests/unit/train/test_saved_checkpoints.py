"""The files of checkpoints and published weights: the newest is used, none is mixed with another, all are complete."""

from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import gradient_arguments
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import (
    CheckpointStore,
    list_checkpoints,
)
from agentlearn.train.weights.model import weights_hash
from tests.support.tiny_lm import some_rows, tiny_lm, tiny_tokenizer


def updater(seed: int = 0, **fields: object) -> Updater:
    return Updater(tiny_lm(seed=seed), gradient_arguments({"learning_rate": 0.01, **fields}))


def store(folder: Path, keep: int = 2) -> CheckpointStore:
    return CheckpointStore(folder / "checkpoints", folder / "out", tiny_tokenizer(), keep=keep)


def test_as_many_checkpoints_as_set_are_kept_and_the_newest_is_found(tmp_path: Path) -> None:
    one, files = updater(), store(tmp_path)
    assert files.newest() is None
    for steps in (8, 9, 10, 11):
        one.steps = steps
        files.save(one, batches=steps)
    assert [path.name for path in list_checkpoints(files.folder)] == ["checkpoint-000010", "checkpoint-000011"]
    newest = files.newest()
    assert newest == files.folder / "checkpoint-000011"
    again = updater(seed=4)
    assert files.restore(again, newest) == 11
    assert (again.steps, weights_hash(again.model)) == (11, weights_hash(one.model))


def test_weights_in_several_files_are_all_read(tmp_path: Path) -> None:
    one, files = updater(), store(tmp_path)
    path = files.save(one, batches=1)
    (path / "model.safetensors").unlink()
    one.model.save_pretrained(path, max_shard_size="20KB")
    assert len(list(path.glob("model-*.safetensors"))) > 1
    again = updater(seed=4)
    assert files.restore(again, path) == 1
    assert weights_hash(again.model) == weights_hash(one.model)


@pytest.mark.parametrize(
    ("change", "words"),
    [("extra", "1 unknown, 0 missing"), ("renamed", "1 unknown, 1 missing"), ("gone", "0 unknown, 1 missing")],
)
def test_a_checkpoint_with_other_tensors_is_refused(tmp_path: Path, change: str, words: str) -> None:
    path = CheckpointStore(tmp_path, tmp_path, tiny_tokenizer()).save(updater(), 0)
    weights = load_file(path / "model.safetensors")
    tensor = weights["model.layers.0.mlp.up_proj.weight"]
    if change != "gone":
        weights["model.layers.0.mlp.other.weight"] = tensor.clone()
    if change != "extra":
        del weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=words):
        CheckpointStore.restore(updater(seed=4), path)


def test_a_changed_weight_in_a_checkpoint_is_refused(tmp_path: Path) -> None:
    path = CheckpointStore(tmp_path, tmp_path, tiny_tokenizer()).save(updater(), 0)
    weights = load_file(path / "model.safetensors")
    weights["model.norm.weight"][0] += 1e-3
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match="have changed since they were saved"):
        CheckpointStore.restore(updater(), path)


def test_published_weights_replace_what_was_there(tmp_path: Path) -> None:
    one, files = updater(), store(tmp_path)
    files.out.mkdir()
    (files.out / "adapter_model.safetensors").write_text("of an earlier run")
    for _ in range(2):
        one.step(some_rows(4, model=tiny_lm()))
        assert files.publish(one) == files.out
        assert weights_hash(AutoModelForCausalLM.from_pretrained(files.out)) == weights_hash(one.model)
    assert not (files.out / "adapter_model.safetensors").exists()
    assert AutoTokenizer.from_pretrained(files.out).encode("w5 w7") == [5, 7]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]  # no draft is left
