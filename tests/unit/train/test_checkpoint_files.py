# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""Folders and names that hold no usable model: each is refused in one sentence, in training and in serving."""

import errno
import json
import pickle
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import gradient_arguments
from agentlearn.train.serving.local import load_for_serving
from agentlearn.train.weights import loading as load_memory
from agentlearn.train.weights import model_source as hub
from agentlearn.train.weights.model import load_for_training, weights_hash
from agentlearn.train.weights.model_source import find_source
from tests.support.families import family_folder, family_model

Loader = Callable[[str], Any]


def train(name: str) -> Any:
    return load_for_training(name, gradient_arguments({})).model


def serve(name: str) -> Any:
    return load_for_serving(name).model


@pytest.fixture(params=[train, serve], ids=["train", "serve"])
def load(request: pytest.FixtureRequest) -> Loader:
    return request.param


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return family_folder("llama", tmp_path / "model")


def refusal(load: Loader, name: Path | str) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        load(str(name))
    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 700
    return refused.value


def _answering(answer: Any) -> Callable[..., Any]:
    """A function that always returns this."""

    def returns(*_: object, **__: object) -> Any:
        return answer

    return returns


def change_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_gguf_files_are_named(load: Loader, folder: Path) -> None:
    file = folder.parent / "model.gguf"
    file.write_bytes(b"GGUF")
    alone = folder.parent / "only"
    alone.mkdir()
    (alone / "model-q4.gguf").write_bytes(b"GGUF")
    for name in (file, alone):
        error = refusal(load, name)
        assert error.code == "gguf"
        assert f"agentlearn models convert {file if name == file else alone / 'model-q4.gguf'} FOLDER" in error.message
    (alone / "config.json").write_text(json.dumps({"model_type": "llama"}))
    assert refusal(load, alone).code == "gguf"


def test_a_folder_without_a_tokenizer_is_named_before_the_weights_are_read(
    load: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family_model("llama").save_pretrained(tmp_path)
    monkeypatch.setattr("agentlearn.train.weights.model.load_base", None)
    monkeypatch.setattr("agentlearn.train.serving.local.load_base", None)
    error = refusal(load, tmp_path)
    assert error.code == "no_tokenizer"
    assert "has no tokenizer that can be loaded; save it with tokenizer.save_pretrained" in error.message


def test_files_that_are_missing_or_damaged_are_named(load: Loader, folder: Path) -> None:
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    for cut in (whole[: len(whole) // 2], whole[:5], b"", b"not a tensor file at all" * 9):
        weights.write_bytes(cut)
        error = refusal(load, folder)
        assert error.code == "bad_weights"
        assert "damaged or cut short" in error.message
    weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n")
    assert "is a Git LFS pointer" in refusal(load, folder).message
    weights.unlink()
    assert refusal(load, folder).code == "no_weight_files"


def test_a_missing_or_cut_shard_is_named(load: Loader, tmp_path: Path) -> None:
    folder = family_folder(
        "llama", tmp_path / "model", save=lambda model: model.save_pretrained(tmp_path / "model", max_shard_size="40KB")
    )
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 2
    assert weights_hash(load(str(folder))) == weights_hash(family_model("llama"))
    kept = shards[1].read_bytes()
    shards[1].write_bytes(kept[:-10])
    assert refusal(load, folder).code == "bad_weights"
    shards[1].unlink()
    error = refusal(load, folder)
    assert error.code == "no_weight_files"
    assert repr(shards[1].name) in error.message


def test_weights_that_the_files_lack_never_stay_random(load: Loader, folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    file = folder / "model.safetensors"
    whole = load_file(file)
    save_file({name: one for name, one in whole.items() if name != "lm_head.weight"}, file, metadata={"format": "pt"})
    error = refusal(load, folder)
    assert error.code == "missing_weights"
    assert "lacks 1 of the weights" in error.message
    assert "'lm_head.weight'" in error.message
    save_file(whole | {"lm_head.weight": whole["lm_head.weight"][:, :3].contiguous()}, file, metadata={"format": "pt"})
    assert refusal(load, folder).code in {"missing_weights", "bad_model"}


def test_a_config_that_is_no_config_is_named(load: Loader, folder: Path) -> None:
    file = folder / "config.json"
    for text in ("{", "[1]", '"llama"', "\x00"):
        file.write_text(text)
        assert refusal(load, folder).code == "bad_config"
    file.write_bytes(b"\xff\xfe\x00")
    assert refusal(load, folder).code == "bad_config"
    file.write_text("{}")
    assert "its config.json names no model_type" in refusal(load, folder).message


@pytest.mark.parametrize(
    ("changes", "code", "sentence"),
    [
        ({"model_type": "no_such_kind"}, "unknown_model_type", "is of the type 'no_such_kind', which transformers"),
        ({"model_type": "t5"}, "not_causal", "is not a decoder-only language model"),
        ({"model_type": "bart"}, "not_causal", "is not a decoder-only language model"),
        ({"num_attention_heads": "many"}, "bad_config", "cannot be loaded: "),
        ({"num_hidden_layers": 3}, "missing_weights", "would stay random"),
    ],
)
def test_models_of_other_kinds_are_refused(
    load: Loader, folder: Path, changes: dict[str, Any], code: str, sentence: str
) -> None:
    change_config(folder, **changes)
    error = refusal(load, folder)
    assert error.code == code
    assert sentence in error.message


def test_code_of_a_checkpoint_is_never_executed(load: Loader, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where somebody would say yes to a question."""
    trace = folder.parent / "ran"
    code = f"open({str(trace)!r}, 'w').close()\nclass Own: pass\nOwnConfig = OwnModel = OwnTokenizer = Own\n"
    (folder / "own.py").write_text(code)
    monkeypatch.setattr("builtins.input", _answering("y"))
    change_config(
        folder,
        model_type="own_kind",
        auto_map={"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"},
    )
    error = refusal(load, folder)
    assert error.code == "own_code"
    assert "comes with code of its own, which agentlearn never runs" in error.message
    change_config(folder, model_type="llama")
    file = folder / "tokenizer_config.json"
    file.write_text(
        json.dumps(json.loads(file.read_text()) | {"auto_map": {"AutoTokenizer": ["own.OwnTokenizer", None]}})
    )
    load(str(folder))  # a type that transformers knows: its own code is used
    assert not trace.exists()


class _Bomb:
    def __init__(self, trace: str) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.trace, "w")


def test_pickled_weights_are_read_without_running_their_code(load: Loader, folder: Path) -> None:
    from safetensors.torch import load_file

    whole = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(whole, folder / "pytorch_model.bin")
    assert weights_hash(load(str(folder))) == weights_hash(family_model("llama"))
    trace = folder.parent / "ran"
    torch.save({"weights": _Bomb(str(trace))}, folder / "pytorch_model.bin")
    assert refusal(load, folder).code == "bad_model"
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Bomb(str(trace))))
    assert refusal(load, folder).code == "bad_model"
    assert not trace.exists()


def test_quantised_weights_are_refused(folder: Path) -> None:
    change_config(folder, quantization_config={"quant_method": "gptq", "bits": 4})
    for one in (train, serve):
        assert refusal(one, folder).code in {"quantised", "bad_model"}


def test_too_little_memory_is_said_before_loading(load: Loader, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = load_memory.loaded_bytes(folder, dtype=torch.float32) or 0
    assert needed == sum(one.numel() * 4 for one in family_model("llama").parameters())
    assert load_memory.loaded_bytes(folder, dtype=torch.bfloat16) == needed // 2
    assert (load_memory.free_bytes() or 0) > 2**20
    monkeypatch.setattr(load_memory, "free_bytes", _answering(needed - 1))
    error = refusal(load, folder)
    assert error.code == "out_of_memory"
    assert "does not fit into memory: its weights need 0.0 GiB as float32, and 0.0 GiB are free; " in error.message
    assert "lora_rank" in error.message
    monkeypatch.setattr(load_memory, "free_bytes", _answering(needed))
    load(str(folder))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_memory_that_ends_while_loading_is_one_sentence(
    load: Loader, folder: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM

    def ends(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", ends)
    assert refusal(load, folder).code == "out_of_memory"


def test_a_hub_name_without_a_network_fails_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that accepts connections and never answers is the slowest kind of silence."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "WAIT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(
            "huggingface_hub.file_download.constants.ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}"
        )
        began = time.monotonic()
        error = refusal(train, "owner/no-such-model-here")
        assert time.monotonic() - began < 10
    assert error.code == "hub_unreachable"
    assert "hf download owner/no-such-model-here --local-dir DIRECTORY" in error.message


def test_a_hub_name_in_offline_mode_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert refusal(train, "owner/no-such-model-here").code == "hub_unreachable"


def test_files_of_the_hub_that_were_downloaded_before_are_used_without_a_network(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hub, "_cached", _answering(str(folder)))
    assert find_source("owner/name").base == str(folder)
    assert weights_hash(train("owner/name")) == weights_hash(family_model("llama"))


@pytest.mark.parametrize("name", ["nowhere/at/all", "./nowhere", "/nowhere", "two words"])
def test_a_folder_that_is_not_there_is_not_looked_up_on_the_hub(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_answer", None)
    error = refusal(train, name)
    assert error.code == "no_model"
    assert f"there is no folder {name!r}" in error.message


def test_an_error_nobody_foresaw_is_one_sentence_too(
    load: Loader, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    def fails(*_: object, **__: object) -> None:
        raise AssertionError("a\nlong\nstory")

    with monkeypatch.context() as patch:
        patch.setattr(AutoModelForCausalLM, "from_pretrained", fails)
        assert "cannot be loaded: a long story" in refusal(load, folder).message
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", fails)
    assert refusal(load, folder).code == "no_tokenizer"
