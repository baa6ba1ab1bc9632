"""Building a lab model: schooling it, writing it down, and doing neither twice."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.errors import MissingExtra
from agentlearn.lab.checkpoint import CARD, TOKENIZER, read_weights
from agentlearn.lab.contract import Lab

if TYPE_CHECKING:
    from agentlearn.train.lab.training import Recipe, TrainingProgress

SHIPPED = "shipped"
"""Folder of the small files, inside of a checkpoint."""


def require_torch() -> None:
    """Raises MissingExtra where torch or transformers is not installed."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtra(
            "building a lab model needs torch and transformers: pip install 'agentlearn-lib[train]'"
        ) from error
    _ = torch, transformers


def is_built(lab: Lab, recipe: "Recipe", folder: Path) -> bool:
    """Whether this very model lies there already."""
    card = folder / SHIPPED / CARD
    try:
        return json.loads(card.read_text(encoding="utf-8"))["key"] == recipe.key(lab)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def build(lab: Lab, recipe: "Recipe", folder: Path, report: "Callable[[TrainingProgress], None]") -> None:
    """School the lab model and write its checkpoint, with the small files in its folder `shipped`."""
    require_torch()
    from agentlearn.train.lab.save import save
    from agentlearn.train.lab.training import train_lab_model

    schooled = train_lab_model(lab, recipe, report)
    card: dict[str, Any] = {
        "name": lab.name,
        "corpus": lab.version,
        "key": recipe.key(lab),
        "recipe": asdict(recipe),
        "tokens": schooled.tokens,
        "command": f"agentlearn lab build {lab.name} --tokens {recipe.tokens} --seed {recipe.seed}",
    }
    save(schooled.model, schooled.tokenizer, folder, card)


def export(lab: Lab, folder: Path) -> None:
    """Write the shipped weights as a checkpoint that Hugging Face's programs read."""
    require_torch()
    from tokenizers import Tokenizer

    from agentlearn.train.lab.save import model_from, save

    layout, weights, card = read_weights(lab.folder, lab.name)
    tokenizer = Tokenizer.from_file(str(lab.folder / TOKENIZER))
    save(model_from(layout, weights, tokenizer), tokenizer, folder, card)
