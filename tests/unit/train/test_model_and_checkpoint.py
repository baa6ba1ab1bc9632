"""Loading models, adapters and references; a resumed run equals an uninterrupted one, bit by bit."""

import random
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

from agentlearn.errors import ConfigError  # noqa: E402
from agentlearn.train.arguments import GradientArguments, gradient_arguments  # noqa: E402
from agentlearn.train.update.logprob_model import LogprobModel  # noqa: E402
from agentlearn.train.update.updater import Updater  # noqa: E402
from agentlearn.train.weights.checkpoint import STATE, CheckpointStore, list_checkpoints  # noqa: E402
from agentlearn.train.weights.model import load_for_training, weights_hash  # noqa: E402
from tests.support.families import family_folder  # noqa: E402
from tests.support.tiny_lm import some_rows, tiny_lm, tiny_tokenizer  # noqa: E402

KL = {"kl": "k3", "kl_beta": 0.5}


def told(**fields: Any) -> GradientArguments:
    return gradient_arguments({"learning_rate": 0.02} | fields)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint of a tiny model with its tokenizer."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_lm(seed=3).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def test_an_adapter_is_all_that_trains_and_changes_nothing_at_first(saved: str) -> None:
    rows = some_rows(4, model=tiny_lm(seed=3))
    loaded = load_for_training(saved, told(lora_rank=4, lora_targets="q_proj"))
    trained = [name for name, one in loaded.model.named_parameters() if one.requires_grad]
    assert trained
    assert all("lora_" in name and "q_proj" in name for name in trained)
    updater = Updater(loaded.model, told(lora_rank=4))
    frozen = {name: one.clone() for name, one in loaded.model.named_parameters() if not one.requires_grad}
    first = updater.step(rows).figures["mismatch/kl"]
    assert first == pytest.approx(Updater(tiny_lm(seed=3), told()).step(rows).figures["mismatch/kl"], abs=1e-6)
    for name, one in loaded.model.named_parameters():
        assert name not in frozen or torch.equal(one, frozen[name])


def test_frozen_weights_are_halved_and_the_adapter_is_not(saved: str) -> None:
    model = load_for_training(saved, told(lora_rank=4, dtype="bf16")).model
    kinds = {(one.requires_grad, one.dtype) for one in model.parameters()}
    assert kinds == {(True, torch.float32), (False, torch.bfloat16)}
    updater = Updater(model, told(lora_rank=4, dtype="bf16"))
    assert updater.step(some_rows(4)).steps == 1
    assert {one.dtype for one in load_for_training(saved, told(dtype="bf16")).model.parameters()} == {torch.float32}


def test_without_the_adapter_is_the_same_reference_as_a_copy(saved: str) -> None:
    """After some steps, where the policy has moved away from both."""
    rows = some_rows(6, model=tiny_lm(seed=3))
    found = []
    for reference in ("adapter_off", "copy"):
        arguments = told(lora_rank=4, reference=reference, **KL)
        loaded = load_for_training(saved, arguments)
        updater = Updater(loaded.model, arguments, reference=loaded.reference)
        made = [updater.step(rows) for _ in range(3)]
        found.append([one.figures["kl"] for one in made])
    off, copy = found
    assert off[0] == pytest.approx(0, abs=1e-8)
    assert off[2] > 1e-4
    assert off == pytest.approx(copy, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize(
    "fields",
    [{}, {"lora_rank": 4, "lora_dropout": 0.2}, {"minibatches": 2, "iterations": 2, "schedule": "linear"}],
    ids=["full", "adapter with dropout", "several passes"],
)
def test_a_resumed_run_is_bit_equal_to_one_that_was_not_cut(fields: dict[str, Any], saved: str, tmp_path: Path) -> None:
    arguments = told(**fields)
    batches = [some_rows(5, seed=n) for n in range(4)]

    def fresh() -> tuple[Updater, Any]:
        loaded = load_for_training(saved, arguments)
        return Updater(loaded.model, arguments, total_steps=40), loaded.tokenizer

    whole, tokenizer = fresh()
    for batch in batches[:2]:
        whole.step(batch)
    path = CheckpointStore(tmp_path, tmp_path, tokenizer).save(whole, 7)
    drawn = (random.random(), float(np.random.random()), float(torch.rand(())))
    saved_weights = weights_hash(whole.model)
    torch.manual_seed(99)  # chance goes its own way in between, and is put back
    again, _ = fresh()
    resumed = CheckpointStore.restore(again, path)
    assert (again.steps, resumed) == (whole.steps, 7)
    assert weights_hash(again.model) == saved_weights
    assert (random.random(), float(np.random.random()), float(torch.rand(()))) == drawn
    state = torch.get_rng_state()
    for batch in batches[2:]:
        whole.step(batch)
    torch.set_rng_state(state)
    for batch in batches[2:]:
        again.step(batch)
    assert weights_hash(again.model) == weights_hash(whole.model) != saved_weights


def test_a_write_that_is_cut_leaves_no_checkpoint(saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_for_training(saved, told())
    updater = Updater(loaded.model, told())

    def cut(*_: object, **__: object) -> None:
        raise OSError("no room left")

    with monkeypatch.context() as cutting:
        cutting.setattr(torch, "save", cut)
        with pytest.raises(OSError, match="no room left"):
            CheckpointStore(tmp_path, tmp_path, loaded.tokenizer).save(updater, 0)
    assert list_checkpoints(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == [".checkpoint-000000.half"]
    assert CheckpointStore(tmp_path, tmp_path, loaded.tokenizer).save(updater, 0) == tmp_path / "checkpoint-000000"
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-000000"]


def test_what_is_no_checkpoint_of_this_run_is_refused(saved: str, tmp_path: Path) -> None:
    loaded = load_for_training(saved, told())
    updater = Updater(loaded.model, told())
    with pytest.raises(ConfigError, match=f"is not a checkpoint of a run: it has no {STATE}"):
        CheckpointStore.restore(updater, tmp_path)
    path = CheckpointStore(tmp_path, tmp_path, loaded.tokenizer).save(updater, 0)
    with pytest.raises(ConfigError, match="holds another model's weights"):
        CheckpointStore.restore(Updater(load_for_training(saved, told(lora_rank=2)).model, told(lora_rank=2)), path)
    adapted = Updater(load_for_training(saved, told(lora_rank=2)).model, told(lora_rank=2))
    with pytest.raises(ConfigError, match="holds an adapter, but the model has none"):
        CheckpointStore.restore(
            updater, CheckpointStore(tmp_path / "adapted", tmp_path, loaded.tokenizer).save(adapted, 0)
        )
    torch.save({**torch.load(path / STATE, weights_only=True), "format": 9}, path / STATE)
    with pytest.raises(ConfigError, match="was written by another version of agentlearn; resume the run with that"):
        CheckpointStore.restore(updater, path)


@pytest.mark.parametrize("family", ["gpt-neox", "qwen3 moe", "gemma 3"])
def test_weights_that_are_saved_by_other_names_are_restored(family: str, tmp_path: Path) -> None:
    """transformers renames or joins the weights of some architectures when it saves them."""
    folder = str(family_folder(family, tmp_path / "model"))
    loaded = load_for_training(folder, told())
    updater = Updater(loaded.model, told())
    updater.step(some_rows(3))
    files = CheckpointStore(tmp_path / "checkpoints", tmp_path / "out", loaded.tokenizer)
    path = files.save(updater, batches=1)
    again = Updater(load_for_training(folder, told()).model, told())
    assert files.restore(again, path) == 1
    assert weights_hash(again.model) == weights_hash(updater.model)


def test_the_model_s_own_dropout_is_off_in_training(tmp_path: Path) -> None:
    """With it, the trainer's probabilities would not be those that the sampler drew with."""
    changes = {"attn_pdrop": 0.5, "resid_pdrop": 0.5, "embd_pdrop": 0.5}
    folder = str(family_folder("gpt2", tmp_path / "gpt2", **changes))
    made = family_folder("llama", tmp_path / "llama", attention_dropout=0.5)
    for name in (folder, str(made)):
        model = load_for_training(name, told()).model
        ids, places, targets = torch.arange(12)[None], torch.arange(11), torch.arange(1, 12)
        scorer = LogprobModel(model)
        one, other = (scorer.train(training)(ids, places, targets)[0] for training in (True, False))
        assert torch.equal(one, other)
