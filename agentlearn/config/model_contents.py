"""What is in the files of a local model: two models with the same contents give the same answers."""

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentlearn.config.model_folders import model_path
from agentlearn.files import sha256_of

_PREFIXES = ("local:", "vllm:")
_SUFFIXES = frozenset({".safetensors", ".bin", ".gguf", ".json", ".jinja", ".model", ".txt"})
_ADAPTER = "adapter_config.json"


def contents_sha256(endpoint: str) -> str:
    """Return a hash of the model's files, and of the base model's if it is an adapter. Blocks while they are read.

    endpoint: such as `local:FOLDER`. Empty for an endpoint that names no folder on this machine, and for a folder that
    cannot be read: opening the model says why.
    """
    prefix = next((one for one in _PREFIXES if endpoint.startswith(one)), None)
    if prefix is None:
        return ""
    try:
        folder = model_path(endpoint.removeprefix(prefix))
        if not folder.is_dir():
            return ""
        base = _base_of(folder)
        folders = [folder] if base is None else [folder, base]
        return hashlib.sha256("\n".join(map(_folder_sha256, folders)).encode()).hexdigest()
    except (OSError, RuntimeError):  # RuntimeError: `~name` of a user who does not exist
        return ""


def _folder_sha256(folder: Path) -> str:
    lines = list[str]()
    for file in sorted(folder.iterdir()):
        if file.suffix in _SUFFIXES and file.is_file():
            state = file.stat()
            lines.append(f"{file.name} {_file_sha256(str(file.resolve()), state.st_size, state.st_mtime_ns)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@lru_cache(maxsize=1024)
def _file_sha256(file: str, _size: int, _changed_ns: int) -> str:
    """Return the hash of a file. It is read again when its size or its time of change is another."""
    return sha256_of(Path(file))


def _base_of(folder: Path) -> Path | None:
    """Return the folder of an adapter's base model; None for a whole model, and when the base is not here."""
    try:
        settings: Any = json.loads((folder / _ADAPTER).read_text(encoding="utf-8"))
        given = settings["base_model_name_or_path"]
        places = (Path(given).expanduser(), folder / given, model_path(given))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return None
    return next((one for one in places if one.is_dir()), None)
