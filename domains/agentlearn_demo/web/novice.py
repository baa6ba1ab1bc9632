"""The web skills of the simulated solver: it reads the question and the pages that it is shown, and walks.

It has no access to answers or sites: it finds links by their names and reads values from the pages. Each family of
questions has a script that acts on real pages, with the traps on the way.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from agentlearn_demo.sim.skills import Conversation, Situation, ToolUse, Trap
from agentlearn_demo.web.questions import TEMPLATES, TemplateParams
from agentlearn_demo.web.traps import ARCHIVE, DUPLICATE, FIRST, SEARCH, SNIPPET, TRAPS
from agentlearn_demo.web.walking import (
    NOT_FOUND,
    PageView,
    WalkStep,
    WalkSteps,
    click_on,
    fill_form,
    fixed_step,
    give_answer,
    next_step,
    read_on,
    require,
    search_for,
    trap_step,
    turn_of,
)

FamilyScript = Callable[[TemplateParams, PageView], WalkSteps[None]]


def option_default(params: TemplateParams, view: PageView) -> WalkSteps[None]:
    """Open the reference of the version, and read on to the option."""
    wanted, newest = view.link(f"Version {params['version']}"), view.first_link("Version ")
    view = yield trap_step(DUPLICATE, careful=click_on(wanted), careless=click_on(newest))
    view = yield fixed_step(click_on(view.link("Option reference")))
    option, setting = re.escape(params["option"]), re.escape(params["option"].rpartition("_")[2])

    def default(seen: PageView, name: str) -> str | None:
        described = (re.fullmatch(rf"{name}: .* Default: (\d+)\.", text) for text in seen.texts())
        return next((found[1] for found in described if found), None)

    def nearest(seen: PageView) -> ToolUse:
        return give_answer(seen, default(seen, rf"\w+_{setting}") or NOT_FOUND)

    view = yield from read_on(view, lambda seen: default(seen, option) is not None, nearest)
    yield _answer_step(view, require(default(view, option)))


def release_of_change(params: TemplateParams, view: PageView) -> WalkSteps[None]:
    """Open the release notes of the year, and the one about the change itself."""
    view = yield fixed_step(click_on(view.link("Release notes")))
    view = yield _open_year(view, "Releases of ", params["year"])
    wanted, first = view.link(f"Change of {params['command']}"), view.link_about(params["command"].casefold())
    view = yield trap_step(FIRST, careful=click_on(wanted), careless=click_on(first))
    yield _answer_step(view, view.field("Release"))


def exit_status(params: TemplateParams, view: PageView) -> WalkSteps[None]:
    """Search for the fault, and read its own page."""
    view = yield _search_or_menu(view, params["fault"], "Troubleshooting")
    if view.is_result():
        wanted = view.link(f"When {params['fault']}")
        teased = _first_group(re.compile(r"exit status (\d+)"), view.text_after(wanted))
        view = yield trap_step(SNIPPET, careful=click_on(wanted), careless=give_answer(view, teased))
    else:
        view = yield fixed_step(click_on(view.link(f"If {params['fault']}")))
    yield _answer_step(view, view.field("Exit status"))


def product_weight(params: TemplateParams, view: PageView) -> WalkSteps[None]:
    """Search for the model, and choose it among similar names."""
    plain = " ".join(params["model"].split()[:2])
    view = yield _search_or_menu(view, f"{params['article']} {params['model']}", f"{params['article'].capitalize()}s")
    if view.is_result():
        wanted, alike = view.link(params["model"]), view.first_link(plain)
        view = yield trap_step(DUPLICATE, careful=click_on(wanted), careless=click_on(alike))
    else:
        view = yield fixed_step(click_on(view.first_link(plain)))
    yield _answer_step(view, view.field("Weight"))


def delivery_charge(params: TemplateParams, view: PageView) -> WalkSteps[None]:
    """Open the list of charges of the year."""
    view = yield fixed_step(click_on(view.link("Help")))
    wanted, first = view.link("Delivery charges"), view.link_about("deliver")
    view = yield trap_step(FIRST, careful=click_on(wanted), careless=click_on(first))
    if view.row(params["country"]) is None:
        view = yield _open_year(view, "Charges of ", params["year"])
    yield _answer_step(view, require(view.row(params["country"]))[-1])


def part_price(params: TemplateParams, view: PageView) -> WalkSteps[None]:
    """Find the parts of the series with the form, and choose the right one of two similar names."""
    view = yield fixed_step(click_on(view.link("Spare parts")))
    view = yield from fill_form(view, {"Article": params["article"], "Series": params["series"]}, "Show parts")
    named = {row[0].casefold(): row[1] for row in view.rows() if len(row) > 1}
    wanted = require(named.get(params["part"]))
    alike = next(price for name, price in named.items() if name.startswith(params["part"].split()[0]))
    yield trap_step(DUPLICATE, careful=give_answer(view, wanted), careless=give_answer(view, alike))


FAMILY_SCRIPTS: Mapping[str, FamilyScript] = {
    walk.__name__: walk
    for walk in (
        part_price,
        option_default,
        release_of_change,
        exit_status,
        product_weight,
        delivery_charge,
    )
}
"""The script of each question family."""


def _search_or_menu(view: PageView, words: str, menu: str) -> WalkStep:
    return trap_step(SEARCH, careful=search_for(view, words), careless=click_on(view.link(menu)))


def _open_year(view: PageView, prefix: str, year: str) -> WalkStep:
    return trap_step(
        ARCHIVE, careful=click_on(view.link(f"{prefix}{year}")), careless=click_on(view.first_link(prefix))
    )


def _answer_step(view: PageView, value: str) -> WalkStep:
    return fixed_step(give_answer(view, value))


def _first_group(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else NOT_FOUND


TOOL = "open"
_START = re.compile(r"^Start page: (\S+)$", re.MULTILINE)


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
        if start is None or TOOL not in conversation.tools:
            return None
        question = conversation.question[start.end() :]
        for template in TEMPLATES:
            params = template.recognise(question)
            if params is not None:
                script = partial(FAMILY_SCRIPTS[template.family], params)
                return turn_of(template.family, next_step(script, start[1], conversation.turns))
        return None


skills = _WebSkills()
