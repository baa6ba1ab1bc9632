"""Building a lab model: training it and writing its files, unless it has been built before."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.errors import ConfigError, MissingExtra
from agentlearn_demo.lab.checkpoint import CARD, SHIPPED, TOKENIZER, read_weights
from agentlearn_demo.lab.contract import Lab

if TYPE_CHECKING:
    from agentlearn_demo.lab_training.training import Recipe, TrainingProgress


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


def is_built(lab: Lab, recipe: "Recipe", folder: Path) -> bool:
    """Whether the folder holds a model built from the same corpus and recipe."""
    card = folder / SHIPPED / CARD
    try:
        return json.loads(card.read_text(encoding="utf-8"))["key"] == recipe.key(lab)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def build_lab_model(lab: Lab, recipe: "Recipe", folder: Path, report: "Callable[[TrainingProgress], None]") -> None:
    """Train the lab model and write its checkpoint, with the files to ship in the folder `shipped`.

    Raises ConfigError for a folder that holds anything but such a checkpoint.
    """
    require_torch()
    _refuse_other(folder)
    from agentlearn_demo.lab_training.checkpoint_files import save_lab_model
    from agentlearn_demo.lab_training.training import train_lab_model

    trained = train_lab_model(lab, recipe, report)
    card: dict[str, Any] = {
        "name": lab.name,
        "corpus": lab.version,
        "key": recipe.key(lab),
        "recipe": asdict(recipe),
        "tokens": trained.tokens,
        "command": f"agentlearn lab build {lab.name} --tokens {recipe.tokens} --seed {recipe.seed}",
    }
    save_lab_model(trained.model, trained.tokenizer, folder, card)


def _refuse_other(folder: Path) -> None:
    """Raise ConfigError for a folder with files of others: a checkpoint would replace files of the same names."""
    empty = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not empty and not (folder / CARD).is_file():
        raise ConfigError(
            f"{str(folder)!r} exists and holds no checkpoint of agentlearn; give a new folder", code="exists"
        )


def export_lab_model(lab: Lab, folder: Path) -> None:
    """Write the shipped weights as a checkpoint in Hugging Face format.

    Raises ConfigError for a folder that holds anything but such a checkpoint.
    """
    require_torch()
    _refuse_other(folder)
    from tokenizers import Tokenizer

    from agentlearn_demo.lab_training.checkpoint_files import model_from, save_lab_model

    layout, weights, card = read_weights(lab.folder, lab.name)
    tokenizer = Tokenizer.from_file(str(lab.folder / TOKENIZER))
    save_lab_model(model_from(layout, weights, tokenizer), tokenizer, folder, card)
