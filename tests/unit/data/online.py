"""Stand-ins for `datasets`, `reasoning_gym` and `pyarrow`: what we call of them, and nothing else."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import pytest


class Hub:
    """`datasets` with rows by dataset and split; remembers how it was asked."""

    def __init__(self, patch: pytest.MonkeyPatch, rows: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]) -> None:
        self.rows = rows
        self.asked: list[dict[str, Any]] = []
        self.read = 0
        self.unreachable = ""
        module = ModuleType("datasets")
        module.__dict__["load_dataset"] = self.load_dataset
        patch.setitem(sys.modules, "datasets", module)
        patch.setattr("agentlearn.data.hub.why_unreachable", lambda: self.unreachable)

    def load_dataset(
        self, path: str, name: str | None = None, *, split: str, revision: str | None
    ) -> Iterator[Mapping[str, Any]]:
        self.asked.append({"path": path, "name": name, "split": split, "revision": revision})
        if (path, split) not in self.rows:
            raise ConnectionError(f"Couldn't reach '{path}' on the Hub\n(offline)")
        return self._each(self.rows[path, split])

    def _each(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        for row in rows:
            self.read += 1
            yield row


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


def arrow(patch: pytest.MonkeyPatch) -> None:
    """`pyarrow`, for files that hold JSON after the mark `PAR1`."""

    class ArrowException(Exception):
        pass

    class Batch(list[Any]):
        def to_pylist(self) -> list[Any]:
            return list(self)

    class ParquetFile:
        def __init__(self, path: Path) -> None:
            body = Path(path).read_text()
            if not body.startswith("PAR1"):
                raise ArrowException("Parquet magic bytes not found\nin footer")
            self.rows = json.loads(body[4:])

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def iter_batches(self, *, batch_size: int) -> Iterator[Batch]:
            assert batch_size > 0
            yield Batch(self.rows[:1])
            yield Batch(self.rows[1:])

    package, parquet = ModuleType("pyarrow"), ModuleType("pyarrow.parquet")
    package.__dict__.update(ArrowException=ArrowException, parquet=parquet)
    parquet.__dict__["ParquetFile"] = ParquetFile
    patch.setitem(sys.modules, "pyarrow", package)
    patch.setitem(sys.modules, "pyarrow.parquet", parquet)


def absent(patch: pytest.MonkeyPatch, *modules: str) -> None:
    """As if these were not installed."""
    for name in modules:
        patch.setitem(sys.modules, name, None)
