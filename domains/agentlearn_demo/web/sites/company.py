"""A generated company: yearly reports with preliminary figures, a long list of offices, vacancies found by search."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from agentlearn.types.ids import derive_seed
from agentlearn_demo.web.sites.markup import (
    SiteHtml,
    bullets,
    choice_form,
    fields,
    heading,
    html_lines,
    html_paragraph,
    html_table,
    link,
    teaser,
)
from agentlearn_demo.web.sites.site import SearchEntry, Site, SitePage, chunks, listing_pages, slug, target
from agentlearn_demo.web.sites.vocabulary import COUNTRIES, FIRST_NAMES, MAKERS, MONTHS, SURNAMES, TOWNS

MEASURES = ("revenue", "operating profit", "research spending")
YEARS = (2025, 2024, 2023, 2022, 2021, 2020)
"""Financial years, the newest first."""
OFFICES = ("Sales office", "Service centre")
JOBS = (
    "Accountant", "Buyer", "Designer", "Draughtsman", "Electrician", "Field engineer", "Laboratory assistant",
    "Project lead", "Technical writer", "Toolmaker",
)  # fmt: skip
DIVISIONS = ("Optics", "Scales", "Sensors", "Valves")
DEALERS = 14
"""Number of dealers in each country."""
DEALERS_PER_PAGE = 8
PER_PAGE = 12
"""Offices on one page of their list."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One measure of one year, in tenths of a million euros."""

    final: int
    preliminary: int
    half_year: int


@dataclass(frozen=True, slots=True)
class Job:
    """A vacancy."""

    title: str
    town: str
    deadline: str
    first_deadline: str
    """Deadline before it was extended; the search still shows it."""

    @property
    def name(self) -> str:
        """Title and town."""
        return f"{self.title}, {self.town}"

    @property
    def target(self) -> str:
        """Path of its page."""
        return f"/careers/{slug(self.name)}"


@dataclass(frozen=True, slots=True)
class Company:
    """All data of one company."""

    number: int
    maker: str
    figures: dict[tuple[int, str], Figures]
    """Figures by (year, measure)."""
    phones: dict[tuple[str, str], str]
    """Telephone numbers by (kind of office, town)."""
    central: str
    shown: tuple[Job, ...]
    """Vacancies on the careers page."""
    hidden: tuple[Job, ...]
    """Vacancies found only by the search; each has the title of the shown one at the same index, in another town."""
    heads: dict[str, str]
    dealers: dict[tuple[str, str], str]
    """Telephone numbers by (country, dealer); every dealer is in every country."""

    @property
    def name(self) -> str:
        """Name of the company."""
        return f"{self.maker} Instruments"

    @property
    def towns(self) -> tuple[str, ...]:
        """Towns with offices, in list order."""
        return tuple(dict.fromkeys(town for _, town in self.phones))


@cache
def company(number: int) -> Company:
    """Return the company with that number."""
    rng = Random(derive_seed("site", "company", number))
    towns = sorted(rng.sample(TOWNS, 18))
    phones = rng.sample(range(1000, 9999), 37)
    keys = [(kind, town) for town in towns for kind in OFFICES]
    people = [
        f"{first} {last}" for first, last in zip(rng.sample(FIRST_NAMES, 4), rng.sample(SURNAMES, 4), strict=True)
    ]
    return Company(
        number,
        MAKERS[number],
        _figures(rng),
        {place: f"555-{phone}" for place, phone in zip(keys, phones, strict=False)},
        f"555-{phones[-1]}",
        *_jobs(rng, towns),
        dict(zip(DIVISIONS, people, strict=True)),
        _dealers(rng),
    )


def millions(tenths: int) -> str:
    """Return an amount as the reports write it."""
    return f"{tenths // 10}.{tenths % 10} million euros"


def company_site(number: int) -> Site:
    """Return the company's website."""
    facts = company(number)
    return Site(
        kind="company",
        number=number,
        host=f"{slug(facts.name)}.test",
        name=facts.name,
        menu=(
            ("Divisions", "/divisions"),
            ("Investors", "/investors"),
            ("Offices", "/offices"),
            ("Dealers", "/dealers"),
            ("Careers", "/careers"),
            ("About us", "/about"),
        ),
        footer=(("Imprint", "/imprint"), ("Privacy", "/privacy"), ("Press", "/press")),
        pages={
            **_fixed(facts), **_divisions(facts), **_investors(facts),
            **_offices(facts), **_dealer_pages(facts), **_careers(facts),
        },
        entries=(
            *(SearchEntry(one.name, one.target, f"Vacancy. Apply by {one.first_deadline}. Full time, from next month …")
              for one in (*facts.hidden, *facts.shown)),
            *(SearchEntry(f"{one} division", f"/divisions/{slug(one)}", "What we make.") for one in DIVISIONS),
            *(SearchEntry(f"Annual report {year}", f"/investors/{year}/annual", "Final figures.") for year in YEARS),
        ),
    )  # fmt: skip


def _figures(rng: Random) -> dict[tuple[int, str], Figures]:
    sizes = {"revenue": 4000, "operating profit": 500, "research spending": 250}
    drawn: dict[tuple[int, str], Figures] = {}
    for measure, size in sizes.items():
        amounts = rng.sample(range(size, 2 * size), 3 * len(YEARS))
        for at, year in enumerate(YEARS):
            drawn[year, measure] = Figures(*amounts[3 * at : 3 * at + 3])
    return drawn


def _dealers(rng: Random) -> dict[tuple[str, str], str]:
    names = [f"{name} & Sons" for name in sorted(rng.sample(SURNAMES, DEALERS))]
    phones = rng.sample(range(10_000, 99_999), len(COUNTRIES) * DEALERS)
    keys = [(country, name) for country in COUNTRIES for name in names]
    return {place: f"555-{phone}" for place, phone in zip(keys, phones, strict=True)}


def _jobs(rng: Random, towns: Sequence[str]) -> tuple[tuple[Job, ...], tuple[Job, ...]]:
    shown: list[Job] = []
    hidden: list[Job] = []
    for title in JOBS:
        days = rng.sample(range(1, 28), 4)
        months = rng.sample(MONTHS, 2)
        for town, jobs, at in zip(rng.sample(towns, 2), (shown, hidden), (0, 2), strict=True):
            month = months[at // 2]
            jobs.append(Job(title, town, f"{days[at]} {month} 2026", f"{days[at + 1]} {month} 2026"))
    return tuple(shown), tuple(hidden)


def _fixed(facts: Company) -> dict[str, SitePage]:
    about = (
        f"{facts.name} builds measuring instruments in four divisions, with offices in {len(facts.towns)} towns."
        " Its figures are published twice a year, and audited once."
    )
    return {
        "/": SitePage(
            facts.name,
            html_lines(
                heading("Measured with care"),
                html_paragraph(about),
                heading("Our divisions", 2),
                bullets(link(f"{one} division", f"/divisions/{slug(one)}") for one in DIVISIONS),
                html_paragraph("We are looking for people in ten trades, in many towns."),
            ),
        ),
        "/about": SitePage("About us", html_lines(heading("About us"), html_paragraph(about), _history())),
        "/imprint": SitePage(
            "Imprint", html_lines(heading("Imprint"), html_paragraph(f"{facts.name}, {facts.towns[0]}."))
        ),
        "/privacy": SitePage(
            "Privacy", html_lines(heading("Privacy"), html_paragraph("This site keeps nothing about you."))
        ),
        "/press": SitePage("Press", html_lines(heading("Press"), html_paragraph(f"For the press: {facts.central}."))),
    }


def _history() -> SiteHtml:
    return html_table(
        ("Year", "Event"), [(str(1950 + 8 * at), f"{one} division founded") for at, one in enumerate(DIVISIONS)]
    )


def _divisions(facts: Company) -> dict[str, SitePage]:
    trail = (("Divisions", "/divisions"),)
    listed = bullets(link(f"{one} division", f"/divisions/{slug(one)}") for one in DIVISIONS)
    pages = {"/divisions": SitePage("Divisions", html_lines(heading("Divisions"), listed))}
    for one in DIVISIONS:
        main = html_lines(
            heading(f"{one} division"), fields([("Head", facts.heads[one]), ("Products", f"{one} of all sizes")])
        )
        pages[f"/divisions/{slug(one)}"] = SitePage(f"{one} division", main, trail)
    return pages


def _investors(facts: Company) -> dict[str, SitePage]:
    trail = (("Investors", "/investors"),)
    listed = bullets(link(f"Financial year {year}", f"/investors/{year}") for year in YEARS)
    about = html_paragraph(
        "Publications of each financial year; preliminary figures are corrected in the annual report."
    )
    pages = {"/investors": SitePage("Investors", html_lines(heading("Investors"), about, listed))}
    for year in YEARS:
        of_year = {measure: facts.figures[year, measure] for measure in MEASURES}
        early = ", ".join(f"{measure} {millions(one.preliminary)}" for measure, one in of_year.items())
        half = ", ".join(f"{measure} {millions(one.half_year)}" for measure, one in of_year.items())
        main = html_lines(
            heading(f"Financial year {year}"),
            teaser(f"Annual report {year}", f"/investors/{year}/annual", f"Preliminary: {early} …"),
            teaser(f"Half-year report {year}", f"/investors/{year}/half", f"First half, estimated: {half} …"),
        )
        here = (*trail, (f"Financial year {year}", f"/investors/{year}"))
        pages[f"/investors/{year}"] = SitePage(f"Financial year {year}", main, trail)
        final = fields((measure.capitalize(), millions(one.final)) for measure, one in of_year.items())
        pages[f"/investors/{year}/annual"] = SitePage(
            f"Annual report {year}",
            html_lines(heading(f"Annual report {year}"), html_paragraph("Audited figures of the whole year."), final),
            here,
        )
        halves = fields((measure.capitalize(), millions(one.half_year)) for measure, one in of_year.items())
        pages[f"/investors/{year}/half"] = SitePage(
            f"Half-year report {year}",
            html_lines(
                heading(f"Half-year report {year}"), html_paragraph("From January to June, not audited."), halves
            ),
            here,
        )
    return pages


def _offices(facts: Company) -> dict[str, SitePage]:
    trail = (("Offices", "/offices"),)
    names = {place: f"{place[0]} {place[1]}" for place in facts.phones}
    rows = [
        (link(name, f"/offices/{slug(name)}"), COUNTRIES[len(place[1]) % len(COUNTRIES)])
        for place, name in names.items()
    ]
    blocks = [html_table(("Office", "Country"), block) for block in chunks(rows, PER_PAGE)]
    above = html_lines(
        fields([("All other enquiries", facts.central)]),
        choice_form("/offices/find", [("kind", "Kind of office", OFFICES)], "Show offices"),
    )
    pages = listing_pages("/offices", "Offices", blocks, above=above)
    for kind in OFFICES:
        found = bullets(link(name, f"/offices/{slug(name)}") for place, name in names.items() if place[0] == kind)
        at = target("/offices/find", [("kind", kind)])
        pages[at] = SitePage(f"{kind}s", html_lines(heading(f"{kind}s"), found), trail)
    for (kind, town), phone in facts.phones.items():
        name = names[kind, town]
        main = html_lines(
            heading(name),
            fields(
                [("Telephone", phone), ("Town", town), ("Open", "8:00 to 17:00" if len(town) % 2 else "9:00 to 18:00")]
            ),
            html_paragraph(f"The {kind.lower()} for everybody in and around {town}."),
        )
        pages[f"/offices/{slug(name)}"] = SitePage(name, main, trail)
    return pages


def _dealer_pages(facts: Company) -> dict[str, SitePage]:
    trail = (("Dealers", "/dealers"),)
    form = choice_form("/dealers/find", [("country", "Country", COUNTRIES)], "Show dealers")
    about = html_paragraph("Our dealers work in eight countries, and have a number of their own in each. Choose one:")
    pages = {"/dealers": SitePage("Dealers", html_lines(heading("Dealers"), about, form))}
    above = fields([("All other enquiries", facts.central)])
    for country in COUNTRIES:
        rows = [(name, phone) for (place, name), phone in facts.dealers.items() if place == country]
        blocks = [html_table(("Dealer", "Telephone"), block) for block in chunks(rows, DEALERS_PER_PAGE)]
        pages |= listing_pages(
            target("/dealers/find", [("country", country)]), f"Dealers in {country}", blocks, trail, above
        )
    return pages


def _careers(facts: Company) -> dict[str, SitePage]:
    trail = (("Careers", "/careers"),)
    pages = {
        "/careers": SitePage(
            "Careers",
            html_lines(
                heading("Careers"),
                html_paragraph("Selected vacancies. There are many more, which the search knows."),
                bullets(link(one.name, one.target) for one in facts.shown),
            ),
        )
    }
    for at, one in enumerate((*facts.shown, *facts.hidden)):
        main = html_lines(
            heading(one.name),
            html_paragraph("The deadline was extended."),
            fields([("Place", one.town), ("Apply until", one.deadline), ("Hours a week", str(32 + 4 * (at % 3)))]),
            html_paragraph(f"You will work as {one.title.lower()} with a team of {4 + at % 7}."),
        )
        pages[one.target] = SitePage(one.name, main, trail)
    return pages
