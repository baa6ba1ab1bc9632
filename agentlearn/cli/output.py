"""Output of commands: one JSON object on stdout, or lines for people. With `--json`, progress goes to stderr."""

import json
import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from agentlearn.types.value import Value

_LEVELS = ("debug", "info", "warning", "error")


class _Output:
    """What this process has printed for the present command."""

    json_printed = False


def restart_output() -> None:
    """Forget the output of an earlier command in this process."""
    _Output.json_printed = False


def print_json(value: "Value | Mapping[str, Any]") -> None:
    """Print exactly one JSON object on stdout."""
    plain = value if isinstance(value, Mapping) else value.model_dump(mode="json")
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
    # JSON has an escape for a lone surrogate; UTF-8 does not
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
    _Output.json_printed = True


def print_json_error(code: str, message: str) -> None:
    """Print an error as the one JSON object on stdout, unless the command has already printed its result."""
    if not _Output.json_printed:
        print_json({"error": {"code": code, "message": message}})


def console(*, to_stderr: bool = False) -> "Console":
    """A console for text from models and pages: no markup, no emoji codes, no highlighting, no control characters."""
    from rich.console import Console

    from agentlearn.text import visible

    class Lines(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            """Print the objects; text cannot control the terminal."""
            super().print(*(visible(one) if isinstance(one, str) else one for one in objects), **options)

        def on_broken_pipe(self) -> None:
            """Raise an ordinary error; rich would end the process from inside a task."""
            raise BrokenPipeError

    return Lines(stderr=to_stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)


def show_logs(level: str) -> None:
    """Send log events of this level and above to stderr. Raises ConfigError when the level is unknown."""
    from agentlearn.errors import ConfigError

    if level.lower() not in _LEVELS:
        raise ConfigError(f"--log {level!r} is not a level; give {', '.join(_LEVELS)}", code="bad_log_level")
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.WARNING)
    logging.getLogger("agentlearn").setLevel(level.upper())
