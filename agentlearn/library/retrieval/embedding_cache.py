"""Embeddings that were made already, in memory or in a file of the store, under the embedder and a hash of the text."""

import hashlib
import logging
import sqlite3
import threading
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from heapq import nsmallest
from math import isfinite, sqrt
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from agentlearn.files import own

if TYPE_CHECKING:
    Vector: TypeAlias = "array[float]"
else:
    Vector = array  # it takes no type arguments when a program runs

_DIGITS = 6
"""Digits to which similarities are rounded, so that equal texts are equally near."""
MAX_DIMENSIONS = 65_536


def unit_vector(numbers: Sequence[float]) -> Vector:
    """The vector with length 1. Raises ValueError where it has no numbers, or numbers that cannot be used."""
    if not 0 < len(numbers) <= MAX_DIMENSIONS:
        raise ValueError(f"a vector has {len(numbers)} numbers")
    if not all(isfinite(one) for one in numbers):
        raise ValueError("a vector holds something that is not a finite number")
    largest = max(map(abs, numbers))
    if largest == 0:
        raise ValueError("a vector holds only zeros")
    scaled = [one / largest for one in numbers]  # the square of a very large number is infinite
    length = sqrt(sum(map(mul, scaled, scaled)))
    return array("f", [one / length for one in scaled])


class VectorTable:
    """Vectors of unit length and of one size, in order."""

    def __init__(self, vectors: Sequence[Vector]) -> None:
        self._vectors = vectors
        self.dimensions = len(vectors[0]) if vectors else 0

    def nearest(self, query: Vector, depth: int) -> list[int]:
        """The places of the vectors that are nearest to the query, best first; of equal ones the first comes first."""
        if self._matrix is None:
            scores = {place: round(sum(map(mul, one, query)), _DIGITS) for place, one in enumerate(self._vectors)}
            return nsmallest(depth, scores, key=lambda place: (-scores[place], place))
        return _best(self._matrix, query, depth)

    def near_pairs(self, similarity: float) -> Iterator[tuple[int, int, float]]:
        """Each two vectors whose cosine similarity is at least this, with their similarity, in order."""
        for first, one in enumerate(self._vectors):
            if self._matrix is not None:
                found = self._matrix[first + 1 :] @ self._matrix[first]
                near = [(int(at), float(found[at])) for at in (found >= similarity - 1e-6).nonzero()[0]]
            else:
                values = [sum(map(mul, one, other)) for other in self._vectors[first + 1 :]]
                near = [(at, value) for at, value in enumerate(values) if value >= similarity - 1e-6]
            yield from ((first, first + 1 + at, round(value, _DIGITS)) for at, value in near)

    @cached_property
    def _matrix(self) -> Any:
        """The vectors as a matrix; None where numpy is not installed."""
        try:
            import numpy as np
        except ImportError:
            return None
        return np.array(self._vectors, dtype=np.float32).reshape(len(self._vectors), self.dimensions)


def _best(matrix: Any, query: Vector, depth: int) -> list[int]:
    import numpy as np

    # One thread: the threads of `matrix @ query` wait for each other where the machine is busy.
    scores = np.round(np.einsum("ij,j->i", matrix, np.frombuffer(query, dtype=np.float32)), _DIGITS)
    if depth < len(scores):
        lowest = np.partition(scores, len(scores) - depth)[len(scores) - depth]
        places = (scores >= lowest).nonzero()[0]
    else:
        places = np.arange(len(scores))
    order = np.lexsort((places, -scores[places]))[:depth]
    return [int(place) for place in places[order]]


_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS embedding"
    " (embedder TEXT NOT NULL, text_hash BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (embedder, text_hash))"
    " WITHOUT ROWID"
)
_AT_ONCE = 500
"""Rows of one query."""
_WAIT_S = 5.0
EMBEDDINGS_FILE = "embeddings.sqlite"
"""Name of the file in the directory of a store."""

_log = logging.getLogger("agentlearn")


class EmbeddingCache(Protocol):
    """Keeps embeddings."""

    def read(self, embedder: str, texts: Sequence[str]) -> Mapping[str, Vector]:
        """The vectors of those texts that are kept."""
        ...

    def keep(self, embedder: str, vectors: Mapping[str, Vector]) -> None:
        """Keep the vectors of these texts."""
        ...


class MemoryEmbeddings:
    """Embeddings in memory, for applications. It may be used from several threads."""

    def __init__(self) -> None:
        self._vectors: dict[tuple[str, bytes], Vector] = {}

    def read(self, embedder: str, texts: Sequence[str]) -> Mapping[str, Vector]:
        """The vectors of those texts that are kept."""
        found = ((text, self._vectors.get((embedder, text_hash(text)))) for text in texts)
        return {text: vector for text, vector in found if vector is not None}

    def keep(self, embedder: str, vectors: Mapping[str, Vector]) -> None:
        """Keep the vectors of these texts."""
        self._vectors |= {(embedder, text_hash(text)): vector for text, vector in vectors.items()}


class EmbeddingFile:
    """Embeddings in the table `embedding` of a SQLite file, which several processes may use at the same time.

    It holds no text. Where the file cannot be used, embeddings are kept in memory, with one warning.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._memory = MemoryEmbeddings()
        self._warned = False
        self._lock = threading.Lock()

    def read(self, embedder: str, texts: Sequence[str]) -> Mapping[str, Vector]:
        """The vectors of those texts that are kept."""
        found = dict(self._memory.read(embedder, texts))
        missing = {text_hash(text): text for text in texts if text not in found}
        try:
            with self._lock, closing(self._opened()) as database:
                found |= {missing[key]: vector for key, vector in _rows(database, embedder, list(missing))}
        except (sqlite3.Error, OSError, ValueError) as error:
            self._warn(error)
        self._memory.keep(embedder, found)
        return found

    def keep(self, embedder: str, vectors: Mapping[str, Vector]) -> None:
        """Keep the vectors of these texts."""
        self._memory.keep(embedder, vectors)
        rows = [(embedder, text_hash(text), vector.tobytes()) for text, vector in vectors.items()]
        try:
            with self._lock, closing(self._opened()) as database, database:
                database.executemany("INSERT OR REPLACE INTO embedding VALUES (?, ?, ?)", rows)
        except (sqlite3.Error, OSError) as error:
            self._warn(error)

    def __reduce__(self) -> tuple[object, ...]:
        return (EmbeddingFile, (self.file,))

    def _opened(self) -> sqlite3.Connection:
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        database = sqlite3.connect(own(self.file, self.file.parent), timeout=_WAIT_S)
        try:
            database.execute(_SCHEMA)
        except BaseException:
            database.close()
            raise
        return database

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("embeddings.not_kept file=%r reason=%s", str(self.file), error)


def text_hash(text: str) -> bytes:
    """The key of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _rows(database: sqlite3.Connection, embedder: str, keys: Sequence[bytes]) -> Iterable[tuple[bytes, Vector]]:
    for start in range(0, len(keys), _AT_ONCE):
        part = keys[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(part))
        query = f"SELECT text_hash, vector FROM embedding WHERE embedder = ? AND text_hash IN ({marks})"  # noqa: S608  # only question marks
        for key, blob in database.execute(query, (embedder, *part)):
            vector = array("f")
            vector.frombytes(blob)  # raises ValueError where the row is damaged
            yield key, vector
