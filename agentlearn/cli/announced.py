"""How a package announces a command that is loaded only when it is called, so that `--help` stays cheap."""

from typing import NamedTuple


class Announced(NamedTuple):
    """What an entry point of the group `agentlearn.commands` may lead to, in place of the command itself."""

    function: str
    """`package.module:function`."""
    help: str
    """One sentence for the list of commands."""
