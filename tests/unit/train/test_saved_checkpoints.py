# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""The files of checkpoints and published weights: the newest is used, none is mixed with another, all are complete."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import gradient_arguments
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.adapter import with_adapter
from agentlearn.train.weights.checkpoint import CheckpointStore, list_checkpoints, restore_checkpoint, save_checkpoint
from agentlearn.train.weights.model import state_hash, weights_hash
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


def test_checkpoints_are_in_order_of_steps_whatever_the_length_of_their_names(tmp_path: Path) -> None:
    one = updater()
    for steps in (999_999, 1_000_000):
        one.steps = steps
        save_checkpoint(tmp_path, one, tiny_tokenizer())
    assert [path.name for path in list_checkpoints(tmp_path)] == ["checkpoint-999999", "checkpoint-1000000"]


def test_weights_in_several_files_are_all_read(tmp_path: Path) -> None:
    one = updater()
    path = save_checkpoint(tmp_path, one, tiny_tokenizer())
    (path / "model.safetensors").unlink()
    one.model.save_pretrained(path, max_shard_size="20KB")
    assert len(list(path.glob("model-*.safetensors"))) > 1
    again = updater(seed=4)
    restore_checkpoint(path, again)
    assert weights_hash(again.model) == weights_hash(one.model)


@pytest.mark.parametrize(
    ("change", "words"),
    [("extra", "1 unknown, 0 missing"), ("renamed", "1 unknown, 1 missing"), ("gone", "0 unknown, 1 missing")],
)
def test_a_checkpoint_with_other_tensors_is_refused(tmp_path: Path, change: str, words: str) -> None:
    path = save_checkpoint(tmp_path, updater(), tiny_tokenizer())
    weights = load_file(path / "model.safetensors")
    tensor = weights["model.layers.0.mlp.up_proj.weight"]
    if change != "gone":
        weights["model.layers.0.mlp.other.weight"] = tensor.clone()
    if change != "extra":
        del weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=words):
        restore_checkpoint(path, updater(seed=4))


def test_a_changed_weight_in_a_checkpoint_is_refused(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, updater(), tiny_tokenizer())
    weights = load_file(path / "model.safetensors")
    weights["model.norm.weight"][0] += 1e-3
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match="have changed since they were saved"):
        restore_checkpoint(path, updater())


def test_a_restored_optimiser_goes_on_where_it_was(tmp_path: Path) -> None:
    rows = some_rows(4, model=tiny_lm())
    one, again = updater(), updater(seed=4)
    one.step(rows)
    path = save_checkpoint(tmp_path, one, tiny_tokenizer(), position={"batch": 1})
    assert dict(restore_checkpoint(path, again).position) == {"batch": 1}
    assert all(torch.equal(a["exp_avg"], b["exp_avg"]) for a, b in zip(*map(moments, (one, again)), strict=True))
    one.step(rows)
    again.step(rows)
    assert weights_hash(again.model) == weights_hash(one.model)


def test_saving_an_adapter_does_not_ask_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("peft")
    from peft.utils import save_and_load

    def asked(*_: object, **__: object) -> bool:
        raise AssertionError("peft asks the hub")

    monkeypatch.setattr(save_and_load, "check_file_exists_on_hf_hub", asked)
    model = with_adapter(tiny_lm(), gradient_arguments({"lora_rank": 2}))
    model.peft_config["default"].base_model_name_or_path = "no-such-owner/no-such-model"
    trained = Updater(model, gradient_arguments({"lora_rank": 2}))
    path = save_checkpoint(tmp_path, trained, tiny_tokenizer())
    assert restore_checkpoint(path, trained).step == 0


def moments(one: Updater) -> list[dict[str, torch.Tensor]]:
    return list(one.optimizer.state.values())


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


def test_a_hash_tells_names_formats_shapes_and_every_tensor_apart() -> None:
    whole = {"a": torch.zeros(2, 3), "b": torch.ones(2), "c": torch.full((2,), 2.0)}
    others = (
        {"a": whole["a"], "b": whole["b"], "d": whole["c"]},
        {**whole, "a": torch.zeros(3, 2)},
        {**whole, "a": torch.zeros(2, 3, dtype=torch.int32)},
        {**whole, "c": torch.full((2,), 3.0)},
        {**whole, "b": torch.tensor([1.0, 1.5])},
        {**whole, "b": whole["c"], "c": whole["b"]},
        {"a": whole["a"], "b": whole["b"]},
    )
    assert len({state_hash(one) for one in (whole, *others)}) == len(others) + 1
    assert state_hash(dict(reversed(whole.items()))) == state_hash(whole)
