"""A key-value cache for many sequences of different lengths, one row per sequence.

transformers models use it like any other cache. The attention mask, not the storage, says where each row ends. What is
stored after a row's end is never read, and overwritten later.
"""

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import Cache


class KVCache(Cache):
    """One tensor per layer of shape (rows, width + 1, heads, head size); padding writes into the last column."""

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.rows = 0
        self.width = 0
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._rows_B: Tensor | slice = slice(0, 0)
        self._row_B_1 = torch.empty(0, 1, dtype=torch.long)
        self._at_B_Q = torch.empty(0, 0, dtype=torch.long)
        self._read = 0

    def resize(self, rows: int, width: int) -> None:
        """Change the size; content that fits into the new size is kept."""
        if (rows, width) == (self.rows, self.width):
            return
        self.rows, self.width = rows, width
        self._keys = [self._resized(one) for one in self._keys]
        self._values = [self._resized(one) for one in self._values]

    def aim(self, rows: Tensor | int, at_B_Q: Tensor, read: int) -> None:
        """Set where the next forward pass writes and how many columns it reads.

        rows: row indexes, shape (B,); a number n means the first n rows, which are then read without a copy. at_B_Q:
        the column of each new token; `width` for padding. read: number of columns that are read.
        """
        if isinstance(rows, int):
            self._rows_B = slice(0, rows)
            rows = torch.arange(rows, device=at_B_Q.device)
        else:
            self._rows_B = rows
        self._row_B_1, self._at_B_Q, self._read = rows[:, None], at_B_Q, read

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Store a layer's new keys and values, (B, heads, Q, size); returns all that are read, (B, heads, K, size)."""
        for store, states in ((self._keys, key_states), (self._values, value_states)):
            while len(store) <= layer_idx:
                store.append(self._empty(states))
            store[layer_idx][self._row_B_1, self._at_B_Q] = states.transpose(1, 2)
        keys, values = self._keys[layer_idx][self._rows_B], self._values[layer_idx][self._rows_B]
        return keys[:, : self._read].transpose(1, 2), values[:, : self._read].transpose(1, 2)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """0, because callers always pass positions."""
        return 0

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` columns of the row `source` to the row `target`."""
        for one in (*self._keys, *self._values):
            one[target, :length] = one[source, :length]

    def swap(self, one: int, other: int) -> None:
        """Swap two rows."""
        for store in (*self._keys, *self._values):
            store[[one, other]] = store[[other, one]]

    def _empty(self, states: Tensor) -> Tensor:
        shape: Sequence[int] = (self.rows, self.width + 1, states.shape[1], states.shape[3])
        # Not `torch.empty`: attention multiplies masked values by 0, so they must be finite.
        return torch.zeros(shape, dtype=states.dtype, device=states.device)

    def _resized(self, old: Tensor) -> Tensor:
        new = old.new_zeros((self.rows, self.width + 1, *old.shape[2:]))
        rows, width = min(old.shape[0], self.rows), min(old.shape[1] - 1, self.width)
        new[:rows, :width] = old[:rows, :width]
        return new


def cache_argument(model: Any) -> str:
    """Return the name of the argument with which a model of transformers takes a cache. Version 5.24 changed it."""
    core = model.get_base_model() if hasattr(model, "get_base_model") else model
    return "cache" if "cache" in signature(type(core).forward).parameters else "past_key_values"


WIDTH_STEP = 128
"""The cache grows in width by steps of this many tokens."""
TAIL = 16
"""A sequence takes over a parked row when it shares all but this many of its tokens; otherwise the prefix is copied."""


class KVCacheRows:
    """Rows 0 to `used` - 1 are in use, the following rows up to `filled` - 1 are parked, the others are empty."""

    def __init__(self, kv_cache: KVCache, *, max_rows: int, bytes_per_token: int, cache_bytes: int) -> None:
        """max_rows: largest number in use. As many again may be parked, as far as `cache_bytes` allows."""
        self.kv_cache = kv_cache
        self.used = 0
        self.filled = 0
        self.known = np.zeros(0, dtype=np.int64)
        """Number of tokens of each row whose keys and values are computed."""
        self._ids = np.zeros((0, 0), dtype=np.int64)
        self._touched = np.zeros(0, dtype=np.int64)
        self._clock = 0
        self._max_rows = max_rows
        self._tokens = max(1, cache_bytes // max(1, bytes_per_token))

    @property
    def room(self) -> int:
        """Number of further rows that can be taken."""
        return max(0, min(self._max_rows, self._limit(self.kv_cache.width)) - self.used)

    def best(self, ids: NDArray[np.int64]) -> tuple[int, int]:
        """The row with the longest shared prefix, and its length; (-1, 0) for none. The last id is never shared."""
        width = min(len(ids) - 1, self._ids.shape[1])
        if not self.filled or width < 1:
            return -1, 0
        same = self._ids[: self.filled, :width] == ids[:width]
        same &= np.arange(width) < self.known[: self.filled, None]
        shared = np.where(same.all(axis=1), width, same.argmin(axis=1))
        row = int(shared.argmax())
        return (row, int(shared[row])) if shared[row] else (-1, 0)

    def take(self, ids: NDArray[np.int64]) -> int:
        """Take a row for these ids, which becomes row `used` - 1; returns how many of them are computed already."""
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
        """Park a row; the last row in use moves into its place."""
        self._touch(row)
        self.used -= 1
        self._swap(row, self.used)

    def write(self, row: int, at: int, token: int) -> None:
        """Record the token at a position of a row."""
        self._widen(at + 1)
        self._ids[row, at] = token

    def read(self, row: int, start: int, end: int) -> NDArray[np.int64]:
        """The tokens of a row from `start` up to `end`."""
        return self._ids[row, start:end]

    def forget(self) -> None:
        """Drop all computed keys and values, and all parked rows."""
        self.known[:] = 0
        self.filled = self.used

    def _freed(self, source: int) -> int:
        """Make row `used` empty without losing the row `source`; returns the new index of `source`."""
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
        """Make room for sequences of that length; drops parked rows when memory does not suffice."""
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
