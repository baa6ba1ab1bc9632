"""The web skills of the simulated solver: it reads the question and the pages that it is shown, and walks.

It has no access to answers or sites: it finds links by their names and reads values from the pages. Each family of
questions has a script that acts on real pages, with the traps on the way. A script is a generator: it yields the next
step and receives the page to which the step led. It depends only on the pages seen, not on the traps that the solver
fell into, and is replayed to get the next step.
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import takewhile
from random import Random
from typing import TypeVar

from agentlearn_demo.sim.skills import (
    Act,
    Conversation,
    FollowedLessons,
    Situation,
    ToolExchange,
    ToolUse,
    Trap,
    Turn,
    traps_in,
)
from agentlearn_demo.web.questions import TEMPLATES, TemplateParams
from agentlearn_web.observation import ElementLine, ParsedObservation, parse_observation

FIRST = "first_link_taken"
FOOTER = "stopped_at_footer"
SEARCH = "search_unused"
ARCHIVE = "wrong_year_opened"
SNIPPET = "snippet_trusted"
DUPLICATE = "near_duplicate_taken"
FORM = "form_left_at_defaults"

TRAPS = traps_in("agentlearn_demo.web")
"""All traps of the domain, in a fixed order."""


T = TypeVar("T")
MAX_TURNS = 8
NOT_FOUND = "not found"
_START = re.compile(r"^Start page: (\S+)$", re.MULTILINE)
_SENTENCES = {
    "open": ("I begin at the start page.", "Let me open the start page."),
    "click": ("This leads on.", "I follow this link.", "Here it should go on."),
    "type": ("I enter the words.", "Let me type that in."),
    "more": ("There is more to see.", "I look further down."),
    "answer": ("That settles it.", "This is what the page says.", "Here it stands."),
}
_TRAPS = {trap.name: trap for trap in TRAPS}
_cached_parse = lru_cache(maxsize=1_024)(parse_observation)
"""Cached, because each turn of a walk parses all earlier results again."""


class _NotOnPage(Exception):
    """Raised when a page does not contain what the walk needs."""


def _require(thing: T | None) -> T:
    """Return the thing. Raises _NotOnPage if it is None."""
    if thing is None:
        raise _NotOnPage
    return thing


def _clicked(line: ElementLine | None) -> ToolUse:
    """Return the act that clicks an element. Raises _NotOnPage if there is none."""
    return ToolUse("click", {"ref": _require(line).ref})


@dataclass(frozen=True, slots=True)
class _PageView:
    """The parts of one page that the solver has seen so far."""

    url: str
    lines: tuple[ElementLine, ...]
    page: int = 1
    pages: int = 1
    """Number of pages of the snapshot."""

    def updated(self, seen: ParsedObservation) -> "_PageView":
        """Return the view after another observation: more of the same page, or a new page."""
        if seen.url == self.url and seen.page == self.page + 1:
            return replace(self, lines=self.lines + seen.lines, page=seen.page)
        return _PageView(seen.url, seen.lines, seen.page, seen.pages)

    def links(self, prefix: str = "") -> list[ElementLine]:
        """Return the clickable links whose names start with `prefix`, in order."""
        return [line for line in self.lines if line.role == "link" and line.ref and line.name.startswith(prefix)]

    def link(self, name: str) -> ToolUse:
        """Return the act that follows the first link with exactly that name. Raises _NotOnPage."""
        return _clicked(next((line for line in self.links() if line.name == name), None))

    def first_link(self, prefix: str) -> ToolUse:
        """Return the act that follows the first link whose name starts with `prefix`. Raises _NotOnPage."""
        return _clicked(next(iter(self.links(prefix)), None))

    def link_about(self, word: str) -> ToolUse:
        """Follow the first link whose name contains the word but is not equal to it. Raises _NotOnPage."""
        names = ((line, line.name.casefold()) for line in self.links())
        return _clicked(next((line for line, name in names if word in name and name != word), None))

    def control(self, role: str, name: str) -> ElementLine:
        """Return the button or field with that name. Raises _NotOnPage."""
        named = (line for line in self.lines if line.role == role and line.name == name and line.ref)
        return _require(next(named, None))

    def search(self, words: str) -> ToolUse:
        """Return the act that searches the site. Raises _NotOnPage."""
        box = _require(next((line for line in self.lines if line.role == "searchbox" and line.ref), None))
        return ToolUse("type", {"ref": box.ref, "text": words, "submit": True})

    def answer(self, value: str) -> ToolUse:
        """Return the act that ends the walk with an answer."""
        return ToolUse("answer", {"answer": value, "url": self.url})

    def is_result(self) -> bool:
        """Return whether this is a page of search results."""
        return any(line.role == "heading" and line.name == "Search results" for line in self.lines)

    def text_after(self, name: str) -> str:
        """Return the words between the link of that name and the next link. Raises _NotOnPage."""
        at = next((at for at, line in enumerate(self.lines) if line in self.links() and line.name == name), None)
        after = takewhile(lambda line: line.role != "link", self.lines[_require(at) + 1 :])
        return " ".join(filter(None, (line.text or line.name for line in after)))

    def texts(self) -> Iterator[str]:
        """Yield the words of each line."""
        return filter(None, (line.text or line.name for line in self.lines))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows of all tables as tuples of cells."""
        for at, row in enumerate(self.lines):
            if row.role == "row":
                inside = self._inside(at)
                top = min((line.depth for _, line in inside), default=0)
                cells: list[str] = []
                for place, line in (one for one in inside if one[1].depth == top):
                    nested = (one.name or one.text for _, one in self._inside(place))
                    cells.append(line.name or line.text or " ".join(filter(None, nested)))
                yield tuple(cells)

    def _inside(self, at: int) -> list[tuple[int, ElementLine]]:
        """The lines inside the line at that place, with their places."""
        behind = enumerate(self.lines[at + 1 :], at + 1)
        return list(takewhile(lambda one: one[1].depth > self.lines[at].depth, behind))

    def row(self, first: str) -> tuple[str, ...] | None:
        """Return the first row of at least two cells that starts with that cell; None if there is none."""
        return next((row for row in self.rows() if len(row) > 1 and row[0] == first), None)

    def field(self, name: str) -> str:
        """Return the value next to that name in a table of names and values. Raises _NotOnPage."""
        return _require(self.row(name))[1]

    def read_on(
        self, found: "Callable[[_PageView], bool]", careless: "Callable[[_PageView], ToolUse]"
    ) -> "_WalkSteps[_PageView]":
        """Read a long page until `found`, and return that view. Raises _NotOnPage at its end.

        careless: the act of a solver that stops at its first part.
        """
        view, trap, more = self, (FOOTER,), ToolUse("more", {})
        while not found(view):
            if view.page >= view.pages:
                raise _NotOnPage
            stop = careless(view)
            view = yield _WalkStep(lambda flaws, stop=stop: stop if flaws else more, trap)
            trap = ()
        return view

    def fill_form(self, choices: Mapping[str, str], button: str) -> "_WalkSteps[_PageView]":
        """Choose the options of a form, press its button, and return the resulting view.

        A careless solver presses the button at once. choices: option to choose, by the label of its list.
        """
        view, trap = self, (FORM,)
        for label, value in choices.items():
            chosen = ToolUse("type", {"ref": view.control("combobox", label).ref, "text": value})
            press = _clicked(view.control("button", button))
            view = yield _WalkStep(lambda flaws, act=chosen, press=press: press if flaws else act, trap)
            trap = ()
            if not any(line.role == "button" and line.name == button for line in view.lines):
                return view
        return (yield _fixed(_clicked(view.control("button", button))))


@dataclass(frozen=True, slots=True)
class _WalkStep:
    """The next step of a walk."""

    choose: Callable[[frozenset[str]], ToolUse]
    """Returns the act, given the traps that the solver falls into."""
    traps: tuple[str, ...] = ()
    """The traps that can change it."""

    def act(self, flaws: frozenset[str], followed: FollowedLessons, rng: Random) -> Act:
        """Make the step, with a sentence that explains it. A careful decision names the lesson that it follows."""
        chosen, notes = self.choose(flaws), list[str]()
        for trap in self.traps:
            phrase = rng.choice(_TRAPS[trap].careless if trap in flaws else _TRAPS[trap].careful)
            label = "" if trap in flaws else followed.labels.get(trap, "")
            notes.append(f"{phrase[0].upper()}{phrase[1:]}{f' ({label})' if label else ''}.")
        return ToolUse(chosen.tool, chosen.arguments, text=" ".join(notes) or rng.choice(_SENTENCES[chosen.tool]))


_WalkSteps = Generator[_WalkStep, _PageView, T]


def _fixed(act: ToolUse) -> _WalkStep:
    """Return a step without a trap."""
    return _WalkStep(lambda _: act)


def _trap(trap: str, *, careful: ToolUse, careless: ToolUse) -> _WalkStep:
    """Return a step with one trap."""
    return _WalkStep(lambda flaws: careless if trap in flaws else careful, (trap,))


def _search_or_menu(view: _PageView, words: str, menu: str) -> _WalkStep:
    return _trap(SEARCH, careful=view.search(words), careless=view.link(menu))


def _open_year(view: _PageView, prefix: str, year: str) -> _WalkStep:
    return _trap(ARCHIVE, careful=view.link(f"{prefix}{year}"), careless=view.first_link(prefix))


def _option_default(params: TemplateParams, view: _PageView) -> _WalkSteps[None]:
    """Open the reference of the version, and read on to the option."""
    wanted, newest = view.link(f"Version {params['version']}"), view.first_link("Version ")
    view = yield _trap(DUPLICATE, careful=wanted, careless=newest)
    view = yield _fixed(view.link("Option reference"))
    option, setting = re.escape(params["option"]), re.escape(params["option"].rpartition("_")[2])

    def default(seen: _PageView, name: str) -> str | None:
        described = (re.fullmatch(rf"{name}: .* Default: (\d+)\.", text) for text in seen.texts())
        return next((found[1] for found in described if found), None)

    def nearest(seen: _PageView) -> ToolUse:
        return seen.answer(default(seen, rf"\w+_{setting}") or NOT_FOUND)

    view = yield from view.read_on(lambda seen: default(seen, option) is not None, nearest)
    yield _fixed(view.answer(_require(default(view, option))))


def _release_of_change(params: TemplateParams, view: _PageView) -> _WalkSteps[None]:
    """Open the release notes of the year, and the one about the change itself."""
    view = yield _fixed(view.link("Release notes"))
    view = yield _open_year(view, "Releases of ", params["year"])
    wanted, first = view.link(f"Change of {params['command']}"), view.link_about(params["command"].casefold())
    view = yield _trap(FIRST, careful=wanted, careless=first)
    yield _fixed(view.answer(view.field("Release")))


def _exit_status(params: TemplateParams, view: _PageView) -> _WalkSteps[None]:
    """Search for the fault, and read its own page."""
    view = yield _search_or_menu(view, params["fault"], "Troubleshooting")
    if view.is_result():
        wanted = view.link(f"When {params['fault']}")
        teased = re.search(r"exit status (\d+)", view.text_after(f"When {params['fault']}"))
        view = yield _trap(SNIPPET, careful=wanted, careless=view.answer(teased[1] if teased else NOT_FOUND))
    else:
        view = yield _fixed(view.link(f"If {params['fault']}"))
    yield _fixed(view.answer(view.field("Exit status")))


def _product_weight(params: TemplateParams, view: _PageView) -> _WalkSteps[None]:
    """Search for the model, and choose it among similar names."""
    plain = " ".join(params["model"].split()[:2])
    view = yield _search_or_menu(view, f"{params['article']} {params['model']}", f"{params['article'].capitalize()}s")
    if view.is_result():
        wanted, alike = view.link(params["model"]), view.first_link(plain)
        view = yield _trap(DUPLICATE, careful=wanted, careless=alike)
    else:
        view = yield _fixed(view.first_link(plain))
    yield _fixed(view.answer(view.field("Weight")))


def _delivery_charge(params: TemplateParams, view: _PageView) -> _WalkSteps[None]:
    """Open the list of charges of the year."""
    view = yield _fixed(view.link("Help"))
    wanted, first = view.link("Delivery charges"), view.link_about("deliver")
    view = yield _trap(FIRST, careful=wanted, careless=first)
    if view.row(params["country"]) is None:
        view = yield _open_year(view, "Charges of ", params["year"])
    yield _fixed(view.answer(_require(view.row(params["country"]))[-1]))


def _part_price(params: TemplateParams, view: _PageView) -> _WalkSteps[None]:
    """Find the parts of the series with the form, and choose the right one of two similar names."""
    view = yield _fixed(view.link("Spare parts"))
    view = yield from view.fill_form({"Article": params["article"], "Series": params["series"]}, "Show parts")
    named = {row[0].casefold(): row[1] for row in view.rows() if len(row) > 1}
    wanted = _require(named.get(params["part"]))
    alike = next(price for name, price in named.items() if name.startswith(params["part"].split()[0]))
    yield _trap(DUPLICATE, careful=view.answer(wanted), careless=view.answer(alike))


FAMILY_SCRIPTS: Mapping[str, Callable[[TemplateParams, _PageView], _WalkSteps[None]]] = {
    "part_price": _part_price,
    "option_default": _option_default,
    "release_of_change": _release_of_change,
    "exit_status": _exit_status,
    "product_weight": _product_weight,
    "delivery_charge": _delivery_charge,
}
"""The script of each question family."""


def _next_step(
    script: Callable[[_PageView], _WalkSteps[None]], start: str, turns: tuple[ToolExchange, ...]
) -> _WalkStep:
    """Return the step after these turns. A script that fails starts again once; after that the solver gives up."""
    first = _fixed(ToolUse("open", {"url": start}))
    step, walk, view, lost = first, None, _PageView("", ()), 0
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
    return step if ends or (lost < 2 and len(turns) < MAX_TURNS - 1) else _fixed(view.answer(NOT_FOUND))


@dataclass(frozen=True)
class _WebSkills:
    """The simulated solver's skills for the web domain. Implements `agentlearn_demo.sim.skills.Skills`."""

    domain: str = "web"
    traps: tuple[Trap, ...] = TRAPS

    @property
    def topics(self) -> Mapping[str, tuple[str, ...]]:
        return {template.family: template.topics for template in TEMPLATES}

    def recognise(self, conversation: Conversation) -> Situation | None:
        """Return the current turn, if the question matches a template of ours and names a start page."""
        start = _START.search(conversation.question)
        if start is None or "open" not in conversation.tools:
            return None
        question = conversation.question[start.end() :]
        for template in TEMPLATES:
            params = template.recognise(question)
            if params is not None:
                script = partial(FAMILY_SCRIPTS[template.family], params)
                step = _next_step(script, start[1], conversation.turns)
                return Turn(template.family, step.traps, step.act)
        return None


skills = _WebSkills()
