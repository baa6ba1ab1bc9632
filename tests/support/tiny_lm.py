"""A model with a few thousand weights, and training rows for it, for tests of gradients. Needs torch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agentlearn.train.update.sequences import TrainingRow
from agentlearn.types.ids import RolloutId

torch.set_num_threads(1)
VOCABULARY = 48


def tiny_config(**changes: Any) -> Qwen3Config:
    """Return the configuration of a Qwen3 with two layers."""
    fields: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "max_position_embeddings": 128,
        "tie_word_embeddings": False,
        "initializer_range": 0.2,  # large, so that the probabilities are far from uniform
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return Qwen3Config(**(fields | changes))


def tiny_lm(seed: int = 0, **changes: Any) -> Qwen3ForCausalLM:
    """Return a model; the same seed gives the same weights."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(tiny_config(**changes))


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with one word per token id. Token 0 is padding and token 2 ends a text."""
    words = Tokenizer(models.WordLevel({f"w{n}": n for n in range(VOCABULARY)}, unk_token="w3"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w3", pad_token="w0", eos_token="w2")


def some_rows(
    count: int = 8,
    *,
    seed: int = 0,
    longest: int = 24,
    staleness: int = 0,
    model: Any = None,
    jitter: float = 0.1,
    temperature: float = 1.0,
) -> list[TrainingRow]:
    """Return rows of different lengths with tool results in the middle.

    The sampler's log-probabilities are those of the model plus the jitter. Without a model they are random.
    """
    chance = np.random.default_rng(seed)
    rows: list[TrainingRow] = []
    for number in range(count):
        length = int(chance.integers(6, longest + 1))
        ids_T = chance.integers(3, VOCABULARY, length)
        mask_T = np.zeros(length, dtype=bool)
        mask_T[int(chance.integers(1, 4)) :] = True
        hidden = int(chance.integers(3, length))
        mask_T[hidden : hidden + int(chance.integers(0, 4))] = False
        mask_T[length - 1] = number % 3 > 0
        mask_T[1] = True
        logprobs_T = true_logprobs(model, ids_T, temperature) if model is not None else -chance.random(length) * 4
        logprobs_T = np.where(mask_T, logprobs_T + jitter * chance.standard_normal(length), 0).astype(np.float32)
        reward = float(number % 2)
        rows.append(
            TrainingRow(
                rollout=RolloutId(f"rollout-{number:03}"),
                ids_T=ids_T.astype(np.int64),
                mask_T=mask_T,
                logprobs_T=logprobs_T,
                advantage=float(chance.standard_normal()),
                reward=reward,
                staleness=staleness,
            )
        )
    return rows


def true_logprobs(model: Any, ids_T: Sequence[int] | np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Return the log-probability of each token under the model, computed from all logits; 0 for the first token."""
    with torch.no_grad():
        logits = model(torch.as_tensor(np.asarray(ids_T))[None]).logits[0, :-1].float() / temperature
        found = logits.log_softmax(-1).gather(1, torch.as_tensor(np.asarray(ids_T)[1:])[:, None])[:, 0]
    return np.concatenate([[0.0], found.numpy()])


def worst_difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Return the largest difference between tensors of the same name, divided by the largest element."""
    assert one.keys() == other.keys()
    assert one
    scale = max(float(value.abs().max()) for value in other.values())
    return max(float((one[name] - other[name]).abs().max()) for name in one) / max(scale, 1e-30)
