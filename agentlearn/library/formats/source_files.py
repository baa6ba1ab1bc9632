"""Reading a file or a folder that somebody else made: text only, of limited size, and nothing outside of the folder."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import ValidationError

from agentlearn.errors import LibraryError
from agentlearn.text.files import readable
from agentlearn.types.experience import KeptFile, Library
from agentlearn.types.rendering import is_section

SKILL = ("SKILL.md", "skill.md")
"""Names of the main file of a skill."""
REFERENCE = re.compile(r"references/lessons-(\d{1,4})\.md")
"""Names of the files with lessons that we write next to `SKILL.md`."""
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
    """Largest size of the file, or of all text files of the folder together. Ten times as much is kept of a skill."""
    max_lessons: int = 10_000
    """Largest number of lessons."""
    max_files: int = 1_000
    """Largest number of entries of the folder."""
    max_depth: int = 6
    """Largest depth of folders in the folder."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of a file or folder that became no lesson and is not kept."""

    what: str
    """A noun: `code block`, `table`, `quotation`, `paragraph` or `file`."""
    place: str
    """Where it is: the line, or the path of a file."""
    reason: str = ""
    """Why, where the noun alone does not say it."""


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The text of a file, or the texts of a folder."""

    path: str
    """The file or folder as it was given, for messages."""
    texts: Mapping[str, str]
    """Texts by name, sorted: paths in the folder with `/`, or the name of the one file. Lines end with `\\n`."""
    is_folder: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The bytes of every file of a skill's folder, also of scripts, by path; or of the one file. None is ever run."""
    unread: tuple[Unread, ...] = ()
    """Files of a skill's folder that were not read."""

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
                content = cls._content(given, str(path), limits.max_bytes)
                return replace(cls.of_bytes(content, str(path)), files={given.name: content})
            inside = [one for one in given.iterdir() if not one.name.startswith(".")]
            # An export writes the folder of a skill into another one.
            holds_skill = len(inside) == 1 and not inside[0].is_symlink()
            if holds_skill and any((inside[0] / name).is_file() for name in SKILL):
                return cls._folder(inside[0], limits)
            return cls._folder(given, limits)
        except FileNotFoundError as error:
            raise LibraryError(f"there is no file or folder {str(path)!r}; check the path") from error
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
    def of_bytes(cls, content: bytes, shown: str) -> "SourceFiles":
        """The source of the bytes of one text. Raises LibraryError for what is not text."""
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

    @classmethod
    def _folder(cls, folder: Path, limits: ImportLimits) -> "SourceFiles":
        is_skill = any((folder / name).is_file() for name in SKILL)
        left, left_to_keep = limits.max_bytes, 10 * limits.max_bytes
        texts, kept, unread = dict[str, str](), dict[str, bytes](), list[Unread]()
        for path in cls._listed(folder, limits):
            is_text = path in SKILL or REFERENCE.fullmatch(path) if is_skill else Path(path).suffix.lower() in _TEXT
            hidden = path.rpartition("/")[2].startswith(".") or path.endswith("/")
            if (hidden or not is_text) and not is_skill:
                continue
            try:
                KeptFile(path=path, sha256="0" * 64)
                shown, most = (str(folder / path), left) if is_text else (path, left_to_keep)
                content = cls._content(folder / path, shown, most)
            except (LibraryError, OSError, ValidationError) as error:
                if is_text:
                    raise
                why = "its name cannot be kept" if isinstance(error, ValidationError) else str(error)
                why = "it is hidden, or a link to a folder" if hidden else getattr(error, "strerror", None) or why
                unread.append(Unread("file", path.encode(errors="replace").decode(), why))
                continue
            left_to_keep -= len(content)
            if is_text:
                left -= len(content)
                texts[path] = cls.of_bytes(content, str(folder / path)).only
            if is_skill:
                kept[path] = content
        return cls(str(folder), dict(sorted(texts.items())), is_folder=True, files=kept, unread=tuple(unread))

    @staticmethod
    def _listed(folder: Path, limits: ImportLimits) -> Iterator[str]:
        """Yield the paths of all files below a folder, its main file first; with `/` at the end, folders left out.

        Raises LibraryError for a link that leads out of it, and where it is too deep or has too many entries.
        """
        home, entries = folder.resolve(), 0
        for where, folders, files in os.walk(folder):
            here = Path(where)
            if len(here.relative_to(folder).parts) > limits.max_depth:
                raise LibraryError(
                    f"{str(folder)!r} has folders more than {limits.max_depth} deep; give the one that holds the"
                    " lessons"
                )
            left_out = [one for one in folders if one.startswith(".") or (here / one).is_symlink()]
            folders[:] = sorted(one for one in folders if not one.startswith("."))
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
            files.sort(key=lambda name: (name not in SKILL, name))
            inside = here.relative_to(folder)
            yield from ((inside / name).as_posix() for name in files)
            yield from (f"{(inside / name).as_posix()}/" for name in sorted(left_out))

    @classmethod
    def _content(cls, file: Path, shown: str, most: int) -> bytes:
        """The bytes of a file. Raises LibraryError for an archive and for one that is too large; OSError."""
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
        return content


Form = Literal[
    "agentlearn", "lines", "training-free-grpo", "youtu", "ace", "markdown", "agents-md", "skill", "document"
]
"""Name of a library format."""
WHOLE: frozenset[Form] = frozenset({"agentlearn", "lines", "markdown", "agents-md", "skill", "document"})
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
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The bytes of files to keep beside the lessons, by path."""
    unread: tuple[Unread, ...] = ()
    """What is no lesson and is not kept, in order."""


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
        names = "" if self.keeps != "everything" else "the bytes of "
        files = [f"{names}the {len(library.files)} files beside it"] if library.files and self.name != "skill" else []
        if self.keeps == "everything" or not (library.experiences or library.withheld):
            return tuple(files)
        lost = ["ids and versions", "origins", *files]
        whole = sum(is_section(one.lesson) for one in library.experiences)
        if whole and self.name not in WHOLE:
            lost.append(f"the line breaks of {whole} {'section' if whole == 1 else 'sections'}")
        if self.keeps == "lessons" and any(one.tags for one in library.experiences):
            lost.append("tags")
        if library.withheld:
            lost.append(f"the {len(library.withheld)} lessons that are withheld")
        if self.keeps == "lessons and first tags" and any(len(one.tags) > 1 for one in library.experiences):
            lost.append("all tags but the first")
        return tuple(lost)
