"""How the simulated solver reads pages and walks: each family has a script, which is replayed to get the next step.

A script is a generator: it yields the next step and receives the page to which the step led. It depends only on the
pages seen, not on the traps that the solver fell into.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from random import Random
from typing import TypeVar

from agentlearn_demo.sim.skills import Act, FollowedLessons, ToolExchange, ToolUse, Turn
from agentlearn_demo.web.traps import FOOTER, FORM, TRAPS
from agentlearn_web.observation import ElementLine, ParsedObservation, parse_observation

T = TypeVar("T")
MAX_TURNS = 8
NOT_FOUND = "not found"

ToolChoice = Callable[[frozenset[str]], ToolUse]
"""Returns the act, given the traps that the solver falls into."""

_cached_parse = lru_cache(maxsize=1_024)(parse_observation)
"""Cached, because each turn of a walk parses all earlier results again."""

_TRAPS = {trap.name: trap for trap in TRAPS}


class _NotOnPage(Exception):
    """Raised when a page does not contain what the walk needs."""


@dataclass(frozen=True, slots=True)
class PageView:
    """The parts of one page that the solver has seen so far."""

    url: str
    lines: tuple[ElementLine, ...]
    page: int = 1
    pages: int = 1
    """Number of pages of the snapshot."""

    @property
    def has_more(self) -> bool:
        """Whether the snapshot has further pages."""
        return self.page < self.pages

    def updated(self, seen: ParsedObservation) -> "PageView":
        """Return the view after another observation: more of the same page, or a new page."""
        if seen.url == self.url and seen.page == self.page + 1:
            return replace(self, lines=self.lines + seen.lines, page=seen.page)
        return PageView(seen.url, seen.lines, seen.page, seen.pages)

    def links(self, prefix: str = "") -> list[ElementLine]:
        """Return the clickable links whose names start with `prefix`, in order."""
        return [line for line in self.lines if line.role == "link" and line.ref and line.name.startswith(prefix)]

    def link(self, name: str) -> ElementLine:
        """Return the first link with exactly that name. Raises _NotOnPage."""
        return require(next((line for line in self.links() if line.name == name), None))

    def first_link(self, prefix: str) -> ElementLine:
        """Return the first link whose name starts with `prefix`. Raises _NotOnPage."""
        return require(next(iter(self.links(prefix)), None))

    def link_about(self, word: str) -> ElementLine:
        """Return the first link whose name contains the word but is not equal to it. Raises _NotOnPage."""
        names = ((line, line.name.casefold()) for line in self.links())
        return require(next((line for line, name in names if word in name and name != word), None))

    def control(self, role: str, name: str) -> ElementLine:
        """Return the button or field with that name. Raises _NotOnPage."""
        named = (line for line in self.lines if line.role == role and line.name == name and line.ref)
        return require(next(named, None))

    def search_box(self) -> ElementLine:
        """Return the search box. Raises _NotOnPage."""
        return require(next((line for line in self.lines if line.role == "searchbox" and line.ref), None))

    def is_result(self) -> bool:
        """Return whether this is a page of search results."""
        return any(line.role == "heading" and line.name == "Search results" for line in self.lines)

    def text_after(self, link: ElementLine) -> str:
        """Return the words between a link and the next link."""
        after = takewhile(lambda line: line.role != "link", self.lines[self.lines.index(link) + 1 :])
        return " ".join(filter(None, (line.text or line.name for line in after)))

    def texts(self) -> Iterator[str]:
        """Yield the words of each line."""
        return filter(None, (line.text or line.name for line in self.lines))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows of all tables as tuples of cells."""
        for at, line in enumerate(self.lines):
            if line.role == "row":
                yield tuple(_cells(_descendants(self.lines, at)))

    def row(self, first: str) -> tuple[str, ...] | None:
        """Return the first row of at least two cells that starts with that cell; None if there is none."""
        return next((row for row in self.rows() if len(row) > 1 and row[0] == first), None)

    def field(self, name: str) -> str:
        """Return the value next to that name in a table of names and values. Raises _NotOnPage."""
        return require(self.row(name))[1]


def require(thing: T | None) -> T:
    """Return the thing. Raises _NotOnPage if it is None."""
    if thing is None:
        raise _NotOnPage
    return thing


def _descendants(lines: Sequence[ElementLine], at: int) -> list[ElementLine]:
    return list(takewhile(lambda line: line.depth > lines[at].depth, lines[at + 1 :]))


def _cells(inside: Sequence[ElementLine]) -> Iterator[str]:
    top = min((line.depth for line in inside), default=0)
    for at, line in enumerate(inside):
        if line.depth == top:
            nested = (one.name or one.text for one in _descendants(inside, at))
            yield line.name or line.text or " ".join(filter(None, nested))


@dataclass(frozen=True, slots=True)
class WalkStep:
    """The next step of a walk: the act to choose, and the traps that can change it."""

    choose: ToolChoice
    traps: tuple[str, ...] = ()


WalkSteps = Generator[WalkStep, PageView, T]
PageScript = Callable[[PageView], WalkSteps[None]]
"""A script for one question: starts at the first page and ends with an answer."""


def turn_of(family: str, step: WalkStep) -> Turn:
    """Return the turn that makes a step, with a sentence that explains it.

    A careful decision names the lesson that it follows.
    """

    def act(flaws: frozenset[str], followed: FollowedLessons, rng: Random) -> Act:
        chosen, notes = step.choose(flaws), list[str]()
        for trap in step.traps:
            phrase = rng.choice(_TRAPS[trap].careless if trap in flaws else _TRAPS[trap].careful)
            label = "" if trap in flaws else followed.labels.get(trap, "")
            notes.append(f"{phrase[0].upper()}{phrase[1:]}{f' ({label})' if label else ''}.")
        return ToolUse(chosen.tool, chosen.arguments, text=" ".join(notes) or rng.choice(_SENTENCES[chosen.tool]))

    return Turn(family, step.traps, act)


def next_step(script: PageScript, start: str, turns: tuple[ToolExchange, ...]) -> WalkStep:
    """Return the step after these turns. A script that fails starts again once; after that the solver gives up."""
    first = fixed_step(ToolUse("open", {"url": start}))
    step, walk, view, lost = first, None, PageView("", ()), 0
    for turn in turns:
        seen = _cached_parse(turn.result)
        view = view.updated(seen)
        try:
            if seen.status != "ok" or not seen.lines:
                raise _NotOnPage  # noqa: TRY301  as where the script finds no page that it knows
            if walk is None:
                walk = script(view)
                step = next(walk)
            else:
                step = walk.send(view)
        except (_NotOnPage, StopIteration):
            walk, step, lost = None, first, lost + 1
    ends = step.choose(frozenset()).tool == "answer"
    return step if ends or (lost < 2 and len(turns) < MAX_TURNS - 1) else fixed_step(give_answer(view, NOT_FOUND))


def click_on(line: ElementLine) -> ToolUse:
    """Return the act that clicks an element."""
    return ToolUse("click", {"ref": line.ref})


def search_for(view: PageView, words: str) -> ToolUse:
    """Return the act that searches the site."""
    return ToolUse("type", {"ref": view.search_box().ref, "text": words, "submit": True})


def give_answer(view: PageView, value: str) -> ToolUse:
    """Return the act that ends the walk with an answer."""
    return ToolUse("answer", {"answer": value, "url": view.url})


def fixed_step(act: ToolUse) -> WalkStep:
    """Return a step without a trap."""
    return WalkStep(lambda _: act)


def trap_step(trap: str, *, careful: ToolUse, careless: ToolUse) -> WalkStep:
    """Return a step with one trap."""
    return WalkStep(lambda flaws: careless if trap in flaws else careful, (trap,))


def read_on(
    view: PageView, found: Callable[[PageView], bool], careless: Callable[[PageView], ToolUse]
) -> WalkSteps[PageView]:
    """Read a long page until `found`, and return that view. Raises _NotOnPage at its end.

    careless: the act of a solver that stops at its first part.
    """
    trap, more = (FOOTER,), ToolUse("more", {})
    while not found(view):
        if not view.has_more:
            raise _NotOnPage
        stop = careless(view)
        view = yield WalkStep(lambda flaws, stop=stop: stop if flaws else more, trap)
        trap = ()
    return view


def fill_form(view: PageView, choices: Mapping[str, str], button: str) -> WalkSteps[PageView]:
    """Choose the options of a form, press its button, and return the resulting view.

    A careless solver presses the button at once. choices: option to choose, by the label of its list.
    """
    trap = (FORM,)
    for label, value in choices.items():
        chosen = ToolUse("type", {"ref": view.control("combobox", label).ref, "text": value})
        press = click_on(view.control("button", button))
        view = yield WalkStep(lambda flaws, act=chosen, press=press: press if flaws else act, trap)
        trap = ()
        if not any(line.role == "button" and line.name == button for line in view.lines):
            return view
    return (yield fixed_step(click_on(view.control("button", button))))


_SENTENCES = {
    "open": ("I begin at the start page.", "Let me open the start page."),
    "click": ("This leads on.", "I follow this link.", "Here it should go on."),
    "type": ("I enter the words.", "Let me type that in."),
    "more": ("There is more to see.", "I look further down."),
    "answer": ("That settles it.", "This is what the page says.", "Here it stands."),
}
