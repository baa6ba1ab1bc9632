"""What a GGUF file says of itself: its architecture, licence, tokenizer and number of weights. Needs no torch."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from agentlearn.errors import ConfigError, MissingExtra

CONTROL = 3
"""Type of tokens such as `<|im_end|>`, which are never split."""
BYTE_LEVEL = "gpt2"
"""Kind of tokenizer: byte pairs, of bytes written as letters."""
_TRAIN_EXTRA = "pip install 'agentlearn-lib[train]'"


@dataclass(frozen=True, slots=True)
class GgufFile:
    """The metadata of a GGUF file with a language model."""

    path: Path
    architecture: str
    licence: str
    """As an SPDX identifier; empty when the file does not say."""
    parameters: int
    """Number of weights."""
    tokenizer: str
    """Kind of the tokenizer."""
    splitting: str
    """Name of the rule by which the tokenizer splits a text before it looks for tokens; empty when not given."""
    tokens: tuple[str, ...]
    token_types: tuple[int, ...]
    end_ids: tuple[int, ...]
    """Tokens that end an answer."""
    chat_template: str | None

    @property
    def control_tokens(self) -> dict[str, int]:
        """The tokens that are never split, with their ids."""
        return {self.tokens[at]: at for at, kind in enumerate(self.token_types) if kind == CONTROL}


def read_gguf(path: Path) -> GgufFile:
    """Read the metadata of a GGUF file.

    Raises MissingExtra without the package gguf, ConfigError for a file that is damaged, is one part of several, or
    holds no language model with a tokenizer.
    """
    if find_spec("gguf") is None:
        raise MissingExtra(f"reading the GGUF file {str(path)!r} needs gguf: {_TRAIN_EXTRA}")
    from gguf import GGUFReader

    try:
        reader: Any = GGUFReader(path)
        fields = {name: _content(reader, name) for name in _NAMES if reader.get_field(name) is not None}
        parameters = sum(int(one.n_elements) for one in reader.tensors)
    except Exception as error:
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise ConfigError(
            f"{str(path)!r} cannot be read as a GGUF file ({why}); it may be cut short: get it again", code="bad_gguf"
        ) from error
    parts = fields.get("split.count") or 1
    if parts > 1:
        raise ConfigError(
            f"{str(path)!r} is one of {parts} parts of a model; join them first with llama-gguf-split --merge",
            code="bad_gguf",
        )
    tokens = tuple(cast("list[str]", fields.get("tokenizer.ggml.tokens") or ()))
    if not parameters or not tokens:
        missing = "tokenizer" if parameters else "weights"
        raise ConfigError(
            f"{str(path)!r} holds no language model: it has no {missing}; give the GGUF file of a whole model",
            code="bad_gguf",
        )
    ends = (fields.get(f"tokenizer.ggml.{one}_token_id") for one in ("eos", "eot"))
    return GgufFile(
        path=path,
        architecture=fields.get("general.architecture") or "",
        licence=_spdx(fields.get("general.license") or ""),
        parameters=parameters,
        tokenizer=fields.get("tokenizer.ggml.model") or "",
        splitting=fields.get("tokenizer.ggml.pre") or "",
        tokens=tokens,
        token_types=tuple(cast("list[int]", fields.get("tokenizer.ggml.token_type") or ())),
        end_ids=tuple(sorted({int(one) for one in ends if one is not None})),
        chat_template=fields.get("tokenizer.chat_template"),
    )


_NAMES = (
    *("general.architecture", "general.license", "split.count", "tokenizer.chat_template"),
    *(f"tokenizer.ggml.{one}" for one in ("model", "pre", "tokens", "token_type", "eos_token_id", "eot_token_id")),
)


def _content(reader: Any, name: str) -> Any:
    return reader.get_field(name).contents()


def _spdx(licence: str) -> str:
    """An identifier with its usual capitals, such as Apache-2.0."""
    known = {one.lower(): one for one in ("Apache-2.0", "MIT", "BSD-3-Clause", "CC-BY-4.0", "Llama-3.2")}
    return known.get(licence.lower(), licence)
