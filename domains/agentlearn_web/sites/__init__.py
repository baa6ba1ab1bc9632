"""Frozen sites to walk on: a university, a company, a documentation and a shop, each in many numbers.

A site depends on its kind and number alone, never on a run's seed.
"""

from collections.abc import Callable, Mapping
from functools import cache

from agentlearn.errors import ConfigError
from agentlearn_web.sites.company import company_site
from agentlearn_web.sites.documentation import documentation_site
from agentlearn_web.sites.shop import shop_site
from agentlearn_web.sites.site import KINDS, Site, SiteKind
from agentlearn_web.sites.university import university_site

NUMBERS = range(12)
"""Of each kind there are as many sites as this has numbers."""

_MAKERS: Mapping[SiteKind, Callable[[int], Site]] = {
    "university": university_site,
    "company": company_site,
    "documentation": documentation_site,
    "shop": shop_site,
}


@cache
def site(kind: SiteKind, number: int) -> Site:
    """The site of that kind and number. Raises ConfigError for a number that there is not."""
    if number not in NUMBERS:
        raise ConfigError(f"there is no {kind} {number!r}; take one of 0 to {NUMBERS[-1]}", code="unknown_site")
    return _MAKERS[kind](number)


def all_sites() -> tuple[Site, ...]:
    """Every site, kind by kind."""
    return tuple(site(kind, number) for kind in KINDS for number in NUMBERS)
