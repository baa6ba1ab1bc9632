"""What holds when nothing is given: names of models and of results, and settings from environment variables.

`AGENTLEARN_<OPTION>` sets the default of a command-line option. An option wins over a recipe, a recipe over the
environment, the environment over the built-in default. Only the command line reads these variables; functions of the
library take their settings as arguments. One exception is `AGENTLEARN_STORE`, which holds for both: an application
finds the libraries that a command published. So does `AGENTLEARN_MODELS`, the folder of fetched models
(`model_folders`).
"""

import os
import re
from pathlib import Path
from typing import Self

from agentlearn.plugins import every_plugin

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


SIMULATED_MODEL = "sim:novice"
_SIMULATED_REFLECTOR = "sim:reflector"
LAB = "lab:"
"""Prefix of lab models: tiny transformers that a domain's package ships. They are real models with little skill."""
_LAB_MODEL = "lab:novice"
_LONGEST = 64


def is_lab(model: str) -> bool:
    """Whether the name is a lab model, either the shipped one or a local checkpoint of one."""
    return model.startswith((LAB, f"local:{LAB}"))


def default_model(domain: str) -> str:
    """The model that solves tasks when none is named: the domain's lab model, or the simulated model."""
    return _LAB_MODEL if any(one.name == domain for one in every_plugin("agentlearn.lab")) else SIMULATED_MODEL


def default_reflector(model: str) -> str:
    """The model that writes lessons when none is named: `model`, or the simulated reflector for a lab model.

    A lab model is too small to write lessons.
    """
    return _SIMULATED_REFLECTOR if is_lab(model) else model


def name_of_result(domain: str) -> str:
    """Return the domain's name; of a name with a prefix, such as `bfcl:multiple`, the form `bfcl-multiple`.

    Of a file, only its stem is kept: `inspect:tests/Math.py@add` becomes `inspect-math-add`.
    """
    prefix, colon, rest = domain.partition(":")
    if not colon:
        return domain
    file, _, task = rest.partition(".py")
    named = f"{file.rpartition('/')[2]}-{task}" if ".py" in rest else rest
    name = re.sub(r"[^a-z0-9_]+", "-", f"{prefix}-{named}".lower())
    return name[:_LONGEST].strip("-_") or "tasks"
