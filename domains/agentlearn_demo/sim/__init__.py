"""The simulated world: a service on loopback with a solver that has declared weaknesses, and a reflector.

Its answers are marked as simulated. Code that learns or evaluates must not import it (an import contract checks that);
it reaches the simulated models over HTTP, like any other model.

Its random numbers are each a hash of named parts only. Each draw has its own name, so that adding or removing one never
changes another.
"""

import hashlib
from random import Random

MODELS = ("novice", "reflector", "echo")
"""Names of the simulated models."""


_BITS = 53


def uniform(*parts: object) -> float:
    """A number in [0, 1) that depends only on the parts' `repr`."""
    return (_number(parts) >> (64 - _BITS)) / (1 << _BITS)


def random_stream(*parts: object) -> Random:
    """A random generator that depends only on the parts' `repr`."""
    return Random(_number(parts))


def fingerprint(*parts: object) -> str:
    """16 hex digits that depend only on the parts' `repr`."""
    return f"{_number(parts):016x}"


def _number(parts: tuple[object, ...]) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=8).digest())
