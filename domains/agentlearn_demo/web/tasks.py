"""Generated questions in three splits. No two splits share a site, so they share no problem."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from random import Random

from agentlearn.errors import ConfigError
from agentlearn.types.ids import derive_seed
from agentlearn.types.task import Split, Task
from agentlearn_demo.tasks import SOURCE, generated
from agentlearn_demo.web import documentation, shop
from agentlearn_demo.web.questions import TEMPLATES
from agentlearn_demo.web.site import KINDS, Site, SiteKind, SiteProblem

NUMBERS = range(12)
"""Numbers of the sites of each kind."""
SIZES: dict[Split, int] = {"train": 24, "validation": 16, "test": 30}
SITES: dict[Split, range] = {"train": range(5), "validation": range(5, 8), "test": range(8, 12)}
"""Site numbers of each split, for every kind of site."""

Problems = Callable[[int], Sequence[SiteProblem]]
"""Returns all problems of one family on the site with that number."""

LEARNING: Mapping[str, tuple[SiteKind, Problems]] = {
    "option_default": ("documentation", documentation.option_default_problems),
    "release_of_change": ("documentation", documentation.release_problems),
    "exit_status": ("documentation", documentation.exit_status_problems),
    "product_weight": ("shop", shop.product_weight_problems),
    "part_price": ("shop", shop.part_price_problems),
}
"""Families of the train and validation splits, and of two thirds of the test split."""

UNSEEN: Mapping[str, tuple[SiteKind, Problems]] = {"delivery_charge": ("shop", shop.delivery_charge_problems)}
"""The family of the test split only. Each of its traps also occurs in a learning family."""

_MAKERS: Mapping[SiteKind, Callable[[int], Site]] = {
    "documentation": documentation.documentation_site,
    "shop": shop.shop_site,
}
_TEMPLATES = {template.family: template for template in TEMPLATES}


def walk_tasks(split: Split, seed: int, limit: int | None = None) -> tuple[Task, ...]:
    """Return the split's tasks, balanced over its families. limit: None gives the default size."""
    learning, unseen = (
        {name: partial(_of_family, name, *one) for name, one in part.items()} for part in (LEARNING, UNSEEN)
    )
    return generated("web", learning, unseen, split, seed, SIZES[split] if limit is None else limit)


@cache
def site(kind: SiteKind, number: int) -> Site:
    """Return the site of that kind and number. Raises ConfigError for a number outside `NUMBERS`."""
    if number not in NUMBERS:
        raise ConfigError(f"there is no {kind} {number!r}; take one of 0 to {NUMBERS[-1]}", code="unknown_site")
    return _MAKERS[kind](number)


def all_sites() -> tuple[Site, ...]:
    """Return every site, kind by kind."""
    return tuple(site(kind, number) for kind in KINDS for number in NUMBERS)


def _of_family(family: str, kind: SiteKind, problems: Problems, split: Split, seed: int) -> Iterator[Task]:
    rng = Random(derive_seed("web", family, split, seed))
    drawn = [(site(kind, number), problem) for number in SITES[split] for problem in problems(number)]
    rng.shuffle(drawn)
    for one, problem in drawn:
        yield Task.of(
            "web",
            _TEMPLATES[family].ask(problem.params, rng),
            problem.answer,
            family=family,
            split=split,
            source=SOURCE,
            start=one.start,
            path=tuple(one.url(target) for target in problem.targets),
        )
