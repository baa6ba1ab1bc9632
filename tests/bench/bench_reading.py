"""Reading of long pages: healthy pages called hung by many walks at once, and phrases of a page that `find` finds.

Each phrase is six consecutive words of `document.body.innerText`, at a random place of a random page. With a folder,
its HTML pages are measured, such as /usr/share/doc/git/html; else generated pages of 250,000 characters.

    just bench reading [--folder FOLDER] [--walks 16] [--pages 5] [--phrases 400]
"""

import argparse
import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from agentlearn_web.browser.pool import BrowserOptions, Browsers, open_browsers
from agentlearn_web.observation import PageObservation
from tests.bench.found import Found, Row, Target
from tests.support.walking import NONCE, Pages, Site, served

LEAST_FOUND = 0.98
PHRASE_WORDS = 6
GENERATED_CHARS = 250_000
MOST_BYTES = 5_000_000


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--folder", type=Path, default=None, help="folder of HTML pages; default: generated pages")
    parser.add_argument("--walks", type=int, default=16, help="walks at once")
    parser.add_argument("--pages", type=int, default=5, help="pages that each walk opens")
    parser.add_argument("--phrases", type=int, default=400, help="phrases to look for; 0 skips them")
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice of pages and phrases")


def measure(chosen: argparse.Namespace) -> Found:
    """Measure both."""
    pages = folder_pages(chosen.folder) if chosen.folder else generated_pages()
    return asyncio.run(_measure(pages, chosen.walks, chosen.pages, chosen.phrases, chosen.seed))


def folder_pages(folder: Path) -> Pages:
    """Return the HTML pages of a folder by path, those over 5 MB left out."""
    files = sorted(one for one in folder.rglob("*.html") if one.stat().st_size <= MOST_BYTES)
    return {f"/{one.relative_to(folder)}": one.read_text("utf-8", "replace") for one in files}


def generated_pages() -> Pages:
    """Return eight pages of 250,000 characters with headings, paragraphs, code, tables and links."""
    return {f"/{number}.html": _generated(number) for number in range(8)}


def _generated(number: int) -> str:
    chosen = random.Random(number)
    parts, size = [f"<!doctype html><title>Page {number}</title><h1>Page {number}</h1>"], 0
    while size < GENERATED_CHARS:
        words = [f"{chosen.choice('bcdfgklmnprst')}{chosen.choice('aeiou')}{chosen.randrange(1000)}" for _ in range(60)]
        link = f"<a href='/{number}.html'>{' '.join(words[21:24])}</a>"
        cells = f"<tr><td>{words[46]}<td>{' '.join(words[47:50])}<tr><td>{words[50]}<td>{' '.join(words[51:])}"
        part = (
            f"<h2>{' '.join(words[:4])}</h2>"
            f"<p>{' '.join(words[4:20])} <code>{words[20]}</code>, {link} {' '.join(words[24:40])}.</p>"
            f"<pre>{words[40]}\n  {' '.join(words[41:46])}\n</pre><table>{cells}</table>"
        )
        parts.append(part)
        size += len(part)
    return "".join(parts)


async def _measure(pages: Pages, walks: int, each: int, phrases: int, seed: int) -> Found:
    rows, targets, notes = list[Row](), list[Target](), list[str]()
    with served(pages) as site:
        async with open_browsers(BrowserOptions(walkers=walks)) as browsers:
            if walks:
                row, hung, statuses = await _load(browsers, site, sorted(pages), walks, each, seed)
                rows.append(row)
                notes.append(f"statuses: {statuses}")
                targets.append(Target(what="healthy pages that were not shown", figure=hung, bound="at_most", limit=0))
            if phrases:
                missed = await missed_phrases(browsers, site, sorted(pages), phrases, seed)
                share = 1 - len(missed) / phrases
                rows.append(Row(name=f"{phrases} phrases", figures={"found": share}))
                targets.append(Target(what="phrases found", figure=share, bound="at_least", limit=LEAST_FOUND))
                notes += [f"not found: {one}" for one in missed[:20]]
    return Found(rows=tuple(rows), targets=tuple(targets), notes=tuple(notes))


async def _load(
    browsers: Browsers, site: Site, paths: Sequence[str], walks: int, each: int, seed: int
) -> tuple[Row, int, dict[str, int]]:
    chosen = random.Random(seed)
    plans = [[chosen.choice(paths) for _ in range(each)] for _ in range(walks)]
    took: list[float] = []

    async def one(plan: Sequence[str]) -> list[PageObservation]:
        seen: list[PageObservation] = []
        async with browsers.walk(site.policy, nonce=NONCE) as walk:
            for path in plan:
                began = time.perf_counter()
                seen.append(await walk.open(f"http://site.test{path}"))
                took.append(time.perf_counter() - began)
        return seen

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one(plan)) for plan in plans]
    seen = [view for task in running for view in task.result()]
    wall_s = time.perf_counter() - began
    plain = sum("without refs" in event.reason for view in seen for event in view.events)
    statuses = Counter(view.status for view in seen)
    bad = len(seen) - statuses["ok"]
    figures = {
        "pages": len(seen),
        "hung": statuses["hung"],
        "not_ok": bad,
        "plain_text": plain,
        "step_p50_s": median(took),
        "step_most_s": max(took),
        "steps_per_s": len(seen) / wall_s,
    }
    return Row(name=f"{walks} walks at once, {len(paths)} pages", figures=figures), bad, dict(statuses)


async def missed_phrases(browsers: Browsers, site: Site, paths: Sequence[str], count: int, seed: int) -> list[str]:
    """Return those of `count` random phrases that `find` does not show, each with its page."""
    chosen, missed = random.Random(seed), list[str]()
    plan = Counter(chosen.choice(paths) for _ in range(count))
    async with browsers.walk(site.policy, nonce=NONCE) as walk:
        for path, number in plan.items():
            await walk.open(f"http://site.test{path}")
            words = str(await walk.page.evaluate("document.body.innerText")).split()
            for _ in range(number):
                at = chosen.randrange(max(len(words) - PHRASE_WORDS, 0) + 1)
                phrase = " ".join(words[at : at + PHRASE_WORDS])
                found = await walk.find(phrase)
                if found.status != "ok" or not found.lines:
                    missed.append(f"{path}: {phrase}")
    return missed
