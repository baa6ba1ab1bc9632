"""What holds when nothing is given, and commands in messages, written so that a user can type them as they are.

`AGENTLEARN_<OPTION>` sets the default of a command-line option. An option wins over a recipe, a recipe over the
environment, the environment over the built-in default. Only the command line reads these variables; functions of the
library take their settings as arguments. One exception is `AGENTLEARN_STORE`, which holds for both: an application
finds the libraries that a command published. So does `AGENTLEARN_MODELS`, the folder of fetched models
(`model_folders`).
"""

import os
import re
import shlex
from pathlib import Path
from typing import Self, get_args

from agentlearn.plugins import every_plugin
from agentlearn.types.value import Value

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


_COMMAND = re.compile(r"(\b(?:agentlearn|pip) [a-z][^;,)`\n]*)")
"""A command in a message; it ends where the clause ends."""
_OPTION = re.compile(
    r"(?<![\w-])--([a-z][a-z0-9-]*)(?:[ =]('[^']*'|https?://\S+|[A-Z][A-Z_]*\b|\d+(?:[.,]\d+)*|[a-z]\w*))?"
)
"""An option in a message, with the word after it, which may be its value."""
_OTHER_NAMES = {"from": "start", "eval": "evaluate", "no-eval": "evaluate", "data": "tasks", "test-data": "test"}
"""Arguments in Python that are not called like their option."""


def command_words(*words: str, store: Path) -> str:
    """A command, with the store unless it is the one that is used without an option."""
    return shlex.join(["agentlearn", *words, *([] if store == default_store() else ["--store", str(store)])])


def python_words(text: str, settings: type[Value]) -> str:
    """A message with each option in the form of an argument: `--group-size 5` becomes `group_size=5`.

    settings: whose fields the arguments are. Commands to be typed in a terminal stay as they are.
    """
    parts = _COMMAND.split(text)
    parts[::2] = (_OPTION.sub(lambda found: _argument(found, settings), part) for part in parts[::2])
    return "".join(parts)


def _argument(found: re.Match[str], settings: type[Value]) -> str:
    option, value = found.groups()
    fields = settings.model_fields
    name = _OTHER_NAMES.get(option, option.replace("-", "_"))
    no = (option.startswith("no-") and name not in fields) or option == "no-eval"
    name = name.removeprefix("no_") if no else name
    following = "" if value is None else found[0][-len(value) - 1 :]
    if no or (name in fields and fields[name].annotation is bool):
        return f"{name}={not no}{following}"
    if value is None:
        return name
    if value.startswith("http"):
        return f'{name}="{value}"'
    if not value[0].islower():
        return f"{name}={value}"
    choices = {"none"} if option == "from" else set[str]()
    if name in fields:
        annotation = fields[name].annotation
        kinds = (annotation, *get_args(annotation))  # a union has the types that it is of
        choices |= {one for kind in kinds for one in get_args(kind) if isinstance(one, str)}
    return f'{name}="{value}"' if value in choices else f"{name}{following}"
