"""How the simulated solver walks: a script per family, replayed over the turns so far to find out what comes next.

A script is a generator: it yields the next step and is sent the page that the step led to, whichever that is. Nothing
in it depends on which traps were fallen into, only on what has been seen.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import TypeVar

from agentlearn.sim.skills import Act, FollowedLessons, ToolExchange, ToolUse
from agentlearn_web.novice.page_view import Lost, PageView, needed
from agentlearn_web.novice.traps import FOOTER, FORM, TRAPS
from agentlearn_web.observation import ElementLine, ParsedObservation, read

MAX_TURNS = 8
NOT_FOUND = "not found"

T = TypeVar("T")
ToolChoice = Callable[[frozenset[str]], ToolUse]
"""The act, given the traps that were fallen into."""

_read = lru_cache(maxsize=1_024)(read)
"""Each turn of a walk reads all results before it again."""

_BY_NAME = {trap.name: trap for trap in TRAPS}


@dataclass(frozen=True, slots=True)
class WalkStep:
    """What to do next; with traps, what to do in either case."""

    choose: ToolChoice
    traps: tuple[str, ...] = ()


Walking = Generator[WalkStep, PageView, T]
Script = Callable[[PageView], Walking[None]]
"""From the first page to an answer, its last step."""


@dataclass(frozen=True)
class WalkTurn:
    """A turn of a walk. Implements `agentlearn.sim.skills.Situation`."""

    family: str
    step: WalkStep

    @property
    def traps(self) -> tuple[str, ...]:
        """Those that lie in this turn."""
        return self.step.traps

    def act(self, flaws: frozenset[str], followed: FollowedLessons, rng: Random) -> Act:
        """The act, said in a sentence."""
        chosen = self.step.choose(flaws)
        notes = [_note(trap, trap in flaws, followed, rng) for trap in self.traps]
        return ToolUse(chosen.tool, chosen.arguments, text=" ".join(notes) or rng.choice(_SAID[chosen.tool]))


def next_step(script: Script, start: str, turns: tuple[ToolExchange, ...]) -> WalkStep:
    """What to do after these turns. Where the walk is lost it begins once more at the start, and then gives up."""
    step, walk, view, lost = always(opening(start)), None, PageView("", ()), 0
    for turn in turns:
        seen = _read(turn.result)
        view = view.seeing(seen)
        try:
            _check(seen)
            walk, step = _went_on(script, walk, view)
        except (Lost, StopIteration):
            walk, step, lost = None, always(opening(start)), lost + 1
    ends = step.choose(frozenset()).tool == "answer"
    return step if ends or (lost < 2 and len(turns) < MAX_TURNS - 1) else always(answer(view, NOT_FOUND))


def _check(seen: ParsedObservation) -> None:
    """Raises Lost for anything but a page."""
    if seen.status != "ok" or not seen.lines:
        raise Lost


def _went_on(script: Script, walk: Walking[None] | None, view: PageView) -> tuple[Walking[None], WalkStep]:
    if walk is None:
        walk = script(view)
        return walk, next(walk)
    return walk, walk.send(view)


def opening(url: str) -> ToolUse:
    """Open an address."""
    return ToolUse("open", {"url": url})


def click(line: ElementLine) -> ToolUse:
    """Click on it."""
    return ToolUse("click", {"ref": line.ref})


def search(view: PageView, words: str) -> ToolUse:
    """Search the site."""
    return ToolUse("type", {"ref": view.search_box().ref, "text": words, "submit": True})


def answer(view: PageView, value: str) -> ToolUse:
    """End the walk."""
    return ToolUse("answer", {"answer": value, "url": view.url})


def always(act: ToolUse) -> WalkStep:
    """A step without a trap."""
    return WalkStep(lambda _: act)


def fork(trap: str, *, careful: ToolUse, careless: ToolUse) -> WalkStep:
    """A step with one trap."""
    return WalkStep(lambda flaws: careless if trap in flaws else careful, (trap,))


def onward(view: PageView) -> ToolUse | None:
    """How to see more of a list; None at its end."""
    if view.is_cut:
        return ToolUse("more", {})
    return click(view.link("Next page")) if view.has_link("Next page") else None


def leafing(
    view: PageView, found: Callable[[PageView], bool], settling: Callable[[PageView], ToolUse]
) -> Walking[PageView]:
    """Go through a list until it holds what is looked for. settling: what a careless walker makes of its beginning.

    Raises Lost at the end of the list.
    """
    trap = (FOOTER,)
    while not found(view):
        view = yield _leaf(needed(onward(view)), settling(view), trap)
        trap = ()
    return view


def whole_list(view: PageView, settling: Callable[[PageView], ToolUse]) -> Walking[list[PageView]]:
    """Go through all of a list; its pages. settling: as in `leafing`."""
    seen, trap = [view], (FOOTER,)
    while (going_on := onward(seen[-1])) is not None:
        seen.append((yield _leaf(going_on, settling(seen[-1]), trap)))
        trap = ()
    return seen


def filling(view: PageView, choices: Mapping[str, str], button: str) -> Walking[PageView]:
    """Set the lists of a form and press its button; a careless walker presses it at once. The page that comes of it.

    choices: by the lists' labels.
    """
    trap = (FORM,)
    for label, value in choices.items():
        chosen = ToolUse("type", {"ref": view.control("combobox", label).ref, "text": value})
        view = yield _leaf(chosen, click(view.control("button", button)), trap)
        trap = ()
        if not view.has_button(button):
            return view
    return (yield always(click(view.control("button", button))))


def _leaf(going_on: ToolUse, settled: ToolUse, trap: tuple[str, ...]) -> WalkStep:
    return WalkStep(lambda flaws: settled if flaws else going_on, trap)


_SAID = {
    "open": ("I begin at the start page.", "Let me open the start page."),
    "click": ("This leads on.", "I follow this link.", "Here it should go on."),
    "type": ("I enter the words.", "Let me type that in."),
    "more": ("There is more to see.", "I look further down."),
    "answer": ("That settles it.", "This is what the page says.", "Here it stands."),
}


def _note(name: str, fallen: bool, followed: FollowedLessons, rng: Random) -> str:
    """The sentence on a decision; a careful one names the lesson it follows."""
    trap = _BY_NAME[name]
    phrase = rng.choice(trap.careless if fallen else trap.careful)
    label = "" if fallen else followed.labels.get(name, "")
    return f"{phrase[0].upper()}{phrase[1:]}{f' ({label})' if label else ''}."
