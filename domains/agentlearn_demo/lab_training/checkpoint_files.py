"""Writing a trained lab model: a checkpoint in Hugging Face format, and the small files that a package ships.

Both hold the same numbers, because the weights are first rounded to half precision.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from agentlearn.train.weights.loading import no_progress_bars
from agentlearn_demo.lab.checkpoint import CARD, SHIPPED, TOKENIZER, WEIGHTS, layout_card
from agentlearn_demo.lab.transformer import Layout
from agentlearn_demo.lab_training.qwen_model import ModelShape, qwen_config
from agentlearn_demo.lab_training.tokenizer import for_transformers

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import Qwen3ForCausalLM


def save_lab_model(model: "Qwen3ForCausalLM", tokenizer: "Tokenizer", folder: Path, card: dict[str, Any]) -> None:
    """Write the checkpoint. card: how the model was trained; shape and hashes are added to it."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.half().float())
    folder.mkdir(parents=True, exist_ok=True)
    with no_progress_bars():
        model.save_pretrained(folder)
        for_transformers(tokenizer, model.config.max_position_embeddings).save_pretrained(folder)
    _write_shipped(model, tokenizer, folder / SHIPPED, card)


def layout_of(model: "Qwen3ForCausalLM") -> Layout:
    """Return the model's shape as the numpy runtime needs it."""
    config = model.config
    assert config.num_key_value_heads is not None
    assert config.rope_parameters is not None
    return Layout(
        vocabulary=config.vocab_size,
        hidden=config.hidden_size,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        groups=config.num_key_value_heads,
        head=config.head_dim,
        inner=config.intermediate_size,
        context=config.max_position_embeddings,
        theta=float(config.rope_parameters.get("rope_theta", 0.0) or 0.0),
        epsilon=config.rms_norm_eps,
    )


def model_from(
    layout: Layout, weights: Mapping[str, NDArray[np.generic]], tokenizer: "Tokenizer"
) -> "Qwen3ForCausalLM":
    """Return a torch model with these weights, such as the shipped ones."""
    from transformers import Qwen3ForCausalLM

    shape = ModelShape(
        hidden=layout.hidden,
        layers=layout.layers,
        heads=layout.heads,
        groups=layout.groups,
        head=layout.head,
        inner=layout.inner,
        context=layout.context,
        tied="lm_head.weight" not in weights,
    )
    model = Qwen3ForCausalLM(qwen_config(shape, tokenizer)).float()
    named = {name: torch.from_numpy(np.asarray(weight, np.float32)) for name, weight in weights.items()}
    model.load_state_dict(named, strict=not shape.tied)
    return model.eval()


def _write_shipped(model: "Qwen3ForCausalLM", tokenizer: "Tokenizer", folder: Path, card: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    named: dict[str, Any] = {name: weight.detach().half().numpy() for name, weight in model.named_parameters()}
    np.savez(folder / WEIGHTS, **named)
    tokenizer.save(str(folder / TOKENIZER), pretty=False)
    hashes = {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in (WEIGHTS, TOKENIZER)}
    whole: dict[str, Any] = {**card, "layout": layout_card(layout_of(model)), "sha256": hashes}
    (folder / CARD).write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
