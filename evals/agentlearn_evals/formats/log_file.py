"""A log file as the user names it, and what is read from one file and from all files."""

import struct
import zlib
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from pydantic import Field

from agentlearn.errors import DataError, MissingExtra
from agentlearn.measure.observation import Observation
from agentlearn.types.value import Value


class LogFile(Value):
    """A log file to read, the name of its arm, and which of its scores to use."""

    path: Path
    arm: str = ""
    """Name of the arm; empty: use the name in the log."""
    score: str = ""
    """Scorer, metric or reward column to use; needed only when the log holds several."""

    @classmethod
    def parse(cls, text: str) -> "LogFile":
        """Parse `FILE`, `FILE#SCORE`, `ARM=FILE` or `ARM=FILE#SCORE`. The first reading whose file exists is used."""
        arm, equals, named = text.partition("=")
        readings = [LogFile(path=Path(text)), *_with_score(LogFile(path=Path(text)))]
        if equals and arm:
            with_arm = LogFile(path=Path(named), arm=arm)
            readings += [with_arm, *_with_score(with_arm)]
        return next((reading for reading in readings if reading.path.exists()), readings[-1])


def _with_score(log: LogFile) -> list[LogFile]:
    file, mark, score = str(log.path).rpartition("#")
    return [log.model_copy(update={"path": Path(file), "score": score})] if mark and file and score else []


Span = tuple[datetime, datetime]
"""The first and the last moment of something, with a time zone."""


def span(moments: Iterable[Any]) -> Span | None:
    """Return the span of moments: ISO 8601 texts, seconds since 1970, or datetimes; UTC where they have no time zone.

    What is none of these is left out; None when nothing is left.
    """
    found: list[datetime] = []
    for one in moments:
        try:
            moment = datetime.fromtimestamp(one, UTC) if isinstance(one, int | float) else one
            moment = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        except (ValueError, OverflowError, OSError):
            continue
        if isinstance(moment, datetime):
            found.append(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    return (min(found), max(found)) if found else None


class LogSet(Value):
    """Everything that was read from the logs."""

    observations: tuple[Observation, ...]
    """All rollouts, in the order of the files, and within a file in its order."""
    sources: dict[str, str] = Field(default_factory=dict[str, str])
    """sha256 by file name; by path where two files have the same name."""
    models: dict[str, str] = Field(default_factory=dict[str, str])
    """Model by arm, where the log holds it; several models are joined by commas."""
    warnings: tuple[str, ...] = ()
    """Why the logs may say too little: unfinished logs, samples that are not in the log, empty responses."""
    outcomes: tuple[str, ...] = ()
    """How many rollouts of each file failed or are undecided, by code."""
    notes: tuple[str, ...] = ()
    """What else a reader of the result should know, such as unread columns."""
    times: dict[str, Span] = Field(default_factory=dict[str, Span])
    """When the rollouts of an arm were made, by arm, where the logs say it."""
    places: dict[tuple[str, str, int], str] = Field(default_factory=dict[tuple[str, str, int], str])
    """Where each rollout is in the logs, by arm, task and index: `runs.csv line 7`."""


@dataclass(frozen=True, slots=True)
class LoggedRollout:
    """One rollout in a log."""

    place: str
    """Where it is in the file, for messages: `runs.csv line 7`."""
    observation: Observation
    numbered: bool
    """Whether the log itself numbers the rollouts of a task; otherwise they are numbered in file order."""
    empty: bool = False
    """Whether the response of the agent is recorded and empty, although the rollout has a score."""


@dataclass(frozen=True, slots=True)
class ParsedLog:
    """Everything that was read from one file."""

    rollouts: tuple[LoggedRollout, ...]
    models: Mapping[str, str] = field(default_factory=dict[str, str])
    """Model by arm."""
    notes: tuple[str, ...] = ()
    """What a reader of the result should know about this file."""
    warnings: tuple[str, ...] = ()
    """Why this file may say too little, such as a run that did not finish."""
    times: Mapping[str, Span] = field(default_factory=dict[str, Span])
    """When the rollouts of an arm were made, where the log says it."""


_ZSTANDARD = 93
"""Compression method of the zip format; Python's `zipfile` supports it from 3.14 on."""
_ENCRYPTED = 1
_MOST_WINDOW_BYTES = 128 << 20
"""Largest window of the decompressor; zstd's own limit."""
_LOCAL_HEADER = struct.Struct("<4s22x2H")
"""Signature, then the lengths of the name and the extra field (APPNOTE 4.3.7)."""


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Largest unpacked sizes."""

    member_bytes: int = 512 << 20
    """Of one member."""
    total_bytes: int = 16 << 30
    """Of all members that are read, together."""


class Archive:
    """An open zip file. Every method raises DataError when the file is damaged or exceeds the limits."""

    def __init__(self, path: Path, zip_file: ZipFile, limits: ArchiveLimits) -> None:
        self._path, self._zip, self._limits = path, zip_file, limits
        self._bytes_left = limits.total_bytes

    @property
    def names(self) -> tuple[str, ...]:
        """Member names in file order, each once; of two members with the same name the later one is read."""
        return tuple(dict.fromkeys(self._zip.namelist()))

    def read(self, name: str) -> bytes:
        """Return a member's bytes. Raises MissingExtra when the member needs zstandard and it is not installed."""
        entry = self._zip.getinfo(name)
        if entry.flag_bits & _ENCRYPTED or entry.compress_type not in {ZIP_STORED, ZIP_DEFLATED, _ZSTANDARD}:
            raise DataError(
                f"{self._path.name} holds {name!r}, which is encrypted or compressed by an unsupported method"
                f" ({entry.compress_type}); write the log again",
                code="bad_archive",
            )
        most = min(self._limits.member_bytes, self._bytes_left)
        if entry.file_size > most:
            raise DataError(
                f"{self._path.name} unpacks {name!r} to more than {most:,} bytes; give the log as JSON, or its scores"
                " as CSV",
                code="log_too_large",
            )
        with _zip_errors(self._path, repr(name)):
            body = self._read_zstandard(entry) if entry.compress_type == _ZSTANDARD else self._read_plain(entry)
        if len(body) != entry.file_size or zlib.crc32(body) != entry.CRC:
            raise _damaged(self._path, f"{name!r} does not match its size and checksum")
        self._bytes_left -= len(body)
        return body

    def _read_plain(self, entry: ZipInfo) -> bytes:
        with self._zip.open(entry) as member:
            return member.read(entry.file_size + 1)

    def _read_zstandard(self, entry: ZipInfo) -> bytes:
        try:
            import zstandard  # optional dependency
        except ImportError as error:
            raise MissingExtra(
                f"reading {self._path.name!r} needs zstandard: pip install 'agentlearn-lib[inspect]'"
            ) from error
        decompressor = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW_BYTES)
        try:
            with decompressor.stream_reader(BytesIO(self._compressed_bytes(entry)), read_across_frames=True) as stream:
                return stream.read(entry.file_size + 1)
        except zstandard.ZstdError as error:
            raise _damaged(self._path, f"{entry.filename!r}: {error}") from error

    def _compressed_bytes(self, entry: ZipInfo) -> bytes:
        with self._path.open("rb") as file:
            file.seek(entry.header_offset)
            signature, name_size, extra_size = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            if signature != b"PK\x03\x04":
                raise BadZipFile(f"no member starts at byte {entry.header_offset}")
            file.seek(name_size + extra_size, 1)
            return file.read(entry.compress_size)


@contextmanager
def open_archive(path: Path, limits: ArchiveLimits = ArchiveLimits()) -> Generator[Archive]:
    """Open a zip file for reading. Raises DataError."""
    with ExitStack() as stack:
        with _zip_errors(path, "its list of members"):
            zip_file = stack.enter_context(ZipFile(path))
        yield Archive(path, zip_file, limits)


@contextmanager
def _zip_errors(path: Path, what: str) -> Generator[None]:
    """Turn errors of a damaged zip file into DataError."""
    try:
        yield
    except (BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError, OSError, ValueError) as error:
        raise _damaged(path, f"{what}: {' '.join(str(error).split())[:120]}") from error


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"{path.name} is damaged ({why}); copy the log again or write it again", code="bad_archive")
