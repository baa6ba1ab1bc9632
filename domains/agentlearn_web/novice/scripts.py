"""The walks, family by family: real acts on real pages, with or without the traps on the way."""

import re
from collections.abc import Callable, Mapping, Sequence

from agentlearn.sim.skills import ToolUse
from agentlearn_web.novice.page_view import PageView, needed
from agentlearn_web.novice.traps import ARCHIVE, DUPLICATE, FIRST, SEARCH, SNIPPET
from agentlearn_web.novice.walking import (
    NOT_FOUND,
    Walking,
    WalkStep,
    always,
    answer,
    click,
    filling,
    fork,
    leafing,
    search,
    whole_list,
)
from agentlearn_web.question_templates import Params

WalkScript = Callable[[Params, PageView], Walking[None]]


def office_room(p: Params, view: PageView) -> Walking[None]:
    """Search for the person, and take the namesake of the right department."""
    view = yield _search_or_menu(view, p["name"], "Staff directory")
    if view.is_result():
        same = view.links(p["name"])
        meant = needed(next((one for one in same if p["subject"] in view.beside(one)), None))
        view = yield fork(DUPLICATE, careful=click(meant), careless=click(same[0]))
    else:
        view = yield always(click(view.link(p["name"])))
    yield _answered(view, view.field("Room"))


def course_lecturer(p: Params, view: PageView) -> Walking[None]:
    """The list of the year, to the page on which the course stands."""
    view = yield always(click(view.link("Courses")))
    view = yield _of_year(view, "Courses ", p["year"])
    stem = p["course"].rpartition(" ")[0]

    def nearest(seen: PageView) -> ToolUse:
        row = next((row for row in seen.rows() if len(row) > 1 and row[0].startswith(stem)), ("", NOT_FOUND))
        return answer(seen, row[1])

    view = yield from leafing(view, lambda seen: seen.row(p["course"]) is not None, nearest)
    yield _answered(view, view.field(p["course"]))


def exam_hall(p: Params, view: PageView) -> Walking[None]:
    """The halls of the term, by the form."""
    meant, first = view.link("Examinations"), view.link_about("examination")
    view = yield fork(FIRST, careful=click(meant), careless=click(first))
    if view.has_button("Show examinations"):
        view = yield from filling(view, {"Year": p["year"], "Term": p["term"]}, "Show examinations")
    yield _answered(view, view.field(p["subject"]))


def library_hours(p: Params, view: PageView) -> Walking[None]:
    """The page of the branch; its overview has several alike, with teasers."""
    view = yield fork(FIRST, careful=click(view.link("Libraries")), careless=click(view.link_about("librar")))
    meant = view.link(p["branch"])
    on_day = re.compile(rf"(\d+:\d+) on {re.escape(p['day'])}")
    if on_day.search(view.beside(meant)):
        overview = view
        similar = view.first_link(" ".join(p["branch"].split()[:2]))

        def choose(flaws: frozenset[str]) -> ToolUse:
            entry = similar if DUPLICATE in flaws else meant
            return answer(overview, _in(on_day, overview.beside(entry))) if SNIPPET in flaws else click(entry)

        view = yield WalkStep(choose, (DUPLICATE, SNIPPET))
    else:
        view = yield always(click(meant))
    yield _answered(view, view.field(p["day"].capitalize()))


def report_figure(p: Params, view: PageView) -> Walking[None]:
    """The annual report of the year, behind its teaser."""
    view = yield always(click(view.link("Investors")))
    view = yield _of_year(view, "Financial year ", p["year"])
    report = view.first_link("Annual report ")
    preliminary = _in(re.compile(rf"{re.escape(p['measure'])} ([\d.]+ million euros)"), view.beside(report))
    view = yield fork(SNIPPET, careful=click(report), careless=answer(view, preliminary))
    yield _answered(view, view.field(p["measure"].capitalize()))


def office_phone(p: Params, view: PageView) -> Walking[None]:
    """The list of offices, to the town, and the right one of its offices."""
    view = yield always(click(view.link("Offices")))
    central = view.field("All other enquiries")
    view = yield from leafing(view, lambda seen: seen.has_link(p["office"]), lambda seen: answer(seen, central))
    town = p["office"].rpartition(" ")[2]
    alike = needed(next((one for one in view.links() if one.name.endswith(town)), None))
    view = yield fork(DUPLICATE, careful=click(view.link(p["office"])), careless=click(alike))
    yield _answered(view, view.field("Telephone"))


def dealer_phone(p: Params, view: PageView) -> Walking[None]:
    """The dealers of the country, by the form, to the page on which the dealer stands."""
    view = yield always(click(view.link("Dealers")))
    view = yield from filling(view, {"Country": p["country"]}, "Show dealers")
    central = view.field("All other enquiries")
    view = yield from leafing(view, lambda seen: seen.row(p["dealer"]) is not None, lambda seen: answer(seen, central))
    yield _answered(view, view.field(p["dealer"]))


def job_deadline(p: Params, view: PageView) -> Walking[None]:
    """Search for the vacancy, and read its own page."""
    view = yield _search_or_menu(view, f"{p['job']} {p['town']}", "Careers")
    if view.is_result():
        meant = view.link(f"{p['job']}, {p['town']}")
        teased = _in(re.compile(r"Apply by ([^.]+)\."), view.beside(meant))
        view = yield fork(SNIPPET, careful=click(meant), careless=answer(view, teased))
    else:
        view = yield always(click(view.first_link(f"{p['job']},")))
    yield _answered(view, view.field("Apply until"))


def option_default(p: Params, view: PageView) -> Walking[None]:
    """The reference of the version, down to the option."""
    meant, newest = view.link(f"Version {p['version']}"), view.first_link("Version ")
    view = yield fork(DUPLICATE, careful=click(meant), careless=click(newest))
    view = yield always(click(view.link("Option reference")))
    option, setting = re.escape(p["option"]), re.escape(p["option"].rpartition("_")[2])

    def default(seen: PageView, name: str) -> str | None:
        described = (re.fullmatch(rf"{name}: .* Default: (\d+)\.", text) for text in seen.texts())
        return next((found[1] for found in described if found), None)

    def nearest(seen: PageView) -> ToolUse:
        return answer(seen, default(seen, rf"\w+_{setting}") or NOT_FOUND)

    view = yield from leafing(view, lambda seen: default(seen, option) is not None, nearest)
    yield _answered(view, needed(default(view, option)))


def release_of_change(p: Params, view: PageView) -> Walking[None]:
    """The notes of the year, and among them the one on the change itself."""
    view = yield always(click(view.link("Release notes")))
    view = yield _of_year(view, "Releases of ", p["year"])
    meant, first = view.link(f"Change of {p['command']}"), view.link_about(p["command"].casefold())
    view = yield fork(FIRST, careful=click(meant), careless=click(first))
    yield _answered(view, view.field("Release"))


def exit_status(p: Params, view: PageView) -> Walking[None]:
    """Search for the fault, and read its own page."""
    view = yield _search_or_menu(view, p["fault"], "Troubleshooting")
    if view.is_result():
        meant = view.link(f"When {p['fault']}")
        teased = _in(re.compile(r"exit status (\d+)"), view.beside(meant))
        view = yield fork(SNIPPET, careful=click(meant), careless=answer(view, teased))
    else:
        view = yield always(click(view.link(f"If {p['fault']}")))
    yield _answered(view, view.field("Exit status"))


def product_weight(p: Params, view: PageView) -> Walking[None]:
    """Search for the model, and take no other one of its name."""
    plain = " ".join(p["model"].split()[:2])
    view = yield _search_or_menu(view, f"{p['article']} {p['model']}", f"{p['article'].capitalize()}s")
    if view.is_result():
        meant, alike = view.link(p["model"]), view.first_link(plain)
        view = yield fork(DUPLICATE, careful=click(meant), careless=click(alike))
    else:
        view = yield always(click(view.first_link(plain)))
    yield _answered(view, view.field("Weight"))


def light_products(p: Params, view: PageView) -> Walking[None]:
    """The full list of the category, all its pages."""
    view = yield always(click(view.link(p["articles"].capitalize())))
    meant, first = view.link(f"All {p['articles']}"), view.link_about(p["articles"].casefold())
    limit = int(needed(re.fullmatch(r"\d{1,9}", p["limit"]))[0])
    view = yield fork(FIRST, careful=click(meant), careless=click(first))

    def light(seen: Sequence[PageView]) -> str:
        names = (name for one in seen for name in _lighter(one, limit))
        return "; ".join(dict.fromkeys(names)) or NOT_FOUND

    pages = yield from whole_list(view, lambda seen: answer(seen, light([seen])))
    yield _answered(pages[-1], light(pages))


def delivery_charge(p: Params, view: PageView) -> Walking[None]:
    """The list of charges of the year."""
    view = yield always(click(view.link("Help")))
    meant, first = view.link("Delivery charges"), view.link_about("deliver")
    view = yield fork(FIRST, careful=click(meant), careless=click(first))
    if view.row(p["country"]) is None:
        view = yield _of_year(view, "Charges of ", p["year"])
    yield _answered(view, needed(view.row(p["country"]))[-1])


def part_price(p: Params, view: PageView) -> Walking[None]:
    """The parts of the series, by the form, and the right one of two that are named alike."""
    view = yield always(click(view.link("Spare parts")))
    view = yield from filling(view, {"Article": p["article"], "Series": p["series"]}, "Show parts")
    named = {row[0].casefold(): row[1] for row in view.rows() if len(row) > 1}
    meant = needed(named.get(p["part"]))
    alike = next(price for name, price in named.items() if name.startswith(p["part"].split()[0]))
    yield fork(DUPLICATE, careful=answer(view, meant), careless=answer(view, alike))


WALKS: Mapping[str, WalkScript] = {
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
"""By family."""


def _search_or_menu(view: PageView, words: str, menu: str) -> WalkStep:
    return fork(SEARCH, careful=search(view, words), careless=click(view.link(menu)))


def _of_year(view: PageView, prefix: str, year: str) -> WalkStep:
    return fork(ARCHIVE, careful=click(view.link(f"{prefix}{year}")), careless=click(view.first_link(prefix)))


def _answered(view: PageView, value: str) -> WalkStep:
    return always(answer(view, value))


def _in(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else NOT_FOUND


def _lighter(view: PageView, limit: int) -> list[str]:
    weighed = ((row[0], re.fullmatch(r"(\d+) g", row[1])) for row in view.rows() if len(row) > 1)
    return [name for name, weight in weighed if weight and int(weight[1]) < limit]
