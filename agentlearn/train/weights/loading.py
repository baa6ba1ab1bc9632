"""Finding and reading models and tokenizers: a folder, a hub id, or an adapter on a base model.

Files and settings are checked before torch is imported, so that a folder that cannot be used is refused in a second.
Importing this module does not import torch. Nothing in a checkpoint is ever executed.
"""

import json
import shlex
import threading
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentlearn.config.model_folders import check_fetched, model_path
from agentlearn.errors import ConfigError
from agentlearn.text.files import readable
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.memory import check_memory, is_out_of_memory, out_of_memory

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedTokenizerBase

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
WAIT_S = 5.0
"""How long the hub may take to answer the first question about a model."""
_ADAPTER_FILES = [ADAPTER_CONFIG, ADAPTER_WEIGHTS, "*.jinja", "tokenizer*", "*.model", "vocab*"]
_WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tokenizer_config.json", "spiece.model"),
    "sentencepiece.bpe.model",
)


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where the weights of a model are."""

    name: str
    """The model as the user wrote it."""
    base: str
    """Folder or hub id of the model, without its adapter."""
    adapter: Path | None = None
    """Folder of the adapter; None for a model without one."""

    @classmethod
    def find(cls, name: str, *, ask_hub: bool = True) -> "ModelSource":
        """Find the model with this name: a folder with a model or an adapter, or a hub id. Blocks.

        ask_hub: whether the hub is asked for hub ids. If not, they are taken as they are.

        Raises ConfigError for a folder with missing or damaged files, an adapter without its base model, a file, or a
        hub id that cannot be reached.
        """
        check_fetched(name)
        path = model_path(name)
        if path.is_file():
            if path.suffix == ".gguf":
                raise _gguf(name, path)
            raise ConfigError(f"{name!r} is a file; name the folder of a Hugging Face checkpoint")
        if path.is_dir():
            check_model_files(path, name)
            return cls._adapter(path, name, ask_hub=ask_hub) if is_adapter(path) else cls(name, str(path))
        if not ask_hub:
            return cls(name, name)
        found = reach_hub(name)
        if found != name:  # a folder of files that were downloaded before
            check_model_files(Path(found), name)
            return cls._adapter(Path(found), name) if is_adapter(Path(found)) else cls(name, found)
        if _answer(name, ADAPTER_CONFIG) is not None:
            return cls(name, name)
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        try:
            folder = Path(snapshot_download(name, allow_patterns=_ADAPTER_FILES))
        except (EntryNotFoundError, LocalEntryNotFoundError, OSError) as error:
            raise _refusal(name, error) from error
        return cls._adapter(folder, name)

    @classmethod
    def _adapter(cls, path: Path, name: str, *, ask_hub: bool = True) -> "ModelSource":
        """The adapter in a folder on its base model."""
        given = read_config(path, ADAPTER_CONFIG).get("base_model_name_or_path")
        how = f"set base_model_name_or_path in {str(path / ADAPTER_CONFIG)!r} to the folder or hub id of its base model"
        if not isinstance(given, str) or not given.strip():
            raise ConfigError(f"the adapter in {name!r} names no base model; {how}")
        folders = [one for one in (Path(given).expanduser(), path / given) if one.is_dir()]
        if folders:
            base = next((one for one in folders if (one / "config.json").is_file()), folders[0])
            if is_adapter(base):
                raise ConfigError(
                    f"the adapter in {name!r} belongs to {given!r}, which is an adapter itself; merge that one into its"
                    " base model first"
                )
            check_model_files(base, given)
            return cls(name, str(base), path)
        if given.count("/") != 1 or given.startswith((".", "/", "~")):
            raise ConfigError(
                f"the adapter in {name!r} belongs to the model in {given!r}, and there is no such folder; {how}"
            )
        return cls(name, reach_hub(given) if ask_hub else given, path)

    @property
    def tokenizer(self) -> str:
        """Folder or hub id of the model's tokenizer: the adapter's folder if it has one, else the model's."""
        return str(self.adapter) if self.adapter is not None and _has_tokenizer(self.adapter) else self.base

    @property
    def where(self) -> str:
        """The model without its adapter, in words."""
        return _model_at(self.base)

    def check_adapter_settings(self, arguments: GradientArguments) -> None:
        """Raise ConfigError for settings of an adapter that are not those of this one, or when none is trained."""
        if self.adapter is None:
            without = "lora_rank=0 trains this model without an adapter; set lora_rank"
            if not arguments.lora_rank and arguments.reference == "adapter_off":
                raise ConfigError(f"reference is 'adapter_off', but {without}, or reference=copy")
            if not arguments.lora_rank and arguments.lora_dropout:
                raise ConfigError(f"lora_dropout is {arguments.lora_dropout}, but {without}")
            return
        given, defaults = read_config(self.adapter, ADAPTER_CONFIG), type(arguments).model_fields
        rank, alpha = given.get("r", 8), given.get("lora_alpha", 8)
        if arguments.lora_rank not in (0, rank):
            raise ConfigError(
                f"lora_rank is {arguments.lora_rank}, but the adapter in {self.name!r} has rank {rank}; leave lora_rank"
                " out to train this adapter on, or give its base model to start a new one"
            )
        if arguments.lora_alpha not in (defaults["lora_alpha"].default, alpha):
            raise ConfigError(
                f"lora_alpha is {arguments.lora_alpha:g}, but the adapter in {self.name!r} has {alpha}; leave"
                " lora_alpha out to train this adapter on"
            )
        own = given.get("target_modules")
        targets = {own} if isinstance(own, str) else set(own or ())
        if arguments.lora_targets != defaults["lora_targets"].default and set(arguments.lora_targets) != targets:
            raise ConfigError(
                f"lora_targets is {list(arguments.lora_targets)}, but the adapter in {self.name!r} is on"
                f" {sorted(targets)}; leave lora_targets out to train this adapter on"
            )

    def check_model_type(self, plain: Mapping[str, Any], known: Collection[str]) -> str:
        """Return the model's type. Raises ConfigError when transformers does not know it. Does not import torch.

        plain: the content of the model's config.json. known: the types that transformers knows.
        """
        where, kind = self.where, plain.get("model_type")
        if not isinstance(kind, str):
            raise ConfigError(f"{where} cannot be loaded: its config.json names no model_type; download it again")
        if kind not in known:
            from transformers import __version__ as version

            if plain.get("auto_map"):
                raise ConfigError(
                    f"{where} comes with code of its own, which agentlearn never runs; use a model that transformers"
                    f" {version} knows, or serve it with its own server and give that server's URL as --model"
                )
            raise ConfigError(
                f"{where} is of the type {kind!r}, which transformers {version} does not know; upgrade it with pip"
                " install -U transformers, or use another model"
            )
        if plain.get("is_encoder_decoder"):
            raise _not_causal(where, kind)
        return kind

    def load_tokenizer(self) -> Any:
        """Check a model's config and load its tokenizer. An adapter without one uses that of its base model.

        Raises ConfigError for a model without tokenizer, and for one that is no causal language model or needs its own
        code.
        """
        from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, PreTrainedConfig

        try:
            plain: dict[str, Any] = PreTrainedConfig.get_config_dict(self.base)[0]
            kind = self.check_model_type(plain, CONFIG_MAPPING)
            config = AutoConfig.from_pretrained(self.base, trust_remote_code=False)
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(f"{self.where} cannot be loaded: {short(error)}") from error
        if getattr(config, "is_encoder_decoder", False) or type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
            raise _not_causal(self.where, kind)
        return load_tokenizer(self.tokenizer)

    def load(self, *, dtype: Any, device: str = "cpu") -> Any:
        """Load a model without its adapter. dtype: of torch, or "auto" for the checkpoint's own.

        Raises ConfigError when it cannot be loaded, does not fit into memory, or lacks some of its weights.
        """
        from transformers import AutoModelForCausalLM

        load: Any = AutoModelForCausalLM.from_pretrained
        check_memory(self.name, Path(self.base), dtype=dtype, device=device)
        try:
            with no_progress_bars():
                model, found = load(
                    self.base, dtype=dtype, trust_remote_code=False, weights_only=True, output_loading_info=True
                )
                mismatched = {name if isinstance(name, str) else name[0] for name in found.get("mismatched_keys") or ()}
                lacking = sorted({*(found.get("missing_keys") or ()), *mismatched})
                if not lacking:
                    refuse_bad_numbers(model, self.where)
                    return model.to(device)
        except ConfigError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise out_of_memory(self.name, Path(self.base), dtype=dtype, device=device) from error
            raise ConfigError(f"{self.where} cannot be loaded: {short(error)}") from error
        raise ConfigError(
            f"{self.where} lacks {len(lacking)} of the weights that a {type(model).__name__} has (first:"
            f" {lacking[0]!r}), which would stay random; download all of its files, or another version of the model"
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
    bf16: bool = False
    """Whether it is trained with products in bf16, and so sampled from with the same, also where weights are fp32."""


def is_adapter(path: Path) -> bool:
    """Whether the folder holds an adapter."""
    return (path / ADAPTER_CONFIG).is_file()


def check_model_files(path: Path, directory: str) -> None:
    """Raise ConfigError when a folder holds neither a complete model nor an adapter.

    directory: the folder as the user wrote it.
    """
    whole = (path / "config.json").is_file()
    weights = [file for pattern in _WEIGHTS for file in sorted(path.glob(pattern))]
    if is_adapter(path):
        if weights:
            raise ConfigError(
                f"the directory {directory!r} holds both a model ({weights[0].name}) and an adapter ({ADAPTER_CONFIG});"
                " move one of them to a folder of its own"
            )
        read_config(path, ADAPTER_CONFIG)
        if (path / ADAPTER_WEIGHTS).is_file():
            _check_safetensors(path / ADAPTER_WEIGHTS)
            return
        if (path / "adapter_model.bin").is_file():
            raise ConfigError(
                f"the adapter in {directory!r} has its weights in adapter_model.bin only, a format that can hold code;"
                f" save it again as {ADAPTER_WEIGHTS}"
            )
        raise ConfigError(f"the adapter in {directory!r} has no {ADAPTER_WEIGHTS}")
    if not weights and (files := sorted(path.glob("*.gguf"))):
        raise _gguf(directory, files[0])
    if not whole:
        raise ConfigError(
            f"the directory {directory!r} holds no model: it has neither config.json nor {ADAPTER_CONFIG}"
        )
    read_config(path)
    for name in _INDEXES:
        index = read_config(path, name).get("weight_map") if (path / name).is_file() else None
        files = sorted({str(one) for one in cast("dict[str, Any]", index).values()}) if isinstance(index, dict) else []
        missing = [one for one in files if not (path / one).is_file()]
        if missing:
            raise ConfigError(
                f"the directory {directory!r} lacks {len(missing)} of the {len(files)} weight files that {name} names"
                f" (first: {missing[0]!r}); download them"
            )
    if not weights:
        raise ConfigError(
            f"the directory {directory!r} has a config.json but no weights (model.safetensors); download all files of"
            " the model, as in hf download OWNER/NAME --local-dir DIRECTORY"
        )
    for file in weights:
        if file.suffix == ".safetensors":
            _check_safetensors(file)


def _check_safetensors(file: Path) -> None:
    """Raise ConfigError when the file is damaged or cut short. Reads only its header."""
    if find_spec("safetensors") is None:
        return
    import safetensors

    try:
        with safetensors.safe_open(readable(file), framework="np"):
            return
    except Exception as error:
        raise ConfigError(
            f"the weights in {str(file)!r} are damaged or cut short ({short(error, 200)}); download the file again"
        ) from error


def read_config(folder: Path, name: str = "config.json") -> dict[str, Any]:
    """Return the settings in a file of the folder. Raises ConfigError when it is no JSON object."""
    file = folder / name
    try:
        found: object = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        words = f"{str(file)!r} is not valid JSON ({short(error, 200)}); download it again"
        raise ConfigError(words) from error
    if not isinstance(found, dict):
        raise ConfigError(f"{str(file)!r} holds {type(found).__name__}, not a JSON object")
    return cast("dict[str, Any]", found)


def reach_hub(name: str) -> str:
    """Return the name when the hub has this model, or the folder of its cached files when the hub is silent.

    Blocks for some seconds at most. Raises ConfigError when the model can be had from neither.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ConfigError(
            f"there is no folder {name!r}, and it is not a hub id either; give a folder with a Hugging Face checkpoint,"
            " or a hub id OWNER/NAME"
        ) from error
    error = _answer(name)
    if error is None:
        return name
    try:
        return snapshot_download(name, local_files_only=True)  # files that were downloaded before
    except (LocalEntryNotFoundError, OSError, ValueError):
        raise _refusal(name, error) from error


def _answer(name: str, file: str = "config.json") -> Exception | None:
    """Ask the hub for a file of the model; returns None when the model is there, else what went wrong."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError

    found: list[Exception | None] = []

    def ask() -> None:
        try:
            get_hf_file_metadata(hf_hub_url(name, file), timeout=WAIT_S)
        except EntryNotFoundError as error:
            found.append(None if file == "config.json" else error)
        except Exception as error:  # noqa: BLE001  whatever it is, the hub gave no answer
            found.append(error)
        else:
            found.append(None)

    asking = threading.Thread(target=ask, name="agentlearn-hub", daemon=True)  # looking up a host has no time limit
    asking.start()
    asking.join(2 * WAIT_S)
    return found[0] if found else TimeoutError(f"no answer within {2 * WAIT_S:g} s")


def _refusal(name: str, error: Exception) -> ConfigError:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    if isinstance(error, GatedRepoError):
        return ConfigError(
            f"the Hugging Face hub gives the model {name!r} only to users who accepted its terms; accept them on its"
            " page and log in with hf auth login"
        )
    if isinstance(error, RepositoryNotFoundError):
        return ConfigError(
            f"there is no folder {name!r}, and the Hugging Face hub has no such model; if it is private, log in with"
            " hf auth login"
        )
    why = short(error, 150)
    return ConfigError(
        f"there is no folder {name!r}, and the Hugging Face hub cannot be asked for it ({why}); download it where there"
        f" is a network with hf download {name} --local-dir DIRECTORY, and give that folder"
    )


def _gguf(name: str, file: Path) -> ConfigError:
    convert = shlex.join(["agentlearn", "models", "convert", str(file), "FOLDER"])
    return ConfigError(
        f"{name!r} has its weights in the GGUF format, which cannot be trained or served here as it is; convert it once"
        f" with {convert}, or serve the GGUF file with its own server and give that server's URL as --model"
    )


def _not_causal(where: str, kind: str) -> ConfigError:
    return ConfigError(
        f"{where} is of the type {kind!r}, which is not a decoder-only language model; use one such as Qwen"
    )


def _model_at(source: str) -> str:
    if Path(source).exists():
        return f"the model in {source!r}"
    return f"the model {source!r} (there is no such folder, so it was looked up on the Hugging Face hub)"


def refuse_bad_numbers(model: "nn.Module", where: str) -> None:
    """Raise ConfigError when a weight is NaN or infinite. where: what the model is, in words."""
    import torch

    bad = [name for name, one in model.named_parameters() if not bool(torch.isfinite(one).all())]
    if bad:
        raise ConfigError(
            f"{where} has NaN or infinite numbers in {len(bad)} of its weights (first: {bad[0]!r}), so it gives no"
            " probabilities; download it again, or use a checkpoint from before its training failed"
        )


def quantised_weights(name: str) -> ConfigError:
    """Return the error for a model with quantised weights."""
    return ConfigError(
        f"the model {name!r} has quantised weights, which cannot be trained here; use its version in bf16 or fp32"
    )


def check_tokenizer_files(folder: Path) -> None:
    """Raise ConfigError when the folder holds no tokenizer. Does not import torch."""
    if not _has_tokenizer(folder):
        raise _without_tokenizer(str(folder))


def _without_tokenizer(source: str, error: Exception | None = None) -> ConfigError:
    why = "" if error is None else f" ({short(error)})"
    if not Path(source).is_dir():
        return ConfigError(f"{_model_at(source)} has no tokenizer that can be loaded{why}")
    return ConfigError(
        f"the directory {source!r} has no tokenizer that can be loaded; save it with tokenizer.save_pretrained,"
        f" or copy tokenizer.json and tokenizer_config.json from the model it was made from{why}"
    )


def load_tokenizer(source: str) -> Any:
    """Load the tokenizer of a folder or a hub id. Raises ConfigError when there is none."""
    from transformers import AutoTokenizer

    if Path(source).is_dir():
        check_tokenizer_files(Path(source))
    try:
        return AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except Exception as error:
        raise _without_tokenizer(source, error) from error


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


def short(error: BaseException, most: int = 300) -> str:
    """The error's message in one line of at most this many characters."""
    return " ".join(str(error).split())[:most] or type(error).__name__


def generation_ends(config: Any) -> frozenset[int]:
    """The tokens that end an answer, from a model's generation config."""
    ends: Any = getattr(config, "eos_token_id", None)
    return frozenset(int(end) for end in (ends if isinstance(ends, list) else [ends]) if end is not None)
