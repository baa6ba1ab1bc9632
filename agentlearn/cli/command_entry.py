"""How a package registers a command that is imported only when it is called, so that `--help` stays fast."""

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """A command by its import path. An entry point of the group `agentlearn.commands` may be one of these."""

    function: str
    """Import path of the command: `package.module:function`."""
    help: str
    """One sentence for the list of commands."""
