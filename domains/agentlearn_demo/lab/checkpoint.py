"""The files of a lab model: half-precision weights, tokenizer, and a card with its shape and file hashes."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from agentlearn.errors import ConfigError
from agentlearn_demo.lab.tokenizer import LabTokenizer, read_tokenizer
from agentlearn_demo.lab.transformer import Layout, Transformer

WEIGHTS = "weights.npz"
TOKENIZER = "tokenizer.json"
CARD = "card.json"
"""File with the model's shape, how it was trained, and the hashes of the other files."""
SHIPPED = "shipped"
"""Folder inside a built checkpoint with the small files that a package ships."""


def check_present(folder: Path, name: str) -> None:
    """Raise ConfigError when the folder holds no weights."""
    if not (folder / CARD).is_file():
        raise ConfigError(
            f"the lab model {name!r} has no weights here; build them with `agentlearn lab build`", code="no_weights"
        )


def read_checkpoint(folder: Path, name: str) -> tuple[Transformer, LabTokenizer]:
    """Read the model in a folder. Raises ConfigError when it is missing or its files do not match their hashes."""
    layout, weights, _ = read_weights(folder, name)
    try:
        model = Transformer(layout, weights)
    except (LookupError, ValueError) as error:
        raise _unusable(name, error) from error
    return model, read_tokenizer(folder / TOKENIZER)


def read_weights(folder: Path, name: str) -> tuple[Layout, Mapping[str, NDArray[np.generic]], dict[str, Any]]:
    """Read the shape, the weights by name, and the card. Raises ConfigError as `read_checkpoint` does."""
    check_present(folder, name)
    try:
        card: dict[str, Any] = json.loads((folder / CARD).read_text(encoding="utf-8"))
        _check_hashes(folder, card["sha256"])
        layout = Layout(**card["layout"])
        with np.load(folder / WEIGHTS) as weights:
            return layout, dict(weights), card
    except (OSError, ValueError, LookupError, TypeError, BadZipFile) as error:
        raise _unusable(name, error) from error


def _unusable(name: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"the weights of the lab model {name!r} cannot be used: {error}; reinstall the package", code="bad_weights"
    )


def _check_hashes(folder: Path, expected: Mapping[str, str]) -> None:
    for file, digest in expected.items():
        if hashlib.sha256((folder / file).read_bytes()).hexdigest() != digest:
            raise ValueError(f"{file} is not the file that was built")


def layout_card(layout: Layout) -> dict[str, object]:
    """Return a layout as it is stored in the card."""
    return asdict(layout)
