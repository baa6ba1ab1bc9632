"""Run one measurement of memory for `bench_update` in a separate process, and print one JSON object.

python -m tests.bench.update_memory adapter ours
python -m tests.bench.update_memory adapter trl 8 off
python -m tests.bench.update_memory context 4096 on
python -m tests.bench.update_memory microbatch 1024
python -m tests.bench.update_memory packing spread 5
"""

import copy
import json
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import LlamaConfig, LlamaForCausalLM

from agentlearn.train.arguments import gradient_arguments
from agentlearn.train.update.training_row import TrainingRow
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.model import checkpoint_layers, with_adapter
from agentlearn.types.ids import RolloutId
from tests.bench.update_beside_trl import language_model
from tests.bench.update_beside_trl import rows as scripted_rows
from tests.support.tiny_lm import tiny_tokenizer
from tests.support.trl_oracle import GRPOTrainer
from tests.support.trl_run import GRPOConfig

PROMPTS, G, PROMPT, ANSWER, RANK = 4, 8, 300, 32, 16


def llama(**changes: Any) -> LlamaForCausalLM:
    """Return a model of the shape of SmolLM2-135M with random weights; the changes make another shape."""
    shape: dict[str, Any] = {
        "vocab_size": 49_152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    }
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**(shape | changes)))


def rows(count: int, prompt: int, answer: int, vocabulary: int) -> list[TrainingRow]:
    """Return rows of random tokens."""
    chance = np.random.default_rng(0)
    return [
        TrainingRow(
            rollout=RolloutId(f"{n:03}"),
            ids_T=chance.integers(3, vocabulary, prompt + answer),
            mask_T=np.array([False] * prompt + [True] * answer),
            logprobs_T=np.full(prompt + answer, -10.0, dtype=np.float32),
            advantage=float(n % 5 - 2),
            reward=0.0,
        )
        for n in range(count)
    ]


def peak_mib() -> float:
    """Return the highest resident memory of this process so far in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def _stepped(updater: Updater, given: list[TrainingRow], steps: int = 1) -> dict[str, Any]:
    before = peak_mib()
    made = [updater.step(given) for _ in range(steps)]
    memory = updater.memory
    assert memory.rows is not None
    return {
        "peak_mib": peak_mib(),
        "extra_mib": peak_mib() - before,
        "seconds": made[-1].seconds,
        "tokens_at_once": memory.tokens,
        "kib_per_token": memory.rows.per_token / 1024,
        "steps": updater.steps,
    }


def adapter_ours() -> dict[str, Any]:
    """Return the peak memory of one of our updates of the 135M model with an adapter."""
    arguments = gradient_arguments({"lora_rank": RANK, "learning_rate": 1e-5, "importance_sampling": "none"})
    updater = Updater(with_adapter(llama(), arguments), arguments)
    return _stepped(updater, rows(PROMPTS * G, PROMPT, ANSWER, 49_152))


def adapter_trl(micro: int, checkpointing: bool) -> dict[str, Any]:
    """Return the same of TRL's trainer."""
    chance = np.random.default_rng(0)
    scripted = {
        "prompt_ids": [chance.integers(3, 49_152, PROMPT).tolist() for _ in range(PROMPTS * G)],
        "completion_ids": [chance.integers(3, 49_152, ANSWER).tolist() for _ in range(PROMPTS * G)],
        "logprobs": [[-10.0] * ANSWER] * (PROMPTS * G),
        "env_mask": [[1] * ANSWER] * (PROMPTS * G),
    }
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        config = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=micro,
            num_generations=G,
            gradient_accumulation_steps=PROMPTS * G // micro,
            max_steps=1,
            learning_rate=1e-5,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=checkpointing,
            disable_tqdm=True,
            max_completion_length=ANSWER,
            optim="adamw_torch",
        )
        trainer = GRPOTrainer(
            model=llama(),
            reward_funcs=_different_rewards,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": [f"w{3 + n}" for n in range(PROMPTS)]}),
            processing_class=tiny_tokenizer(),
            rollout_func=lambda asked, trainer: scripted,
            peft_config=LoraConfig(r=RANK, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"),
        )
        before, began_s = peak_mib(), time.perf_counter()
        trainer.train()
        return {
            "peak_mib": peak_mib(),
            "extra_mib": peak_mib() - before,
            "seconds": time.perf_counter() - began_s,
        }


def _different_rewards(completions: list[str], **_: Any) -> list[float]:
    return [float(n % 5) for n, _ in enumerate(completions)]


def context(tokens: int, checkpointing: bool) -> dict[str, Any]:
    """Return the peak memory of one row of so many tokens on a model with 8 layers and hidden size 256."""
    small = {"vocab_size": 4096, "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 8}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 32_768}
    model = llama(**small, **heads)
    if checkpointing:
        checkpoint_layers(model)
    arguments = gradient_arguments({"gradient_checkpointing": checkpointing, "importance_sampling": "none"})
    updater = Updater(model, arguments)
    updater.step(rows(1, 24, 8, 4096))
    found = _stepped(updater, rows(1, tokens - 64, 64, 4096))
    assert updater.memory.rows is not None
    return found | {"predicted_mib": updater.memory.rows.of_row(tokens - 1) / 2**20}


def packing(kind: str, steps: int) -> dict[str, Any]:
    """Return the seconds of an update with padded and with packed rows, in turn, on the rows of `bench_update`."""
    model = language_model()
    room = {"learning_rate": 1e-4, "importance_sampling": "none"}
    updaters = {
        f"{'packed' if packed else 'padded'}_{tokens}_s": Updater(
            copy.deepcopy(model), gradient_arguments(room | {"packing": packed, "tokens_per_microbatch": tokens})
        )
        for tokens in (512, 8192)
        for packed in (False, True)
    }
    seconds: dict[str, list[float]] = {name: [] for name in updaters}
    for step in range(steps + 1):
        given = scripted_rows(kind, step)
        for name, updater in updaters.items():
            seconds[name].append(updater.step(given).seconds)
    return {name: statistics.median(found[1:]) for name, found in seconds.items()}


def microbatch(tokens: int) -> dict[str, Any]:
    """Return the time of an update of 64 rows of 128 tokens, with so many tokens at once."""
    small = {"vocab_size": 4096, "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 8}
    model = llama(**small, num_attention_heads=8, num_key_value_heads=4)
    arguments = gradient_arguments({"tokens_per_microbatch": tokens, "importance_sampling": "none"})
    return _stepped(Updater(model, arguments), rows(64, 64, 65, 4096), 2)


if __name__ == "__main__":
    torch.set_num_threads(1)
    match sys.argv[1:]:
        case ["adapter", "ours"]:
            found = adapter_ours()
        case ["adapter", "trl", micro, checkpointing]:
            found = adapter_trl(int(micro), checkpointing == "on")
        case ["context", tokens, checkpointing]:
            found = context(int(tokens), checkpointing == "on")
        case ["packing", kind, steps]:
            found = packing(kind, int(steps))
        case ["microbatch", tokens]:
            found = microbatch(int(tokens))
        case other:
            raise SystemExit(f"unknown measurement {other}")
    print(json.dumps(found))
