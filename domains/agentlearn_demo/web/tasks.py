"""Generates tasks in three splits. No two splits share a site, so they share no problem."""

from collections.abc import Iterator, Mapping
from itertools import islice
from random import Random

from agentlearn.errors import ConfigError
from agentlearn.types.ids import derive_seed
from agentlearn.types.task import Split, Task
from agentlearn_demo.web.question_templates import TEMPLATES
from agentlearn_demo.web.questions import LEARNING, UNSEEN, Problems
from agentlearn_demo.web.sites import site
from agentlearn_demo.web.sites.site import SiteKind

DOMAIN = "web"
SIZES: dict[Split, int] = {"train": 24, "validation": 16, "test": 30}
SOURCE = "generated"
SITES: dict[Split, range] = {"train": range(5), "validation": range(5, 8), "test": range(8, 12)}
"""Site numbers of each split, for every kind of site."""

_TEMPLATES = {template.family: template for template in TEMPLATES}


def generate_walk_tasks(split: Split, seed: int, limit: int | None = None) -> tuple[Task, ...]:
    """Return the split's tasks, balanced over its families. A smaller limit gives the start of the same list.

    One third of the test split is from unseen families; the other splits contain learning families only.
    limit: None gives the split's default size. Raises ConfigError if the sites cannot give that many tasks.
    """
    size = SIZES[split] if limit is None else limit
    stream = _interleaved(split, seed) if split == "test" else _balanced(LEARNING, split, seed)
    tasks = tuple(islice(stream, size))
    if len(tasks) < size:
        raise ConfigError(f"the web domain can generate {len(tasks)} {split} tasks, not {size}; ask for fewer")
    return tasks


def _interleaved(split: Split, seed: int) -> Iterator[Task]:
    """Yield two tasks of learning families, then one of an unseen family, and so on."""
    known, unseen = _balanced(LEARNING, split, seed), _balanced(UNSEEN, split, seed)
    while True:
        three = [*islice(known, 2), *islice(unseen, 1)]
        yield from three
        if len(three) < 3:
            return


def _balanced(families: Mapping[str, tuple[SiteKind, Problems]], split: Split, seed: int) -> Iterator[Task]:
    """Yield one task of each family per round, in a shuffled order; end when a family has no more tasks."""
    order = list(families)
    Random(derive_seed("web", "order", split, seed)).shuffle(order)
    streams = [_of_family(family, *families[family], split, seed) for family in order]
    for tasks in zip(*streams, strict=False):
        yield from tasks


def _of_family(family: str, kind: SiteKind, problems: Problems, split: Split, seed: int) -> Iterator[Task]:
    rng = Random(derive_seed("web", family, split, seed))
    drawn = [(site(kind, number), problem) for number in SITES[split] for problem in problems(number)]
    rng.shuffle(drawn)
    for one, problem in drawn:
        yield Task.of(
            DOMAIN,
            _TEMPLATES[family].ask(problem.params, rng),
            problem.answer,
            family=family,
            split=split,
            source=SOURCE,
            start=one.start,
            path=tuple(one.url(target) for target in problem.targets),
        )
