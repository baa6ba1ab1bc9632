"""Checkpoints through `train`, resume, `compare` and `learn`: each works, or is refused in one sentence.

A refused checkpoint ends the command with status 2 before anything is sampled. `tests/unit/train` has many kinds.
"""

import warnings
from collections.abc import Callable
from pathlib import Path

import peft
import pytest
import torch

from agentlearn.cli.app import run
from agentlearn.store import read_store
from tests.support.families import family_folder, family_model
from tests.support.letters_training import WORDS, Stopping, letters_fields, one_word_tasks, resumed, stopped
from tests.support.tiny_model import tiny_tokenizer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")]

REWARD = "tests.support.letters:share_of_early_letters"
WITHOUT_SYSTEM = (
    "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def shards_without_a_system_role(folder: Path) -> Path:
    return family_folder(
        "llama",
        folder,
        tokenizer=tiny_tokenizer(WITHOUT_SYSTEM),
        save=lambda model: model.save_pretrained(folder, max_shard_size="40KB"),
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


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return one_word_tasks(tmp_path_factory.mktemp("tasks") / "letters.jsonl", *WORDS[:4])


def learned(model: str, tasks: Path, store: Path) -> int:
    options = ["--reward", "exact", "--epochs", "1", "--group-size", "2", "--no-eval", "--max-output-tokens", "8"]
    return run(["learn", str(tasks), "--model", model, "--all-wrong", "skip", *options, "--store", str(store)])


def compared(first: str, second: str, tasks: Path, store: Path) -> int:
    options = ["--reward", REWARD, "-k", "2", "--max-output-tokens", "8", "--model", first]
    arms = ["none", f"trained=none,model={second}"]
    return run(["compare", *arms, "--domain", str(tasks), *options, "--store", str(store)])


@pytest.mark.parametrize("make", [shards_without_a_system_role, adapter])
def test_it_is_trained_resumed_compared_and_learned_with(
    make: Callable[[Path], Path], tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, store = make(tmp_path / "model"), tmp_path / "trained"
    stopped(
        letters_fields(folder, tasks, store, save_every=1, gradient={"loss": "grpo", "learning_rate": 1e-3}),
        Stopping(1),
    )
    report = resumed(store)
    assert report.rollouts == {"ok": 16, "failed": 0, "undecided": 0}
    assert report.skipped == report.stale == 0
    assert report.weights.sha256_before != report.weights.sha256_after
    assert report.weights.adapter == (make is adapter)
    with read_store(store) as reader:
        kept = reader.metrics(report.run)
    assert len(kept) == 2
    assert all(values["sampling/sampling_logp_difference/max"] < 1e-3 for values in kept.values())
    assert compared(f"local:{folder}", f"local:{report.weights.path}", tasks, tmp_path / "compared") == 0
    assert learned(f"local:{folder}", tasks, tmp_path / "learned") == 0
    for name in ("compared", "learned"):
        with read_store(tmp_path / name) as reader:
            assert {row.outcome for row in reader.trajectories(reader.runs()[0].run)} == {"ok"}
    capsys.readouterr()
