"""Pages of the real documentation sites: a random choice of them, and the largest ones."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

from tests.web.real_sites.site_files import SITES

DOCUMENTATION = ("python.test", "postgresql.test", "git.test", "policy.test", "eigen.test", "gnu.test")
_BREAK = re.compile(r"[\n\t]")


def page_urls(root: Path, host: str) -> list[str]:
    """Return the addresses of all HTML pages of a site, sorted."""
    return sorted(url for _, url in _pages(root, host))


def large_page_urls(root: Path, number: int) -> list[str]:
    """Return the addresses of the largest pages of all documentation sites, the largest first."""
    pages = sorted((page for host in DOCUMENTATION for page in _pages(root, host)), reverse=True)
    return [url for _, url in pages[:number]]


def random_page_urls(root: Path, rng: random.Random) -> Iterator[str]:
    """Yield the pages of all documentation sites in random order. Each site has the same chance to be the next."""
    left = {host: page_urls(root, host) for host in DOCUMENTATION}
    while hosts := [host for host in DOCUMENTATION if left[host]]:
        pages = left[rng.choice(hosts)]
        yield pages.pop(rng.randrange(len(pages)))


def random_phrases(text: str, words: int, number: int, rng: random.Random) -> list[str]:
    """Return random phrases of a page's `innerText`, fewer if it has fewer. A phrase stays in one line and one cell."""
    lines = [line.split() for line in _BREAK.split(text)]
    starts = [(line, at) for line in lines for at in range(len(line) - words + 1)]
    return [" ".join(line[at : at + words]) for line, at in rng.sample(starts, min(number, len(starts)))]


def _pages(root: Path, host: str) -> Iterator[tuple[int, str]]:
    """Yield size in bytes and address of each page."""
    for prefix, name in SITES[host].items():
        folder = root / name
        for file in folder.rglob("*.html"):
            if file.is_file():
                yield file.stat().st_size, f"http://{host}{prefix}{file.relative_to(folder).as_posix()}"
