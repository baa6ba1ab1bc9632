"""Settings from environment variables: `AGENTLEARN_<OPTION>` sets the default of a command-line option.

An option wins over a recipe, a recipe over the environment, the environment over the built-in default. Only the command
line reads these variables; functions of the library take their settings as arguments. One exception is
`AGENTLEARN_STORE`, which holds for both: an application finds the libraries that a command published. So does
`AGENTLEARN_MODELS`, the folder of fetched models (`model_folders`).
"""

import os
from pathlib import Path
from typing import Self

PREFIX = "AGENTLEARN_"
DEFAULT_STORE = Path(".agentlearn")
"""The store where neither an argument nor the environment names one, in the working directory."""


class GivenText(str):
    """A value that a person gave as text. Errors about it name where it was given."""

    __slots__ = ("where",)
    where: str
    """The environment variable or the option."""

    @classmethod
    def of(cls, text: str, where: str) -> Self:
        """Return the text with the place where it was given."""
        given = cls(text)
        given.where = where
        return given


def variable_of(option: str) -> str:
    """The environment variable of an option: `AGENTLEARN_MAX_COST_USD` for `--max-cost-usd`."""
    return PREFIX + option.lstrip("-").replace("-", "_").upper()


def default_store() -> Path:
    """The store that is used unless another is given: `AGENTLEARN_STORE`, else `.agentlearn`."""
    return Path(os.environ.get(variable_of("store")) or DEFAULT_STORE)
