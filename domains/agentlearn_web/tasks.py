"""Generated tasks, in three splits that share no site and therefore no problem."""

from collections.abc import Iterator, Mapping
from itertools import islice
from random import Random

from agentlearn.errors import ConfigError
from agentlearn.types.ids import derive_seed
from agentlearn.types.task import Split, Task
from agentlearn_web.question_templates import TEMPLATES
from agentlearn_web.questions import LEARNING, UNSEEN, Problems
from agentlearn_web.sites import site
from agentlearn_web.sites.site import SiteKind

DOMAIN = "web"
SIZES: dict[Split, int] = {"train": 24, "validation": 16, "test": 30}
SOURCE = "generated"
SITES: dict[Split, range] = {"train": range(5), "validation": range(5, 8), "test": range(8, 12)}
"""Numbers of the sites that belong to each split, the same of each kind."""

_TEMPLATES = {template.family: template for template in TEMPLATES}


def generate_walk_tasks(split: Split, seed: int, limit: int | None = None) -> tuple[Task, ...]:
    """The split's tasks, balanced over its families; a smaller limit gives the beginning of the same list.

    Of every three tasks of the test split one is of an unseen family; the other splits hold learning families only.
    limit: None gives the split's default size. Raises ConfigError for more than the sites can give.
    """
    size = SIZES[split] if limit is None else limit
    stream = _interleaved(split, seed) if split == "test" else _balanced(LEARNING, split, seed)
    tasks = tuple(islice(stream, size))
    if len(tasks) < size:
        raise ConfigError(f"the web domain can generate {len(tasks)} {split} tasks, not {size}; ask for fewer")
    return tasks


def _interleaved(split: Split, seed: int) -> Iterator[Task]:
    """Two tasks of learning families, one of an unseen family, and so on."""
    known, unseen = _balanced(LEARNING, split, seed), _balanced(UNSEEN, split, seed)
    while True:
        three = [*islice(known, 2), *islice(unseen, 1)]
        yield from three
        if len(three) < 3:
            return


def _balanced(families: Mapping[str, tuple[SiteKind, Problems]], split: Split, seed: int) -> Iterator[Task]:
    """Round by round one task of each family, in a shuffled order; ends when one of them is used up."""
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
