"""How generated tasks are drawn and worded: balanced over their families, in the test split with unseen ones."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from random import Random
from string import Formatter

from agentlearn.errors import ConfigError
from agentlearn.types.ids import derive_seed
from agentlearn.types.task import Split, Task

SOURCE = "generated"
Stream = Callable[[Split, int], Iterator[Task]]
"""Yields the tasks of one family, given the split and the seed."""


def generated(
    domain: str,
    learning: Mapping[str, Stream],
    unseen: Mapping[str, Stream],
    split: Split,
    seed: int,
    size: int,
) -> tuple[Task, ...]:
    """Return `size` tasks of the split; a smaller size gives the start of the same list.

    One of every three tasks of the test split is of an unseen family; the other splits contain only learning families.
    Raises ConfigError when the families cannot give that many.
    """
    known = _balanced(domain, learning, split, seed)
    stream = _interleaved(known, _balanced(domain, unseen, split, seed)) if split == "test" else known
    tasks = tuple(islice(stream, size))
    if len(tasks) < size:
        raise ConfigError(f"the {domain} domain can generate {len(tasks)} {split} tasks, not {size}; ask for fewer")
    return tasks


def _interleaved(known: Iterator[Task], unseen: Iterator[Task]) -> Iterator[Task]:
    while len(three := [*islice(known, 2), *islice(unseen, 1)]) == 3:
        yield from three
    yield from three


def _balanced(domain: str, families: Mapping[str, Stream], split: Split, seed: int) -> Iterator[Task]:
    """Yield one task of each family per round, in a shuffled order; ends when one family is used up."""
    order = list(families)
    Random(derive_seed(domain, "order", split, seed)).shuffle(order)
    for tasks in zip(*(families[name](split, seed) for name in order), strict=False):
        yield from tasks


@cache
def templates(wordings: str) -> tuple[str, ...]:
    """The wordings, each as a single line."""
    return tuple(" ".join(wording.split()) for wording in wordings.split("\n\n"))


def pattern_of(template: str, value: str, *, loose: bool = False) -> re.Pattern[str]:
    """The pattern of a template, whose fields match `value`. loose: any white space matches between its words."""
    parts: list[str] = []
    seen: set[str] = set()
    for literal, name, _, _ in Formatter().parse(template):
        parts.append(r"\s+".join(map(re.escape, re.split(r"\s+", literal))) if loose else re.escape(literal))
        if name is not None:
            parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>{value})")
            seen.add(name)
    return re.compile("".join(parts))
