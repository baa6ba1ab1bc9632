"""The lab model in numpy: Qwen3's computation for many sequences of different lengths at once, in float32.

Axes: N sequences, T new tokens, L tokens seen, H hidden, G heads of keys and values, R queries per such head, D width
of a head, V tokens of the vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """The model's shape, as its configuration states it."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    groups: int
    head: int
    inner: int
    context: int
    theta: float
    epsilon: float


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """One layer's weights, transposed for `x @ w` and joined where they meet the same input."""

    before_H: Floats
    attend: Floats
    """Queries, keys and values side by side."""
    query_D: Floats
    key_D: Floats
    out: Floats
    after_H: Floats
    gate_up: Floats
    down: Floats


@dataclass(frozen=True, slots=True, eq=False)
class SequenceCache:
    """What the model keeps of one sequence: keys and values per layer, (layers, 2, G, L, D)."""

    kept: Floats

    @property
    def length(self) -> int:
        """L."""
        return self.kept.shape[3]

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        return self.kept.nbytes


class Seats:
    """Room for the sequences that are being written, the first N of which are taken. Shape (layers, 2, N, G, L, D)."""

    def __init__(self, layout: Layout, seats: int, length: int = 256) -> None:
        self._layout = layout
        self.lengths_N = np.zeros(seats, np.int64)
        self.kept = self._room(seats, length)

    def seat(self, at: int, read: SequenceCache) -> None:
        """Put a sequence into that seat."""
        self.reserve(read.length + 1)
        self.kept[:, :, at, :, : read.length] = read.kept
        self.lengths_N[at] = read.length

    def move(self, source: int, target: int) -> None:
        """Move a sequence to another seat."""
        length = self.lengths_N[source]
        self.kept[:, :, target, :, :length] = self.kept[:, :, source, :, :length]
        self.lengths_N[target] = length

    def read(self, at: int) -> SequenceCache:
        """A copy of what is kept of that sequence."""
        return SequenceCache(self.kept[:, :, at, :, : self.lengths_N[at]].copy())

    def reserve(self, length: int) -> None:
        """Make room for sequences of that length."""
        seats, had = self.kept.shape[2], self.kept.shape[4]
        if length > had:
            wider = self._room(seats, max(length, had * 3 // 2))
            wider[:, :, :, :, :had] = self.kept
            self.kept = wider

    def _room(self, seats: int, length: int) -> Floats:
        one = self._layout
        return np.zeros((one.layers, 2, seats, one.groups, length, one.head), np.float32)


class Transformer:
    """Weights and what they compute."""

    def __init__(self, layout: Layout, weights: Mapping[str, NDArray[np.generic]]) -> None:
        """weights: by the names that transformers gives them; a tied head may be left out. Raises KeyError."""
        self.layout = layout
        self._embed = _float(weights["model.embed_tokens.weight"])
        self._head = np.ascontiguousarray(_float(weights.get("lm_head.weight", self._embed)).T)
        self._last_H = _float(weights["model.norm.weight"])
        self._layers = [_layer(weights, f"model.layers.{number}.") for number in range(layout.layers)]
        half = np.arange(0, layout.head, 2, dtype=np.float64) / layout.head
        angles = np.arange(layout.context)[:, None] * layout.theta ** -half[None]
        twice = np.concatenate([angles, angles], 1)
        self._cosines, self._sines = np.cos(twice).astype(np.float32), np.sin(twice).astype(np.float32)

    def empty(self) -> SequenceCache:
        """What is kept of nothing."""
        one = self.layout
        return SequenceCache(np.zeros((one.layers, 2, one.groups, 0, one.head), np.float32))

    def read(self, ids: Sequence[int], before: SequenceCache) -> tuple[SequenceCache, Floats]:
        """Read on: what is then kept, and the logits (V,) of the token that follows. ids: at least one."""
        layout, length = self.layout, before.length
        hidden_TH = self._embed[np.asarray(ids)]
        total = length + len(ids)
        kept = np.empty((layout.layers, 2, layout.groups, total, layout.head), np.float32)
        kept[..., :length, :] = before.kept
        cosines, sines = self._cosines[length:total], self._sines[length:total]
        hides_TL = np.arange(total)[None] > np.arange(length, total)[:, None]
        repeats = layout.heads // layout.groups
        for number, layer in enumerate(self._layers):
            queries, keys, values = self._attending(layer, hidden_TH)
            keys_GLD, values_GLD = kept[number]
            keys_GLD[:, length:] = _turned(keys, cosines[:, None], sines[:, None]).transpose(1, 0, 2)
            values_GLD[:, length:] = values.transpose(1, 0, 2)
            queries_GRTD = _turned(queries, cosines[:, None], sines[:, None]).transpose(1, 0, 2)
            queries_GRTD = queries_GRTD.reshape(layout.groups, repeats, len(ids), layout.head)
            scores = queries_GRTD @ keys_GLD[:, None].swapaxes(-1, -2) * np.float32(layout.head**-0.5)
            scores[..., hides_TL] = -np.inf
            mixed = _softmax(scores) @ values_GLD[:, None]
            hidden_TH = self._fed(layer, hidden_TH, mixed.transpose(2, 0, 1, 3).reshape(len(ids), -1))
        return SequenceCache(kept), self._logits(hidden_TH[-1:])[0]

    def write(self, ids_N: Ints, seats: Seats) -> Floats:
        """One token more for each of the first N seats; gives the logits (N, V) of those that follow."""
        layout, n = self.layout, len(ids_N)
        places_N = seats.lengths_N[:n].copy()
        longest = int(places_N.max()) + 1
        seats.reserve(longest)
        seats.lengths_N[:n] += 1
        hidden_NH = self._embed[ids_N]
        cosines, sines = self._cosines[places_N, None], self._sines[places_N, None]
        hides_NL = (np.arange(longest)[None] > places_N[:, None])[:, None, None]
        everyone = np.arange(n)
        for number, layer in enumerate(self._layers):
            queries, keys, values = self._attending(layer, hidden_NH)
            keys_NGLD, values_NGLD = seats.kept[number, 0, :n], seats.kept[number, 1, :n]
            keys_NGLD[everyone, :, places_N] = _turned(keys, cosines, sines)
            values_NGLD[everyone, :, places_N] = values
            queries_NGRD = _turned(queries, cosines, sines).reshape(n, layout.groups, -1, layout.head)
            scores = queries_NGRD @ keys_NGLD[:, :, :longest].swapaxes(-1, -2)
            scores *= np.float32(layout.head**-0.5)
            np.putmask(scores, np.broadcast_to(hides_NL, scores.shape), -np.inf)
            mixed = _softmax(scores) @ values_NGLD[:, :, :longest]
            hidden_NH = self._fed(layer, hidden_NH, mixed.reshape(n, -1))
        return self._logits(hidden_NH)

    def _attending(self, layer: _Layer, hidden: Floats) -> tuple[Floats, Floats, Floats]:
        """Queries, keys and values (…, heads, D), before they are turned by their place."""
        layout = self.layout
        joined = self._normed(hidden, layer.before_H) @ layer.attend
        heads = joined.reshape(len(hidden), -1, layout.head)
        queries, keys = heads[:, : layout.heads], heads[:, layout.heads : layout.heads + layout.groups]
        values = heads[:, layout.heads + layout.groups :]
        return self._normed(queries, layer.query_D), self._normed(keys, layer.key_D), values

    def _fed(self, layer: _Layer, hidden: Floats, mixed: Floats) -> Floats:
        hidden = hidden + mixed @ layer.out
        both = self._normed(hidden, layer.after_H) @ layer.gate_up
        endpoint_state, up = both[:, : self.layout.inner], both[:, self.layout.inner :]
        return (
            hidden
            + (endpoint_state * (1 + np.tanh(endpoint_state * np.float32(0.5))) * np.float32(0.5) * up) @ layer.down
        )

    def _logits(self, hidden: Floats) -> Floats:
        return self._normed(hidden, self._last_H) @ self._head

    def _normed(self, values: Floats, weight: Floats) -> Floats:
        squares = np.einsum("...d,...d->...", values, values)[..., None]
        return values * (weight / np.sqrt(squares / np.float32(values.shape[-1]) + np.float32(self.layout.epsilon)))


def _turned(heads: Floats, cosines: Floats, sines: Floats) -> Floats:
    """Heads turned by the angle of their place. heads: (…, D), as D/2 pairs whose parts lie D/2 apart."""
    half = heads.shape[-1] // 2
    other = np.concatenate([-heads[..., half:], heads[..., :half]], -1)
    return heads * cosines + other * sines


def _softmax(scores: Floats) -> Floats:
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(-1, keepdims=True)
    return scores


def _layer(weights: Mapping[str, NDArray[np.generic]], prefix: str) -> _Layer:
    def of(name: str) -> Floats:
        return _float(weights[f"{prefix}{name}.weight"])

    def joined(*names: str) -> Floats:
        return np.ascontiguousarray(np.concatenate([of(name) for name in names]).T)

    return _Layer(
        before_H=of("input_layernorm"),
        attend=joined("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        query_D=of("self_attn.q_norm"),
        key_D=of("self_attn.k_norm"),
        out=joined("self_attn.o_proj"),
        after_H=of("post_attention_layernorm"),
        gate_up=joined("mlp.gate_proj", "mlp.up_proj"),
        down=joined("mlp.down_proj"),
    )


def _float(weight: NDArray[np.generic]) -> Floats:
    return weight.astype(np.float32)
