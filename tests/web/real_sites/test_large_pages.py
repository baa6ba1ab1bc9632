"""Real pages at the default number of walks: none is called hung, and `find` finds what stands on them."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator

import pytest

from agentlearn_web.browser.walk import Walk
from tests.web.real_sites.real_walks import WALKERS, RealWalks, real_walks
from tests.web.real_sites.site_files import REAL_SITES, sites_root
from tests.web.real_sites.site_pages import large_page_urls, random_page_urls, random_phrases

pytestmark = REAL_SITES

PAGES_A_WALK = 2
PHRASES = 200
PHRASE_WORDS = 6
PHRASES_A_PAGE = 5
LEAST_FOUND = 0.98
SEED = 20


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


def test_random_phrases_are_found_and_others_are_not(walks: RealWalks) -> None:
    rng = random.Random(SEED)
    tried, missed, invented, not_shown = 0, list[tuple[str, str]](), list[tuple[str, str]](), list[tuple[str, str]]()

    async def search(walk: Walk) -> None:
        nonlocal tried
        for url in random_page_urls(sites_root(), rng):
            status = (await walk.open(url)).status
            not_shown.extend([(url, status)] if status != "ok" else [])
            text = await walk.page.evaluate("document.body ? document.body.innerText : ''")
            for phrase in random_phrases(text, PHRASE_WORDS, min(PHRASES_A_PAGE, PHRASES - tried), rng):
                tried += 1
                found = await walk.find(phrase)
                missed.extend([(url, phrase)] if found.status != "ok" else [])
                mixed = " ".join(reversed(phrase.split()))
                if mixed not in " ".join(text.split()) and (await walk.find(mixed)).status == "ok":
                    invented.append((url, mixed))
            if tried >= PHRASES:
                return

    walks.run(search)
    share = 1 - len(missed) / tried
    print(f"found {share:.1%} of {tried} random phrases of {PHRASE_WORDS} words; not found: {missed[:30]}")
    assert not not_shown
    assert not invented
    assert share >= LEAST_FOUND, missed
