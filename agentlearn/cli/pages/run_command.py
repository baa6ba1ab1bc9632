"""The command that starts a stored learn run again."""

import shlex
from typing import Any

from pydantic import ValidationError

from agentlearn.cli.learn import OPTION_NAMES, learn_fields
from agentlearn.cli.options import GivenSettings
from agentlearn.config import LearnSettings, learn_settings
from agentlearn.errors import AgentlearnError
from agentlearn.library import NO_LIBRARY
from agentlearn.store import RunRow
from agentlearn.types.experience import EMPTY_LIBRARY

_ALWAYS = ("model", "seed")
"""Settings that the command names even where they are the default, because a default can change."""
_NO_OPTIONS = ("domain", "api_key", "private_addresses", "given")


def run_command(row: RunRow, start: str | None) -> str:
    """The command with every option that it needs to get the same settings; empty when there is none.

    start: the version that the run started from, which the command names: the library of its name has changed since.
    There is none for a run that a program gave objects to, and for settings that no command gives on this machine.
    """
    try:
        settings = LearnSettings.model_validate_json(row.settings)
        if settings.given or settings.private_addresses:
            return ""
        what, options = _words(settings)
        again = learn_settings(learn_fields(what, GivenSettings(options)))
    except (AgentlearnError, ValidationError, ValueError, OSError):
        return ""
    if again != settings:
        return ""
    if settings.library is None and start is not None:
        none = start == EMPTY_LIBRARY.version
        options["library"] = NO_LIBRARY if none else f"{settings.library_name}@{start[:12]}"
    return shlex.join(["agentlearn", "learn", what, *_arguments(options)])


def _words(settings: LearnSettings) -> tuple[str, dict[str, Any]]:
    """What the command learns from, and the settings to give as options."""
    own_tasks = settings.reward is not None and settings.data is not None
    what = str(settings.data) if own_tasks else settings.domain
    first = {"reward": settings.reward} if own_tasks else {}
    first |= {"from_store": True} if settings.from_store else {}
    usual = learn_settings(learn_fields(what, GivenSettings(first)))
    fields = [name for name in LearnSettings.model_fields if name not in _NO_OPTIONS]
    needed = [name for name in fields if name in _ALWAYS or getattr(settings, name) != getattr(usual, name)]
    if own_tasks:
        needed = [name for name in needed if name != "data"]
        if settings.domain != usual.domain:
            needed.append("name")
    return what, first | {name: getattr(settings, name) for name in needed}


def _arguments(options: dict[str, Any]) -> list[str]:
    arguments: list[str] = []
    for field, value in options.items():
        option = OPTION_NAMES.get(field, f"--{field.replace('_', '-')}")
        match value:
            case True:
                arguments.append(option)
            case False:
                arguments.append(f"--no-{option.removeprefix('--')}")
            case None:
                arguments += [option, "none"]
            case tuple():
                arguments += [word for one in value for word in (option, str(one))]
            case _:
                arguments += [option, str(value)]
    return arguments
