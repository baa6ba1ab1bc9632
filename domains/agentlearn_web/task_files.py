"""Files that a task names, which its walk may upload. They lie in the folder of the task file or below it.

Their content is read when it is uploaded, goes to the page only, and is in no prompt and no trace.
"""

import hashlib
import mimetypes
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.async_api import FilePayload

MAX_FILES = 10
"""Most files of one task."""
MAX_FILE_BYTES = 10_000_000
"""Largest file of a task."""

_FIELD = "upload"
"""Field of a task that holds the names and hashes of its files, and their folder."""


class FileChanged(Exception):
    """Raised when a file of a task is no longer what it was when the task was read."""


@dataclass(frozen=True, slots=True)
class TaskFile:
    """One file that a task names."""

    name: str
    """Its path below the folder of the task file, with `/`. The model reads it and names the file by it."""
    folder: Path
    sha256: str
    """Hash of its content when the task was read, 64 hex digits."""

    def payload(self) -> "FilePayload":
        """Return name, type and content as Playwright takes them. Raises FileChanged."""
        try:
            content = _read(self.name, self.folder)
        except ValueError as error:
            raise FileChanged(f"the task's file {self.name!r} {error}") from error
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise FileChanged(f"the task's file {self.name!r} has changed since the task was read")
        kind = mimetypes.guess_type(self.name)[0] or "application/octet-stream"
        return {"name": PurePosixPath(self.name).name, "mimeType": kind, "buffer": content}


def name_files(names: Sequence[str], folder: Path) -> dict[str, Any]:
    """Return the task fields for these files. Raises ValueError for a file that cannot be used.

    names: paths relative to `folder`. The words of the error continue `FILE line N …`.
    """
    if len(names) > MAX_FILES:
        raise ValueError(f"names {len(names)} files; name at most {MAX_FILES}")
    hashes: dict[str, str] = {}
    for name in names:
        try:
            hashes[name] = hashlib.sha256(_read(name, folder)).hexdigest()
        except ValueError as error:
            raise ValueError(f"names the file {name!r}, which {error}") from error
    return {_FIELD: {"files": hashes, "folder": str(folder.resolve())}} if hashes else {}


def task_files(fields: Mapping[str, Any]) -> dict[str, TaskFile]:
    """Return the files in the fields of a task, by name; none if the fields name no files."""
    named = fields.get(_FIELD)
    if not isinstance(named, Mapping):
        return {}
    folder = Path(str(named["folder"]))
    return {str(name): TaskFile(str(name), folder, str(sha256)) for name, sha256 in named["files"].items()}


def _read(name: str, folder: Path) -> bytes:
    """Return the content of a file. Raises ValueError if it is not a file of the folder, or too large."""
    parts = PurePosixPath(name)
    if not name or not name.isprintable() or parts.is_absolute() or ".." in parts.parts or "\\" in name:
        raise ValueError("is not a path below the folder of the task file; move the file there")
    try:
        path = (folder / parts).resolve(strict=True)
        if not path.is_relative_to(folder.resolve()):
            raise ValueError("leads out of the folder of the task file; copy the file there")
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("is not a file; name a file")
        if found.st_size > MAX_FILE_BYTES:
            raise ValueError(f"is larger than {MAX_FILE_BYTES // 1_000_000} MB; make it smaller")
        with path.open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or 'bad path'}") from error
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"is larger than {MAX_FILE_BYTES // 1_000_000} MB; make it smaller")
    return content
