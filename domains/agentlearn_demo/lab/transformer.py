"""The lab model in numpy: Qwen3 in float32, for many sequences of different lengths at once, and its files.

Axes: N sequences, T new tokens, P tokens of a shared prefix, L tokens after it, H hidden, G heads of keys and values, R
queries per such head, D width of a head, V tokens of the vocabulary.

The weights are rewritten once, so that a pass takes fewer steps: the weights of a norm are multiplied into the matrix
that follows it, and the two elements that the rotary embedding turns lie side by side, as one complex number.

The files are half-precision weights, a card with its shape and file hashes, and its tokenizer, which splits a text into
the smallest number of pieces, with the same ids as the library `tokenizers`. Every digit is a piece of its own, and
every byte is a piece, so any text can be encoded.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from agentlearn.errors import ConfigError

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

    attend: Floats
    """Projections to queries, keys and values, concatenated."""
    norm_FD: Floats
    """Norms of each head of queries and keys; F heads. Those of the queries include the scale of the scores."""
    out: Floats
    gate_up: Floats
    """The gate's half of it is multiplied by 0.5."""
    down: Floats


@dataclass(frozen=True, slots=True, eq=False)
class SequenceCache:
    """Keys and values of one sequence: shape (layers, 2, G, L, D), after those of a prefix that others share."""

    kept: Floats
    shared: "SequenceCache | None" = None

    @property
    def own_length(self) -> int:
        """Number of tokens after the shared prefix, L."""
        return self.kept.shape[3]

    @property
    def length(self) -> int:
        """Number of tokens, P + L."""
        return self.own_length + (0 if self.shared is None else self.shared.own_length)

    @property
    def size_bytes(self) -> int:
        """Memory in bytes, without the shared prefix."""
        return self.kept.nbytes

    def branch(self) -> "SequenceCache":
        """Return a sequence without tokens of its own that shares all tokens of this one, which shares none."""
        return SequenceCache(self.kept[..., :0, :], self)


class BatchCache:
    """Keys and values of the sequences in a batch: shape (layers, 2, rows, G, L, D). The first N rows are in use."""

    def __init__(self, layout: Layout, rows: int) -> None:
        self._layout = layout
        self.lengths_N = np.zeros(rows, np.int64)
        """Tokens of each row, without its shared prefix."""
        self.shared_N: list[SequenceCache | None] = [None] * rows
        self.kept = self._empty(rows, 64)

    def put(self, at: int, sequence: SequenceCache) -> None:
        """Copy a sequence into a row. Its shared prefix is not copied."""
        length = sequence.own_length
        self.reserve(length + 1)
        self.kept[:, :, at, :, :length] = sequence.kept
        self.lengths_N[at], self.shared_N[at] = length, sequence.shared

    def move(self, source: int, target: int) -> None:
        """Move a sequence to another row."""
        length = self.lengths_N[source]
        self.kept[:, :, target, :, :length] = self.kept[:, :, source, :, :length]
        self.lengths_N[target], self.shared_N[target] = length, self.shared_N[source]

    def sequence(self, at: int) -> SequenceCache:
        """Return a copy of the sequence in a row."""
        return SequenceCache(self.kept[:, :, at, :, : self.lengths_N[at]].copy(), self.shared_N[at])

    def reserve(self, length: int) -> None:
        """Make room for sequences of this length."""
        rows, width = self.kept.shape[2], self.kept.shape[4]
        if length > width:
            wider = self._empty(rows, max(length, width * 3 // 2))
            wider[:, :, :, :, :width] = self.kept
            self.kept = wider

    def rows_by_prefix(self, n: int) -> "list[tuple[SequenceCache, slice | list[int]]]":
        """Return the shared prefixes of the first n rows, each with its rows."""
        rows: dict[SequenceCache, list[int]] = {}
        for row, shared in enumerate(self.shared_N[:n]):
            if shared is not None:
                rows.setdefault(shared, []).append(row)
        return [(shared, slice(n) if len(own) == n else own) for shared, own in rows.items()]

    def _empty(self, rows: int, length: int) -> Floats:
        one = self._layout
        return np.zeros((one.layers, 2, rows, one.groups, length, one.head), np.float32)


class Transformer:
    """The weights of a lab model, and its forward passes."""

    def __init__(self, layout: Layout, weights: Mapping[str, NDArray[np.generic]]) -> None:
        """weights: by their names in transformers; a tied head may be missing.

        Raises KeyError for a missing weight, ValueError for norms so large that `exp` of a score could overflow.
        """
        self.layout = layout
        self._embed = _float(weights["model.embed_tokens.weight"])
        head = _float(weights.get("lm_head.weight", self._embed))
        self._head = np.ascontiguousarray((head * _after_norm(weights["model.norm.weight"])).T)
        self._layers = [_layer(layout, weights, f"model.layers.{number}.") for number in range(layout.layers)]
        half = np.arange(0, layout.head, 2, dtype=np.float64) / layout.head
        angles = np.arange(layout.context)[:, None] * layout.theta ** -half[None]
        self._turns = np.exp(1j * angles).astype(np.complex64)

    def empty(self) -> SequenceCache:
        """Return the cache of an empty sequence."""
        one = self.layout
        return SequenceCache(np.zeros((one.layers, 2, one.groups, 0, one.head), np.float32))

    def prefill(self, ids: Sequence[int], before: SequenceCache) -> tuple[SequenceCache, Floats]:
        """Extend a sequence by at least one token; returns its new cache, and the logits (V,) of the next token."""
        layout, own, new, shared = self.layout, before.own_length, len(ids), before.shared
        hidden_TH = self._embed[np.asarray(ids)]
        kept = np.empty((layout.layers, 2, layout.groups, own + new, layout.head), np.float32)
        kept[..., :own, :] = before.kept
        turns_T1D = self._turns[before.length : before.length + new, None]
        seen_TT = np.tri(new, dtype=np.float32)
        for number, layer in enumerate(self._layers):
            queries, keys, values = self._projected(layer, hidden_TH, turns_T1D)
            keys_GLD, values_GLD = kept[number]
            keys_GLD[:, own:] = keys.transpose(1, 0, 2)
            values_GLD[:, own:] = values.transpose(1, 0, 2)
            queries_GRTD = queries.reshape(new, layout.groups, -1, layout.head).transpose(1, 2, 0, 3)
            queries_GMD = queries_GRTD.reshape(layout.groups, -1, layout.head)  # M: R queries of T tokens
            weights_GML = _exp_scores(queries_GMD, keys_GLD)
            weights_GML.reshape(layout.groups, -1, new, own + new)[..., own:] *= seen_TT
            mixed_GMD, totals_GM = weights_GML @ values_GLD, weights_GML.sum(-1)
            if shared is not None:
                weights_GMP = _exp_scores(queries_GMD, shared.kept[number, 0])
                mixed_GMD += weights_GMP @ shared.kept[number, 1]
                totals_GM += weights_GMP.sum(-1)
            mixed_GMD /= totals_GM[..., None]
            mixed_GRTD = mixed_GMD.reshape(queries_GRTD.shape)
            hidden_TH = self._after_attention(layer, hidden_TH, mixed_GRTD.transpose(2, 0, 1, 3).reshape(new, -1))
        return SequenceCache(kept, shared), self._logits(hidden_TH[-1:])[0]

    def decode(self, ids_N: Ints, cache: BatchCache) -> Floats:
        """Append a token to each of the first N rows; returns the logits (N, V) of the next tokens."""
        layout, n = self.layout, len(ids_N)
        places_N = cache.lengths_N[:n].copy()
        longest = int(places_N.max()) + 1
        cache.reserve(longest)
        cache.lengths_N[:n] += 1
        hidden_NH = self._embed[ids_N]
        prefixes, before_N = cache.rows_by_prefix(n), np.zeros(n, np.int64)
        for shared, rows in prefixes:
            before_N[rows] = shared.length
        turns_N1D = self._turns[before_N + places_N, None]
        seen_NL = (np.arange(longest)[None] <= places_N[:, None]).astype(np.float32)[:, None, None]
        all_rows = np.arange(n)
        for number, layer in enumerate(self._layers):
            queries, keys, values = self._projected(layer, hidden_NH, turns_N1D)
            keys_NGLD, values_NGLD = cache.kept[number, 0, :n, :, :longest], cache.kept[number, 1, :n, :, :longest]
            keys_NGLD[all_rows, :, places_N] = keys
            values_NGLD[all_rows, :, places_N] = values
            queries_NGRD = queries.reshape(n, layout.groups, -1, layout.head)
            weights_NGRL = _exp_scores(queries_NGRD, keys_NGLD)
            weights_NGRL *= seen_NL
            mixed_NGRD, totals_NGR = weights_NGRL @ values_NGLD, weights_NGRL.sum(-1)
            for shared, rows in prefixes:
                queries_GnRD = queries_NGRD[rows].swapaxes(0, 1)
                weights_GMP = _exp_scores(
                    queries_GnRD.reshape(layout.groups, -1, layout.head), shared.kept[number, 0]
                )  # M: R queries of the rows that share the prefix
                mixed_GMD = weights_GMP @ shared.kept[number, 1]
                mixed_NGRD[rows] += mixed_GMD.reshape(queries_GnRD.shape).swapaxes(0, 1)
                totals_NGR[rows] += weights_GMP.sum(-1).reshape(queries_GnRD.shape[:3]).swapaxes(0, 1)
            mixed_NGRD /= totals_NGR[..., None]
            hidden_NH = self._after_attention(layer, hidden_NH, mixed_NGRD.reshape(n, -1))
        return self._logits(hidden_NH)

    def _projected(self, layer: _Layer, hidden: Floats, turns: NDArray[np.complex64]) -> tuple[Floats, Floats, Floats]:
        """Queries, keys and values (…, heads, D), after the rotary embedding."""
        layout, turned = self.layout, self.layout.heads + self.layout.groups
        heads = (self._unit(hidden) @ layer.attend).reshape(len(hidden), -1, layout.head)
        both = self._unit(heads[:, :turned]) * layer.norm_FD
        both = (both.view(np.complex64) * turns).view(np.float32)
        return both[:, : layout.heads], both[:, layout.heads :], heads[:, turned:]

    def _after_attention(self, layer: _Layer, hidden: Floats, mixed: Floats) -> Floats:
        hidden = hidden + mixed @ layer.out
        both = self._unit(hidden) @ layer.gate_up
        half_gate, up = both[:, : self.layout.inner], both[:, self.layout.inner :]
        gated = np.tanh(half_gate)
        gated += 1
        gated *= half_gate
        gated *= up
        hidden += gated @ layer.down
        return hidden

    def _logits(self, hidden: Floats) -> Floats:
        return self._unit(hidden) @ self._head

    def _unit(self, values: Floats) -> Floats:
        """Divide by the root of the sum of squares. The factor to that of their mean is part of the weights."""
        norms = np.vecdot(values, values)[..., None]
        norms += np.float32(self.layout.epsilon * values.shape[-1])
        return values / np.sqrt(norms, out=norms)


def _exp_scores(queries: Floats, keys: Floats) -> Floats:
    """Return exp of the scores of queries (…, M, D) and keys (…, L, D): attention before it is divided by its sum."""
    scores = queries @ keys.swapaxes(-1, -2)
    return np.exp(scores, out=scores)


_MOST_SCORE = 60.0
"""Largest score of a query and a key. The sum of `exp` of as many scores as a context has fits into float32."""


def _layer(layout: Layout, weights: Mapping[str, NDArray[np.generic]], prefix: str) -> _Layer:
    def of(name: str) -> Floats:
        return _float(weights[f"{prefix}{name}.weight"])

    def joined(before: str, *parts: Floats) -> Floats:
        return np.ascontiguousarray((np.concatenate(parts) * _after_norm(of(before))).T)

    # From halves (i, i + D/2), which the rotary embedding turns together, to neighbours.
    order_D = np.arange(layout.head).reshape(2, -1).T.ravel()

    def turned(name: str) -> Floats:
        return of(name).reshape(-1, layout.head, layout.hidden)[:, order_D].reshape(-1, layout.hidden)

    query_D, key_D = of("self_attn.q_norm"), _after_norm(of("self_attn.k_norm"))  # the scale of the scores cancels out
    if np.abs(query_D).max() * np.abs(key_D).max() > _MOST_SCORE:
        raise ValueError(f"the norms of {prefix}self_attn are too large")
    return _Layer(
        attend=joined(
            "input_layernorm", turned("self_attn.q_proj"), turned("self_attn.k_proj"), of("self_attn.v_proj")
        ),
        norm_FD=_float(np.repeat([query_D[order_D], key_D[order_D]], [layout.heads, layout.groups], 0)),
        out=np.ascontiguousarray(of("self_attn.o_proj").T),
        gate_up=joined("post_attention_layernorm", of("mlp.gate_proj") * np.float32(0.5), of("mlp.up_proj")),
        down=np.ascontiguousarray(of("mlp.down_proj").T),
    )


def _after_norm(weight_D: NDArray[np.generic]) -> Floats:
    """Return the factors of a vector that has been divided by the root of its sum of squares."""
    return _float(weight_D) * np.float32(len(weight_D) ** 0.5)


def _float(weight: NDArray[np.generic]) -> Floats:
    return weight.astype(np.float32)


WEIGHTS = "weights.npz"
TOKENIZER = "tokenizer.json"
CARD = "card.json"
"""File with the model's shape, how it was trained, and the hashes of the other files."""
SHIPPED = "shipped"
"""Folder inside a built checkpoint with the small files that a package ships."""


CACHED_SEGMENTS = 65_536
"""Number of text segments whose tokens are cached."""

_DIGITS = re.compile(r"(\d)")
_TOKEN = -1


def check_present(folder: Path, name: str) -> None:
    """Raise ConfigError when the folder holds no weights."""
    if not (folder / CARD).is_file():
        raise ConfigError(f"the lab model {name!r} has no weights here; build them with `agentlearn lab build`")


def read_checkpoint(folder: Path, name: str) -> tuple[Transformer, "LabTokenizer"]:
    """Read the model in a folder. Raises ConfigError when it is missing or its files do not match their hashes."""
    layout, weights, _ = read_weights(folder, name)
    return Transformer(layout, weights), read_tokenizer(folder / TOKENIZER)


def read_weights(folder: Path, name: str) -> tuple[Layout, Mapping[str, NDArray[np.generic]], dict[str, Any]]:
    """Read the shape, the weights by name, and the card. Raises ConfigError as `read_checkpoint` does."""
    check_present(folder, name)
    try:
        card: dict[str, Any] = json.loads((folder / CARD).read_text(encoding="utf-8"))
        for file, digest in card["sha256"].items():
            if hashlib.sha256((folder / file).read_bytes()).hexdigest() != digest:
                raise ValueError(f"{file} is not the file that was built")  # noqa: TRY301
        with np.load(folder / WEIGHTS) as weights:
            return Layout(**card["layout"]), dict(weights), card
    except (OSError, ValueError, LookupError, TypeError, BadZipFile) as error:
        raise ConfigError(
            f"the weights of the lab model {name!r} cannot be used: {error}; reinstall the package"
        ) from error


class LabTokenizer:
    """Encodes text as token ids and decodes it without loss."""

    def __init__(self, added: Mapping[str, int], pieces: Sequence[str]) -> None:
        """added: tokens that are matched first. pieces: all other tokens by id, in GPT-2's letters for bytes."""
        # The printable letter for each byte in byte-level vocabularies, as in GPT-2.
        plain = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
        others = iter(range(256, 512))
        letters = {chr(byte) if byte in plain else chr(next(others)): byte for byte in range(256)}
        self._added = dict(added)
        self._texts = [
            bytes(map(letters.__getitem__, one)) if letters.keys() >= {*one} else one.encode() for one in pieces
        ]
        for text, token in added.items():
            self._texts += [b""] * (token + 1 - len(self._texts))
            self._texts[token] = text.encode()
        self._trie: dict[int, Any] = {}
        for token, written in enumerate(self._texts):
            if token not in self._added.values():
                node = self._trie
                for byte in written:
                    node = node.setdefault(byte, {})
                node[_TOKEN] = token
        longest_first = sorted(self._added, key=len, reverse=True)
        self._splits = re.compile(f"({'|'.join(map(re.escape, longest_first))})" if longest_first else r"(?!)")
        self._cached_pieces = lru_cache(maxsize=CACHED_SEGMENTS)(self._fewest_pieces)

    def __len__(self) -> int:
        return len(self._texts)

    def id_of(self, token: str) -> int:
        """Return the id of an added token. Raises KeyError for other tokens."""
        return self._added[token]

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""
        ids: list[int] = []
        for part in self._splits.split(text):
            if part in self._added:
                ids.append(self._added[part])
                continue
            for segment in filter(None, _DIGITS.split(part)):
                ids += self._cached_pieces(segment)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids, special tokens included. Invalid UTF-8 becomes replacement characters."""
        return b"".join(self._texts[token] for token in ids).decode(errors="replace")

    def _fewest_pieces(self, segment: str) -> tuple[int, ...]:
        """Split a segment into the smallest number of pieces; among equal splits, prefer the longest last piece."""
        text = segment.encode()
        fewest = [0, *[len(text) + 1] * len(text)]
        last: list[tuple[int, int]] = [(0, 0)] * (len(text) + 1)
        for start in range(len(text)):
            node, at = self._trie, start
            while at < len(text) and (node := node.get(text[at])) is not None:
                at += 1
                token = node.get(_TOKEN)
                if token is not None and fewest[start] + 1 < fewest[at]:
                    fewest[at], last[at] = fewest[start] + 1, (start, token)
        tokens: list[int] = []
        at = len(text)
        while at:
            at, token = last[at]
            tokens.append(token)
        return tuple(reversed(tokens))


def read_tokenizer(path: Path) -> LabTokenizer:
    """Read a `tokenizer.json`. Raises ConfigError when it is not one of a lab model."""
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
        model, added = value["model"], {one["content"]: one["id"] for one in value["added_tokens"]}
        if model["type"] != "Unigram" or len({score for _, score in model["vocab"]}) != 1:
            raise ValueError("its pieces do not all have the same score")  # noqa: TRY301
        return LabTokenizer(added, [piece for piece, _ in model["vocab"]])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(
            f"the tokenizer {str(path)!r} is not one of a lab model: {error}; build it with `agentlearn lab build`"
        ) from error
