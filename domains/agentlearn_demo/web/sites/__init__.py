"""Generated sites for walks: twelve universities, companies, documentations and shops each.

A site depends only on its kind and number, never on a run's seed.
"""

from collections.abc import Callable, Mapping
from functools import cache

from agentlearn.errors import ConfigError
from agentlearn_demo.web.sites.company import company_site
from agentlearn_demo.web.sites.documentation import documentation_site
from agentlearn_demo.web.sites.shop import shop_site
from agentlearn_demo.web.sites.site import KINDS, Site, SiteKind
from agentlearn_demo.web.sites.university import university_site

NUMBERS = range(12)
"""Numbers of the sites of each kind."""

_MAKERS: Mapping[SiteKind, Callable[[int], Site]] = {
    "university": university_site,
    "company": company_site,
    "documentation": documentation_site,
    "shop": shop_site,
}


@cache
def site(kind: SiteKind, number: int) -> Site:
    """Return the site of that kind and number. Raises ConfigError for a number outside `NUMBERS`."""
    if number not in NUMBERS:
        raise ConfigError(f"there is no {kind} {number!r}; take one of 0 to {NUMBERS[-1]}", code="unknown_site")
    return _MAKERS[kind](number)


def all_sites() -> tuple[Site, ...]:
    """Return every site, kind by kind."""
    return tuple(site(kind, number) for kind in KINDS for number in NUMBERS)
