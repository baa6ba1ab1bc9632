"""Settings from environment variables: `AGENTLEARN_<OPTION>` sets the default of a command-line option.

An option wins over a recipe, a recipe over the environment, the environment over the built-in default. Only the command
line reads these variables; functions of the library take their settings as arguments. One exception is
`AGENTLEARN_STORE`, which holds for both: an application finds the libraries that a command published. So does
`AGENTLEARN_MODELS`, the folder of fetched models (`model_folders`).
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from agentlearn.text import nearest_name

PREFIX = "AGENTLEARN_"
_OTHER_VARIABLES = frozenset({"API_KEY", "CHROMIUM", "LOG", "MODELS", "NO_KEY", "STORE", "VLLM_ARGS", "WALKERS"})
"""Variables that are not the default of an option, without the prefix."""
BUILT_IN_STORE = Path(".agentlearn")
"""The store where neither an argument nor the environment names one, in the working directory."""


class EnvironmentText(str):
    """The value of an environment variable. Errors about it name the variable."""

    __slots__ = ("variable",)
    variable: str

    @classmethod
    def read(cls, variable: str) -> "EnvironmentText | None":
        """The value of a variable; None when it is not set or empty."""
        text = cls(os.environ.get(variable, ""))
        text.variable = variable
        return text or None


def variable_of(option: str) -> str:
    """The environment variable of an option: `AGENTLEARN_MAX_COST_USD` for `--max-cost-usd`."""
    return PREFIX + option.lstrip("-").replace("-", "_").upper()


def environment_settings(options: Mapping[str, str]) -> dict[str, EnvironmentText]:
    """The settings whose variable is set, as texts still to be validated. options: option names by setting."""
    found = {setting: EnvironmentText.read(variable_of(option)) for setting, option in options.items()}
    return {setting: text for setting, text in found.items() if text is not None}


def misspelt_variables(options: Iterable[str]) -> list[tuple[str, str]]:
    """The variables that are set and nothing reads, each with the known one that was probably meant.

    options: names of a command's options. A variable that resembles none may be for another command.
    """
    known = {variable_of(option).removeprefix(PREFIX) for option in options} | _OTHER_VARIABLES
    given = {name.removeprefix(PREFIX) for name in os.environ if name.startswith(PREFIX)} - known
    found = [(name, nearest_name(name, known, alike=0.75)) for name in sorted(given)]
    return [(PREFIX + name, PREFIX + meant) for name, meant in found if meant is not None]


def default_store() -> Path:
    """The store that is used unless another is given: `AGENTLEARN_STORE`, else `.agentlearn`."""
    return Path(os.environ.get(variable_of("store")) or BUILT_IN_STORE)
