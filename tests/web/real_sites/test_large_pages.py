"""Real pages at the default number of walks: none is called hung, and `find` finds what stands on them."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator

import pytest

from agentlearn_web.browser.walk import Walk
from tests.web.real_sites.real_walks import WALKERS, RealWalks, real_walks
from tests.web.real_sites.site_files import REAL_SITES, sites_root
from tests.web.real_sites.site_pages import large_page_urls

pytestmark = REAL_SITES

PAGES_A_WALK = 3


@pytest.fixture(scope="module")
def walks() -> Iterator[RealWalks]:
    with real_walks() as one:
        yield one


def test_no_large_page_is_called_hung_at_sixteen_walks(walks: RealWalks) -> None:
    urls = large_page_urls(sites_root(), WALKERS * PAGES_A_WALK)

    def walk_over(mine: list[str]) -> Callable[[Walk], Awaitable[list[tuple[str, str]]]]:
        async def steps(walk: Walk) -> list[tuple[str, str]]:
            return [(url, (await walk.open(url)).status) for url in mine]

        return steps

    seen = [one for shown in walks.run_at_once([walk_over(urls[n::WALKERS]) for n in range(WALKERS)]) for one in shown]
    print(f"statuses of {len(seen)} large pages at {WALKERS} walks: {dict(Counter(status for _, status in seen))}")
    assert not [one for one in seen if one[1] != "ok"]
