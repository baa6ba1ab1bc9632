"""Run one measurement of memory for `bench_update` in a separate process, and print one JSON object.

python -m scripts.bench.update_memory adapter
python -m scripts.bench.update_memory context 4096 on
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from agentlearn.train.arguments import gradient_arguments
from agentlearn.train.update.sequences import TrainingRow
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.model import checkpoint_layers, with_adapter
from agentlearn.types.ids import RolloutId

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


def _stepped(updater: Updater, given: list[TrainingRow]) -> dict[str, Any]:
    before = peak_mib()
    made = updater.step(given)
    memory = updater.memory
    assert memory.rows is not None
    return {
        "peak_mib": peak_mib(),
        "extra_mib": peak_mib() - before,
        "seconds": made.seconds,
        "tokens_at_once": memory.tokens,
        "kib_per_token": memory.rows.per_token / 1024,
        "steps": updater.steps,
    }


def adapter() -> dict[str, Any]:
    """Return the peak memory of one of our updates of the 135M model with an adapter."""
    arguments = gradient_arguments({"lora_rank": RANK, "learning_rate": 1e-5, "importance_sampling": "none"})
    updater = Updater(with_adapter(llama(), arguments), arguments)
    return _stepped(updater, rows(PROMPTS * G, PROMPT, ANSWER, 49_152))


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


if __name__ == "__main__":
    torch.set_num_threads(1)
    match sys.argv[1:]:
        case ["adapter"]:
            found = adapter()
        case ["context", tokens, checkpointing]:
            found = context(int(tokens), checkpointing == "on")
        case other:
            raise SystemExit(f"unknown measurement {other}")
    print(json.dumps(found))
