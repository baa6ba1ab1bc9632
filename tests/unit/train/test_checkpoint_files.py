"""Folders and names that hold no usable model: each is refused in one sentence, in training and in serving."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import socket  # noqa: E402
import time  # noqa: E402

from agentlearn.errors import ConfigError  # noqa: E402
from agentlearn.train import memory as load_memory  # noqa: E402
from agentlearn.train.arguments import gradient_arguments  # noqa: E402
from agentlearn.train.serving.local import load_for_serving  # noqa: E402
from agentlearn.train.weights import loading as hub  # noqa: E402
from agentlearn.train.weights.model import load_for_training, weights_hash  # noqa: E402
from tests.support.cases import cases  # noqa: E402
from tests.support.families import family_folder, family_model  # noqa: E402

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


def test_files_that_are_missing_or_damaged_are_named(load: Loader, folder: Path) -> None:
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    for cut in (whole[: len(whole) // 2], whole[:5], b"", b"not a tensor file at all" * 9):
        weights.write_bytes(cut)
        error = refusal(load, folder)
        assert error.code == "bad_config"
        assert "damaged or cut short" in error.message
    weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n")
    assert "is a Git LFS pointer" in refusal(load, folder).message
    weights.unlink()
    assert refusal(load, folder).code == "bad_config"


def test_a_missing_or_cut_shard_is_named(load: Loader, tmp_path: Path) -> None:
    folder = family_folder(
        "llama", tmp_path / "model", save=lambda model: model.save_pretrained(tmp_path / "model", max_shard_size="40KB")
    )
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 2
    assert weights_hash(load(str(folder))) == weights_hash(family_model("llama"))
    kept = shards[1].read_bytes()
    shards[1].write_bytes(kept[:-10])
    assert refusal(load, folder).code == "bad_config"
    shards[1].unlink()
    error = refusal(load, folder)
    assert error.code == "bad_config"
    assert repr(shards[1].name) in error.message


def test_weights_that_the_files_lack_never_stay_random(load: Loader, folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    file = folder / "model.safetensors"
    whole = load_file(file)
    save_file({name: one for name, one in whole.items() if name != "lm_head.weight"}, file, metadata={"format": "pt"})
    error = refusal(load, folder)
    assert error.code == "bad_config"
    assert "lacks 1 of the weights" in error.message
    assert "'lm_head.weight'" in error.message
    save_file(whole | {"lm_head.weight": whole["lm_head.weight"][:, :3].contiguous()}, file, metadata={"format": "pt"})
    assert refusal(load, folder).code == "bad_config"


@pytest.mark.parametrize(
    ("changes", "code", "sentence"),
    cases(__file__, "models_of_other_kinds_are_refused"),
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
        folder, model_type="own_kind", auto_map={"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    )
    error = refusal(load, folder)
    assert error.code == "bad_config"
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
    assert refusal(load, folder).code == "bad_config"
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Bomb(str(trace))))
    assert refusal(load, folder).code == "bad_config"
    assert not trace.exists()


def test_too_little_memory_is_said_before_loading(load: Loader, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = load_memory.loaded_bytes(folder, dtype=torch.float32) or 0
    assert needed == sum(one.numel() * 4 for one in family_model("llama").parameters())
    assert load_memory.loaded_bytes(folder, dtype=torch.bfloat16) == needed // 2
    assert load_memory.free_bytes() > 2**20
    monkeypatch.setattr(load_memory, "free_bytes", _answering(needed - 1))
    error = refusal(load, folder)
    assert error.code == "out_of_memory"
    size = load_memory.in_units(needed)
    assert f"does not fit into memory: its weights need {size} as float32, and {size} are free; " in error.message
    assert "lora_rank" in error.message
    monkeypatch.setattr(load_memory, "free_bytes", _answering(needed))
    load(str(folder))


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
    assert error.code == "bad_config"
    assert "hf download owner/no-such-model-here --local-dir DIRECTORY" in error.message
