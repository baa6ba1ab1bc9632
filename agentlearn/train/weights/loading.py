"""Reading models and tokenizers in Hugging Face format. Importing this module does not import torch."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.errors import ConfigError

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedTokenizerBase

_TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tokenizer_config.json", "spiece.model"),
    "sentencepiece.bpe.model",
)


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model in memory, to be trained, served, or both."""

    model: "nn.Module"
    """A causal language model of transformers, inside peft's wrapper if it has an adapter."""
    tokenizer: "PreTrainedTokenizerBase"
    name: str
    """Name of its folder, or its hub id."""
    reference: "nn.Module | None" = None
    """Frozen copy that a divergence is measured against; None when no copy is needed."""


def from_pretrained(model_class: Any, source: str, **options: Any) -> Any:
    """Load a model from a folder or a hub id with a class of transformers or peft.

    Raises ConfigError when it cannot be loaded.
    """
    try:
        with no_progress_bars():
            return model_class.from_pretrained(source, **options)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        why = " ".join(str(error).split())[:300] or type(error).__name__
        raise ConfigError(f"{_model_at(source)} cannot be loaded: {why}", code="bad_model") from error


def load_tokenizer(source: str, *, code: str = "no_tokenizer") -> Any:
    """Load the tokenizer of a folder or a hub id. Raises ConfigError with this code when there is none."""
    from transformers import AutoTokenizer

    folder = Path(source)
    if not folder.is_dir():
        refused = f"{_model_at(source)} has no tokenizer that can be loaded"
    else:
        refused = (
            f"the directory {source!r} has no tokenizer that can be loaded; save it with tokenizer.save_pretrained"
        )
        if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
            raise ConfigError(refused, code=code)
    try:
        return AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(refused, code=code) from error


@contextmanager
def no_progress_bars() -> Generator[None]:
    """Inside the block, transformers shows no progress bars."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _model_at(source: str) -> str:
    if Path(source).exists():
        return f"the model in {source!r}"
    return f"the model {source!r} (there is no such folder, so it was looked up on the Hugging Face hub)"
