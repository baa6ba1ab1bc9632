"""Which tokens stood behind a text: what a model was given and wrote is never tokenized anew.

Decoding loses which of several tokenizations a text had. A conversation that goes on therefore takes the ids of its
beginning from here, and only what is new in it is encoded.
"""

import hashlib
import re
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

REMEMBERED_TOKENS = 4_000_000
"""Kept before the oldest conversations are forgotten: 16 MB."""


@dataclass(frozen=True, slots=True)
class _Said:
    ids: "array[int]"
    """Prompt and answer."""
    calls: frozenset[str]
    """Ids of the answer's tool calls: they tell answers of equal text apart."""


class Memory:
    """Ids by rendered text."""

    def __init__(self, ends: Sequence[str], encode: Callable[[str], list[int]], limit: int = REMEMBERED_TOKENS) -> None:
        """ends: texts that end an answer. limit: tokens to keep."""
        self._ends = re.compile("|".join(re.escape(end) for end in ends if end) or r"(?!)")
        self._encode = encode
        self._limit = limit
        self._kept = 0
        self._said: OrderedDict[tuple[bytes, frozenset[str]], _Said] = OrderedDict()
        self._named: OrderedDict[bytes, list[frozenset[str]]] = OrderedDict()

    def remember(self, text: str, ids: Sequence[int], calls: Sequence[str]) -> None:
        """Keep the ids of a prompt with its answer. calls: the ids of the answer's tool calls."""
        key, names = _key(text), frozenset(calls)
        self._forget(key, names)
        self._said[key, names] = _Said(array("i", ids), names)
        self._named.setdefault(key, []).append(names)
        self._kept += len(ids)
        while self._kept > self._limit and len(self._said) > 1:
            self._forget(*next(iter(self._said)))

    def ids(self, text: str, calls: Sequence[str] = ()) -> list[int]:
        """The ids of a prompt: those of the longest beginning that is known, then what encoding gives.

        calls: the ids of all tool calls in the conversation.
        """
        for end in self._places(text):
            key = _key(text[:end])
            if (named := self._named.get(key)) is not None:
                names = next((one for one in reversed(named) if one and one <= set(calls)), named[-1])
                self._said.move_to_end((key, names))
                return [*self._said[key, names].ids, *self._encode(text[end:])]
        return self._encode(text)

    def _places(self, text: str) -> list[int]:
        """Where an answer may end, the furthest first: before and behind each text that ends one."""
        return sorted({at for found in self._ends.finditer(text) for at in found.span()}, reverse=True)

    def _forget(self, key: bytes, names: frozenset[str]) -> None:
        said = self._said.pop((key, names), None)
        if said is None:
            return
        self._kept -= len(said.ids)
        self._named[key].remove(names)
        if not self._named[key]:
            del self._named[key]


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
