# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""Checkpoints of many kinds through `learn`, `train`, resume and `compare`: each works, or is refused in one sentence.

A refused checkpoint ends the command with status 2 before anything is sampled.
"""

import asyncio
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")

from agentlearn.cli.app import run
from agentlearn.errors import Interrupted, StoreMissing
from agentlearn.store import read_store
from agentlearn.train.report import TrainReport
from agentlearn.train.run_training import run_training
from agentlearn.train.settings import resumed_train_settings, train_settings
from tests.support.families import family_folder, family_model
from tests.support.letters_training import Stopping, one_word_tasks
from tests.support.tiny_model import tiny_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
REWARD = "tests.support.letters:share_of_early_letters"
WITHOUT_SYSTEM = (
    "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def sharded(folder: Path) -> Path:
    return family_folder("llama", folder, save=lambda model: model.save_pretrained(folder, max_shard_size="40KB"))


def in_bf16(folder: Path) -> Path:
    return family_folder(
        "qwen3", folder, width=0.1, save=lambda model: model.to(torch.bfloat16).save_pretrained(folder)
    )


def adapter(folder: Path) -> Path:
    base = family_folder("qwen2", folder.with_name("base"))
    torch.manual_seed(1)
    config = peft.LoraConfig(
        r=2, lora_alpha=6, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = peft.get_peft_model(family_model("qwen2"), config)
        adapted.peft_config["default"].base_model_name_or_path = str(base)
        adapted.save_pretrained(folder)
    return folder


WORKING: dict[str, Callable[[Path], Path]] = {
    "llama, sharded": sharded,
    "qwen2 with a window": lambda folder: family_folder("qwen2 with a window", folder),
    "qwen3, bf16": in_bf16,
    "gemma 2, tied": lambda folder: family_folder("gemma 2", folder, tie_word_embeddings=True),
    "gpt2, tied": lambda folder: family_folder("gpt2", folder, tie_word_embeddings=True),
    "without a system role": lambda folder: family_folder("llama", folder, tokenizer=tiny_tokenizer(WITHOUT_SYSTEM)),
    "an adapter": adapter,
}
"""How to make checkpoints that work, by name."""


def gguf(folder: Path) -> Path:
    folder.mkdir()
    (folder / "model-q4.gguf").write_bytes(b"GGUF")
    return folder


def cut_weights(folder: Path) -> Path:
    file = family_folder("llama", folder) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    return folder


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "gguf": (gguf, "has its weights in the GGUF format"),
    "cut weights": (cut_weights, "are damaged or cut short"),
    "bloom": (lambda folder: family_folder("bloom", folder), "cannot sample from a BloomForCausalLM exactly"),
}
"""How to make checkpoints that cannot be used, and a part of the sentence that says so."""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = ("plum", "fig", "date", "pear")
    return one_word_tasks(tmp_path_factory.mktemp("tasks") / "letters.jsonl", *words)


def fields(model: str, tasks: Path, store: Path) -> dict[str, Any]:
    return {
        "domain": "letters",
        "reward": REWARD,
        "data": str(tasks),
        "test_share": 0.0,
        "model": model,
        "epochs": 1,
        "batch_size": 2,
        "group_size": 4,
        "max_output_tokens": 8,
        "evaluate": False,
        "save_every": 1,
        "tensorboard": False,
        "store": store,
        "gradient": {"learning_rate": 1e-3, "loss": "grpo"},
    }


def trained_and_resumed(model: str, tasks: Path, store: Path) -> TrainReport:
    settings = train_settings(fields(model, tasks, store))
    with pytest.raises(Interrupted):
        asyncio.run(run_training(settings, Stopping(1)))
    with read_store(store) as reader:
        (begun,) = reader.runs()
    resumed, again = resumed_train_settings(begun.run, store, {})
    return asyncio.run(run_training(again, resume=resumed))


def learned(model: str, tasks: Path, store: Path) -> int:
    options = ["--reward", "exact", "--epochs", "1", "--group-size", "2", "--no-eval", "--max-output-tokens", "8"]
    return run(["learn", str(tasks), "--model", model, *options, "--store", str(store)])


def compared(first: str, second: str, tasks: Path, store: Path) -> int:
    options = ["--reward", REWARD, "-k", "2", "--max-output-tokens", "8", "--model", first]
    arms = ["none", f"trained=none,model={second}"]
    return run(["compare", *arms, "--domain", str(tasks), *options, "--store", str(store)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", WORKING)
def test_it_is_trained_resumed_compared_and_learned_with(
    kind: str, tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = WORKING[kind](tmp_path / "model")
    report = trained_and_resumed(str(folder), tasks, tmp_path / "trained")
    assert report.rollouts == {"ok": 16, "failed": 0, "undecided": 0}
    assert report.skipped == report.stale == 0
    assert report.weights.sha256_before != report.weights.sha256_after
    assert report.weights.adapter == (kind == "an adapter")
    with read_store(tmp_path / "trained") as reader:
        kept = reader.metrics(report.run)
    assert len(kept) == 2
    assert all(values["sampling/sampling_logp_difference/max"] < 1e-3 for values in kept.values())
    assert compared(f"local:{folder}", f"local:{report.weights.path}", tasks, tmp_path / "compared") == 0
    assert learned(f"local:{folder}", tasks, tmp_path / "learned") == 0
    for store in ("compared", "learned"):
        with read_store(tmp_path / store) as reader:
            rows = reader.trajectories(reader.runs()[0].run)
            assert rows
            assert all(row.outcome == "ok" for row in rows)
    capsys.readouterr()


@pytest.mark.slow
@pytest.mark.parametrize("kind", REFUSED)
def test_it_is_refused_in_one_sentence_before_anything_is_sampled(
    kind: str, tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, sentence = REFUSED[kind]
    folder, sound = make(tmp_path / "model"), family_folder("llama", tmp_path / "sound")
    recipe = tmp_path / "train.yaml"
    recipe.write_text(json.dumps(fields(str(folder), tasks, tmp_path / "train") | {"store": str(tmp_path / "train")}))
    commands: dict[str, Callable[[], int]] = {
        "train": lambda: run(["train", str(recipe)]),
        "learn": lambda: learned(f"local:{folder}", tasks, tmp_path / "learn"),
        "compare": lambda: compared(f"local:{sound}", f"local:{folder}", tasks, tmp_path / "compare"),
    }
    capsys.readouterr()
    for name, command in commands.items():
        assert command() == 2, name
        (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("agentlearn: ")]
        assert sentence in line
        assert rollouts_in(tmp_path / name) == 0


def rollouts_in(store: Path) -> int:
    try:
        with read_store(store) as reader:
            return sum(len(reader.trajectories(one.run)) for one in reader.runs())
    except StoreMissing:
        return 0
