"""Reading a file or a folder that somebody else made: text only, of limited size, and nothing outside of the folder."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from agentlearn.errors import LibraryError
from agentlearn.text.files import readable
from agentlearn.types.experience import Library

SKILL = ("SKILL.md", "skill.md")
"""Names of the main file of a skill."""
_TEXT = frozenset({".json", ".jsonl", ".md", ".markdown", ".txt", ".yaml", ".yml"})
_PACKED = frozenset({".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".skill"})
_PACKED_STARTS = (
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ",
    b"7z\xbc\xaf",
    b"\x28\xb5\x2f\xfd",
    b"Rar!",
)
_TAR_AT = 257


@dataclass(frozen=True, slots=True)
class ImportLimits:
    """How much is read of a file or a folder."""

    max_bytes: int = 1_000_000
    """Largest size of the file, or of all text files of the folder together."""
    max_lessons: int = 10_000
    """Largest number of lessons."""
    max_files: int = 1_000
    """Largest number of entries of the folder."""
    max_depth: int = 6
    """Largest depth of folders in the folder."""


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The text of a file, or the texts of a folder."""

    path: str
    """The file or folder as it was given, for messages."""
    texts: Mapping[str, str]
    """Texts by name, sorted: paths in the folder with `/`, or the name of the one file. Lines end with `\\n`."""
    is_folder: bool = False

    @classmethod
    def of_text(cls, text: str, path: str = "given text") -> "SourceFiles":
        """The source of one text."""
        text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        return cls(path, {Path(path).name: text})

    @classmethod
    def read(cls, path: Path | str, limits: ImportLimits = ImportLimits()) -> "SourceFiles":
        """Return the texts of a file or folder; of a folder that holds one skill, those of the skill.

        Raises LibraryError, which says what cannot be read and why.
        """
        given = Path(path)
        try:
            if not given.is_dir():
                return cls._file(given, str(path), limits.max_bytes)
            inside = [one for one in given.iterdir() if not one.name.startswith(".")]
            # An export writes the folder of a skill into another one.
            holds_skill = len(inside) == 1 and not inside[0].is_symlink()
            if holds_skill and any((inside[0] / name).is_file() for name in SKILL):
                return cls._folder(inside[0], limits)
            return cls._folder(given, limits)
        except FileNotFoundError as error:
            raise LibraryError(f"there is no file or folder {str(path)!r}; check the path", code="no_file") from error
        except OSError as error:
            raise LibraryError(f"{str(path)!r} cannot be read: {error.strerror or error}; check the path") from error

    @property
    def only(self) -> str:
        """The text of the one file. Raises LibraryError for a folder."""
        if self.is_folder:
            raise LibraryError(f"{self.path!r} is a folder; give a file of it, or --format skill")
        return next(iter(self.texts.values()))

    def named(self, *names: str) -> str | None:
        """The text of the first of these files that is there; of a single file, its own text."""
        if not self.is_folder:
            return self.only
        return next((self.texts[name] for name in names if name in self.texts), None)

    @classmethod
    def _folder(cls, folder: Path, limits: ImportLimits) -> "SourceFiles":
        home, texts, left, entries = folder.resolve(), dict[str, str](), limits.max_bytes, 0
        for where, folders, files in os.walk(folder):
            here = Path(where)
            if len(here.relative_to(folder).parts) > limits.max_depth:
                raise LibraryError(
                    f"{str(folder)!r} has folders more than {limits.max_depth} deep; give the one that holds the"
                    " lessons"
                )
            folders[:] = sorted(one for one in folders if not one.startswith("."))
            files.sort()
            for entry in (here / name for name in (*folders, *files)):
                entries += 1
                if entries > limits.max_files:
                    raise LibraryError(
                        f"{str(folder)!r} has more than {limits.max_files:,} entries; give the folder that holds the"
                        " lessons"
                    )
                if entry.is_symlink() and not entry.resolve().is_relative_to(home):
                    raise LibraryError(
                        f"{str(entry)!r} is a link that leads out of the folder; remove it, or put the file there"
                    )
            for entry in (here / name for name in files if not name.startswith(".")):
                if entry.suffix.lower() in _TEXT:
                    text = cls._file(entry, str(entry), left).only
                    left -= len(text.encode(errors="surrogatepass"))
                    texts[entry.relative_to(folder).as_posix()] = text
        return cls(str(folder), dict(sorted(texts.items())), is_folder=True)

    @classmethod
    def _file(cls, file: Path, shown: str, most: int) -> "SourceFiles":
        with readable(file).open("rb") as opened:
            content = opened.read(max(most, 0) + 1)
        packed = content.startswith(_PACKED_STARTS) or content[_TAR_AT : _TAR_AT + 5] == b"ustar"
        if packed or file.suffix.lower() in _PACKED:
            raise LibraryError(f"{shown!r} is an archive; unpack it, read what it holds, and give the folder")
        if len(content) > most:
            raise LibraryError(
                f"{shown!r} is larger than the limit of {max(most, 0):,} bytes that are left to read; give a smaller"
                " file, or raise --max-mb"
            )
        encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
        try:
            found = cls.of_text(content.decode(encoding), shown)
        except UnicodeDecodeError as error:
            raise LibraryError(
                f"{shown!r} is not UTF-8: byte {error.start:,} cannot be read; save it as UTF-8"
            ) from error
        if "\0" in found.only:
            raise LibraryError(f"{shown!r} holds NUL characters, so it is not text; give a text file")
        return found


Form = Literal[
    "agentlearn", "lines", "training-free-grpo", "youtu", "ace", "markdown", "agents-md", "skill", "document"
]
"""Name of a library format."""
WHOLE: frozenset[Form] = frozenset({"agentlearn", "lines", "skill", "document"})
"""The formats whose lessons may be sections of Markdown."""


@dataclass(frozen=True, slots=True)
class FoundLesson:
    """A lesson as a file has it, before any check."""

    place: str
    """Where it is in the file: a line, a label or an id."""
    text: object
    """The lesson; a file may hold anything there."""
    tags: object = ()
    """The tags; a file may hold anything there."""
    note: str = ""
    """What else the file says about it, in a sentence."""
    withheld: bool = False
    """Whether the file keeps it without showing it."""


@dataclass(frozen=True, slots=True)
class ReadLessons:
    """The lessons of a file or folder, in order."""

    lessons: tuple[FoundLesson, ...]
    library: Library | None = None
    """The whole library with its ids and versions, from a format of ours that was not changed."""
    exported: str = ""
    """The version that the file says it was exported from; empty for none. It can only add caution."""


class LibraryFormat(ABC):
    """One format of libraries."""

    name: ClassVar[Form]
    keeps: ClassVar[Literal["everything", "lessons and tags", "lessons and first tags", "lessons"]]
    """What of a library it keeps."""

    @abstractmethod
    def sniff(self, source: SourceFiles) -> bool:
        """Whether a source is in this format, by its names and first characters."""

    @abstractmethod
    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lessons of a source. Raises LibraryError when it is not in this format."""

    @abstractmethod
    def write(self, library: Library, name: str, description: str = "") -> Mapping[str, str]:
        """Return the texts of a library by file name; under the empty name, the text of the one file.

        name: of the library, for titles. description: of a skill. Raises LibraryError for a library that the format
        cannot hold.
        """

    def losses(self, library: Library) -> tuple[str, ...]:
        """What of this library the format does not keep, each as a noun: `ids`, `tags`."""
        if self.keeps == "everything" or not (library.experiences or library.withheld):
            return ()
        lost = ["ids and versions", "origins"]
        if self.keeps == "lessons" and any(one.tags for one in library.experiences):
            lost.append("tags")
        if library.withheld:
            lost.append(f"the {len(library.withheld)} lessons that are withheld")
        if self.keeps == "lessons and first tags" and any(len(one.tags) > 1 for one in library.experiences):
            lost.append("all tags but the first")
        return tuple(lost)
