"""Settings from environment variables: `AGENTLEARN_<OPTION>` sets the default of a command-line option.

An option wins over a recipe, a recipe over the environment, the environment over the built-in default. Only the command
line reads these variables; functions of the library take their settings as arguments. One exception is
`AGENTLEARN_STORE`, which holds for both: an application finds the libraries that a command published. So does
`AGENTLEARN_MODELS`, the folder of fetched models (`model_folders`).
"""

import os
from pathlib import Path

PREFIX = "AGENTLEARN_"
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


def default_store() -> Path:
    """The store that is used unless another is given: `AGENTLEARN_STORE`, else `.agentlearn`."""
    return Path(os.environ.get(variable_of("store")) or BUILT_IN_STORE)
