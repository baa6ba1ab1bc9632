"""A problem: one question about one site."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """The parameters of a question, its exact answer, and a path to it."""

    params: Mapping[str, str]
    """Values of the placeholders in the family's question template."""
    answer: str
    targets: tuple[str, ...]
    """Pages to visit after the home page; the last one contains the answer."""
