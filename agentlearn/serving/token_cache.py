"""Token-id cache keyed by rendered text, so that what a model read and wrote is never tokenized again.

A text can have several tokenizations. A conversation that continues therefore takes the ids of its earlier part from
this cache, and only new text is encoded.
"""

import hashlib
import re
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MAX_TOKENS_KEPT = 4_000_000
"""Number of tokens to keep (16 MB) before the oldest conversations are dropped."""


@dataclass(frozen=True, slots=True)
class _Entry:
    ids: "array[int]"
    """Tokens of prompt and answer."""
    calls: frozenset[str]
    """Ids of the answer's tool calls, which distinguish answers with equal text."""


class TokenCache:
    """Token ids by rendered text."""

    def __init__(self, ends: Sequence[str], encode: Callable[[str], list[int]], limit: int = MAX_TOKENS_KEPT) -> None:
        """ends: texts that end an answer. limit: number of tokens to keep."""
        self._ends = re.compile("|".join(re.escape(end) for end in ends if end) or r"(?!)")
        self._encode = encode
        self._limit = limit
        self._kept = 0
        self._entries: OrderedDict[tuple[bytes, frozenset[str]], _Entry] = OrderedDict()
        self._named: OrderedDict[bytes, list[frozenset[str]]] = OrderedDict()

    def store(self, text: str, ids: Sequence[int], calls: Sequence[str]) -> None:
        """Store the token ids of a prompt with its answer. calls: ids of the answer's tool calls."""
        key, names = _key(text), frozenset(calls)
        self._drop(key, names)
        self._entries[key, names] = _Entry(array("i", ids), names)
        self._named.setdefault(key, []).append(names)
        self._kept += len(ids)
        while self._kept > self._limit and len(self._entries) > 1:
            self._drop(*next(iter(self._entries)))

    def ids(self, text: str, calls: Sequence[str] = ()) -> list[int]:
        """Return the token ids of a prompt: cached ids for its longest known prefix, then newly encoded ones.

        calls: ids of all tool calls in the conversation.
        """
        for end in self._answer_ends(text):
            key = _key(text[:end])
            if (named := self._named.get(key)) is not None:
                names = next((one for one in reversed(named) if one and one <= set(calls)), named[-1])
                self._entries.move_to_end((key, names))
                return [*self._entries[key, names].ids, *self._encode(text[end:])]
        return self._encode(text)

    def _answer_ends(self, text: str) -> list[int]:
        """Positions where an answer may end, the last first: before and after each end text."""
        return sorted({at for found in self._ends.finditer(text) for at in found.span()}, reverse=True)

    def _drop(self, key: bytes, names: frozenset[str]) -> None:
        entry = self._entries.pop((key, names), None)
        if entry is None:
            return
        self._kept -= len(entry.ids)
        self._named[key].remove(names)
        if not self._named[key]:
            del self._named[key]


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
