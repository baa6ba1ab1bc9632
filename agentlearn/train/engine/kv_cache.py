"""A key-value cache for many sequences of different lengths, one row per sequence.

transformers models use it like any other cache. The attention mask, not the storage, says where each row ends. What is
stored after a row's end is never read, and overwritten later.
"""

from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
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
