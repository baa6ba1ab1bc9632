"""A generated university: an outdated staff directory, courses by year, libraries with teasers, news."""

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
    html_element,
    html_lines,
    html_paragraph,
    html_table,
    link,
    teaser,
)
from agentlearn_demo.web.sites.site import SearchEntry, Site, SitePage, listing_pages, slug, target
from agentlearn_demo.web.sites.vocabulary import FIRST_NAMES, MONTHS, SURNAMES, TOWNS

SUBJECTS = (
    "Astronomy", "Botany", "Chemistry", "Economics", "Geology", "History", "Linguistics", "Mathematics", "Philosophy",
    "Physics",
)  # fmt: skip
CAMPUSES = ("Harbour Campus", "Hill Campus", "Park Campus")
BRANCHES = ("Library", "Law Library", "Science Library")
DAYS = ("weekdays", "Saturdays", "Sundays")
YEARS = ("2025/26", "2024/25", "2023/24", "2022/23", "2021/22")
"""Academic years, the newest first."""
LEVELS = ("I", "II")
EXAM_YEARS = ("2025", "2024", "2023")
TERMS = ("spring", "autumn")
SITTINGS = tuple((year, term) for year in EXAM_YEARS for term in TERMS)
"""Year and term of each round of examinations; the first one is the form's default."""


@dataclass(frozen=True, slots=True)
class Person:
    """A member of staff."""

    number: int
    name: str
    subject: str
    room: str
    phone: str
    since: int

    @property
    def target(self) -> str:
        """Path of the person's page."""
        return f"/people/{slug(self.name)}-{self.number}"


@dataclass(frozen=True, slots=True)
class Branch:
    """A library of one campus."""

    campus: str
    kind: str
    closes: tuple[str, str, str]
    """Closing time on each of `DAYS`."""
    teased: tuple[str, str, str]
    """Outdated closing times, as shown in the overview."""
    reported: tuple[str, str, str]
    """Outdated closing times, as given in an old news item."""

    @property
    def name(self) -> str:
        """Campus and kind."""
        return f"{self.campus} {self.kind}"


@dataclass(frozen=True, slots=True)
class University:
    """All data of one university."""

    number: int
    town: str
    veterans: tuple[Person, ...]
    """Long-time staff, listed in the old directory."""
    newcomers: tuple[Person, ...]
    """Staff not in the old directory; each has the name of the veteran at the same index, in another department."""
    lecturers: dict[tuple[str, str, str], str]
    """Names of lecturers by (year, subject, level)."""
    branches: tuple[Branch, ...]
    halls: dict[tuple[str, str, str], str]
    """Examination halls by (year, term, subject); no subject uses the same hall twice."""
    usual_halls: dict[str, str]
    """Halls that the outdated examination rules name, by subject; they are always wrong."""
    news: dict[int, tuple[str, ...]]

    @property
    def name(self) -> str:
        """Name of the university."""
        return f"{self.town} University"


@cache
def university(number: int) -> University:
    """Return the university with that number."""
    rng = Random(derive_seed("site", "university", number))
    firsts, lasts = rng.sample(FIRST_NAMES, 12), rng.sample(SURNAMES, 12)
    names = [f"{first} {last}" for first, last in zip(firsts, lasts, strict=True)]
    rooms = rng.sample([f"{wing} {room}" for wing in "ABCDEFG" for room in range(101, 140)], 24)
    veterans = [_person(rng, at, name, SUBJECTS[at % 10], rooms[at], 2001) for at, name in enumerate(names)]
    newcomers = [_person(rng, at, name, SUBJECTS[(at + 3) % 10], rooms[at], 2023) for at, name in enumerate(names, 12)]
    return University(
        number,
        TOWNS[number],
        tuple(veterans),
        tuple(newcomers),
        _lecturers(rng, names),
        tuple(_branch(rng, campus, kind) for campus in CAMPUSES for kind in BRANCHES),
        *_halls(rng),
        {year: tuple(rng.sample(_NEWS, 4)) for year in range(2025, 2020, -1)},
    )


def university_site(number: int) -> Site:
    """Return the university's website."""
    facts = university(number)
    everybody = [*facts.veterans, *facts.newcomers]
    return Site(
        kind="university",
        number=number,
        host=f"{slug(facts.town)}-university.test",
        name=facts.name,
        menu=(
            ("Study", "/study"),
            ("Courses", "/courses"),
            ("Examination rules", "/examination-rules"),
            ("Examinations", "/examinations"),
            ("Library news", "/library-news"),
            ("Libraries", "/libraries"),
            ("Staff directory", "/people"),
            ("News", "/news"),
        ),
        footer=(("Contact", "/contact"), ("Imprint", "/imprint"), ("Departments", "/departments")),
        pages={
            **_fixed(facts),
            **_people(facts),
            **_courses(facts),
            **_libraries(facts),
            **_examinations(facts),
            **_news(facts),
            **_departments(everybody),
        },
        entries=(
            *(SearchEntry(one.name, one.target, f"Department of {one.subject}, on the staff since {one.since}.")
              for one in everybody),
            *(SearchEntry(one.name, f"/libraries/{slug(one.name)}", f"A library on the {one.campus}.")
              for one in facts.branches),
            *(SearchEntry(f"{subject} {level}", f"/courses/{slug(subject)}-{slug(level)}", f"A course in {subject}.")
              for level in LEVELS for subject in SUBJECTS),
        ),
    )  # fmt: skip


_NEWS = (
    "Open day draws a crowd", "New lecture hall in use", "Choir sings in the park", "Rowing team wins the regatta",
    "Botanic garden extended", "Night of the sciences", "A prize for the canteen", "Bicycles for guests",
    "Archive of maps restored", "Summer school begins",
)  # fmt: skip


def _person(rng: Random, number: int, name: str, subject: str, room: str, since: int) -> Person:
    return Person(number, name, subject, room, f"555-{rng.randint(1000, 9999)}", since + rng.randint(0, 2))


def _lecturers(rng: Random, names: list[str]) -> dict[tuple[str, str, str], str]:
    """Assign lecturers: nobody teaches both levels of a subject in a year, or the same course in two years."""
    shift = rng.randint(0, 11)
    return {
        (year, subject, level): names[(shift + 2 * at + column * 3 + step) % 12]
        for at, year in enumerate(YEARS)
        for column, subject in enumerate(SUBJECTS)
        for step, level in enumerate(LEVELS)
    }


def _branch(rng: Random, campus: str, kind: str) -> Branch:
    times = [f"{hour}:{minute}" for hour in range(15, 23) for minute in ("00", "30")]
    one, two, three, *others = rng.sample(times, 9)
    return Branch(campus, kind, (one, two, three), (others[0], others[1], others[2]), (others[3], others[4], others[5]))


def _halls(rng: Random) -> tuple[dict[tuple[str, str, str], str], dict[str, str]]:
    names = [f"{name} Hall" for name in ("Amber", "Cedar", "East", "Garden", "Marble", "North", "Oak", "River", "West")]
    held: dict[tuple[str, str, str], str] = {}
    usual: dict[str, str] = {}
    for subject in SUBJECTS:
        usual[subject], *drawn = rng.sample(names, len(SITTINGS) + 1)
        held |= {(*sitting, subject): hall for sitting, hall in zip(SITTINGS, drawn, strict=True)}
    return held, usual


def _fixed(facts: University) -> dict[str, SitePage]:
    welcome = (
        f"{facts.name} teaches and studies ten subjects on three campuses. Its courses are listed by academic year, its"
        " libraries are open to everybody, and its staff answers questions gladly."
    )
    visit = "Guests are welcome. Trams run to every campus; the reception is open on weekdays from 8:00 to 17:00."
    return {
        "/": SitePage(
            "Welcome",
            html_lines(
                heading(f"Welcome to {facts.name}"),
                html_paragraph(welcome),
                heading("Ten subjects", 2),
                bullets(SUBJECTS),
                html_paragraph("New here? Begin with ", link("Study", "/study"), "."),
            ),
        ),
        "/study": SitePage(
            "Study",
            html_lines(
                heading("Study"),
                html_paragraph("A degree takes three years. Applications are open from February to May."),
                html_paragraph("Each subject is taught on two levels. All ", link("courses", "/courses"), " are open."),
                bullets([f"{subject}: two courses, eight credits" for subject in SUBJECTS]),
            ),
        ),
        "/contact": SitePage(
            "Contact", html_lines(heading("Contact"), html_paragraph(visit), html_paragraph("Telephone 555-0100."))
        ),
        "/imprint": SitePage(
            "Imprint", html_lines(heading("Imprint"), html_paragraph(f"Published by {facts.name}, {facts.town}."))
        ),
    }


def _people(facts: University) -> dict[str, SitePage]:
    blocks = [
        html_table(("Name", "Department"), [(link(one.name, one.target), one.subject) for one in block])
        for block in (facts.veterans,)
    ]
    note = html_paragraph("Edition of 2022. Who came later is found with the search.")
    trail = (("Staff directory", "/people"),)
    pages = {one.target: SitePage(one.name, _person_part(one), trail) for one in (*facts.veterans, *facts.newcomers)}
    return listing_pages("/people", "Staff directory", blocks, above=note) | pages


def _person_part(one: Person) -> SiteHtml:
    return html_lines(
        heading(one.name),
        html_paragraph(f"{one.name} has been with the Department of {one.subject} since {one.since}."),
        fields(
            [
                ("Department", one.subject),
                ("Room", one.room),
                ("Telephone", one.phone),
                ("Office hours", f"Tuesdays, {9 + one.number % 6}:00"),
            ]
        ),
        html_paragraph("Colleagues: ", link(f"Department of {one.subject}", f"/departments/{slug(one.subject)}")),
    )


def _departments(people: list[Person]) -> dict[str, SitePage]:
    trail = (("Departments", "/departments"),)
    listed = bullets(link(f"Department of {one}", f"/departments/{slug(one)}") for one in SUBJECTS)
    pages = {"/departments": SitePage("Departments", html_lines(heading("Departments"), listed))}
    for subject in SUBJECTS:
        staff = [one for one in people if one.subject == subject]
        rows = [(link(one.name, one.target), f"since {one.since}") for one in staff]
        main = html_lines(heading(f"Department of {subject}"), html_table(("Name", "On the staff"), rows))
        pages[f"/departments/{slug(subject)}"] = SitePage(f"Department of {subject}", main, trail)
    return pages


def _courses(facts: University) -> dict[str, SitePage]:
    trail = (("Courses", "/courses"),)
    form = choice_form("/courses/find", [("level", "Level", LEVELS), ("year", "Academic year", YEARS)], "Show courses")
    listed = bullets(link(f"Courses {year}", f"/courses/{slug(year)}") for year in YEARS)
    about = html_paragraph("What is taught, and by whom, changes every year.")
    pages = {"/courses": SitePage("Courses", html_lines(heading("Courses"), about, listed, form))}
    for year in YEARS:
        blocks = [_course_table(facts, year, level) for level in LEVELS]
        pages |= listing_pages(f"/courses/{slug(year)}", f"Courses {year}", blocks, trail)
        for level, block in zip(LEVELS, blocks, strict=True):
            found = target("/courses/find", [("year", year), ("level", level)])
            title = f"Courses of level {level}, {year}"
            pages[found] = SitePage(title, html_lines(heading(title), block), trail)
    for subject in SUBJECTS:
        for level in LEVELS:
            title = f"{subject} {level}"
            other = LEVELS[1 - LEVELS.index(level)]
            main = html_lines(
                heading(title),
                fields([("Credits", "4"), ("Level", level), ("Examination", "written")]),
                html_paragraph(
                    "The other level: ", link(f"{subject} {other}", f"/courses/{slug(subject)}-{slug(other)}")
                ),
            )
            pages[f"/courses/{slug(title)}"] = SitePage(title, main, trail)
    return pages


def _course_table(facts: University, year: str, level: str) -> SiteHtml:
    rows = [
        (link(f"{subject} {level}", f"/courses/{slug(subject)}-{slug(level)}"), facts.lecturers[year, subject, level])
        for subject in SUBJECTS
    ]
    return html_table(("Course", "Lecturer"), rows)


def _libraries(facts: University) -> dict[str, SitePage]:
    trail = (("Libraries", "/libraries"),)
    overview = [teaser(one.name, f"/libraries/{slug(one.name)}", _hours(one.teased)) for one in facts.branches]
    old = [(one, f"/library-news/{slug(one.name)}") for one in facts.branches]
    pages = {
        "/libraries": SitePage("Libraries", html_lines(heading("Libraries"), *overview)),
        "/library-news": SitePage(
            "Library news",
            html_lines(
                heading("Library news"),
                html_paragraph("What the libraries have told the press."),
                bullets(html_lines(link(one.name, at), " has new hours") for one, at in old),
            ),
        ),
    }
    for one, at in old:
        words = f"As told in 2021, the {one.name} is changing its hours."
        news = html_lines(heading(f"{one.name}: new hours"), html_paragraph(words), _closing(one.reported))
        pages[at] = SitePage(f"{one.name}: new hours", news, (("Library news", "/library-news"),))
        main = html_lines(
            heading(one.name),
            html_paragraph(f"You find us on the {one.campus}, next to the tram stop. Closing times:"),
            _closing(one.closes),
            html_paragraph("Books may be kept for four weeks."),
        )
        pages[f"/libraries/{slug(one.name)}"] = SitePage(one.name, main, trail)
    return pages


def _examinations(facts: University) -> dict[str, SitePage]:
    trail = (("Examinations", "/examinations"),)
    form = choice_form(
        "/examinations/find", [("term", "Term", TERMS), ("year", "Year", EXAM_YEARS)], "Show examinations"
    )
    rules = html_table(("Subject", "Usual hall"), facts.usual_halls.items())
    pages = {
        "/examinations": SitePage(
            "Examinations",
            html_lines(
                heading("Examinations"), html_paragraph("Halls are given out anew for every term. Choose one:"), form
            ),
        ),
        "/examination-rules": SitePage(
            "Examination rules",
            html_lines(
                heading("Examination rules"), html_paragraph("Bring a pen. The usual halls, as agreed in 2010:"), rules
            ),
        ),
    }
    for year, term in SITTINGS:
        title = f"Examinations of the {term} term of {year}"
        rows = [(subject, facts.halls[year, term, subject]) for subject in SUBJECTS]
        found = target("/examinations/find", [("year", year), ("term", term)])
        pages[found] = SitePage(title, html_lines(heading(title), html_table(("Subject", "Hall"), rows)), trail)
    return pages


def _hours(closes: tuple[str, str, str]) -> str:
    return "Open until " + ", ".join(f"{time} on {day}" for day, time in zip(DAYS, closes, strict=True)) + " …"


def _closing(closes: tuple[str, str, str]) -> SiteHtml:
    return fields((day.capitalize(), time) for day, time in zip(DAYS, closes, strict=True))


def _news(facts: University) -> dict[str, SitePage]:
    trail = (("News", "/news"),)
    listed = bullets(link(f"News of {year}", f"/news/{year}") for year in facts.news)
    pages = {"/news": SitePage("News", html_lines(heading("News"), listed))}
    for year, titles in facts.news.items():
        shown = [teaser(title, f"/news/{year}/{slug(title)}", "Read what happened …") for title in titles]
        pages[f"/news/{year}"] = SitePage(f"News of {year}", html_lines(heading(f"News of {year}"), *shown), trail)
        for at, title in enumerate(titles):
            day = f"{3 + 6 * at} {MONTHS[(year + 4 * at) % 12]} {year}"
            main = html_lines(
                heading(title), html_paragraph(html_element("b", day)), html_paragraph(f"{title} at {facts.name}.")
            )
            pages[f"/news/{year}/{slug(title)}"] = SitePage(title, main, (*trail, (f"News of {year}", f"/news/{year}")))
    return pages
