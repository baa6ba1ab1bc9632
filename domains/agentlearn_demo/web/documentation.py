"""The generated documentation of a program: three versions, long references, yearly release notes, a search."""

from dataclasses import dataclass
from itertools import product
from random import Random

from agentlearn.types.ids import derive_seed
from agentlearn_demo.web.site import (
    GeneratedSite,
    SearchEntry,
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


LATE_AREAS = AREAS[-3:]
"""Areas whose options are far down in the reference."""


@dataclass(frozen=True, slots=True)
class _Documentation:
    """All data of one program."""

    program: str
    defaults: dict[tuple[str, str], int]
    """Default values by (version, option)."""
    releases: dict[tuple[int, str], tuple[str, str]]
    """By (year, command): the release that changed the command, and the release for which the change was planned."""
    statuses: dict[str, tuple[int, int, int]]
    """By fault: exit status now, in version 2.4 and in version 1.8."""

    @classmethod
    def drawn(cls, number: int) -> "_Documentation":
        """Return the documentation with that number."""
        rng = Random(derive_seed("site", "documentation", number))
        options = [f"{area}_{setting}" for area, setting in product(AREAS, SETTINGS)]
        defaults = {
            (version, name): value
            for at, version in enumerate(VERSIONS)
            for name, value in zip(options, rng.sample(range(at * 300 + 2, at * 300 + 300), len(options)), strict=True)
        }
        numbers = rng.sample(range(2, 120), 3 * len(FAULTS))
        statuses = {fault: (numbers[at], numbers[10 + at], numbers[20 + at]) for at, fault in enumerate(FAULTS)}
        releases: dict[tuple[int, str], tuple[str, str]] = {}
        for at, year in enumerate(reversed(YEARS)):
            drawn = sorted(rng.sample(range(1, 60), 2 * len(COMMANDS)))
            names = [f"{at + 1}.{one // 10}.{one % 10}" for one in drawn]
            for place, command in enumerate(rng.sample(COMMANDS, len(COMMANDS))):
                releases[year, command] = (names[2 * place + 1], names[2 * place])
        return cls(PROGRAMS[number], defaults, releases, statuses)

    def versions(self) -> dict[str, SitePage]:
        """Return the pages of the program and its versions."""
        top = (("Versions", "/versions"),)
        about = f"{self.program} keeps large collections of records in order. Three versions are maintained."
        links = bullets(link(f"Version {version}", f"/{version}/") for version in VERSIONS)
        rows = [(link(f"Version {version}", f"/{version}/"), str(YEARS[2 * at])) for at, version in enumerate(VERSIONS)]
        form = choice_form("/versions/find", [("version", "Version", VERSIONS)], "Show version")
        pages = {
            "/": page(self.program, html_paragraph(about), links),
            "/licence": page("Licence", html_paragraph(f"{self.program} is free to use and to change.")),
            "/versions": page("Versions", html_table(("Version", "Since"), rows), form),
        }
        for version in VERSIONS:
            parts = (("Option reference", "options"), ("Commands", "commands"))
            trail = (*top, (f"Version {version}", f"/{version}/"))
            note = html_paragraph(f"This part describes version {version}; what holds here need not hold for another.")
            listed = bullets(link(title, f"/{version}/{at}") for title, at in parts)
            home = page(f"Version {version}", note, listed, trail=top)
            options = bullets(
                f"{option}: {SETTINGS[option.split('_')[1]]}. {_TYPE} Default: {value}."
                for (of, option), value in self.defaults.items()
                if of == version
            )
            pages |= {
                f"/{version}/": home,
                target("/versions/find", [("version", version)]): home,
                f"/{version}/options": page(f"Option reference {version}", options, trail=trail),
                f"/{version}/commands": page(f"Commands {version}", bullets(COMMANDS), trail=trail),
            }
        return pages

    def notes(self) -> dict[str, SitePage]:
        """Return the pages of the release notes."""
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
                release = self.releases[year, command][planned]
                values = fields([("Release", release), ("Written in", f"{MONTHS[month]} {year}")])
                pages[at[title]] = page(f"{title}, {year}", values, trail=here)
        return pages

    def faults(self) -> dict[str, SitePage]:
        """Return the pages about faults."""
        trail = (("Troubleshooting", "/troubleshooting"),)
        old = bullets(link(f"If {fault}", f"/troubleshooting/{slug(fault)}") for fault in FAULTS)
        note = html_paragraph("Written for version 1.8. Newer texts are found with the search.")
        pages = {"/troubleshooting": page("Troubleshooting", note, old)}
        for fault, (now, _, then) in self.statuses.items():
            for title, at, status, about in (
                (f"If {fault}", f"/troubleshooting/{slug(fault)}", then, "Version 1.8."),
                (f"When {fault}", f"/faults/{slug(fault)}", now, "All maintained versions."),
            ):
                values = fields([("Exit status", str(status)), ("Can be repeated", "yes" if len(fault) % 2 else "no")])
                pages[at] = page(title, html_paragraph(about), values, trail=trail)
        return pages


def documentation_site(number: int) -> GeneratedSite:
    """Return the website of the program with that number."""
    facts = _Documentation.drawn(number)
    shown = "exit status {} when {} (text of version 2.4) …"
    return GeneratedSite(
        host=f"{slug(facts.program)}-docs.test",
        name=f"{facts.program} documentation",
        menu=(("Versions", "/versions"), ("Release notes", "/releases"), ("Troubleshooting", "/troubleshooting")),
        footer=(("Licence", "/licence"),),
        pages={**facts.versions(), **facts.notes(), **facts.faults()},
        entries=(
            *(
                SearchEntry(
                    f"When {fault}",
                    f"/faults/{slug(fault)}",
                    f"{facts.program} ends with {shown.format(status, fault)}",
                )
                for fault, (_, status, _) in facts.statuses.items()
            ),
            *(SearchEntry(f"Option reference {one}", f"/{one}/options", "All options.") for one in VERSIONS),
            *(SearchEntry(f"Commands {version}", f"/{version}/commands", "All commands.") for version in VERSIONS),
        ),
        problems={
            "option_default": [
                SiteProblem(
                    {"option": f"{area}_{setting}", "version": version, "site": facts.program},
                    str(facts.defaults[version, f"{area}_{setting}"]),
                    (f"/{version}/", f"/{version}/options"),
                )
                for version, area, setting in product(VERSIONS[1:], LATE_AREAS, SETTINGS)
            ],
            "release_of_change": [
                SiteProblem(
                    {"command": command, "year": str(year), "site": facts.program},
                    facts.releases[year, command][0],
                    ("/releases", f"/releases/{year}", f"/releases/{year}/{slug(f'Change of {command}')}"),
                )
                for year, command in product(YEARS[1:], COMMANDS)
            ],
            "exit_status": [
                SiteProblem({"fault": fault, "site": facts.program}, str(now), (f"/faults/{slug(fault)}",))
                for fault, (now, _, _) in facts.statuses.items()
            ],
        },
    )
