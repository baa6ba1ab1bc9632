"""Commands and settings in messages, written so that a user can type them as they are, in a terminal or in Python."""

import re
import shlex
from pathlib import Path
from typing import get_args

from agentlearn.config.defaults import default_store
from agentlearn.types.value import Value

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
