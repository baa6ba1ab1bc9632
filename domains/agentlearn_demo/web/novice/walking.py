"""How the simulated solver walks: each family has a script, which is replayed over the past turns to get the next step.

A script is a generator: it yields the next step and receives the page to which the step led. It depends only on the
pages seen, not on the traps that the solver fell into.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import TypeVar

from agentlearn_demo.sim.skills import Act, FollowedLessons, ToolExchange, ToolUse
from agentlearn_demo.web.novice.page_view import NotOnPage, PageView, require
from agentlearn_demo.web.novice.traps import FOOTER, FORM, TRAPS
from agentlearn_web.observation import ElementLine, ParsedObservation, parse_observation

MAX_TURNS = 8
NOT_FOUND = "not found"

T = TypeVar("T")
ToolChoice = Callable[[frozenset[str]], ToolUse]
"""Returns the act, given the traps that the solver falls into."""

_cached_parse = lru_cache(maxsize=1_024)(parse_observation)
"""Cached, because each turn of a walk parses all earlier results again."""

_TRAP_BY_NAME = {trap.name: trap for trap in TRAPS}


@dataclass(frozen=True, slots=True)
class WalkStep:
    """The next step of a walk: the act to choose, and the traps that can change it."""

    choose: ToolChoice
    traps: tuple[str, ...] = ()


WalkSteps = Generator[WalkStep, PageView, T]
PageScript = Callable[[PageView], WalkSteps[None]]
"""A script for one question: starts at the first page and ends with an answer."""


@dataclass(frozen=True)
class WalkTurn:
    """One turn of a walk. Implements `agentlearn_demo.sim.skills.Situation`."""

    family: str
    step: WalkStep

    @property
    def traps(self) -> tuple[str, ...]:
        """The traps of this turn."""
        return self.step.traps

    def act(self, flaws: frozenset[str], followed: FollowedLessons, rng: Random) -> Act:
        """Return the act, with a sentence that explains it."""
        chosen = self.step.choose(flaws)
        notes = [_decision_sentence(trap, trap in flaws, followed, rng) for trap in self.traps]
        return ToolUse(chosen.tool, chosen.arguments, text=" ".join(notes) or rng.choice(_SENTENCES[chosen.tool]))


def next_step(script: PageScript, start: str, turns: tuple[ToolExchange, ...]) -> WalkStep:
    """Return the step after these turns. A script that fails starts again once; after that the solver gives up."""
    step, walk, view, lost = fixed_step(open_start(start)), None, PageView("", ()), 0
    for turn in turns:
        seen = _cached_parse(turn.result)
        view = view.updated(seen)
        try:
            _require_page(seen)
            walk, step = _advance(script, walk, view)
        except (NotOnPage, StopIteration):
            walk, step, lost = None, fixed_step(open_start(start)), lost + 1
    ends = step.choose(frozenset()).tool == "answer"
    return step if ends or (lost < 2 and len(turns) < MAX_TURNS - 1) else fixed_step(give_answer(view, NOT_FOUND))


def _require_page(seen: ParsedObservation) -> None:
    """Raise NotOnPage if the observation does not show a page."""
    if seen.status != "ok" or not seen.lines:
        raise NotOnPage


def _advance(script: PageScript, walk: WalkSteps[None] | None, view: PageView) -> tuple[WalkSteps[None], WalkStep]:
    if walk is None:
        walk = script(view)
        return walk, next(walk)
    return walk, walk.send(view)


def open_start(url: str) -> ToolUse:
    """Return the act that opens the start page."""
    return ToolUse("open", {"url": url})


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


def next_part(view: PageView) -> ToolUse | None:
    """Return the act that shows more of a list; None at its end."""
    if view.has_more:
        return ToolUse("more", {})
    return click_on(view.link("Next page")) if view.has_link("Next page") else None


def page_until(
    view: PageView, found: Callable[[PageView], bool], careless: Callable[[PageView], ToolUse]
) -> WalkSteps[PageView]:
    """Page through a list until `found`, and return that view. Raises NotOnPage at the end of the list.

    careless: the act of a solver that stops at the first page.
    """
    trap = (FOOTER,)
    while not found(view):
        view = yield _list_step(require(next_part(view)), careless(view), trap)
        trap = ()
    return view


def read_whole_list(view: PageView, careless: Callable[[PageView], ToolUse]) -> WalkSteps[list[PageView]]:
    """Page through a whole list, and return its views. careless: as in `page_until`."""
    seen, trap = [view], (FOOTER,)
    while (careful := next_part(seen[-1])) is not None:
        seen.append((yield _list_step(careful, careless(seen[-1]), trap)))
        trap = ()
    return seen


def fill_form(view: PageView, choices: Mapping[str, str], button: str) -> WalkSteps[PageView]:
    """Choose the options of a form, press its button, and return the resulting view.

    A careless solver presses the button at once. choices: option to choose, by the label of its list.
    """
    trap = (FORM,)
    for label, value in choices.items():
        chosen = ToolUse("type", {"ref": view.control("combobox", label).ref, "text": value})
        view = yield _list_step(chosen, click_on(view.control("button", button)), trap)
        trap = ()
        if not view.has_button(button):
            return view
    return (yield fixed_step(click_on(view.control("button", button))))


def _list_step(careful: ToolUse, careless: ToolUse, trap: tuple[str, ...]) -> WalkStep:
    return WalkStep(lambda flaws: careless if flaws else careful, trap)


_SENTENCES = {
    "open": ("I begin at the start page.", "Let me open the start page."),
    "click": ("This leads on.", "I follow this link.", "Here it should go on."),
    "type": ("I enter the words.", "Let me type that in."),
    "more": ("There is more to see.", "I look further down."),
    "answer": ("That settles it.", "This is what the page says.", "Here it stands."),
}


def _decision_sentence(name: str, fallen: bool, followed: FollowedLessons, rng: Random) -> str:
    """Return the sentence for a decision. A careful decision names the lesson that it follows."""
    trap = _TRAP_BY_NAME[name]
    phrase = rng.choice(trap.careless if fallen else trap.careful)
    label = "" if fallen else followed.labels.get(name, "")
    return f"{phrase[0].upper()}{phrase[1:]}{f' ({label})' if label else ''}."
