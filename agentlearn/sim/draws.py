"""The simulated world's only source of chance: numbers that depend on named parts alone.

Every draw has its own name, so that taking one away, or asking for another, never moves a third.
"""

import hashlib
from random import Random

_BITS = 53


def uniform(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts alone (by their `repr`)."""
    return (_number(parts) >> (64 - _BITS)) / (1 << _BITS)


def stream(*parts: object) -> Random:
    """A generator seeded by the parts alone."""
    return Random(_number(parts))


def fingerprint(*parts: object) -> str:
    """16 hex digits that depend on the parts alone."""
    return f"{_number(parts):016x}"


def _number(parts: tuple[object, ...]) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=8).digest())
