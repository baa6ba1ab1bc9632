"""Questions about programs."""

from agentlearn_web.questions.problem import Problem
from agentlearn_web.sites.documentation import AREAS, COMMANDS, SETTINGS, VERSIONS, YEARS, documentation
from agentlearn_web.sites.site import slug

LATE_AREAS = AREAS[-3:]
"""Their options stand far down in the reference."""


def option_defaults(number: int) -> list[Problem]:
    """Defaults in older versions."""
    it = documentation(number)
    return [
        Problem(
            {"option": f"{area}_{setting}", "version": version, "site": it.name},
            str(it.defaults[version, f"{area}_{setting}"]),
            (f"/{version}/", f"/{version}/options"),
        )
        for version in VERSIONS[1:]
        for area in LATE_AREAS
        for setting in SETTINGS
    ]


def releases_of_changes(number: int) -> list[Problem]:
    """Releases of past years."""
    it = documentation(number)
    return [
        Problem(
            {"command": command, "year": str(year), "site": it.name},
            it.releases[year, command][0],
            ("/releases", f"/releases/{year}", f"/releases/{year}/{slug(f'Change of {command}')}"),
        )
        for year in YEARS[1:]
        for command in COMMANDS
    ]


def exit_statuses(number: int) -> list[Problem]:
    """What faults return today."""
    it = documentation(number)
    return [
        Problem({"fault": fault, "site": it.name}, str(now), (f"/faults/{slug(fault)}",))
        for fault, (now, _, _) in it.statuses.items()
    ]
