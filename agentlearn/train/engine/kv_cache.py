"""Keys and values of many sequences side by side: one row per sequence, written where each row stands.

transformers' models write into it and read from it as from any cache. Rows are ragged: the attention mask, not the
storage, says how far each goes. What lies behind a row's end is never seen, and later overwritten.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache


class KVCache(Cache):
    """Layers of shape (rows, width + 1, heads, head size); the last column takes what padding writes."""

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.rows = 0
        self.width = 0
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._rows_B: Tensor | slice = slice(0, 0)
        self._row_B_1 = torch.empty(0, 1, dtype=torch.long)
        self._at_B_Q = torch.empty(0, 0, dtype=torch.long)
        self._seen = 0

    def resize(self, rows: int, width: int) -> None:
        """Make room; what is there and fits stays."""
        if (rows, width) == (self.rows, self.width):
            return
        self.rows, self.width = rows, width
        self._keys = [self._resized(one) for one in self._keys]
        self._values = [self._resized(one) for one in self._values]

    def aim(self, rows: Tensor | int, at_B_Q: Tensor, seen: int) -> None:
        """Where the next forward pass writes and how far it reads.

        rows: their indexes, shape (B,); a number for the first so many, which are then read without a copy. at_B_Q:
        the column of each token that is passed; `width` for padding. seen: columns that are read.
        """
        if isinstance(rows, int):
            self._rows_B = slice(0, rows)
            rows = torch.arange(rows, device=at_B_Q.device)
        else:
            self._rows_B = rows
        self._row_B_1, self._at_B_Q, self._seen = rows[:, None], at_B_Q, seen

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Take a layer's new keys and values, (B, heads, Q, size); give those that are seen, (B, heads, K, size)."""
        for store, states in ((self._keys, key_states), (self._values, value_states)):
            while len(store) <= layer_idx:
                store.append(self._empty(states))
            store[layer_idx][self._row_B_1, self._at_B_Q] = states.transpose(1, 2)
        keys, values = self._keys[layer_idx][self._rows_B], self._values[layer_idx][self._rows_B]
        return keys[:, : self._seen].transpose(1, 2), values[:, : self._seen].transpose(1, 2)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """0: positions are always given."""
        return 0

    def copy(self, source: int, target: int, length: int) -> None:
        """Let the target row begin with the first columns of the source."""
        for one in (*self._keys, *self._values):
            one[target, :length] = one[source, :length]

    def swap(self, one: int, other: int) -> None:
        """Exchange two rows."""
        for store in (*self._keys, *self._values):
            store[[one, other]] = store[[other, one]]

    def _empty(self, states: Tensor) -> Tensor:
        shape: Sequence[int] = (self.rows, self.width + 1, states.shape[1], states.shape[3])
        # Not `empty`: what attention leaves out is multiplied by 0, and must be a number.
        return torch.zeros(shape, dtype=states.dtype, device=states.device)

    def _resized(self, old: Tensor) -> Tensor:
        new = old.new_zeros((self.rows, self.width + 1, *old.shape[2:]))
        rows, width = min(old.shape[0], self.rows), min(old.shape[1] - 1, self.width)
        new[:rows, :width] = old[:rows, :width]
        return new
