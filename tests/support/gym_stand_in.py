"""A replacement for the module `reasoning_gym` whose scorer fails as no real one does.

It is written to a file, so that child processes can import it too. Its only task, `chain_sum`, gives half the points
for an answer that differs by one. Some answers make its scorer fail in different ways; see `MODULE`.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentlearn.data.gym import dataset_entries

MODULE = """
import os

SHOWN = {"nan": float("nan"), "beyond": 1.5, "below": -0.5, "none": None}

class Sums:
    def __init__(self, size, seed):
        self.size, self.seed = size, seed

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        a, b = index, (self.seed * 7 + index * 3) % 9
        question = f"Clerk {index} of desk {index * index + 11} adds {a} and {b}. What is the sum?"
        return {"question": question, "answer": str(a + b), "metadata": {"sum": a + b}}

    def score_answer(self, answer, entry):
        if answer in SHOWN:
            return SHOWN[answer]
        if answer == "endless":
            while True:
                pass
        if answer == "endless in C":
            return 9 ** 9 ** 9 ** 9
        if answer == "crash":
            os._exit(3)
        if answer == "leave":
            raise SystemExit
        if answer == "raise":
            raise ValueError("no\\nsum")
        if answer == "memory":
            return float(len(bytearray(8 << 30)))
        if answer == "file":
            with open("written-by-a-scorer", "w") as file:
                file.write("x")
        if answer == "f(1)":
            return eval(answer, {"f": float})
        if answer == "secret":
            return float("MY_API_KEY" in os.environ)
        if answer == "print":
            print('{"state": "scored", "score": 1.0}', flush=True)
            return 0.5
        if not answer.isdecimal():
            return 0.0
        return {0: 1.0, 1: 0.5}.get(abs(int(answer) - entry["metadata"]["sum"]), 0.0)

def create_dataset(name, size, seed):
    if name != "chain_sum":
        raise ValueError(f"Dataset '{name}' not registered")
    return Sums(size, seed)
"""


@contextmanager
def stand_in_gym(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replace `reasoning_gym` in this process and in the processes that run scorers."""
    (folder / "reasoning_gym.py").write_text(MODULE, encoding="utf-8")
    with real_gym():
        patch.delitem(sys.modules, "reasoning_gym", raising=False)
        patch.syspath_prepend(str(folder))
        yield
        # Not with `patch`, which would restore the replacement when it is undone.
        sys.modules.pop("reasoning_gym", None)


@contextmanager
def real_gym() -> Iterator[None]:
    """Clear the cache of generated entries before and after, so that no other module's entries are used."""
    dataset_entries.cache_clear()
    yield
    dataset_entries.cache_clear()
