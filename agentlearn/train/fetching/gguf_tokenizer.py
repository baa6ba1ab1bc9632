"""The tokenizer of a GGUF file as transformers reads it, corrected, and compared with what the file says.

transformers takes the vocabulary from the file, but not always the rule by which a text is split before tokens are
looked for. With another rule, common texts become other tokens than the model was trained on.
"""

from pathlib import Path
from typing import Any

from agentlearn.errors import ConfigError
from agentlearn.train.fetching.gguf_file import BYTE_LEVEL, GgufFile
from agentlearn.train.weights.loading import short

_SINGLE_DIGITS = frozenset({"smollm", "starcoder", "refact", "codeshell", "command-r", "exaone", "minerva-7b"})
"""Rules of llama.cpp that first split a text at every digit, and then as GPT-2 does."""
_AS_GPT2 = frozenset({"gpt-2", "phi-2", "olmo", "mpt", "jais"})
"""Rules of llama.cpp that are those of GPT-2."""
_TEXTS = (
    "What is 23 + 18?",
    "  two  spaces, then 7 and 1,024\n\n\tand a tab",
    "def f(x):\n    return x ** 2  # don't",
    "naïve café – 北京 שלום 🙂",
)
"""Texts that must be the same after encoding and decoding."""


def load_gguf_tokenizer(gguf: GgufFile, alone: Path) -> Any:
    """Load the tokenizer of a GGUF file. Raises ConfigError when transformers cannot read it as llama.cpp does.

    alone: a path of the file in a folder without other files, because transformers would use them.
    """
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer, __version__

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(alone.parent, gguf_file=alone.name, trust_remote_code=False)
    except Exception as error:
        raise ConfigError(
            f"transformers {__version__} cannot read the tokenizer of {str(gguf.path)!r} ({short(error)}); use the"
            " model's safetensors version",
            code="bad_gguf",
        ) from error
    splitter: Any = pre_tokenizers
    if gguf.tokenizer == BYTE_LEVEL and isinstance(tokenizer.backend_tokenizer.pre_tokenizer, splitter.ByteLevel):
        words = splitter.ByteLevel(add_prefix_space=False)
        if gguf.splitting in _SINGLE_DIGITS:
            words = splitter.Sequence([splitter.Digits(individual_digits=True), words])
        elif gguf.splitting not in _AS_GPT2:
            raise ConfigError(
                f"the tokenizer of {str(gguf.path)!r} splits texts by the rule {gguf.splitting!r}, which transformers"
                f" {__version__} does not know; use the model's safetensors version",
                code="unknown_tokenizer",
            )
        tokenizer.backend_tokenizer.pre_tokenizer = words
    return tokenizer


def check_tokenizer(tokenizer: Any, gguf: GgufFile, folder: Path) -> None:
    """Raise ConfigError unless the tokenizer in a converted folder is the one that the GGUF file describes."""
    if fault := _fault(tokenizer, gguf):
        raise ConfigError(
            f"the tokenizer that was made from {str(gguf.path)!r} is not the one in the file: {fault}; use the model's"
            f" safetensors version, and report it ({folder.name})",
            code="bad_conversion",
        )


def _fault(tokenizer: Any, gguf: GgufFile) -> str:
    """What differs; empty when nothing does."""
    control = gguf.control_tokens
    if gguf.tokenizer == BYTE_LEVEL:
        made = tokenizer.convert_ids_to_tokens(list(range(len(gguf.tokens))))
        for at, (mine, theirs) in enumerate(zip(made, gguf.tokens, strict=True)):
            if mine != theirs and (not gguf.token_types or gguf.token_types[at] in {1, 3}):
                return f"token {at} is {mine!r} and not {theirs!r}"
    for text, identity in control.items():
        if tokenizer.encode(f"a{text}b", add_special_tokens=False).count(identity) != 1:
            return f"{text!r} is not encoded as the token {identity}"
    if tokenizer.chat_template != gguf.chat_template:
        return "it has another chat template"
    for text in _TEXTS:
        back = tokenizer.decode(tokenizer.encode(text, add_special_tokens=False))
        if back.strip() != text.strip():
            return f"{text!r} becomes {back!r}"
    return ""
