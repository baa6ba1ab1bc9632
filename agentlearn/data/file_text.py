"""The text of a task file: packed with gzip or not, in UTF-8, or in UTF-16 with a byte order mark."""

import codecs
import gzip
import zlib
from pathlib import Path

from agentlearn.errors import DataError

PACKED = ".gz"
MAX_UNPACKED_BYTES = 1 << 30
"""Most bytes that a packed file may unpack to. A small file can unpack to more than the memory holds."""


def ending(path: Path) -> str:
    """Return the ending that gives a file's format, in lower case and without `.gz`: `.jsonl` of `a.jsonl.gz`."""
    return Path(path.name[: -len(PACKED)] if is_packed(path) else path.name).suffix.lower()


def stem(path: Path) -> str:
    """Return a file's name without its ending and without `.gz`."""
    return Path(path.name[: -len(PACKED)]).stem if is_packed(path) else path.stem


def is_packed(path: Path) -> bool:
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
        raise DataError(f"{name} line {line} is not {'UTF-16' if wide else 'UTF-8'}; save the file as UTF-8") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{name} line {line} holds a NUL character, so it is not plain UTF-8; save the file as UTF-8")
    return text


def read_bytes(path: Path, most: int = -1) -> bytes:
    """Return the first bytes of a file, or all of them. Raises DataError."""
    try:
        with path.open("rb") as file:
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
