"""Which tokens each row of a slab holds: rows in use first, then parked ones, whose beginnings others may share."""

import numpy as np
from numpy.typing import NDArray

from agentlearn.train.engine.kv_cache import KVCache

WIDTH_STEP = 128
"""A slab's width grows in steps of so many tokens."""
TAIL = 16
"""A parked row is taken over by a sequence that shares all but so many of its tokens; else its beginning is copied."""


class CacheRows:
    """Rows 0 to `used` - 1 are in use, rows up to `filled` - 1 are parked, the rest is empty."""

    def __init__(self, kv_cache: KVCache, *, max_rows: int, bytes_per_token: int, cache_bytes: int) -> None:
        """max_rows: in use at once; as many again may be parked, as far as the bytes go."""
        self.kv_cache = kv_cache
        self.used = 0
        self.filled = 0
        self.known = np.zeros(0, dtype=np.int64)
        """Of each row: tokens whose keys and values are there."""
        self._ids = np.zeros((0, 0), dtype=np.int64)
        self._touched = np.zeros(0, dtype=np.int64)
        self._clock = 0
        self._max_rows = max_rows
        self._tokens = max(1, cache_bytes // max(1, bytes_per_token))

    @property
    def room(self) -> int:
        """CacheRows that may still come into use."""
        return max(0, min(self._max_rows, self._limit(self.kv_cache.width)) - self.used)

    def best(self, ids: NDArray[np.int64]) -> tuple[int, int]:
        """The row that shares most of the beginning of these ids, and how many; the last id is never shared."""
        width = min(len(ids) - 1, self._ids.shape[1])
        if not self.filled or width < 1:
            return -1, 0
        same = self._ids[: self.filled, :width] == ids[:width]
        same &= np.arange(width) < self.known[: self.filled, None]
        shared = np.where(same.all(axis=1), width, same.argmin(axis=1))
        row = int(shared.argmax())
        return (row, int(shared[row])) if shared[row] else (-1, 0)

    def take(self, ids: NDArray[np.int64]) -> int:
        """Bring a row into use for these ids; returns how many of them it knows already. It is row `used` - 1 then."""
        self._widen(len(ids) + 1)
        source, shared = self.best(ids)
        row = self.used
        if source >= self.used and self.known[source] - shared <= TAIL:
            self._swap(source, row)
        else:
            source = self._freed(source)
            if shared:
                self.kv_cache.copy(source, row, shared)
        self.filled = max(self.filled, row + 1)
        self.used += 1
        self._ids[row, : len(ids)] = ids
        self.known[row] = shared
        self._touch(row)
        return shared

    def park(self, row: int) -> None:
        """Take a row out of use; the last one in use takes its place."""
        self._touch(row)
        self.used -= 1
        self._swap(row, self.used)

    def write(self, row: int, at: int, token: int) -> None:
        """Note the token at that place."""
        self._widen(at + 1)
        self._ids[row, at] = token

    def read(self, row: int, start: int, end: int) -> NDArray[np.int64]:
        """The tokens at those places."""
        return self._ids[row, start:end]

    def forget(self) -> None:
        """Nothing that was computed holds any more."""
        self.known[:] = 0
        self.filled = self.used

    def _freed(self, source: int) -> int:
        """Make row `used` empty without losing the source; returns where the source is then."""
        row = self.used
        if row >= self.filled:
            self._grow(row + 1)
            return source
        if self.filled < self._limit(self.kv_cache.width):
            self._grow(self.filled + 1)
            target = self.filled
            self.filled += 1
        else:
            parked = [one for one in range(row, self.filled) if one != source] or [source]
            target = min(parked, key=lambda one: int(self._touched[one]))
        if target != row:
            self._swap(target, row)
        return target if source == row else source

    def _limit(self, width: int) -> int:
        return max(1, min(2 * self._max_rows, self._tokens // max(1, width)))

    def _touch(self, row: int) -> None:
        self._clock += 1
        self._touched[row] = self._clock

    def _swap(self, one: int, other: int) -> None:
        if one == other:
            return
        self.kv_cache.swap(one, other)
        for table in (self._ids, self.known, self._touched):
            table[[one, other]] = table[[other, one]]

    def _widen(self, length: int) -> None:
        """Room for sequences of that length; parked rows are given up where the bytes no longer reach."""
        if length <= self.kv_cache.width:
            return
        width = -(-length // WIDTH_STEP) * WIDTH_STEP
        self.filled = max(self.used, min(self.filled, self._limit(width)))
        self._resize(max(self.used, min(self.kv_cache.rows, self._limit(width))), width)

    def _grow(self, rows: int) -> None:
        if rows > self.kv_cache.rows:
            self._resize(max(rows, min(2 * self.kv_cache.rows, self._limit(self.kv_cache.width))), self.kv_cache.width)

    def _resize(self, rows: int, width: int) -> None:
        self.kv_cache.resize(rows, width)
        kept, columns = min(rows, self._ids.shape[0]), min(width, self._ids.shape[1])
        ids = np.zeros((rows, width), dtype=np.int64)
        ids[:kept, :columns] = self._ids[:kept, :columns]
        self._ids = ids
        self.known = np.concatenate([self.known[:kept], np.zeros(rows - kept, dtype=np.int64)])
        self._touched = np.concatenate([self._touched[:kept], np.zeros(rows - kept, dtype=np.int64)])
