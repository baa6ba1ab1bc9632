"""Files that commands write where a user asks for them: another file of that name is never replaced."""

import os
from pathlib import Path

from agentlearn.errors import ConfigError
from agentlearn.files import own, sha256_of

_RECORD = "outputs.txt"


class Outputs:
    """What commands wrote outside of a store, remembered in the store by the hash of its content.

    A file that exists is replaced only where its content is what such a command wrote, so nothing that a person wrote
    or changed is lost.
    """

    def __init__(self, store: Path) -> None:
        self._record = store / _RECORD

    def refuse_others(self, *files: Path) -> None:
        """Raise ConfigError for a file that exists and that no command wrote as it is."""
        found = [file for file in files if file.is_symlink() or file.exists()]
        written = self._written() if found else frozenset[str]()
        for file in found:
            if file.is_symlink() or not file.is_file() or sha256_of(file) not in written:
                raise ConfigError(
                    f"{str(file)!r} exists, and it is not as agentlearn wrote it; give another name, or move it away",
                    code="exists",
                )

    def remember(self, *files: Path) -> None:
        """Remember that a command has just written these files. Raises OSError."""
        if self._record.parent.is_dir():
            private = os.open(self._record, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            with os.fdopen(private, "a", encoding="ascii") as record:
                record.writelines(f"{sha256_of(file)}\n" for file in files)

    def _written(self) -> frozenset[str]:
        try:
            text = own(self._record, self._record.parent).read_text(encoding="ascii", errors="replace")
        except FileNotFoundError:
            return frozenset()
        return frozenset(text.split())
