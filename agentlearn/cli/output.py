"""How commands speak: one JSON object on stdout, or lines for people; logs and progress go to stderr with `--json`."""

import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from agentlearn.errors import ConfigError
from agentlearn.types.value import Value

_LEVELS = ("debug", "info", "warning", "error")


def print_json(value: Value | Mapping[str, Any]) -> None:
    """Exactly one JSON object on stdout."""
    plain = value.model_dump(mode="json") if isinstance(value, Value) else value
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
    # a lone surrogate becomes JSON's own escape for it
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")


class _Lines(Console):
    """A console whose broken pipe is an error like others: rich would end the process from within a task."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(*, to_stderr: bool = False) -> Console:
    """A console that writes text as it is: no markup, no emoji codes, no highlighting of words from models."""
    return _Lines(stderr=to_stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)


def show_logs(level: str) -> None:
    """Send the library's events of that level and above to stderr. Raises ConfigError for a level that is none."""
    if level.lower() not in _LEVELS:
        raise ConfigError(f"--log {level!r} is no level; give {', '.join(_LEVELS)}", code="bad_log_level")
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.WARNING)
    logging.getLogger("agentlearn").setLevel(level.upper())


def ago(seconds: float) -> str:
    """A length of time as people say it: `00:09`, `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
