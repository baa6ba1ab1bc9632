"""A stand-in for `reasoning_gym`: what we call of it, and nothing else."""

import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import pytest


class Sums:
    """A task of reasoning-gym: `a + b = ?`, whose scorer gives half the points for being one off."""

    def __init__(self, size: int, seed: int, most: int = 9) -> None:
        self.size, self.seed, self.most = size, seed, most
        self.scored: list[str | None] = []

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> dict[str, Any]:
        a, b = index, (self.seed * 7 + index * 3) % self.most
        return {"question": f"{a} + {b} = ?", "answer": str(a + b), "metadata": {"sum": a + b}}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        raise AssertionError("entries that are iterated over carry a random id")

    def score_answer(self, answer: str | None, entry: Mapping[str, Any]) -> float:
        self.scored.append(answer)
        value = eval(answer or "", {"__builtins__": {}})
        return {0: 1.0, 1: 0.5}.get(abs(value - entry["metadata"]["sum"]), 0.0)


def gym(patch: pytest.MonkeyPatch) -> list[Sums]:
    """`reasoning_gym` with the one task `chain_sum`; returns what was created."""
    created: list[Sums] = []

    def create_dataset(name: str, **options: Any) -> Sums:
        if name != "chain_sum":
            raise ValueError(f"Dataset '{name}' not registered")
        created.append(Sums(**options))
        return created[-1]

    module = ModuleType("reasoning_gym")
    module.__dict__["create_dataset"] = create_dataset
    patch.setitem(sys.modules, "reasoning_gym", module)
    return created


def absent(patch: pytest.MonkeyPatch, *modules: str) -> None:
    """As if these were not installed."""
    for name in modules:
        patch.setitem(sys.modules, name, None)
