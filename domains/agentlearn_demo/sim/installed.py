"""Load the skills that installed domains provide for the simulated world."""

from importlib.metadata import EntryPoint, entry_points
from typing import cast

from agentlearn.errors import ConfigError
from agentlearn_demo.sim.skills import Skills

GROUP = "agentlearn.skills"


def installed_skills() -> tuple[Skills, ...]:
    """The skills of every installed domain, sorted by name. Raises ConfigError for skills that cannot be loaded."""
    # Of two entry points with one name the first on the path wins, as with modules.
    by_name = {entry.name: entry for entry in reversed(tuple(entry_points(group=GROUP)))}
    return tuple(_loaded(by_name[name]) for name in sorted(by_name))


def _loaded(entry: EntryPoint) -> Skills:
    try:
        loaded: object = entry.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"the skills {entry.name!r} ({entry.value}) cannot be loaded: {error}; reinstall or remove the package",
            code="bad_skills",
        ) from error
    skills = loaded() if callable(loaded) else loaded
    if not callable(getattr(skills, "recognise", None)):
        raise ConfigError(
            f"the skills {entry.name!r} ({entry.value}) do not implement agentlearn_demo.sim.skills.Skills",
            code="bad_skills",
        )
    return cast("Skills", skills)
