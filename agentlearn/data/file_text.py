"""The text of a task file: packed with gzip or not, in UTF-8, or in UTF-16 with a byte order mark."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path, PurePath
from typing import BinaryIO

from agentlearn.errors import DataError
from agentlearn.files import readable

PACKED = ".gz"
MAX_UNPACKED_BYTES = 1 << 30
"""Most bytes that a packed file may unpack to. A small file can unpack to more than the memory holds."""

MAX_LINE = 1 << 28
"""A line of as many characters is refused where a file is read line by line."""


def ending(path: PurePath) -> str:
    """Return the ending that gives a file's format, in lower case and without `.gz`: `.jsonl` of `a.jsonl.gz`."""
    return PurePath(path.name[: -len(PACKED)] if is_packed(path) else path.name).suffix.lower()


def stem(path: Path) -> str:
    """Return a file's name without its ending and without `.gz`."""
    return Path(path.name[: -len(PACKED)]).stem if is_packed(path) else path.stem


def is_packed(path: PurePath) -> bool:
    """Whether a file is packed with gzip, by its name."""
    return path.suffix.lower() == PACKED


def read_text(path: Path, name: str, *, most: int | None = None) -> str:
    """Return the text of a file. name: what messages call it. most: largest unpacked size. Raises DataError."""
    body = _unpacked(path, name, MAX_UNPACKED_BYTES if most is None else most) if is_packed(path) else read_bytes(path)
    wide = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = body.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise DataError(f"{name} line {line} is not {_encoding(wide=wide)}; save the file as UTF-8") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise _not_plain(name, line)
    return text


def text_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """Yield the lines of an open file without their ends, one at a time in memory. Raises DataError.

    name: what messages call the file. Only a line feed ends a line: JSON text may contain Unicode line separators.
    """
    start, number = file.tell(), 0
    wide = file.read(2) in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}
    file.seek(start)
    text = TextIOWrapper(file, "utf-16" if wide else "utf-8-sig", newline="\n")
    try:
        while line := text.readline(MAX_LINE):
            number += 1
            if len(line) == MAX_LINE:
                raise DataError(f"{name} line {number} has {MAX_LINE:,} characters or more; leave it out")
            if "\0" in line:
                raise _not_plain(name, number)
            yield line.removesuffix("\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} line {number + 1} or one shortly after it is not {_encoding(wide=wide)}; save the file as UTF-8"
        ) from error
    finally:
        text.detach()


def _encoding(*, wide: bool) -> str:
    return "UTF-16" if wide else "UTF-8"


def _not_plain(name: str, line: int) -> DataError:
    return DataError(f"{name} line {line} holds a NUL character, so it is not plain UTF-8; save the file as UTF-8")


def read_bytes(path: Path, most: int = -1) -> bytes:
    """Return the first bytes of a file, or all of them. Raises DataError."""
    try:
        with readable(path).open("rb") as file:
            return file.read(most)
    except FileNotFoundError as error:
        raise DataError(f"there is no file {str(path)!r}; check the path") from error
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read ({error.strerror}); give a readable file") from error


def _unpacked(path: Path, name: str, most: int) -> bytes:
    read_bytes(path, most=1)  # a missing file gets the same message as an unpacked one
    try:
        with gzip.open(path) as file:
            body = file.read(most + 1)
    except EOFError as error:
        raise DataError(f"{name} ends in the middle of its packed data; get the whole file again") from error
    except (zlib.error, OSError) as error:
        raise DataError(f"{name} is not a gzip file ({error}); pack it again, or give it unpacked") from error
    if len(body) > most:
        raise DataError(f"{name} unpacks to more than {most:,} bytes; divide it into smaller files")
    return body
