"""The lab model in numpy: Qwen3 in float32, for many sequences of different lengths at once.

Axes: N sequences, T new tokens, L tokens attended to, H hidden, G heads of keys and values, R queries per such head, D
width of a head, V tokens of the vocabulary.
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
    """Sizes of the model, as in its configuration."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    groups: int
    """Number of key and value heads."""
    head: int
    """Size of each head."""
    inner: int
    """Width of the feed-forward layers."""
    context: int
    theta: float
    """Base of the rotary position embedding."""
    epsilon: float
    """Added to the mean square in RMS norms."""


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """One layer's weights, transposed for `x @ w`. Weights with the same input are concatenated."""

    before_H: Floats
    attend: Floats
    """Projections to queries, keys and values, concatenated."""
    query_D: Floats
    key_D: Floats
    out: Floats
    after_H: Floats
    gate_up: Floats
    down: Floats


@dataclass(frozen=True, slots=True, eq=False)
class SequenceCache:
    """Keys and values of one sequence: shape (layers, 2, G, L, D)."""

    kept: Floats

    @property
    def length(self) -> int:
        """Number of tokens, L."""
        return self.kept.shape[3]

    @property
    def size_bytes(self) -> int:
        """Memory in bytes."""
        return self.kept.nbytes


class BatchCache:
    """Keys and values of the sequences in a batch: shape (layers, 2, rows, G, L, D). The first N rows are in use."""

    def __init__(self, layout: Layout, rows: int) -> None:
        self._layout = layout
        self.lengths_N = np.zeros(rows, np.int64)
        self.kept = self._empty(rows, 256)

    def put(self, at: int, sequence: SequenceCache) -> None:
        """Copy a sequence into a row."""
        self.reserve(sequence.length + 1)
        self.kept[:, :, at, :, : sequence.length] = sequence.kept
        self.lengths_N[at] = sequence.length

    def move(self, source: int, target: int) -> None:
        """Move a sequence to another row."""
        length = self.lengths_N[source]
        self.kept[:, :, target, :, :length] = self.kept[:, :, source, :, :length]
        self.lengths_N[target] = length

    def sequence(self, at: int) -> SequenceCache:
        """Return a copy of the sequence in a row."""
        return SequenceCache(self.kept[:, :, at, :, : self.lengths_N[at]].copy())

    def reserve(self, length: int) -> None:
        """Make room for sequences of this length."""
        rows, width = self.kept.shape[2], self.kept.shape[4]
        if length > width:
            wider = self._empty(rows, max(length, width * 3 // 2))
            wider[:, :, :, :, :width] = self.kept
            self.kept = wider

    def _empty(self, rows: int, length: int) -> Floats:
        one = self._layout
        return np.zeros((one.layers, 2, rows, one.groups, length, one.head), np.float32)


class Transformer:
    """The weights of a lab model, and its forward passes."""

    def __init__(self, layout: Layout, weights: Mapping[str, NDArray[np.generic]]) -> None:
        """weights: by their names in transformers; a tied head may be missing. Raises KeyError for a missing weight."""
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
        """Return the cache of an empty sequence."""
        one = self.layout
        return SequenceCache(np.zeros((one.layers, 2, one.groups, 0, one.head), np.float32))

    def prefill(self, ids: Sequence[int], before: SequenceCache) -> tuple[SequenceCache, Floats]:
        """Extend a sequence by at least one token; returns its new cache, and the logits (V,) of the next token."""
        layout, length = self.layout, before.length
        hidden_TH = self._embed[np.asarray(ids)]
        total = length + len(ids)
        kept = np.empty((layout.layers, 2, layout.groups, total, layout.head), np.float32)
        kept[..., :length, :] = before.kept
        cosines, sines = self._cosines[length:total], self._sines[length:total]
        masked_TL = np.arange(total)[None] > np.arange(length, total)[:, None]
        repeats = layout.heads // layout.groups
        for number, layer in enumerate(self._layers):
            queries, keys, values = self._projected(layer, hidden_TH)
            keys_GLD, values_GLD = kept[number]
            keys_GLD[:, length:] = _rotated(keys, cosines[:, None], sines[:, None]).transpose(1, 0, 2)
            values_GLD[:, length:] = values.transpose(1, 0, 2)
            queries_GRTD = _rotated(queries, cosines[:, None], sines[:, None]).transpose(1, 0, 2)
            queries_GRTD = queries_GRTD.reshape(layout.groups, repeats, len(ids), layout.head)
            scores = queries_GRTD @ keys_GLD[:, None].swapaxes(-1, -2) * np.float32(layout.head**-0.5)
            scores[..., masked_TL] = -np.inf
            mixed = _softmax(scores) @ values_GLD[:, None]
            hidden_TH = self._after_attention(layer, hidden_TH, mixed.transpose(2, 0, 1, 3).reshape(len(ids), -1))
        return SequenceCache(kept), self._logits(hidden_TH[-1:])[0]

    def decode(self, ids_N: Ints, cache: BatchCache) -> Floats:
        """Append a token to each of the first N rows; returns the logits (N, V) of the next tokens."""
        layout, n = self.layout, len(ids_N)
        places_N = cache.lengths_N[:n].copy()
        longest = int(places_N.max()) + 1
        cache.reserve(longest)
        cache.lengths_N[:n] += 1
        hidden_NH = self._embed[ids_N]
        cosines, sines = self._cosines[places_N, None], self._sines[places_N, None]
        masked_NL = (np.arange(longest)[None] > places_N[:, None])[:, None, None]
        all_rows = np.arange(n)
        for number, layer in enumerate(self._layers):
            queries, keys, values = self._projected(layer, hidden_NH)
            keys_NGLD, values_NGLD = cache.kept[number, 0, :n], cache.kept[number, 1, :n]
            keys_NGLD[all_rows, :, places_N] = _rotated(keys, cosines, sines)
            values_NGLD[all_rows, :, places_N] = values
            queries_NGRD = _rotated(queries, cosines, sines).reshape(n, layout.groups, -1, layout.head)
            scores = queries_NGRD @ keys_NGLD[:, :, :longest].swapaxes(-1, -2)
            scores *= np.float32(layout.head**-0.5)
            np.putmask(scores, np.broadcast_to(masked_NL, scores.shape), -np.inf)
            mixed = _softmax(scores) @ values_NGLD[:, :, :longest]
            hidden_NH = self._after_attention(layer, hidden_NH, mixed.reshape(n, -1))
        return self._logits(hidden_NH)

    def _projected(self, layer: _Layer, hidden: Floats) -> tuple[Floats, Floats, Floats]:
        """Queries, keys and values (…, heads, D), before the rotary embedding."""
        layout = self.layout
        joined = self._normed(hidden, layer.before_H) @ layer.attend
        heads = joined.reshape(len(hidden), -1, layout.head)
        queries, keys = heads[:, : layout.heads], heads[:, layout.heads : layout.heads + layout.groups]
        values = heads[:, layout.heads + layout.groups :]
        return self._normed(queries, layer.query_D), self._normed(keys, layer.key_D), values

    def _after_attention(self, layer: _Layer, hidden: Floats, mixed: Floats) -> Floats:
        hidden = hidden + mixed @ layer.out
        both = self._normed(hidden, layer.after_H) @ layer.gate_up
        gate, up = both[:, : self.layout.inner], both[:, self.layout.inner :]
        return hidden + (gate * (1 + np.tanh(gate * np.float32(0.5))) * np.float32(0.5) * up) @ layer.down

    def _logits(self, hidden: Floats) -> Floats:
        return self._normed(hidden, self._last_H) @ self._head

    def _normed(self, values: Floats, weight: Floats) -> Floats:
        squares = np.einsum("...d,...d->...", values, values)[..., None]
        return values * (weight / np.sqrt(squares / np.float32(values.shape[-1]) + np.float32(self.layout.epsilon)))


def _rotated(heads: Floats, cosines: Floats, sines: Floats) -> Floats:
    """Apply the rotary embedding. heads: (…, D), in which elements i and i + D/2 form a pair."""
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
