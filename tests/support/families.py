"""Checkpoints of many architectures with random weights, as strangers would bring them. Needs transformers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.support.tiny_model import saved, spread, tiny_tokenizer

WINDOW = 8
"""Number of tokens that a layer with a sliding window sees."""
_SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}
FAMILIES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "llama": ("llama", {}),
    "qwen2": ("qwen2", {}),
    "qwen2 with a window": ("qwen2", {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}),
    "qwen3": ("qwen3", {}),
    "qwen3 with a window in every layer": (
        "qwen3",
        {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 0},
    ),
    "mistral with a window": ("mistral", {"sliding_window": WINDOW}),
    "gemma 2": ("gemma2", {"sliding_window": WINDOW, "query_pre_attn_scalar": 8, "final_logit_softcapping": 3.0}),
    "gemma 3": ("gemma3_text", {"sliding_window": WINDOW, "query_pre_attn_scalar": 8, "num_hidden_layers": 6}),
    "phi": ("phi", {}),
    "phi 3 with a window": ("phi3", {"sliding_window": WINDOW}),
    "gpt2": ("gpt2", _GPT2),
    "gpt-neox": ("gpt_neox", {}),
    "granite": ("granite", {"logits_scaling": 4.0, "residual_multiplier": 0.5}),
    "cohere": ("cohere", {"logit_scale": 0.5}),
    "cohere 2": ("cohere2", {"logit_scale": 0.5, "sliding_window": WINDOW}),
    "olmo 2": ("olmo2", {}),
    "qwen3 moe": ("qwen3_moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}),
    "stablelm": ("stablelm", {}),
    "starcoder 2": ("starcoder2", {"sliding_window": WINDOW}),
    "llama 4": (
        "llama4_text",
        {"attention_chunk_size": WINDOW, "num_local_experts": 2, "intermediate_size_mlp": 48, "num_hidden_layers": 4},
    ),
}
"""Model type and settings of architectures that can be served and trained here, by name."""
REFUSED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "bloom": ("bloom", {"n_head": 4, "n_layer": 2}),
    "mpt": ("mpt", {"d_model": 32, "n_heads": 4, "n_layers": 2}),
    "falcon with alibi": ("falcon", {"alibi": True, "head_dim": None}),
    "gpt-neo": (
        "gpt_neo",
        {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "num_heads": 4, "window_size": WINDOW},
    ),
    "mamba": ("mamba", {"state_size": 4}),
    "recurrent gemma": ("recurrent_gemma", {"num_hidden_layers": 3, "lru_width": 32}),
    "lfm 2": ("lfm2", {"layer_types": ["conv", "full_attention"]}),
}
"""Architectures whose layers need more than cached keys and values, by name."""


def family_model(family: str, *, seed: int = 0, width: float = 0.3, **changes: Any) -> Any:
    """Return a model of a family with random weights, far from uniform probabilities."""
    kind, own = {**FAMILIES, **REFUSED}[family]
    words = tiny_tokenizer()
    config = AutoConfig.for_model(
        kind,
        **{
            "vocab_size": len(words),
            **{name: value for name, value in _SMALL.items() if own.get(name, value) is not None},
            "bos_token_id": None,
            "eos_token_id": words.eos_token_id,
            "pad_token_id": words.pad_token_id,
            **{name: value for name, value in own.items() if value is not None},
            **changes,
        },
    )
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config).eval()
    spread(model, seed, width)
    return model


def family_folder(
    family: str, folder: Path, *, tokenizer: Any = None, save: Callable[[Any], None] | None = None, **changes: Any
) -> Path:
    """Save a model of a family with a tokenizer, and return its folder. save: how; None: as usual."""
    model = family_model(family, **changes)
    if save is None:
        return saved(folder, model, tokenizer)
    save(model)
    (tokenizer or tiny_tokenizer()).save_pretrained(folder)
    return folder
