"""The generated documentation of a program: three versions, long references, yearly release notes, a search."""

from dataclasses import dataclass
from functools import cache
from random import Random

from agentlearn.types.ids import derive_seed
from agentlearn_demo.web.site import (
    SearchEntry,
    Site,
    SitePage,
    SiteProblem,
    bullets,
    choice_form,
    fields,
    html_paragraph,
    html_table,
    link,
    page,
    slug,
    target,
    teaser,
)

PROGRAMS = (
    "Tarn", "Bramble", "Cobalt", "Drover", "Ember", "Fathom", "Gantry", "Harrow", "Inkwell", "Jetty", "Kiln",
    "Lantern",
)  # fmt: skip
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
VERSIONS = ("3.1", "2.4", "1.8")
"""The newest first."""
AREAS = ("archive", "cache", "disk", "index", "journal", "lock", "network", "query", "session", "upload")
SETTINGS = {
    "batch": "how many records are handled in one go",
    "delay": "pause between two attempts, in milliseconds",
    "depth": "how many levels are followed before it stops",
    "limit": "the largest number that is let in at a time",
    "queue": "how many requests may wait for their turn",
    "retain": "for how many days the old state is kept",
    "workers": "how many threads share the work among them",
}
COMMANDS = ("attach", "compact", "export", "prune", "verify")
YEARS = (2025, 2024, 2023, 2022, 2021)
_TYPE = "Type: whole number, read when the program starts."
FAULTS = (
    "the index is locked", "the disk is full", "the journal is torn", "the key has expired", "the network is down",
    "the peer is unknown", "the schema is newer", "the session is closed", "the token is missing",
    "the upload is incomplete",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Documentation:
    """All data of one program."""

    number: int
    program: str
    defaults: dict[tuple[str, str], int]
    """Default values by (version, option)."""
    releases: dict[tuple[int, str], tuple[str, str]]
    """By (year, command): the release that changed the command, and the release for which the change was planned."""
    statuses: dict[str, tuple[int, int, int]]
    """By fault: exit status now, in version 2.4 and in version 1.8."""


@cache
def documentation(number: int) -> Documentation:
    """Return the documentation with that number."""
    rng = Random(derive_seed("site", "documentation", number))
    options = [f"{area}_{setting}" for area in AREAS for setting in SETTINGS]
    values = {
        version: rng.sample(range(at * 300 + 2, at * 300 + 300), len(options)) for at, version in enumerate(VERSIONS)
    }
    statuses = rng.sample(range(2, 120), 3 * len(FAULTS))
    return Documentation(
        number,
        PROGRAMS[number],
        {(version, name): value for version in VERSIONS for name, value in zip(options, values[version], strict=True)},
        _releases(rng),
        {fault: (statuses[at], statuses[10 + at], statuses[20 + at]) for at, fault in enumerate(FAULTS)},
    )


def documentation_site(number: int) -> Site:
    """Return the program's website."""
    facts = documentation(number)
    shown = "exit status {} when {} (text of version 2.4) …"
    return Site(
        kind="documentation",
        number=number,
        host=f"{slug(facts.program)}-docs.test",
        name=f"{facts.program} documentation",
        menu=(("Versions", "/versions"), ("Release notes", "/releases"), ("Troubleshooting", "/troubleshooting")),
        footer=(("Licence", "/licence"),),
        pages={**_versions(facts), **_notes(facts), **_faults(facts)},
        entries=(
            *(
                SearchEntry(
                    f"When {fault}",
                    f"/faults/{slug(fault)}",
                    f"{facts.program} ends with {shown.format(facts.statuses[fault][1], fault)}",
                )
                for fault in FAULTS
            ),
            *(SearchEntry(f"Option reference {one}", f"/{one}/options", "All options.") for one in VERSIONS),
            *(SearchEntry(f"Commands {version}", f"/{version}/commands", "All commands.") for version in VERSIONS),
        ),
    )


def _releases(rng: Random) -> dict[tuple[int, str], tuple[str, str]]:
    drawn: dict[tuple[int, str], tuple[str, str]] = {}
    for at, year in enumerate(reversed(YEARS)):
        numbers = sorted(rng.sample(range(1, 60), 2 * len(COMMANDS)))
        names = [f"{at + 1}.{one // 10}.{one % 10}" for one in numbers]
        for place, command in enumerate(rng.sample(COMMANDS, len(COMMANDS))):
            drawn[year, command] = (names[2 * place + 1], names[2 * place])
    return drawn


def _versions(facts: Documentation) -> dict[str, SitePage]:
    top = (("Versions", "/versions"),)
    about = f"{facts.program} keeps large collections of records in order. Three versions are maintained."
    links = bullets(link(f"Version {version}", f"/{version}/") for version in VERSIONS)
    rows = [(link(f"Version {version}", f"/{version}/"), str(YEARS[2 * at])) for at, version in enumerate(VERSIONS)]
    form = choice_form("/versions/find", [("version", "Version", VERSIONS)], "Show version")
    licence = html_paragraph(f"{facts.program} is free to use and to change.")
    pages = {
        "/": page(facts.program, html_paragraph(about), links),
        "/licence": page("Licence", licence),
        "/versions": page("Versions", html_table(("Version", "Since"), rows), form),
    }
    for version in VERSIONS:
        parts = (("Option reference", "options"), ("Commands", "commands"))
        trail = (*top, (f"Version {version}", f"/{version}/"))
        note = html_paragraph(f"This part describes version {version}; what holds here need not hold for another.")
        home = page(
            f"Version {version}", note, bullets(link(title, f"/{version}/{at}") for title, at in parts), trail=top
        )
        options = bullets(
            f"{option}: {SETTINGS[option.split('_')[1]]}. {_TYPE} Default: {value}."
            for (of, option), value in facts.defaults.items()
            if of == version
        )
        pages |= {
            f"/{version}/": home,
            target("/versions/find", [("version", version)]): home,
            f"/{version}/options": page(f"Option reference {version}", options, trail=trail),
            f"/{version}/commands": page(f"Commands {version}", bullets(COMMANDS), trail=trail),
        }
    return pages


def _notes(facts: Documentation) -> dict[str, SitePage]:
    trail = (("Release notes", "/releases"),)
    listed = bullets(link(f"Releases of {year}", f"/releases/{year}") for year in YEARS)
    pages = {"/releases": page("Release notes", listed)}
    for year in YEARS:
        titles = [(f"Plans for {command}", command, 1) for command in COMMANDS]
        titles += [(f"Change of {command}", command, 0) for command in COMMANDS]
        at = {title: f"/releases/{year}/{slug(title)}" for title, _, _ in titles}
        shown = [teaser(title, at[title], "What users should know …") for title, _, _ in titles]
        pages[f"/releases/{year}"] = page(f"Releases of {year}", *shown, trail=trail)
        here = (*trail, (f"Releases of {year}", f"/releases/{year}"))
        for month, (title, command, planned) in enumerate(titles):
            release = facts.releases[year, command][planned]
            values = fields([("Release", release), ("Written in", f"{MONTHS[month]} {year}")])
            pages[at[title]] = page(f"{title}, {year}", values, trail=here)
    return pages


def _faults(facts: Documentation) -> dict[str, SitePage]:
    trail = (("Troubleshooting", "/troubleshooting"),)
    old = bullets(link(f"If {fault}", f"/troubleshooting/{slug(fault)}") for fault in FAULTS)
    note = html_paragraph("Written for version 1.8. Newer texts are found with the search.")
    pages = {"/troubleshooting": page("Troubleshooting", note, old)}
    for fault, (now, _, then) in facts.statuses.items():
        for title, at, status, about in (
            (f"If {fault}", f"/troubleshooting/{slug(fault)}", then, "Version 1.8."),
            (f"When {fault}", f"/faults/{slug(fault)}", now, "All maintained versions."),
        ):
            values = fields([("Exit status", str(status)), ("Can be repeated", "yes" if len(fault) % 2 else "no")])
            pages[at] = page(title, html_paragraph(about), values, trail=trail)
    return pages


LATE_AREAS = AREAS[-3:]
"""Areas whose options are far down in the reference."""


def option_default_problems(number: int) -> list[SiteProblem]:
    """Return problems about default values in older versions."""
    facts = documentation(number)
    return [
        SiteProblem(
            {"option": f"{area}_{setting}", "version": version, "site": facts.program},
            str(facts.defaults[version, f"{area}_{setting}"]),
            (f"/{version}/", f"/{version}/options"),
        )
        for version in VERSIONS[1:]
        for area in LATE_AREAS
        for setting in SETTINGS
    ]


def release_problems(number: int) -> list[SiteProblem]:
    """Return problems about releases of past years."""
    facts = documentation(number)
    return [
        SiteProblem(
            {"command": command, "year": str(year), "site": facts.program},
            facts.releases[year, command][0],
            ("/releases", f"/releases/{year}", f"/releases/{year}/{slug(f'Change of {command}')}"),
        )
        for year in YEARS[1:]
        for command in COMMANDS
    ]


def exit_status_problems(number: int) -> list[SiteProblem]:
    """Return problems about the current exit status of faults."""
    facts = documentation(number)
    return [
        SiteProblem({"fault": fault, "site": facts.program}, str(now), (f"/faults/{slug(fault)}",))
        for fault, (now, _, _) in facts.statuses.items()
    ]
