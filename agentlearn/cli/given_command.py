"""The command that this process runs, to be shown so that a user can run it again."""

import shlex
from collections.abc import Sequence

_SECRET = "--api-key"  # noqa: S105  the name of an option


class _Given:
    """The arguments of the present command."""

    arguments: tuple[str, ...] = ()


def remember_command(arguments: Sequence[str]) -> None:
    """Keep the arguments of the command that starts now."""
    _Given.arguments = tuple(arguments)


def same_command(*left_out: str) -> str:
    """Return the present command as a line for a shell, without some flags and without the API key."""
    kept, value_follows = list[str](), False
    for one in _Given.arguments:
        if value_follows:
            value_follows = False
        elif one == _SECRET:
            value_follows = True
        elif one not in left_out and not one.startswith(f"{_SECRET}="):
            kept.append(one)
    return shlex.join(["agentlearn", *kept])
