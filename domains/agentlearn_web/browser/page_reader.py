"""Acts that only read the page of the current tab: finding a text, showing another part, waiting.

Line breaks (`<br>`) in a block count as spaces. A match is shown with the heading above it, the text before and after
it, and the elements in it that can be acted on.
"""

import asyncio
import json
import re
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, islice

from agentlearn_web.browser.acts.pointer import ActScope
from agentlearn_web.browser.shown_snapshot import PagedLine, ShownSnapshot
from agentlearn_web.browser.walk_settings import ActResult, browser_error, plural
from agentlearn_web.observation import CONTEXT, NOT_VISIBLE, ElementLine, PageObservation, format_line
from agentlearn_web.reading.page_text import PageText, TextBlock, dense
from agentlearn_web.reading.worker import BAD_INPUT, WorkerFailed, run_worker

_CONTEXT_CHARS = 200
"""Characters shown before and after a match in a long text, and of a neighbouring text."""
_MOST_SPANS = 500
"""Most matches that are looked at."""
_MOST_REFS = 5
"""Most elements that are shown for one match."""
_MOST_PATTERN_CHARS = 500
PATTERN_S = 60.0
"""Longest time for a pattern on a busy machine. Its processor time is limited to 3 s."""


class BadPattern(Exception):
    """Raised for a regular expression that cannot be used; says why in a sentence."""


_TextMatch = tuple[PagedLine, ...]
"""One match, as it is shown: the matching lines and, with the mark `context`, the lines around them."""

_APART = "\x1e"
"""Stands between blocks of text, so that no match holds words of two."""
_KEPT_TOGETHER = "\xa0"
"""Stands for spaces that no line is broken at, such as those in `1 220`."""
_SPACES = re.compile(r"\s+")
_KEEPING_SPACES = re.compile("[\u00a0\u2007\u2009\u202f]+")
_NO_WIDTH = "\u200b\u00ad\ufeff"
_NUMBER_PART = re.compile(r"[\d.,:/-]")


@dataclass(frozen=True)
class _Words:
    """The words of a page with single spaces, block after block."""

    blocks: Sequence[TextBlock]
    only_seen: bool = False
    """Whether a zero character stands for each one that a person cannot see."""

    @cached_property
    def texts(self) -> Sequence[str]:
        """The words of each block."""
        return tuple(map(self._spaced, self.blocks))

    @cached_property
    def starts(self) -> Sequence[int]:
        """Where the words of each block start in `joined`."""
        return tuple(accumulate((len(text) + 1 for text in self.texts), initial=0))

    @cached_property
    def joined(self) -> str:
        """All words, a line break before each block that follows one in the same element."""
        between = ("\n" if block.joined else _APART for block in self.blocks[1:])
        return "".join(chain(self.texts[:1], *zip(between, self.texts[1:], strict=True)))

    def spans(self, query: str) -> Iterator[tuple[int, int]]:
        """Yield where a text stands, or else where one stands that differs from it in spacing only.

        A space that stands between the parts of two numbers is never left out.
        """
        words = _folded(" ".join(query.split()))
        if not words:
            return
        haystack = _folded(self.joined)
        exact = re.finditer(r"[ \n\xa0]".join(map(re.escape, words.split())), haystack)
        if (first := next(exact, None)) is not None:
            yield from (one.span() for one in chain([first], exact))
            return
        yield from (one.span() for one in re.finditer(_respaced(words), haystack))

    def _spaced(self, block: TextBlock) -> str:
        hides = self.only_seen
        text = "".join("\0" * len(run.text) if run.hidden and hides else run.written for run in block.runs)
        return _SPACES.sub(lambda found: _KEPT_TOGETHER if _KEEPING_SPACES.fullmatch(found[0]) else " ", text.strip())

    def block_at(self, position: int) -> int:
        """Return the number of the block at a position in `joined`."""
        return min(bisect_right(self.starts, position) - 1, len(self.texts) - 1)


def find_text(shown: ShownSnapshot, text: str) -> Iterator[_TextMatch]:
    """Yield the matches of a text. Case and spacing do not matter. Names and addresses of elements are searched too."""
    query = _folded(" ".join(text.split()))
    if not query:
        return
    finder = _Finder(shown)
    yield from finder.matches(list(islice(finder.words.spans(query), _MOST_SPANS)), query)


async def find_pattern(shown: ShownSnapshot, pattern: str) -> Sequence[_TextMatch]:
    """Return the matches of a regular expression in the text of the page, case ignored. Raises BadPattern.

    Every block of text is one line for `^` and `$`. The search runs in a process of its own, because both the pattern
    and the page can be made to take for ever.
    """
    if not pattern or len(pattern) > _MOST_PATTERN_CHARS:
        raise BadPattern(f"a pattern has 1 to {_MOST_PATTERN_CHARS} characters; this one has {len(pattern)}")
    finder = _Finder(shown)
    given = {"pattern": pattern, "text": finder.words.joined.replace(_APART, "\n"), "most": _MOST_SPANS}
    try:
        written = await run_worker("pattern", json.dumps(given).encode(), PATTERN_S)
    except WorkerFailed as failed:
        if failed.status == BAD_INPUT:
            raise BadPattern(f"{pattern!r} is no regular expression; correct it, or look for plain words") from None
        raise BadPattern(f"{pattern!r} takes too long on this page; make it simpler, or look for plain words") from None
    return tuple(finder.matches((begin, end) for begin, end in json.loads(written)))


def holds_text(page: PageText, text: str) -> bool:
    """Return whether a person can read a text in one block of a page. Case and spacing do not matter."""
    return next(_Words(page.blocks, only_seen=True).spans(text), None) is not None


def _folded(text: str) -> str:
    """Return the text in lower case, every character in its place."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(one if len(one.lower()) != 1 else one.lower() for one in text)


def _respaced(words: str) -> str:
    """Return a pattern of words that may be spaced in another way."""
    made, before, spaced = list[str](), "", False
    for one in words:
        if one == " " or one in _NO_WIDTH:
            spaced = spaced or one == " "
            continue
        if before:
            in_number = _NUMBER_PART.match(before) and _NUMBER_PART.match(one)
            allowed = " \n\xa0" if spaced else "\xa0" if in_number else " \xa0"
            made.append(f"[{allowed}{_NO_WIDTH}]*")
        made.append(re.escape(one))
        before, spaced = one, False
    return "".join(made)


class _Finder:
    """Finds the matches in a shown page, and lines by their place in its text."""

    def __init__(self, shown: ShownSnapshot) -> None:
        self.shown, self.words = shown, _Words(shown.text.blocks)
        placed = sorted((one.begin, at) for at, one in enumerate(shown.placed) if one.is_placed)
        self._begins = [begin for begin, _ in placed]
        self._numbers = [at for _, at in placed]

    def matches(self, spans: Iterable[tuple[int, int]], query: str = "") -> Iterator[_TextMatch]:
        """Yield what is shown of the matches, each block once. query: is also looked for beside the text."""
        seen, last = set[int](), -1
        for begin, end in spans:
            first, final = self.words.block_at(begin), self.words.block_at(end - 1)
            if final <= last:
                continue  # the block has been shown
            match = self._match((begin, end), range(max(first, last + 1), final + 1), seen)
            last = final
            yield match
        for number, one in enumerate(self.shown.placed if query else ()):
            # Addresses, and words that are not in the text; all names where nothing was found, because an element such
            # as a link can hold several blocks of text.
            named = (one.line.name, one.line.text) if not seen or not one.is_placed else ()
            holds = any(query in _folded(" ".join(text.split())) for text in (*named, one.line.url))
            if number not in seen and holds:
                yield ((self.shown.page_numbers[number], _excerpt_of(one.line, query)),)

    def _match(self, span: tuple[int, int], blocks: range, seen: set[int]) -> _TextMatch:
        """Return a match in these blocks, with the lines around it. seen: gets the numbers of the lines it shows."""
        shown, words, page = self.shown, self.words, self.shown.text
        first, after = blocks[0], blocks[-1] + 1
        text, offset = " ".join(words.texts[at] for at in blocks), words.starts[first]
        excerpt = _around(text, max(span[0] - offset, 0), min(span[1] - offset, len(text)))
        inside = self._lines_in(page.dense_starts[first], page.dense_starts[after])
        lines: list[PagedLine] = []
        heading = next((at for at in range(first - 1, -1, -1) if page.blocks[at].heading), None)
        if heading is not None and not any(page.blocks[at].heading for at in blocks):
            name, marks = _cut(words.texts[heading]), _context(page.blocks[heading])
            lines.append((self._page_at(heading), ElementLine(role="heading", name=name, marks=marks)))
        if first and heading != first - 1:
            lines.append(self._neighbour(first - 1))
        whole = [at for at in inside if dense(shown.lines[at].text or shown.lines[at].name) == dense(text)]
        if whole:
            line = shown.lines[whole[-1]]
            excerpted = line.model_copy(update={"text" if line.text else "name": excerpt})
            lines.append((shown.page_numbers[whole[-1]], excerpted))
        else:
            marks = (NOT_VISIBLE,) if all(page.blocks[at].hidden for at in blocks) else ()
            lines.append((self._page_at(first), ElementLine(role="text", marks=marks, text=excerpt)))
        with_refs = [at for at in inside if shown.lines[at].ref and at not in whole[-1:]]
        seen.update(inside)
        around = {at: said for at, said in self._nameless_around(inside) if at not in with_refs}
        for at in sorted((*with_refs, *around))[:_MOST_REFS]:
            line = shown.lines[at]
            named = line.model_copy(update={"name": _cut(around[at])}) if at in around else _excerpt_of(line, "")
            lines.append((shown.page_numbers[at], named))
        if after < len(page.blocks):
            lines.append(self._neighbour(after))
        return tuple((page, line.model_copy(update={"depth": 0})) for page, line in lines)

    def _lines_in(self, begin: int, end: int) -> list[int]:
        """Return the numbers of the lines that begin between two positions, in order."""
        return sorted(self._numbers[bisect_right(self._begins, begin - 1) : bisect_right(self._begins, end - 1)])

    def _nameless_around(self, inside: Iterable[int]) -> Iterator[tuple[int, str]]:
        """Yield the elements with a ref and without a name right above lines without a ref, and the words of the line.

        The browser gives no name to a link or button whose words are all in elements of their own, such as code.
        """
        lines = self.shown.lines
        for at in inside:
            above = next((up for up in range(at - 1, -1, -1) if lines[up].depth < lines[at].depth), None)
            if above is not None and not lines[at].ref and lines[above].ref and not lines[above].words:
                yield above, lines[at].words

    def _neighbour(self, number: int) -> PagedLine:
        """Return a block of text beside a match, and its page."""
        block = self.shown.text.blocks[number]
        return self._page_at(number), ElementLine(role="text", marks=_context(block), text=_cut(block.words))

    def _page_at(self, number: int) -> int:
        """Return the page that shows a block of text."""
        at = bisect_right(self._begins, self.shown.text.dense_starts[number]) - 1
        return self.shown.page_numbers[self._numbers[at]] if at >= 0 else 1


def _context(block: TextBlock) -> tuple[str, ...]:
    return (CONTEXT, NOT_VISIBLE) if block.hidden else (CONTEXT,)


def _cut(text: str) -> str:
    return text if len(text) <= _CONTEXT_CHARS else f"{text[:_CONTEXT_CHARS]}…"


def _excerpt_of(line: ElementLine, query: str) -> ElementLine:
    def cut(text: str) -> str:
        at = max(_folded(text).find(query), 0) if query else 0
        return _around(text, at, at + len(query))

    return line.model_copy(update={"name": cut(line.name), "text": cut(line.text)})


def _around(text: str, begin: int, end: int) -> str:
    """Return a text, if it is long only the part around a match."""
    first, last = max(begin - _CONTEXT_CHARS, 0), min(end, begin + 2 * _CONTEXT_CHARS) + _CONTEXT_CHARS
    if len(text) <= 2 * _CONTEXT_CHARS + (end - begin):
        return text
    return f"{'…' if first else ''}{text[first:last]}{'…' if last < len(text) else ''}"


_POLL_S = 0.2


_WAIT_S = 10.0
_MOST_WAIT_S = 30.0


class PageReader:
    """Reads the page of the current tab, again if it has changed.

    Its methods raise PageHung and Playwright's errors.
    """

    def __init__(
        self,
        scope: ActScope,
        refresh: Callable[[ActResult], Awaitable[ActResult]],
        observe: Callable[..., PageObservation],
    ) -> None:
        """refresh: takes a fresh snapshot of the current tab. observe: shows a part of it, or the lines found in it."""
        self._scope = scope
        self._refresh = refresh
        self._observe = observe

    async def _current_snapshot(self) -> ShownSnapshot:
        """Return the shown snapshot, or a fresh one if the page has changed since. Raises PageHung."""
        tab = self._scope.tab
        shown = tab.shown
        if shown is None or await tab.has_changed(shown):
            await self._scope.tabs.tidy()
            await self._refresh(ActResult())
        return self._scope.tab.shown or ShownSnapshot(self._scope.tab.watch.document)

    async def find(self, text: str, *, regex: bool) -> PageObservation:
        """Show where the page holds a text, or matches a regular expression, with the text around each match."""
        shown = await self._current_snapshot()
        try:
            found = await find_pattern(shown, text) if regex else tuple(find_text(shown, text))
        except BadPattern as error:
            found, result = (), ActResult("bad_pattern", str(error))
        else:
            result = ActResult() if found else ActResult("not_found", "the page does not hold this text")
        kept, used, settings = list[_TextMatch](), 0, self._scope.settings
        for match in found:  # as many as fit into one view, at least one
            used += sum(len(format_line(line)) + 1 for _, line in match)
            if len(kept) == settings.found_matches or (kept and used > settings.page_chars):
                break
            kept.append(match)
        if len(found) > len(kept):
            more = plural(len(found) - len(kept), "more place")
            self._scope.events.add("truncated", f"{more} of the page held it; look for something longer")
        return self._observe(result, tuple(chain.from_iterable(kept)))

    async def more(self, page: int | None) -> PageObservation:
        """Show another part of the page, by default the next one."""
        shown = await self._current_snapshot()
        tab = self._scope.tab
        wanted = tab.page_number + 1 if page is None else page
        if not 1 <= wanted <= len(shown.pages):
            note = f"there is no page {wanted}; the snapshot has {plural(len(shown.pages), 'page')}"
            return self._observe(ActResult("no_more", note))
        tab.page_number = wanted
        return self._observe(ActResult())

    async def wait(self, text: str | None, seconds: float | None) -> PageObservation:
        """Wait until the page holds a text, and show it; or until the seconds have passed."""
        limit_s = _WAIT_S if seconds is None else seconds
        if not 0 <= limit_s <= _MOST_WAIT_S:
            note = f"{seconds!r} seconds cannot be waited; give a number from 0 to {_MOST_WAIT_S:g}"
            return self._observe(await self._refresh(ActResult("bad_wait", note, acted=False)))
        found = await self._wait_for_text(text or "", limit_s)
        await self._scope.tabs.tidy()
        late = ActResult("not_found", f"the text did not appear within {limit_s:g} s")
        result = await self._refresh(ActResult() if found or not text else late)
        tab = self._scope.tab
        if text and result.status == "ok" and tab.shown is not None:
            match = next(find_text(tab.shown, text), ())
            tab.page_number = next((page for page, line in match if CONTEXT not in line.marks), tab.page_number)
        return self._observe(result)

    async def _wait_for_text(self, text: str, limit_s: float) -> bool:
        """Return whether the page held the text within `limit_s`; without a text, wait that long. Raises PageHung.

        The text must be one that a person can see.
        """
        tab = self._scope.tab
        until, read_at = time.monotonic() + limit_s, (-1, -1)
        while True:
            await tab.watch.require_alive()
            if text and await tab.watch.has_changed(*read_at):
                read_at, page = (tab.watch.document, tab.watch.changes), None
                with suppress(TimeoutError, browser_error()):
                    async with tab.watch.link.turns:
                        page = await tab.watch.read_text()
                if page is not None and holds_text(page, text):
                    return True
                if page is None or page.partial:
                    read_at = (-1, -1)
            left_s = until - time.monotonic()
            if left_s <= 0 or tab.page.is_closed():
                return False
            await asyncio.sleep(min(_POLL_S, left_s))
