"""Converting a GGUF file once: bf16 weights as safetensors, tokenizer, chat template and generation config.

What was written is read again and compared with the file: every weight, log-probabilities, the tokens of several texts
and the tokens that end an answer.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentlearn.config.model_folders import RECORD, ModelRecord
from agentlearn.errors import ConfigError
from agentlearn.files import sha256_of, sync
from agentlearn.installed import version
from agentlearn.train.fetching.gguf_file import GgufFile, read_gguf
from agentlearn.train.fetching.gguf_tokenizer import check_tokenizer, load_gguf_tokenizer
from agentlearn.train.serving.local import generation_ends, need_extra
from agentlearn.train.weights.load_memory import free_bytes, is_out_of_memory
from agentlearn.train.weights.loading import load_base, load_tokenizer, no_progress_bars, short
from agentlearn.train.weights.model_source import ModelSource

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
