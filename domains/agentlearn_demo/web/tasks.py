"""Generated questions in three splits. No two splits share a site, so they share no problem."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from random import Random

from agentlearn.errors import ConfigError
from agentlearn.types.ids import derive_seed
from agentlearn.types.task import Split, Task
from agentlearn_demo.demos import SOURCE, generated
from agentlearn_demo.web.documentation import documentation_site
from agentlearn_demo.web.questions import TEMPLATES
from agentlearn_demo.web.shop import shop_site
from agentlearn_demo.web.site import KINDS, GeneratedSite, SiteKind

NUMBERS = range(12)
"""Numbers of the sites of each kind."""
SIZES: dict[Split, int] = {"train": 24, "validation": 16, "test": 30}
SITES: dict[Split, range] = {"train": range(5), "validation": range(5, 8), "test": range(8, 12)}
"""GeneratedSite numbers of each split, for every kind of site."""

LEARNING: Mapping[str, SiteKind] = {
    "option_default": "documentation",
    "release_of_change": "documentation",
    "exit_status": "documentation",
    "product_weight": "shop",
    "part_price": "shop",
}
"""Families of the train and validation splits, and of two thirds of the test split, with the kind of their sites."""
UNSEEN: Mapping[str, SiteKind] = {"delivery_charge": "shop"}
"""The family of the test split only. Each of its traps also occurs in a learning family."""

_MAKERS: Mapping[SiteKind, Callable[[int], GeneratedSite]] = {"documentation": documentation_site, "shop": shop_site}
_TEMPLATES = {template.family: template for template in TEMPLATES}


def walk_tasks(split: Split, seed: int, limit: int | None = None) -> tuple[Task, ...]:
    """Return the split's tasks, balanced over its families. limit: None gives the default size."""
    learning, unseen = ({one[0]: partial(_of_family, *one) for one in part.items()} for part in (LEARNING, UNSEEN))
    return generated("web", learning, unseen, split, seed, SIZES[split] if limit is None else limit)


@cache
def site(kind: SiteKind, number: int) -> GeneratedSite:
    """Return the site of that kind and number. Raises ConfigError for a number outside `NUMBERS`."""
    if number not in NUMBERS:
        raise ConfigError(f"there is no {kind} {number!r}; take one of 0 to {NUMBERS[-1]}")
    return _MAKERS[kind](number)


def all_sites() -> tuple[GeneratedSite, ...]:
    """Return every site, kind by kind."""
    return tuple(site(kind, number) for kind in KINDS for number in NUMBERS)


def _of_family(family: str, kind: SiteKind, split: Split, seed: int) -> Iterator[Task]:
    rng = Random(derive_seed("web", family, split, seed))
    sites = [site(kind, number) for number in SITES[split]]
    drawn = [(one, problem) for one in sites for problem in one.problems[family]]
    rng.shuffle(drawn)
    for one, problem in drawn:
        yield Task.of(
            "web",
            _TEMPLATES[family].ask(problem.params, rng),
            problem.answer,
            family=family,
            split=split,
            source=SOURCE,
            start=one.url(),
            path=tuple(one.url(target) for target in problem.targets),
        )
