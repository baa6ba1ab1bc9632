"""How large the weights in a folder are, read from the headers of their files. Needs no torch."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

_WEIGHTS = (".safetensors", ".bin", ".npz")
_LONGEST_HEADER = 100_000_000


@dataclass(frozen=True, slots=True)
class StoredSize:
    """Size of the weights in a folder."""

    size_bytes: int
    """Bytes of all weight files."""
    parameters: int | None
    """Number of weights; None when the files do not say."""

    def words(self) -> str:
        """Return the size in words, such as `135.0M weights, 270 MB`."""
        stored = size_words(self.size_bytes)
        return stored if self.parameters is None else f"{_short(self.parameters)} weights, {stored}"


def stored_size(folder: Path) -> StoredSize:
    """Return the size of the weights in a folder. An adapter's base model is not counted."""
    files = [one for one in sorted(folder.iterdir()) if one.suffix in _WEIGHTS and one.is_file()]
    counts = [_parameters(one) for one in files]
    known = [count for count in counts if count is not None]
    return StoredSize(
        size_bytes=sum(one.stat().st_size for one in files),
        parameters=sum(known) if known and len(known) == len(counts) else None,
    )


def size_words(size_bytes: float) -> str:
    """Return a number of bytes in words, such as `270 MB`."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"


def _short(number: int) -> str:
    return f"{number / 1e9:.2f}G" if number >= 1e9 else f"{number / 1e6:.1f}M" if number >= 1e6 else f"{number:,}"


def _parameters(file: Path) -> int | None:
    """Return the number of weights in a safetensors file; None for other or broken files."""
    if file.suffix != ".safetensors":
        return None
    with file.open("rb") as source:
        length = int.from_bytes(source.read(8), "little")
        header = source.read(length) if length <= _LONGEST_HEADER else b""
    try:
        tensors: Mapping[str, Any] = json.loads(header)
        shapes = [cast("list[int]", one["shape"]) for name, one in tensors.items() if name != "__metadata__"]
        return sum(math.prod(shape) for shape in shapes)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
