"""The demos of the domains: how their generated tasks are drawn and worded, and the sites that those are about.

A hash of a problem's parameters decides its split, so a problem of mathematics can appear in one split only, in any
wording and for any seed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cache, partial
from itertools import islice
from random import Random
from string import Formatter
from typing import TYPE_CHECKING

from agentlearn.errors import ConfigError
from agentlearn.types.ids import derive_seed
from agentlearn.types.task import Split, Task

if TYPE_CHECKING:
    from agentlearn_demo.math.problem import Problem

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


_MATH_SIZES: dict[Split, int] = {"train": 60, "validation": 40, "test": 60}


def math_tasks(split: Split, seed: int, limit: int | None = None) -> tuple[Task, ...]:
    """Return the split's tasks, balanced over its families. limit: None gives the default size."""
    from agentlearn_demo.math.families import LEARNING, UNSEEN

    learning, unseen = ({one.name: partial(_of_math_family, one) for one in part} for part in (LEARNING, UNSEEN))
    return generated("math", learning, unseen, split, seed, _MATH_SIZES[split] if limit is None else limit)


def _of_math_family(family: "type[Problem]", split: Split, seed: int) -> Iterator[Task]:
    rng = Random(derive_seed("math", family.name, split, seed))
    seen: set[Problem] = set()
    while (problem := family.generate(rng, lambda one: one not in seen and one.home == split)) is not None:
        seen.add(problem)
        text = problem.ask(rng)
        yield Task.of("math", text, problem.gold(), family=family.name, split=split, source=SOURCE)


class _MathDemo:
    """Implements `agentlearn.domain.demo.Demo`."""

    def tasks(self, split: Split, *, seed: int, limit: int | None) -> tuple[Task, ...]:
        """Return generated problems."""
        return math_tasks(split, seed, limit)

    def serve_sites(self) -> AbstractAsyncContextManager[Mapping[str, tuple[str, int]]]:
        """Serve nothing."""
        return nullcontext({})


class _WebDemo:
    """Implements `agentlearn.domain.demo.Demo`."""

    def tasks(self, split: Split, *, seed: int, limit: int | None) -> tuple[Task, ...]:
        """Return questions about generated sites."""
        from agentlearn_demo.web.tasks import walk_tasks

        return walk_tasks(split, seed, limit)

    def serve_sites(self) -> AbstractAsyncContextManager[Mapping[str, tuple[str, int]]]:
        """Serve every site."""
        from agentlearn_demo.web.site import serve_sites
        from agentlearn_demo.web.tasks import all_sites

        return serve_sites(all_sites())


math = _MathDemo()
web = _WebDemo()
