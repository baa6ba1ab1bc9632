"""Generated problems, in three splits that share none.

A hash of a problem's parameters decides its split, so a problem can appear in one split only, in any wording and for
any seed.
"""

from collections.abc import Iterator
from functools import partial
from random import Random

from agentlearn.types.ids import derive_seed
from agentlearn.types.task import Split, Task
from agentlearn_demo.math.families import LEARNING, UNSEEN
from agentlearn_demo.math.problem import Problem
from agentlearn_demo.tasks import SOURCE, generated

SIZES: dict[Split, int] = {"train": 60, "validation": 40, "test": 60}


def math_tasks(split: Split, seed: int, limit: int | None = None) -> tuple[Task, ...]:
    """Return the split's tasks, balanced over its families. limit: None gives the default size."""
    learning, unseen = ({one.name: partial(_of_family, one) for one in part} for part in (LEARNING, UNSEEN))
    return generated("math", learning, unseen, split, seed, SIZES[split] if limit is None else limit)


def _of_family(family: type[Problem], split: Split, seed: int) -> Iterator[Task]:
    rng = Random(derive_seed("math", family.name, split, seed))
    seen: set[Problem] = set()
    while (problem := family.generate(rng, lambda one: one not in seen and one.home == split)) is not None:
        seen.add(problem)
        text = problem.ask(rng)
        yield Task.of("math", text, problem.gold(), family=family.name, split=split, source=SOURCE)
