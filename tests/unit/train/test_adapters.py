# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""Training continues from an adapter: it keeps its weights, rank and layers, also in checkpoints and served copies."""

import asyncio
import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")

from agentlearn.errors import ConfigError
from agentlearn.serving.engine import Sampled, Sampling
from agentlearn.train.arguments import Arguments, gradient_arguments
from agentlearn.train.serving.local import load_for_serving, local_endpoint
from agentlearn.train.serving.weight_sync import served_state
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import CheckpointStore, restore_checkpoint, save_checkpoint
from agentlearn.train.weights.model import load_for_training, load_reference_model, weights_hash
from tests.support.families import family_folder, family_model
from tests.support.tiny_lm import VOCABULARY, some_rows
from tests.support.tiny_model import forward_logprobs

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
KL = {"kl": "k3", "kl_beta": 0.5}
OTHERS: dict[str, dict[str, Any]] = {
    "wide": {"hidden_size": 48},
    "flat": {"num_hidden_layers": 1},
    "more": {"num_hidden_layers": 3},
}
"""What other base models have."""
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def told(**fields: Any) -> Arguments:
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
    path = save_checkpoint(tmp_path, updater, loaded.tokenizer)
    again = Updater(load_for_training(str(adapter), told()).model, told())
    restore_checkpoint(path, again)
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


def test_the_reference_without_the_adapter_is_the_base_and_a_copy_has_it(base: Path, adapter: Path) -> None:
    arguments = told(reference="adapter_off", **KL)
    loaded = load_for_training(str(adapter), arguments)
    assert loaded.reference is None
    with loaded.model.disable_adapter():  # type: ignore[operator]
        assert logprobs(loaded.model) == logprobs(load_for_training(str(base), told()).model)
    rows = some_rows(4)
    assert Updater(loaded.model, arguments).step(rows).figures["kl"] > 1e-3
    for reference, far in (("copy", 1e-10), ("copy_int8", 0.05)):
        arguments = told(reference=reference, **KL)
        loaded = load_for_training(str(adapter), arguments)
        assert Updater(loaded.model, arguments, reference=loaded.reference).step(rows).figures["kl"] < far
    kept = load_reference_model(str(adapter), told(reference="copy", **KL))
    assert logprobs(kept) == logprobs(load_for_training(str(adapter), told()).model)
    assert not any(one.requires_grad for one in kept.parameters())


def test_the_engine_samples_with_the_adapter(adapter: Path) -> None:
    async def once() -> Sampled:
        async with local_endpoint(str(adapter)) as service:
            return await service.engine.sample([1, 2, 3], Sampling(seed=1, max_tokens=6))

    one = asyncio.run(once())
    model = load_for_training(str(adapter), told()).model.eval()
    assert one.logprobs == pytest.approx(forward_logprobs(model, [1, 2, 3], one.ids), abs=1e-4)


@pytest.mark.parametrize(
    ("fields", "code", "sentence"),
    [
        ({"lora_rank": 8}, "adapter_rank", "lora_rank is 8, but the adapter in .* has rank 3"),
        ({"lora_alpha": 9}, "adapter_alpha", "lora_alpha is 9, but the adapter in .* has 7"),
        ({"lora_targets": "q_proj"}, "adapter_targets", r"lora_targets is \['q_proj'\], but the adapter in .* is on"),
    ],
)
def test_another_shape_than_the_adapter_s_is_refused(
    adapter: Path, fields: dict[str, Any], code: str, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        load_for_training(str(adapter), told(**fields))
    assert refused.value.code == code


def test_the_same_shape_may_be_named_and_dropout_given(adapter: Path) -> None:
    fields = {"lora_rank": 3, "lora_alpha": 7, "lora_targets": ["down_proj", "q_proj"], "lora_dropout": 0.5}
    model = load_for_training(str(adapter), told(**fields)).model
    assert {one.p for name, one in model.named_modules() if name.endswith("lora_dropout.default")} == {0.5}
    assert weights_hash(model) == weights_hash(load_for_training(str(adapter), told()).model)


def test_the_dropout_that_an_adapter_was_made_with_is_off(base: Path, tmp_path: Path) -> None:
    """With it, the trainer's probabilities would not be those that the sampler drew with."""
    model = load_for_training(str(make_adapter(tmp_path / "own", base, lora_dropout=0.5)), told()).model
    ids = torch.tensor([IDS])
    assert torch.equal(model.train()(ids).logits, model.eval()(ids).logits)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"use_dora": True}, "use_dora=True"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save="),
        ({"bias": "all"}, "bias='all'"),
        ({"lora_bias": True, "init_lora_weights": True}, "lora_bias=True"),
        ({"trainable_token_indices": [1, 2]}, "trainable_token_indices="),
        ({"target_modules": ["embed_tokens"]}, "which is not linear"),
        ({"target_modules": ["lm_head"]}, "has the layer 'lm_head' (the model's head)"),
    ],
)
def test_adapters_of_other_kinds_are_refused_by_name(
    base: Path, tmp_path: Path, fields: dict[str, Any], sentence: str
) -> None:
    folder = make_adapter(tmp_path / "other", base, **fields)
    with pytest.raises(ConfigError) as refused:
        load_for_training(str(folder), told())
    assert sentence in refused.value.message
    assert refused.value.code in {"unsupported_adapter", "unsupported_head"}


def test_a_new_adapter_on_layers_that_are_not_linear_is_refused(base: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_for_training(str(base), told(lora_rank=2, lora_targets=["embed_tokens"]))
    assert refused.value.code == "unsupported_adapter"
    assert refused.value.message == (
        "lora_targets has the layer 'embed_tokens' (Embedding, which is not linear); use an adapter on linear layers "
        "inside the model, such as q_proj and v_proj"
    )


def test_an_adapter_that_peft_saved_with_its_embeddings_is_refused_for_the_embeddings(
    base: Path, tmp_path: Path
) -> None:
    adapted = peft.get_peft_model(
        family_model("qwen3"), peft.LoraConfig(r=2, target_modules=["q_proj", "embed_tokens"], task_type="CAUSAL_LM")
    )
    adapted.peft_config["default"].base_model_name_or_path = str(base)
    adapted.save_pretrained(tmp_path / "embedded", save_embedding_layers=True)
    for load in (load_for_serving, lambda folder: load_for_training(folder, told())):
        with pytest.raises(ConfigError, match=r"has the layer 'embed_tokens' \(Embedding, which is not linear\)"):
            load(str(tmp_path / "embedded"))


@pytest.mark.parametrize("where", ["model", "adapter"])
def test_weights_that_are_not_numbers_are_named(base: Path, adapter: Path, tmp_path: Path, where: str) -> None:
    from safetensors.torch import load_file, save_file

    source = base if where == "model" else adapter
    folder = Path(shutil.copytree(source, tmp_path / "bad"))
    file = folder / ("model.safetensors" if where == "model" else "adapter_model.safetensors")
    tensors = load_file(file)
    name = min(tensors)
    tensors[name].flatten()[0] = float("nan")
    save_file(tensors, file, metadata={"format": "pt"})
    for load in (load_for_serving, lambda one: load_for_training(one, told())):
        with pytest.raises(ConfigError, match="has NaN or infinite numbers in 1 of its weights") as refused:
            load(str(folder))
        assert refused.value.code == "bad_weights"


def test_a_new_adapter_changes_no_output_and_names_its_base(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(base.parent)
    adapted: Any = load_for_training(base.name, told(lora_rank=2)).model
    assert logprobs(adapted) == logprobs(load_for_training(str(base), told()).model)
    assert {one.base_model_name_or_path for one in adapted.peft_config.values()} == {str(base)}


def test_what_adds_tokens_to_every_prompt_is_not_served(base: Path, tmp_path: Path) -> None:
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    adapted = peft.get_peft_model(family_model("qwen3"), config)
    adapted.peft_config["default"].base_model_name_or_path = str(base)
    adapted.save_pretrained(tmp_path / "prompt")
    with pytest.raises(ConfigError, match="is of the type PROMPT_TUNING, which adds tokens to every prompt") as refused:
        load_for_serving(str(tmp_path / "prompt"))
    assert refused.value.code == "unsupported_adapter"


def test_an_adapter_in_another_number_format_is_trained_in_fp32(adapter: Path, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    folder = shutil.copytree(adapter, tmp_path / "half")
    halves = {name: one.bfloat16() for name, one in adapter_weights(adapter).items()}
    save_file(halves, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    model = load_for_training(str(folder), told(dtype="bf16")).model
    assert {one.dtype for one in model.parameters() if one.requires_grad} == {torch.float32}
    assert {one.dtype for one in model.parameters() if not one.requires_grad} == {torch.bfloat16}


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
        assert refused.value.code == "bad_adapter"


def test_what_no_copy_could_hold_is_not_given_to_a_server(base: Path, tmp_path: Path) -> None:
    folder = str(make_adapter(tmp_path / "dora", base, use_dora=True))
    assert load_for_serving(folder).model  # in this process, peft itself computes it
    with pytest.raises(ConfigError, match="use_dora=True"):
        load_for_serving(folder, merged=True)


@pytest.mark.parametrize("change", [{"peft_type": "IA3"}, {"init_lora_weights": "pissa"}, {"future_option": [1]}])
def test_settings_that_are_not_known_are_refused(adapter: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    folder = shutil.copytree(adapter, tmp_path / "changed")
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ConfigError) as refused:
        load_for_training(str(folder), told())
    assert refused.value.code == "unsupported_adapter"


@pytest.mark.parametrize(
    "fields", [{"use_rslora": True}, {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"q_proj": 9}}]
)
def test_scales_and_ranks_of_single_layers_are_kept(base: Path, tmp_path: Path, fields: dict[str, Any]) -> None:
    folder = make_adapter(tmp_path / "ranks", base, **fields)
    loaded = load_for_training(str(folder), told())
    updater = Updater(loaded.model, told())
    updater.step(some_rows(3))
    out = published(updater, loaded.tokenizer, tmp_path)
    assert logprobs(load_for_training(str(out), told()).model) == logprobs(updater.model)
    merged = family_model("qwen3")
    merged.load_state_dict(dict(served_state(updater.model)))
    assert logprobs(merged) == pytest.approx(logprobs(updater.model), abs=1e-4)


def test_conv_layers_of_gpt2_are_continued(tmp_path: Path) -> None:
    base = family_folder("gpt2", tmp_path / "gpt2")
    folder = make_adapter(tmp_path / "own", base, family="gpt2", target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)
    loaded = load_for_training(str(folder), told())
    Updater(loaded.model, told()).step(some_rows(3))
    merged = family_model("gpt2")
    merged.load_state_dict(dict(served_state(loaded.model)))
    assert logprobs(merged) == pytest.approx(logprobs(loaded.model), abs=1e-4)


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ("", "names no base model; set base_model_name_or_path in"),
        ("/nowhere/at-all", "belongs to the model in '/nowhere/at-all', and there is no such folder; set"),
        ("../elsewhere", "belongs to the model in '../elsewhere', and there is no such folder; set"),
    ],
)
def test_a_base_model_that_is_missing_is_named(base: Path, tmp_path: Path, named: str, sentence: str) -> None:
    folder = make_adapter(tmp_path / "lost", base, named=named)
    if not named:
        file = folder / "adapter_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"base_model_name_or_path": None}))
    for load in (lambda: load_for_training(str(folder), told()), lambda: load_for_serving(str(folder))):
        with pytest.raises(ConfigError) as refused:
            load()
        assert sentence in refused.value.message
        assert refused.value.code == "no_base_model"


def test_a_path_relative_to_the_adapter_is_found_and_published_whole(tmp_path: Path) -> None:
    base = family_folder("qwen3", tmp_path / "base")
    folder = make_adapter(tmp_path / "adapters" / "own", base, named="../../base")
    loaded = load_for_training(str(folder), told())
    out = published(Updater(loaded.model, told()), loaded.tokenizer, tmp_path / "elsewhere" / "deeper")
    assert json.loads((out / "adapter_config.json").read_text())["base_model_name_or_path"] == str(base)
    assert logprobs(load_for_training(str(out), told()).model) == logprobs(loaded.model)


def test_an_adapter_of_another_model_is_refused(tmp_path: Path) -> None:
    deep = family_folder("qwen3", tmp_path / "deep")
    for name, changes in OTHERS.items():
        other = family_folder("qwen3", tmp_path / name, **changes)
        folder = make_adapter(tmp_path / f"on-{name}", deep, named=str(other))
        with pytest.raises(ConfigError) as refused:
            load_for_training(str(folder), told())
        assert refused.value.code == "bad_adapter"
        assert "does not fit the model" in refused.value.message


def test_a_folder_with_a_model_and_an_adapter_is_refused(adapter: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(adapter, tmp_path / "both")
    shutil.copy(adapter / "adapter_model.safetensors", folder / "model.safetensors")
    for load in (lambda: load_for_training(str(folder), told()), lambda: load_for_serving(str(folder))):
        with pytest.raises(ConfigError, match="holds both a model"):
            load()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"reference": "adapter_off", **KL}, "reference is 'adapter_off', but lora_rank=0 trains this model without"),
        ({"lora_dropout": 0.1}, "lora_dropout is 0.1, but lora_rank=0 trains this model without an adapter"),
    ],
)
def test_settings_of_an_adapter_are_refused_where_none_is_trained(
    base: Path, adapter: Path, fields: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load_for_training(str(base), told(**fields))
    assert refused.value.message.startswith(sentence)
    assert load_for_training(str(adapter), told(**fields)).model


def test_the_vocabulary_of_the_rows_fits() -> None:
    assert family_model("qwen3").config.vocab_size > VOCABULARY
