"""Generated tasks, in three splits that share no problem.

A hash of the problem's parameters decides its split, so a problem can appear in one split only, in any wording and for
any seed.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from typing import Any

from agentlearn.errors import ConfigError
from agentlearn.types.ids import content_hash, derive_seed
from agentlearn.types.task import Split, Task
from agentlearn_demo.math.families import LEARNING, UNSEEN
from agentlearn_demo.math.family import Family

DOMAIN = "math"
SIZES: dict[Split, int] = {"train": 60, "validation": 40, "test": 60}
SOURCE = "generated"

_SHARES: tuple[Split, ...] = ("train", "validation", "test", "train", "test")
"""Two fifths of all problems belong to train and two fifths to test."""


def generated(split: Split, seed: int, limit: int | None = None) -> tuple[Task, ...]:
    """Return the split's tasks, balanced over its families; a smaller limit gives the start of the same list.

    One of every three tasks of the test split is of an unseen family; the other splits contain only learning families.
    limit: None gives the default size. Raises ConfigError when the families cannot give that many.
    """
    size = SIZES[split] if limit is None else limit
    stream = _interleaved(split, seed) if split == "test" else _balanced(LEARNING, split, seed)
    tasks = tuple(islice(stream, size))
    if len(tasks) < size:
        raise ConfigError(f"the math domain can generate {len(tasks)} {split} tasks, not {size}; ask for fewer")
    return tasks


def home(family: str, params: object) -> Split:
    """Return the only split that may contain this problem."""
    return _SHARES[int(content_hash("home", family, vars(params))[:8], 16) % len(_SHARES)]


def _interleaved(split: Split, seed: int) -> Iterator[Task]:
    """Yield two tasks of learning families, then one of an unseen family, and so on."""
    known, unseen = _balanced(LEARNING, split, seed), _balanced(UNSEEN, split, seed)
    while True:
        three = [*islice(known, 2), *islice(unseen, 1)]
        yield from three
        if len(three) < 3:
            return


def _balanced(families: Sequence[Family[Any]], split: Split, seed: int) -> Iterator[Task]:
    """Yield one task of each family per round, in a shuffled order; ends when one family is used up."""
    order = list(families)
    Random(derive_seed("math", "order", split, seed)).shuffle(order)
    streams = [_of_family(family, split, seed) for family in order]
    for tasks in zip(*streams, strict=False):
        yield from tasks


def _of_family(family: Family[Any], split: Split, seed: int) -> Iterator[Task]:
    rng = Random(derive_seed("math", family.name, split, seed))
    seen: set[object] = set()
    while (params := family.generate(rng, lambda p: p not in seen and home(family.name, p) == split)) is not None:
        seen.add(params)
        problem = family.ask(params, rng)
        yield Task.of(DOMAIN, problem, family.gold(params), family=family.name, split=split, source=SOURCE)
