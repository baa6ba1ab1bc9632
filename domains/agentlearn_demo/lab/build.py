"""Building and exporting the lab model: a checkpoint in Hugging Face format, and the small files that are shipped.

Both hold the same numbers, because the weights are first rounded to half precision.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.serving.chat_request import END, TEMPLATE
from agentlearn_demo.lab import MathLab
from agentlearn_demo.lab.files import CARD, SHIPPED, TOKENIZER, WEIGHTS, read_weights

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import Qwen3ForCausalLM

    from agentlearn_demo.lab.training import ModelShape, Recipe, TrainingProgress

PAD = "<|endoftext|>"


def require_torch() -> None:
    """Raise MissingExtra when torch or transformers is not installed."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtra(
            "building a lab model needs torch and transformers: pip install 'agentlearn-lib[train]'"
        ) from error
    _ = torch, transformers


def is_built(lab: MathLab, recipe: "Recipe", folder: Path) -> bool:
    """Whether the folder holds a model built from the same corpus and recipe."""
    try:
        card = json.loads((folder / SHIPPED / CARD).read_text(encoding="utf-8"))
        return card["key"] == recipe.key(lab.name, lab.version)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def build_lab_model(lab: MathLab, recipe: "Recipe", folder: Path, report: "Callable[[TrainingProgress], None]") -> None:
    """Train the lab model with the shipped tokenizer, and write its checkpoint, with the files to ship in `shipped`.

    Raises ConfigError for a folder that holds anything but such a checkpoint.
    """
    tokenizer = _prepare(lab, folder)
    from agentlearn_demo.lab.training import train_lab_model

    model = _random_model(recipe.shape, tokenizer, recipe.seed)
    tokens = train_lab_model(model, tokenizer, recipe, report)
    card: dict[str, Any] = {
        "name": lab.name,
        "corpus": lab.version,
        "key": recipe.key(lab.name, lab.version),
        "recipe": asdict(recipe),
        "tokens": tokens,
        "command": f"agentlearn lab build {lab.name} --tokens {recipe.tokens} --seed {recipe.seed}",
    }
    _save_lab_model(model, tokenizer, folder, card)


def export_lab_model(lab: MathLab, folder: Path) -> None:
    """Write the shipped weights as a checkpoint in Hugging Face format.

    Raises ConfigError for a folder that holds anything but such a checkpoint.
    """
    tokenizer = _prepare(lab, folder)
    import torch

    from agentlearn_demo.lab.training import ModelShape

    layout, weights, card = read_weights(lab.folder, lab.name)
    sizes = {name: size for name, size in asdict(layout).items() if name in ModelShape.__dataclass_fields__}
    shape = ModelShape(**sizes, tied="lm_head.weight" not in weights)
    model = _random_model(shape, tokenizer, 0)
    named = {name: torch.from_numpy(np.asarray(weight, np.float32)) for name, weight in weights.items()}
    model.load_state_dict(named, strict=not shape.tied)
    _save_lab_model(model.eval(), tokenizer, folder, card)


def _prepare(lab: MathLab, folder: Path) -> "Tokenizer":
    """Return the shipped tokenizer. Raises MissingExtra without torch, and ConfigError for a folder of others."""
    require_torch()
    empty = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not empty and not (folder / CARD).is_file() and not (folder / SHIPPED / CARD).is_file():
        raise ConfigError(
            f"{str(folder)!r} exists and holds no checkpoint of agentlearn; give a new folder", code="exists"
        )
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(lab.folder / TOKENIZER))


def _random_model(shape: "ModelShape", tokenizer: "Tokenizer", seed: int) -> "Qwen3ForCausalLM":
    from agentlearn_demo.lab.training import random_model

    end, pad = tokenizer.token_to_id(END), tokenizer.token_to_id(PAD)
    return random_model(shape, tokenizer.get_vocab_size(), end, pad, seed)


def _save_lab_model(model: "Qwen3ForCausalLM", tokenizer: "Tokenizer", folder: Path, card: dict[str, Any]) -> None:
    """Write the checkpoint. card: how the model was trained; shape and hashes are added to it."""
    import torch
    from transformers import PreTrainedTokenizerFast

    from agentlearn.train.weights.loading import no_progress_bars

    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.half().float())
    config, shipped = model.config, folder / SHIPPED
    shipped.mkdir(parents=True, exist_ok=True)
    with no_progress_bars():
        model.save_pretrained(folder)
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            eos_token=END,
            pad_token=PAD,
            chat_template=TEMPLATE,
            model_max_length=config.max_position_embeddings,
            clean_up_tokenization_spaces=False,
        ).save_pretrained(folder)
    named: dict[str, Any] = {name: weight.detach().half().numpy() for name, weight in model.named_parameters()}
    np.savez(shipped / WEIGHTS, **named)
    tokenizer.save(str(shipped / TOKENIZER), pretty=False)
    assert config.rope_parameters is not None
    layout = {
        "vocabulary": config.vocab_size,
        "hidden": config.hidden_size,
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "groups": config.num_key_value_heads,
        "head": config.head_dim,
        "inner": config.intermediate_size,
        "context": config.max_position_embeddings,
        "theta": float(config.rope_parameters.get("rope_theta", 0.0) or 0.0),
        "epsilon": config.rms_norm_eps,
    }
    hashes = {file: hashlib.sha256((shipped / file).read_bytes()).hexdigest() for file in (WEIGHTS, TOKENIZER)}
    whole = {**card, "layout": layout, "sha256": hashes}
    (shipped / CARD).write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
