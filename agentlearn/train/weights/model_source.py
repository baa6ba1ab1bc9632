"""What the name of a model stands for: a folder, a hub id, or an adapter on a base model.

Files and settings are checked here before torch is imported, so that a folder that cannot be used is refused in a
second. Nothing in a checkpoint is ever executed.
"""

import json
import shlex
import threading
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from agentlearn.config.model_folders import check_fetched, model_path
from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments

WAIT_S = 5.0
"""How long the hub may take to answer the first question about a model."""
_ADAPTER_FILES = ["adapter_config.json", "adapter_model.safetensors", "*.jinja", "tokenizer*", "*.model", "vocab*"]


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
            " or a hub id OWNER/NAME",
            code="no_model",
        ) from error
    error = _answer(name)
    if error is None:
        return name
    try:
        return snapshot_download(name, local_files_only=True)  # files that were downloaded before
    except (LocalEntryNotFoundError, OSError, ValueError):
        raise _refusal(name, error) from error


def _adapter_on_hub(name: str) -> Path | None:
    """Return a folder with the adapter of this hub id; None when the hub id is a model without adapter."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    if _answer(name, "adapter_config.json") is not None:
        return None
    try:
        return Path(snapshot_download(name, allow_patterns=_ADAPTER_FILES))
    except (EntryNotFoundError, LocalEntryNotFoundError, OSError) as error:
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
            " page and log in with hf auth login",
            code="no_model",
        )
    if isinstance(error, RepositoryNotFoundError):
        return ConfigError(
            f"there is no folder {name!r}, and the Hugging Face hub has no such model; if it is private, log in with"
            " hf auth login",
            code="no_model",
        )
    why = " ".join(str(error).split())[:150] or type(error).__name__
    return ConfigError(
        f"there is no folder {name!r}, and the Hugging Face hub cannot be asked for it ({why}); download it where there"
        f" is a network with hf download {name} --local-dir DIRECTORY, and give that folder",
        code="hub_unreachable",
    )


ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
_WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where the weights of a model are."""

    name: str
    """The model as the user wrote it."""
    base: str
    """Folder or hub id of the model, without its adapter."""
    adapter: Path | None = None
    """Folder of the adapter; None for a model without one."""


def find_source(name: str, *, ask_hub: bool = True) -> ModelSource:
    """Find the model with this name: a folder with a model or an adapter, or a hub id. Blocks.

    ask_hub: whether the hub is asked for hub ids. If not, they are taken as they are.

    Raises ConfigError for a folder with missing or damaged files, an adapter without its base model, a file, or a hub
    id that cannot be reached.
    """
    check_fetched(name)
    path = model_path(name)
    if path.is_file():
        if path.suffix == ".gguf":
            raise _gguf(name, path)
        raise ConfigError(f"{name!r} is a file; name the folder of a Hugging Face checkpoint", code="no_model")
    if path.is_dir():
        check_model_files(path, name)
        return _adapter_source(path, name, ask_hub=ask_hub) if is_adapter(path) else ModelSource(name, str(path))
    if not ask_hub:
        return ModelSource(name, name)
    found = reach_hub(name)
    if found != name:  # a folder of files that were downloaded before
        check_model_files(Path(found), name)
        return _adapter_source(Path(found), name) if is_adapter(Path(found)) else ModelSource(name, found)
    if (folder := _adapter_on_hub(name)) is not None:
        return _adapter_source(folder, name)
    return ModelSource(name, name)


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
                " move one of them to a folder of its own",
                code="two_models",
            )
        _read_json(path / ADAPTER_CONFIG)
        if (path / ADAPTER_WEIGHTS).is_file():
            _check_safetensors(path / ADAPTER_WEIGHTS)
            return
        if (path / "adapter_model.bin").is_file():
            raise ConfigError(
                f"the adapter in {directory!r} has its weights in adapter_model.bin only, a format that can hold code;"
                f" save it again as {ADAPTER_WEIGHTS}",
                code="bad_weights",
            )
        raise ConfigError(f"the adapter in {directory!r} has no {ADAPTER_WEIGHTS}", code="no_weight_files")
    if not weights and (files := sorted(path.glob("*.gguf"))):
        raise _gguf(directory, files[0])
    if not whole:
        raise ConfigError(
            f"the directory {directory!r} holds no model: it has neither config.json nor {ADAPTER_CONFIG}",
            code="no_model",
        )
    _read_json(path / "config.json")
    for name in _INDEXES:
        index = _read_json(path / name).get("weight_map") if (path / name).is_file() else None
        files = sorted({str(one) for one in cast("dict[str, Any]", index).values()}) if isinstance(index, dict) else []
        missing = [one for one in files if not (path / one).is_file()]
        if missing:
            raise ConfigError(
                f"the directory {directory!r} lacks {len(missing)} of the {len(files)} weight files that {name} names"
                f" (first: {missing[0]!r}); download them",
                code="no_weight_files",
            )
    if not weights:
        raise ConfigError(
            f"the directory {directory!r} has a config.json but no weights (model.safetensors); download all files of"
            " the model, as in hf download OWNER/NAME --local-dir DIRECTORY",
            code="no_weight_files",
        )
    for file in weights:
        if file.suffix == ".safetensors":
            _check_safetensors(file)


def _check_safetensors(file: Path) -> None:
    """Raise ConfigError when the file is damaged or cut short. Reads only its header."""
    if find_spec("safetensors") is None:
        return
    import safetensors

    with file.open("rb") as stream:
        pointer = stream.read(20).startswith(b"version https://git-")
    if pointer:
        raise ConfigError(
            f"{str(file)!r} is a Git LFS pointer, not weights; download the weights with git lfs pull",
            code="bad_weights",
        )
    try:
        with safetensors.safe_open(file, framework="np"):
            return
    except Exception as error:
        raise ConfigError(
            f"the weights in {str(file)!r} are damaged or cut short ({_short(error)}); download the file again",
            code="bad_weights",
        ) from error


def read_adapter_config(path: Path) -> dict[str, Any]:
    """Return the settings in the folder's `adapter_config.json`. Raises ConfigError when it is no JSON object."""
    return _read_json(path / ADAPTER_CONFIG)


def read_model_config(path: Path) -> dict[str, Any]:
    """Return the settings in the folder's `config.json`. Raises ConfigError when it is no JSON object."""
    return _read_json(path / "config.json")


def _adapter_source(path: Path, name: str, *, ask_hub: bool = True) -> ModelSource:
    """The adapter in a folder on its base model."""
    given = read_adapter_config(path).get("base_model_name_or_path")
    how = f"set base_model_name_or_path in {str(path / ADAPTER_CONFIG)!r} to the folder or hub id of its base model"
    if not isinstance(given, str) or not given.strip():
        raise ConfigError(f"the adapter in {name!r} names no base model; {how}", code="no_base_model")
    folders = [one for one in (Path(given).expanduser(), path / given) if one.is_dir()]
    if folders:
        base = next((one for one in folders if (one / "config.json").is_file()), folders[0])
        if is_adapter(base):
            raise ConfigError(
                f"the adapter in {name!r} belongs to {given!r}, which is an adapter itself; merge that one into its"
                " base model first",
                code="no_base_model",
            )
        check_model_files(base, given)
        return ModelSource(name, str(base), path)
    if given.count("/") != 1 or given.startswith((".", "/", "~")):
        raise ConfigError(
            f"the adapter in {name!r} belongs to the model in {given!r}, and there is no such folder; {how}",
            code="no_base_model",
        )
    return ModelSource(name, reach_hub(given) if ask_hub else given, path)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        found: object = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        words = f"{str(file)!r} is not valid JSON ({_short(error)}); download it again"
        raise ConfigError(words, code="bad_config") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{str(file)!r} holds {type(found).__name__}, not a JSON object", code="bad_config")
    return cast("dict[str, Any]", found)


def _gguf(name: str, file: Path) -> ConfigError:
    convert = shlex.join(["agentlearn", "models", "convert", str(file), "FOLDER"])
    return ConfigError(
        f"{name!r} has its weights in the GGUF format, which cannot be trained or served here as it is; convert it once"
        f" with {convert}, or serve the GGUF file with its own server and give that server's URL as --model",
        code="gguf",
    )


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def check_adapter_settings(source: ModelSource, arguments: GradientArguments) -> None:
    """Raise ConfigError for settings of an adapter when none is trained, or that are not those of the given adapter."""
    if source.adapter is None:
        without = "lora_rank=0 trains this model without an adapter; set lora_rank"
        if not arguments.lora_rank and arguments.reference == "adapter_off":
            raise ConfigError(f"reference is 'adapter_off', but {without}, or reference=copy", code="contradiction")
        if not arguments.lora_rank and arguments.lora_dropout:
            raise ConfigError(f"lora_dropout is {arguments.lora_dropout}, but {without}", code="contradiction")
        return
    given, defaults = read_adapter_config(source.adapter), type(arguments).model_fields
    rank, alpha = given.get("r", 8), given.get("lora_alpha", 8)
    if arguments.lora_rank not in (0, rank):
        raise ConfigError(
            f"lora_rank is {arguments.lora_rank}, but the adapter in {source.name!r} has rank {rank}; leave lora_rank"
            " out to train this adapter on, or give its base model to start a new one",
            code="adapter_rank",
        )
    if arguments.lora_alpha not in (defaults["lora_alpha"].default, alpha):
        raise ConfigError(
            f"lora_alpha is {arguments.lora_alpha:g}, but the adapter in {source.name!r} has {alpha}; leave lora_alpha"
            " out to train this adapter on",
            code="adapter_alpha",
        )
    own = given.get("target_modules")
    targets = {own} if isinstance(own, str) else set(own or ())
    if arguments.lora_targets != defaults["lora_targets"].default and set(arguments.lora_targets) != targets:
        raise ConfigError(
            f"lora_targets is {list(arguments.lora_targets)}, but the adapter in {source.name!r} is on"
            f" {sorted(targets)}; leave lora_targets out to train this adapter on",
            code="adapter_targets",
        )
