"""One question about one site."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """What is asked, the exact answer, and a way to it."""

    params: Mapping[str, str]
    """For the holes of its family's wordings."""
    answer: str
    targets: tuple[str, ...]
    """Pages between the home page, which is left out, and the answer, the last one holding it."""
