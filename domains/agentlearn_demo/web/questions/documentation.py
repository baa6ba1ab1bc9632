"""Questions about the documentation of programs."""

from agentlearn_demo.web.questions.problem import Problem
from agentlearn_demo.web.sites.documentation import AREAS, COMMANDS, SETTINGS, VERSIONS, YEARS, documentation
from agentlearn_demo.web.sites.site import slug

LATE_AREAS = AREAS[-3:]
"""Areas whose options are far down in the reference."""


def option_default_problems(number: int) -> list[Problem]:
    """Return problems about default values in older versions."""
    facts = documentation(number)
    return [
        Problem(
            {"option": f"{area}_{setting}", "version": version, "site": facts.name},
            str(facts.defaults[version, f"{area}_{setting}"]),
            (f"/{version}/", f"/{version}/options"),
        )
        for version in VERSIONS[1:]
        for area in LATE_AREAS
        for setting in SETTINGS
    ]


def release_problems(number: int) -> list[Problem]:
    """Return problems about releases of past years."""
    facts = documentation(number)
    return [
        Problem(
            {"command": command, "year": str(year), "site": facts.name},
            facts.releases[year, command][0],
            ("/releases", f"/releases/{year}", f"/releases/{year}/{slug(f'Change of {command}')}"),
        )
        for year in YEARS[1:]
        for command in COMMANDS
    ]


def exit_status_problems(number: int) -> list[Problem]:
    """Return problems about the current exit status of faults."""
    facts = documentation(number)
    return [
        Problem({"fault": fault, "site": facts.name}, str(now), (f"/faults/{slug(fault)}",))
        for fault, (now, _, _) in facts.statuses.items()
    ]
