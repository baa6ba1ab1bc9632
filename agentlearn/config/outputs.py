"""Files that commands write where a user asks for them: another file of that name is never replaced."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from agentlearn.errors import ConfigError
from agentlearn.text.files import own, sha256_of, write_whole

_RECORD = "outputs.txt"
ANY_RUN = "*"
"""Stands for every run: a snapshot, or pages that show several."""


class Outputs:
    """What commands wrote outside of a store, remembered in the store by the hash of its content and its place.

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

    def remember(self, *files: Path, runs: Iterable[str] = ()) -> None:
        """Remember that a command has just written these files. Raises OSError.

        runs: the runs whose rollouts they hold, `ANY_RUN` for any; none for files without rollouts.
        """
        held = " ".join(sorted(set(runs)))
        if self._record.parent.is_dir():
            private = os.open(self._record, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            with os.fdopen(private, "a", encoding="ascii") as record:
                record.writelines(f"{sha256_of(file)} {held}\t{json.dumps(str(file.absolute()))}\n" for file in files)

    def holding(self, runs: Iterable[str]) -> dict[Path, bool]:
        """The files with rollouts of these runs, by place: whether one is there as it was written. Raises OSError."""
        wanted, found = {ANY_RUN, *runs}, dict[Path, bool]()
        for line in self._lines():
            sha256, _, rest = line.partition(" ")
            held, _, place = rest.partition("\t")
            if wanted & set(held.split()):
                file = Path(json.loads(place))
                there = file.is_file() and not file.is_symlink()
                found[file] = found.get(file, False) or (there and sha256_of(file) == sha256)
        return found

    def remove(self, files: Iterable[Path]) -> None:
        """Remember these files no longer. Raises OSError."""
        places = {json.dumps(str(file)) for file in files}
        if lines := self._lines():
            kept = "".join(f"{line}\n" for line in lines if line.partition("\t")[2] not in places)
            write_whole(self._record, kept.encode(), private=True)

    def _written(self) -> frozenset[str]:
        return frozenset(line.partition(" ")[0] for line in self._lines())

    def _lines(self) -> list[str]:
        try:
            return own(self._record, self._record.parent).read_text(encoding="ascii", errors="replace").splitlines()
        except FileNotFoundError:
            return []
