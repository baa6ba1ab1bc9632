"""The lab model's tokenizer in plain Python, with the same ids as the library `tokenizers`."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentlearn.errors import ConfigError

CACHED_SEGMENTS = 65_536
"""Number of text segments whose tokens are cached."""

_DIGITS = re.compile(r"(\d)")


class LabTokenizer:
    """Encodes text as token ids and decodes it without loss."""

    def __init__(self, added: Mapping[str, int], pieces: Sequence[str]) -> None:
        """added: tokens that are matched first. pieces: all other tokens by id, in GPT-2's letters for bytes."""
        letters = {letter: byte for byte, letter in enumerate(_byte_letters())}
        self._added = dict(added)
        self._texts = [_bytes_of(piece, letters) for piece in pieces]
        for text, token in added.items():
            while len(self._texts) <= token:
                self._texts.append(b"")
            self._texts[token] = text.encode()
        ids = {text: token for token, text in enumerate(self._texts) if token not in self._added.values()}
        self._trie = _trie(ids)
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
        return tuple(reversed(list(_walk(last))))


def read_tokenizer(path: Path) -> LabTokenizer:
    """Read a `tokenizer.json`. Raises ConfigError when it is not one of a lab model."""
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
        pieces = _equal_pieces(value["model"])
        added = {one["content"]: one["id"] for one in value["added_tokens"]}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(
            f"the tokenizer {str(path)!r} is not one of a lab model: {error}; build it with `agentlearn lab build`",
            code="bad_lab",
        ) from error
    return LabTokenizer(added, pieces)


def _equal_pieces(model: Any) -> list[str]:
    if model["type"] != "Unigram" or len({score for _, score in model["vocab"]}) != 1:
        raise ValueError("its pieces do not all have the same score")
    return [piece for piece, _ in model["vocab"]]


_TOKEN = -1


def _trie(ids: Mapping[bytes, int]) -> dict[int, Any]:
    root: dict[int, Any] = {}
    for text, token in ids.items():
        node = root
        for byte in text:
            node = node.setdefault(byte, {})
        node[_TOKEN] = token
    return root


def _walk(last: Sequence[tuple[int, int]]) -> Iterator[int]:
    at = len(last) - 1
    while at:
        at, token = last[at]
        yield token


def _bytes_of(piece: str, letters: Mapping[str, int]) -> bytes:
    return bytes(letters[letter] for letter in piece) if all(one in letters for one in piece) else piece.encode()


def _byte_letters() -> list[str]:
    """The printable letter for each byte in byte-level vocabularies, as in GPT-2."""
    plain = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]
