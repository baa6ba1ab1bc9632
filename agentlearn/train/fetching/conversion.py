"""Converting a GGUF file once: bf16 weights as safetensors, tokenizer, chat template and generation config.

What was written is read again and compared with the file: every weight, log-probabilities, the tokens of several texts
and the tokens that end an answer.

transformers takes the vocabulary from the file, but not always the rule by which a text is split before tokens are
looked for. With another rule, common texts become other tokens than the model was trained on.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from agentlearn.config.model_folders import RECORD, ModelRecord
from agentlearn.errors import ConfigError, MissingExtra
from agentlearn.files import sha256_of, sync
from agentlearn.installed import version
from agentlearn.train.serving.local import generation_ends, need_extra
from agentlearn.train.weights.loading import (
    free_bytes,
    is_out_of_memory,
    load_base,
    load_tokenizer,
    no_progress_bars,
    short,
)
from agentlearn.train.weights.model_source import ModelSource

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


_BYTES_PER_WEIGHT = 10
"""Memory while converting: the weights in fp32 twice, and once in bf16."""
_PROBE = "What is 23 + 18? It is 41."
_TOLERANCE = 1e-3
"""Largest difference of a logit between two computations with the same weights."""


def need_conversion() -> None:
    """Raise MissingExtra when a package that a conversion needs is not installed."""
    need_extra("converting a GGUF file", "gguf", "safetensors")


def convert_gguf(file: Path, folder: Path, *, name: str, source: str, sha256: str | None = None) -> ModelRecord:
    """Convert a GGUF file to a folder that `local:`, `vllm:` and `train` load. Blocks for some seconds per 100 MB.

    folder: must exist and be empty. name, source, sha256: for the record; by default the sha256 is the file's. Raises
    ConfigError for a file that cannot be converted, or whose conversion gives other results than the file.
    """
    gguf = read_gguf(file)
    _check_memory(gguf)
    with _quiet(), TemporaryDirectory(prefix="agentlearn-gguf-") as temporary:
        alone = Path(temporary, "model.gguf")
        alone.symlink_to(file.resolve())
        tokenizer = load_gguf_tokenizer(gguf, alone)
        model = _load(gguf, alone)
        logits = _write(model, tokenizer, gguf, folder)
        del model
        _check(logits, gguf, folder)
    for one in folder.glob("*.safetensors"):  # which safetensors writes for this user only
        one.chmod((folder / "config.json").stat().st_mode)
    sizes = {one.name: one.stat().st_size for one in sorted(folder.iterdir())}
    file_sha256 = sha256_of(file)
    record = ModelRecord(
        name=name,
        source=source,
        sha256=sha256 or file_sha256,
        file=file.name,
        file_sha256=file_sha256,
        licence=gguf.licence,
        files=sizes,
        agentlearn=version(),
    )
    (folder / RECORD).write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
    for one in (*folder.iterdir(), folder):
        sync(one)
    return record


def _check_memory(gguf: GgufFile) -> None:
    needed, free = gguf.parameters * _BYTES_PER_WEIGHT, free_bytes()
    if free is not None and needed > free:
        raise ConfigError(
            f"converting {str(gguf.path)!r} needs {needed / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} GiB are"
            " free; end other programs, or use a smaller model",
            code="out_of_memory",
        )


def _load(gguf: GgufFile, alone: Path) -> Any:
    """Load the model in fp32. alone: as in `load_gguf_tokenizer`."""
    import torch
    from transformers import AutoModelForCausalLM, __version__

    load: Any = AutoModelForCausalLM.from_pretrained
    try:
        model, found = load(
            alone.parent,
            gguf_file=alone.name,
            dtype=torch.float32,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except Exception as error:
        if is_out_of_memory(error):
            raise ConfigError(f"{str(gguf.path)!r} does not fit into memory", code="out_of_memory") from error
        raise ConfigError(
            f"transformers {__version__} cannot read the weights of {str(gguf.path)!r}, of the architecture"
            f" {gguf.architecture!r} ({short(error)}); use the model's safetensors version",
            code="bad_gguf",
        ) from error
    if lacking := sorted(found.get("missing_keys") or ()):
        raise ConfigError(
            f"{str(gguf.path)!r} lacks {len(lacking)} of the weights that a {type(model).__name__} has (first:"
            f" {lacking[0]!r}); use the model's safetensors version",
            code="bad_gguf",
        )
    return model


def _write(model: Any, tokenizer: Any, gguf: GgufFile, folder: Path) -> Any:
    """Write the model and its tokenizer, and return the logits of a short text with the rounded weights."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig

    config = type(model.config).from_dict(
        {name: value for name, value in model.config.to_dict().items() if name != "quantization_config"}
    )
    plain: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    plain.load_state_dict(model.state_dict())
    ends = list(gguf.end_ids) or sorted(generation_ends(model.generation_config))
    plain.generation_config = GenerationConfig(
        bos_token_id=config.bos_token_id,
        eos_token_id=ends[0] if len(ends) == 1 else ends or None,
        pad_token_id=config.pad_token_id,
    )
    plain.save_pretrained(folder)
    tokenizer.model_max_length = int(config.get_text_config().max_position_embeddings)
    tokenizer.save_pretrained(folder)
    ids = torch.tensor([tokenizer.encode(_PROBE, add_special_tokens=False)])
    with torch.no_grad():
        return plain.float().eval()(ids).logits


def _check(logits: Any, gguf: GgufFile, folder: Path) -> None:
    """Raise ConfigError unless the folder gives the same tokens, logits and ends of answers as the file."""
    import torch

    tokenizer = load_tokenizer(str(folder))
    check_tokenizer(tokenizer, gguf, folder)
    again = load_base(ModelSource(folder.name, str(folder)), dtype=torch.float32).eval()
    with torch.no_grad():
        found = again(torch.tensor([tokenizer.encode(_PROBE, add_special_tokens=False)])).logits
    if found.shape != logits.shape or not torch.allclose(found, logits, atol=_TOLERANCE, rtol=0):
        raise _bad_conversion(gguf, "it computes other logits")
    if gguf.end_ids and generation_ends(again.generation_config) != frozenset(gguf.end_ids):
        raise _bad_conversion(gguf, "other tokens end an answer")


def _bad_conversion(gguf: GgufFile, what: str) -> ConfigError:
    return ConfigError(
        f"the model that was made from {str(gguf.path)!r} is not the one in the file: {what}; use the model's"
        " safetensors version",
        code="bad_conversion",
    )


@contextmanager
def _quiet() -> Generator[None]:
    """In the block, transformers and gguf print neither progress bars nor advice."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with no_progress_bars(), redirect_stderr(StringIO()):
            yield
    finally:
        logger.setLevel(level)
