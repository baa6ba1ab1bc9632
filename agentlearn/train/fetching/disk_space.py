"""Space on the disk of the models folder: checked before a download, and named when it runs out."""

import errno
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from agentlearn.config.environment import variable_of
from agentlearn.errors import ConfigError
from agentlearn.train.weights.stored_size import size_words

_FULL = {errno.ENOSPC, errno.EDQUOT}
_WORDS = ("no space left on device", "disk quota exceeded")


OTHER_FOLDER = f"set {variable_of('models')} to another folder"
"""How a user has fetched models put elsewhere."""


def check_space(name: str, folder: Path, needed: int, *, elsewhere: str = OTHER_FOLDER) -> None:
    """Raise ConfigError when the disk of a folder has less than this number of bytes free.

    elsewhere: what the user can do to use another disk, for the sentence.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise no_space(name, folder, needed=needed, free=free, elsewhere=elsewhere)


def no_space(name: str, folder: Path, *, needed: int = 0, free: int = 0, elsewhere: str = OTHER_FOLDER) -> ConfigError:
    """Return the error for a disk that is full. needed, free: in bytes, if known. elsewhere: as in `check_space`."""
    size = f" ({size_words(needed)} needed, {size_words(free)} free)" if needed else ""
    return ConfigError(
        f"there is not enough space for {name!r} on the disk of {str(folder)!r}{size}; free some space, or {elsewhere}",
        code="disk_full",
    )


@contextmanager
def full_disk_named(name: str, folder: Path, *, elsewhere: str = OTHER_FOLDER) -> Generator[None]:
    """In the block, a full disk is one ConfigError, whichever library found it. elsewhere: as in `check_space`."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        if getattr(error, "errno", None) in _FULL or any(one in str(error).lower() for one in _WORDS):
            raise no_space(name, folder, elsewhere=elsewhere) from error
        raise
