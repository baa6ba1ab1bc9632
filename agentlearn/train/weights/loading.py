"""Reading models and tokenizers in Hugging Face format. Importing this module does not import torch.

Code that comes with a checkpoint is never executed.
"""

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.errors import ConfigError
from agentlearn.train.memory import check_memory, is_out_of_memory, out_of_memory
from agentlearn.train.weights.model_source import ModelSource

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


def load_base(source: ModelSource, *, dtype: Any, device: str = "cpu") -> Any:
    """Load a model without its adapter. dtype: of torch, or "auto" for the checkpoint's own.

    Raises ConfigError when it cannot be loaded, does not fit into memory, or lacks some of its weights.
    """
    from transformers import AutoModelForCausalLM

    load: Any = AutoModelForCausalLM.from_pretrained
    check_memory(source.name, Path(source.base), dtype=dtype, device=device)
    try:
        with no_progress_bars():
            model, found = load(
                source.base, dtype=dtype, trust_remote_code=False, weights_only=True, output_loading_info=True
            )
            mismatched = {name if isinstance(name, str) else name[0] for name in found.get("mismatched_keys") or ()}
            lacking = sorted({*(found.get("missing_keys") or ()), *mismatched})
            if not lacking:
                refuse_bad_numbers(model, _model_at(source.base))
                return model.to(device)
    except ConfigError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise out_of_memory(source.name, Path(source.base), dtype=dtype, device=device) from error
        raise ConfigError(f"{_model_at(source.base)} cannot be loaded: {short(error)}", code="bad_model") from error
    raise ConfigError(
        f"{_model_at(source.base)} lacks {len(lacking)} of the weights that a {type(model).__name__} has (first:"
        f" {lacking[0]!r}), which would stay random; download all of its files, or another version of the model",
        code="missing_weights",
    )


def refuse_bad_numbers(model: "nn.Module", where: str) -> None:
    """Raise ConfigError when a weight is NaN or infinite. where: what the model is, in words."""
    import torch

    bad = [name for name, one in model.named_parameters() if not bool(torch.isfinite(one).all())]
    if bad:
        raise ConfigError(
            f"{where} has NaN or infinite numbers in {len(bad)} of its weights (first: {bad[0]!r}), so it gives no"
            " probabilities; download it again, or use a checkpoint from before its training failed",
            code="bad_weights",
        )


def _check_config(source: ModelSource) -> None:
    """Raise ConfigError when the model is no causal language model that transformers knows."""
    from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, PreTrainedConfig

    where = _model_at(source.base)
    try:
        plain: dict[str, Any] = PreTrainedConfig.get_config_dict(source.base)[0]
    except (OSError, ValueError) as error:
        raise ConfigError(f"{where} cannot be loaded: {short(error)}", code="bad_model") from error
    kind = check_model_type(source, plain, CONFIG_MAPPING)
    try:
        config = AutoConfig.from_pretrained(source.base, trust_remote_code=False)
    except Exception as error:
        raise ConfigError(f"{where} cannot be loaded: {short(error)}", code="bad_config") from error
    if getattr(config, "is_encoder_decoder", False) or type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise _not_causal(where, kind)


def check_model_type(source: ModelSource, plain: Mapping[str, Any], known: Collection[str]) -> str:
    """Return the model's type. Raises ConfigError when transformers does not know it. Does not import torch.

    plain: the content of the model's config.json. known: the types that transformers knows.
    """
    where = _model_at(source.base)
    kind = plain.get("model_type")
    if not isinstance(kind, str):
        raise ConfigError(
            f"{where} cannot be loaded: its config.json names no model_type; download it again", code="bad_config"
        )
    if kind not in known:
        from transformers import __version__ as version

        if plain.get("auto_map"):
            raise ConfigError(
                f"{where} comes with code of its own, which agentlearn never runs; use a model that transformers"
                f" {version} knows, or serve it with its own server and give that server's URL as --model",
                code="own_code",
            )
        raise ConfigError(
            f"{where} is of the type {kind!r}, which transformers {version} does not know; upgrade it with pip install"
            " -U transformers, or use another model",
            code="unknown_model_type",
        )
    if plain.get("is_encoder_decoder"):
        raise _not_causal(where, kind)
    return kind


def quantised_weights(name: str) -> ConfigError:
    """Return the error for a model with quantised weights."""
    return ConfigError(
        f"the model {name!r} has quantised weights, which cannot be trained here; use its version in bf16 or fp32",
        code="quantised",
    )


def check_tokenizer_files(folder: Path, *, code: str = "no_tokenizer") -> None:
    """Raise ConfigError with this code when the folder holds no tokenizer. Does not import torch."""
    if not _has_tokenizer(folder):
        raise ConfigError(_without_tokenizer(str(folder)), code=code)


def load_tokenizer(source: str, *, code: str = "no_tokenizer") -> Any:
    """Load the tokenizer of a folder or a hub id. Raises ConfigError with this code when there is none."""
    from transformers import AutoTokenizer

    if Path(source).is_dir():
        check_tokenizer_files(Path(source), code=code)
    try:
        return AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except Exception as error:
        raise ConfigError(f"{_without_tokenizer(source)} ({short(error)})", code=code) from error


def tokenizer_of(source: ModelSource) -> Any:
    """Check a model's config and load its tokenizer. An adapter without one uses that of its base model.

    Raises ConfigError for a model without tokenizer, and for what is no causal language model or needs its own code.
    """
    _check_config(source)
    return load_tokenizer(tokenizer_place(source))


def tokenizer_place(source: ModelSource) -> str:
    """Return the folder or hub id of the model's tokenizer: the adapter's folder if it has one, else the model's."""
    own = source.adapter is not None and _has_tokenizer(source.adapter)
    return str(source.adapter) if own else source.base


def _has_tokenizer(folder: Path) -> bool:
    """Whether the folder holds a tokenizer."""
    return any((folder / name).is_file() for name in _TOKENIZER_FILES)


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


def short(error: BaseException) -> str:
    """The error's message in one line of at most 300 characters."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def _not_causal(where: str, kind: str) -> ConfigError:
    return ConfigError(
        f"{where} is of the type {kind!r}, which is not a decoder-only language model; use one such as Qwen",
        code="not_causal",
    )


def _without_tokenizer(source: str) -> str:
    if not Path(source).is_dir():
        return f"{_model_at(source)} has no tokenizer that can be loaded"
    return (
        f"the directory {source!r} has no tokenizer that can be loaded; save it with tokenizer.save_pretrained,"
        " or copy tokenizer.json and tokenizer_config.json from the model it was made from"
    )


def _model_at(source: str) -> str:
    if Path(source).exists():
        return f"the model in {source!r}"
    return f"the model {source!r} (there is no such folder, so it was looked up on the Hugging Face hub)"


def generation_ends(config: Any) -> frozenset[int]:
    """The tokens that end an answer, from a model's generation config."""
    ends: Any = getattr(config, "eos_token_id", None)
    return frozenset(int(end) for end in (ends if isinstance(ends, list) else [ends]) if end is not None)
