"""The generated documentation of a program: three versions, long references, yearly release notes, a search."""

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
from agentlearn_demo.web.sites.site import SearchEntry, Site, SitePage, slug, target
from agentlearn_demo.web.sites.vocabulary import MONTHS, PROGRAMS

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

    @property
    def name(self) -> str:
        """Name of the program."""
        return self.program


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
    return Site(
        kind="documentation",
        number=number,
        host=f"{slug(facts.program)}-docs.test",
        name=f"{facts.program} documentation",
        menu=(
            ("Versions", "/versions"),
            ("Release notes", "/releases"),
            ("Troubleshooting", "/troubleshooting"),
            ("Downloads", "/downloads"),
            ("Community", "/community"),
        ),
        footer=(("Licence", "/licence"), ("Imprint", "/imprint"), ("Privacy", "/privacy")),
        pages={**_fixed(facts), **_versions(facts), **_notes(facts), **_faults(facts)},
        entries=(
            *(SearchEntry(f"When {fault}", f"/faults/{slug(fault)}",
                    f"{facts.program} ends with exit status {facts.statuses[fault][1]} when {fault}"
                    " (text of version 2.4) …")
              for fault in FAULTS),
            *(SearchEntry(f"Option reference {one}", f"/{one}/options", "All options.") for one in VERSIONS),
            *(SearchEntry(f"Commands {version}", f"/{version}/commands", "All commands.") for version in VERSIONS),
        ),
    )  # fmt: skip


def _releases(rng: Random) -> dict[tuple[int, str], tuple[str, str]]:
    drawn: dict[tuple[int, str], tuple[str, str]] = {}
    for at, year in enumerate(reversed(YEARS)):
        numbers = sorted(rng.sample(range(1, 60), 2 * len(COMMANDS)))
        names = [f"{at + 1}.{one // 10}.{one % 10}" for one in numbers]
        for place, command in enumerate(rng.sample(COMMANDS, len(COMMANDS))):
            drawn[year, command] = (names[2 * place + 1], names[2 * place])
    return drawn


def _fixed(facts: Documentation) -> dict[str, SitePage]:
    about = (
        f"{facts.program} keeps large collections of records in order. Three versions are maintained; what holds for"
        " one of them need not hold for another."
    )
    community = "Questions are answered in the forum, faults are collected in the tracker, and talks are held in May."
    return {
        "/": SitePage(
            facts.program,
            html_lines(
                heading(f"{facts.program} documentation"),
                html_paragraph(about),
                bullets(link(f"Version {version}", f"/{version}/") for version in VERSIONS),
                html_paragraph("Faults are explained under ", link("Troubleshooting", "/troubleshooting"), "."),
            ),
        ),
        "/community": SitePage("Community", html_lines(heading("Community"), html_paragraph(community))),
        "/downloads": SitePage(
            "Downloads", html_lines(heading("Downloads"), html_paragraph("For every system, signed."), _sizes())
        ),
        "/privacy": SitePage("Privacy", html_lines(heading("Privacy"), html_paragraph("These pages count nobody."))),
        "/licence": SitePage(
            "Licence", html_lines(heading("Licence"), html_paragraph(f"{facts.program} is free to use and to change."))
        ),
        "/imprint": SitePage(
            "Imprint", html_lines(heading("Imprint"), html_paragraph(f"The authors of {facts.program}."))
        ),
    }


def _sizes() -> SiteHtml:
    systems = ("Linux", "macOS", "Windows")
    rows = [(system, f"{31 + 4 * at} MB") for at, system in enumerate(systems)]
    return html_table(("System", "Size"), rows)


def _versions(facts: Documentation) -> dict[str, SitePage]:
    top = (("Versions", "/versions"),)
    rows = [(link(f"Version {version}", f"/{version}/"), str(YEARS[2 * at])) for at, version in enumerate(VERSIONS)]
    form = choice_form("/versions/find", [("version", "Version", VERSIONS)], "Show version")
    pages = {
        "/versions": SitePage("Versions", html_lines(heading("Versions"), html_table(("Version", "Since"), rows), form))
    }
    for version in VERSIONS:
        parts = [
            ("Tutorial", "tutorial"), ("Option reference", "options"), ("Commands", "commands"),
            ("Upgrading", "upgrading"),
        ]  # fmt: skip
        trail = (*top, (f"Version {version}", f"/{version}/"))
        home = html_lines(
            heading(f"{facts.program} {version}"),
            html_paragraph(f"This part describes version {version}."),
            bullets(link(title, f"/{version}/{name}") for title, name in parts),
        )
        pages[f"/{version}/"] = SitePage(f"Version {version}", home, top)
        pages[target("/versions/find", [("version", version)])] = SitePage(f"Version {version}", home, top)
        for title, name in parts:
            main = html_lines(heading(f"{title}, version {version}"), _part(facts, version, name))
            pages[f"/{version}/{name}"] = SitePage(f"{title} {version}", main, trail)
        for command in COMMANDS:
            pages[f"/{version}/commands/{command}"] = SitePage(
                f"{command} {version}",
                _command(facts, version, command),
                (*trail, ("Commands", f"/{version}/commands")),
            )
    return pages


def _part(facts: Documentation, version: str, name: str) -> SiteHtml:
    match name:
        case "options":
            return bullets(
                f"{option}: {SETTINGS[option.split('_')[1]]}. {_TYPE} Default: {value}."
                for (of, option), value in facts.defaults.items()
                if of == version
            )
        case "commands":
            return bullets(link(command, f"/{version}/commands/{command}") for command in COMMANDS)
        case "tutorial":
            steps = ("Install it", "Make a collection", "Add records", "Ask it something", "Keep a copy")
            return html_lines(*(html_paragraph(f"{at}. {step}.") for at, step in enumerate(steps, start=1)))
        case _:
            return html_paragraph("Keep a copy of your collection, install the new version, and start it once by hand.")


def _command(facts: Documentation, version: str, command: str) -> SiteHtml:
    return html_lines(
        heading(f"{facts.program.lower()} {command}"),
        html_paragraph(f"What the command {command} does in version {version}."),
        fields([("Command", command), ("Needs the index", "yes" if len(command) % 2 else "no")]),
        bullets(f"--{area}-{command}: only the {area}" for area in AREAS[:4]),
    )


def _notes(facts: Documentation) -> dict[str, SitePage]:
    trail = (("Release notes", "/releases"),)
    listed = bullets(link(f"Releases of {year}", f"/releases/{year}") for year in YEARS)
    pages = {"/releases": SitePage("Release notes", html_lines(heading("Release notes"), listed))}
    for year in YEARS:
        planned = [(f"Plans for {command}", command, True) for command in COMMANDS]
        made = [(f"Change of {command}", command, False) for command in COMMANDS]
        here = (*trail, (f"Releases of {year}", f"/releases/{year}"))
        shown = [teaser(title, _note(year, title), "What users should know …") for title, _, _ in (*planned, *made)]
        pages[f"/releases/{year}"] = SitePage(
            f"Releases of {year}", html_lines(heading(f"Releases of {year}"), *shown), trail
        )
        for at, (title, command, early) in enumerate((*planned, *made)):
            release = facts.releases[year, command][1 if early else 0]
            main = html_lines(
                heading(f"{title}, {year}"),
                fields([("Release", release), ("Written in", f"{MONTHS[at]} {year}")]),
                html_paragraph(
                    f"The command {command} works on several records at once." if not early else "May change."
                ),
            )
            pages[_note(year, title)] = SitePage(f"{title}, {year}", main, here)
    return pages


def _note(year: int, title: str) -> str:
    return f"/releases/{year}/{slug(title)}"


def _faults(facts: Documentation) -> dict[str, SitePage]:
    trail = (("Troubleshooting", "/troubleshooting"),)
    old = bullets(link(f"If {fault}", f"/troubleshooting/{slug(fault)}") for fault in FAULTS)
    note = html_paragraph("Written for version 1.8. Newer texts are found with the search.")
    pages = {"/troubleshooting": SitePage("Troubleshooting", html_lines(heading("Troubleshooting"), note, old))}
    for fault, (now, _, then) in facts.statuses.items():
        for title, at, status, about in (
            (f"If {fault}", f"/troubleshooting/{slug(fault)}", then, "Version 1.8."),
            (f"When {fault}", f"/faults/{slug(fault)}", now, "All maintained versions."),
        ):
            main = html_lines(
                heading(title),
                html_paragraph(about),
                fields([("Exit status", str(status)), ("Can be repeated", "yes" if len(fault) % 2 else "no")]),
                html_paragraph("Stop the program, look into the log, and start it again."),
            )
            pages[at] = SitePage(title, main, trail)
    return pages
