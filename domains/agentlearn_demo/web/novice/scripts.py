"""The walk script of each question family: acts on real pages, with the traps on the way."""

import re
from collections.abc import Callable, Mapping, Sequence

from agentlearn_demo.sim.skills import ToolUse
from agentlearn_demo.web.novice.page_view import PageView, require
from agentlearn_demo.web.novice.traps import ARCHIVE, DUPLICATE, FIRST, SEARCH, SNIPPET
from agentlearn_demo.web.novice.walking import (
    NOT_FOUND,
    WalkStep,
    WalkSteps,
    click_on,
    fill_form,
    fixed_step,
    give_answer,
    page_until,
    read_whole_list,
    search_for,
    trap_step,
)
from agentlearn_demo.web.question_templates import TemplateParams

FamilyScript = Callable[[TemplateParams, PageView], WalkSteps[None]]


def office_room(params: TemplateParams, view: PageView) -> WalkSteps[None]:
    """Search for the person, and choose the namesake of the right department."""
    view = yield _search_or_menu(view, params["name"], "Staff directory")
    if view.is_result():
        same = view.links(params["name"])
        wanted = require(next((one for one in same if params["subject"] in view.text_after(one)), None))
        view = yield trap_step(DUPLICATE, careful=click_on(wanted), careless=click_on(same[0]))
    else:
        view = yield fixed_step(click_on(view.link(params["name"])))
    yield _answer_step(view, view.field("Room"))


def course_lecturer(params: TemplateParams, view: PageView) -> WalkSteps[None]:
    """Open the list of the year, and page to the course."""
    view = yield fixed_step(click_on(view.link("Courses")))
    view = yield _open_year(view, "Courses ", params["year"])
    stem = params["course"].rpartition(" ")[0]

    def nearest(seen: PageView) -> ToolUse:
        row = next((row for row in seen.rows() if len(row) > 1 and row[0].startswith(stem)), ("", NOT_FOUND))
        return give_answer(seen, row[1])

    view = yield from page_until(view, lambda seen: seen.row(params["course"]) is not None, nearest)
    yield _answer_step(view, view.field(params["course"]))


def exam_hall(params: TemplateParams, view: PageView) -> WalkSteps[None]:
    """Find the halls of the term with the form."""
    wanted, first = view.link("Examinations"), view.link_about("examination")
    view = yield trap_step(FIRST, careful=click_on(wanted), careless=click_on(first))
    if view.has_button("Show examinations"):
        view = yield from fill_form(view, {"Year": params["year"], "Term": params["term"]}, "Show examinations")
    yield _answer_step(view, view.field(params["subject"]))


def library_hours(params: TemplateParams, view: PageView) -> WalkSteps[None]:
    """Open the page of the branch. The overview lists several similar branches with teasers."""
    view = yield trap_step(
        FIRST, careful=click_on(view.link("Libraries")), careless=click_on(view.link_about("librar"))
    )
    wanted = view.link(params["branch"])
    on_day = re.compile(rf"(\d+:\d+) on {re.escape(params['day'])}")
    if on_day.search(view.text_after(wanted)):
        overview = view
        similar = view.first_link(" ".join(params["branch"].split()[:2]))

        def choose(flaws: frozenset[str]) -> ToolUse:
            entry = similar if DUPLICATE in flaws else wanted
            return (
                give_answer(overview, _first_group(on_day, overview.text_after(entry)))
                if SNIPPET in flaws
                else click_on(entry)
            )

        view = yield WalkStep(choose, (DUPLICATE, SNIPPET))
    else:
        view = yield fixed_step(click_on(wanted))
    yield _answer_step(view, view.field(params["day"].capitalize()))


def report_figure(params: TemplateParams, view: PageView) -> WalkSteps[None]:
    """Open the annual report of the year from its teaser."""
    view = yield fixed_step(click_on(view.link("Investors")))
    view = yield _open_year(view, "Financial year ", params["year"])
    report = view.first_link("Annual report ")
    preliminary = _first_group(
        re.compile(rf"{re.escape(params['measure'])} ([\d.]+ million euros)"), view.text_after(report)
    )
    view = yield trap_step(SNIPPET, careful=click_on(report), careless=give_answer(view, preliminary))
    yield _answer_step(view, view.field(params["measure"].capitalize()))


def office_phone(params: TemplateParams, view: PageView) -> WalkSteps[None]:
    """Page through the offices to the town, and open the right one of its offices."""
    view = yield fixed_step(click_on(view.link("Offices")))
    central = view.field("All other enquiries")
    view = yield from page_until(
        view, lambda seen: seen.has_link(params["office"]), lambda seen: give_answer(seen, central)
    )
    town = params["office"].rpartition(" ")[2]
    alike = require(next((one for one in view.links() if one.name.endswith(town)), None))
    view = yield trap_step(DUPLICATE, careful=click_on(view.link(params["office"])), careless=click_on(alike))
    yield _answer_step(view, view.field("Telephone"))


def dealer_phone(params: TemplateParams, view: PageView) -> WalkSteps[None]:
    """Find the dealers of the country with the form, and page to the dealer."""
    view = yield fixed_step(click_on(view.link("Dealers")))
    view = yield from fill_form(view, {"Country": params["country"]}, "Show dealers")
    central = view.field("All other enquiries")
    view = yield from page_until(
        view, lambda seen: seen.row(params["dealer"]) is not None, lambda seen: give_answer(seen, central)
    )
    yield _answer_step(view, view.field(params["dealer"]))


def job_deadline(params: TemplateParams, view: PageView) -> WalkSteps[None]:
    """Search for the vacancy, and read its own page."""
    view = yield _search_or_menu(view, f"{params['job']} {params['town']}", "Careers")
    if view.is_result():
        wanted = view.link(f"{params['job']}, {params['town']}")
        teased = _first_group(re.compile(r"Apply by ([^.]+)\."), view.text_after(wanted))
        view = yield trap_step(SNIPPET, careful=click_on(wanted), careless=give_answer(view, teased))
    else:
        view = yield fixed_step(click_on(view.first_link(f"{params['job']},")))
    yield _answer_step(view, view.field("Apply until"))


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

    view = yield from page_until(view, lambda seen: default(seen, option) is not None, nearest)
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


def light_products(params: TemplateParams, view: PageView) -> WalkSteps[None]:
    """Read all pages of the full list of the category."""
    view = yield fixed_step(click_on(view.link(params["articles"].capitalize())))
    wanted, first = view.link(f"All {params['articles']}"), view.link_about(params["articles"].casefold())
    limit = int(require(re.fullmatch(r"\d{1,9}", params["limit"]))[0])
    view = yield trap_step(FIRST, careful=click_on(wanted), careless=click_on(first))

    def light(seen: Sequence[PageView]) -> str:
        names = (name for one in seen for name in _lighter_than(one, limit))
        return "; ".join(dict.fromkeys(names)) or NOT_FOUND

    pages = yield from read_whole_list(view, lambda seen: give_answer(seen, light([seen])))
    yield _answer_step(pages[-1], light(pages))


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
        office_room,
        exam_hall,
        dealer_phone,
        part_price,
        course_lecturer,
        library_hours,
        report_figure,
        office_phone,
        job_deadline,
        option_default,
        release_of_change,
        exit_status,
        product_weight,
        light_products,
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


def _lighter_than(view: PageView, limit: int) -> list[str]:
    weighed = ((row[0], re.fullmatch(r"(\d+) g", row[1])) for row in view.rows() if len(row) > 1)
    return [name for name, weight in weighed if weight and int(weight[1]) < limit]
