"""The files of a lab model: half-precision weights, a card with its shape and file hashes, and its tokenizer.

The tokenizer splits a text into the smallest number of pieces, with the same ids as the library `tokenizers`. Every
digit is a piece of its own, and every byte is a piece, so any text can be encoded.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from agentlearn.errors import ConfigError
from agentlearn_demo.lab.transformer import Layout, Transformer

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
