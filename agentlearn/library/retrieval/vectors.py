"""Vectors of unit length, and how near they are to each other. With numpy where it is installed, else without."""

from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from heapq import nsmallest
from math import isfinite, sqrt
from operator import mul
from typing import TYPE_CHECKING, Any, TypeAlias

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
