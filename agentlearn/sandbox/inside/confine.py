"""What a forked process gives up before it may run a stranger's code, in the order in which it can be given up."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from agentlearn.sandbox.inside import landlock, seccomp
from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.inside.process import (
    die_with,
    drop_capabilities,
    killed_first,
    limit,
    no_new_privileges,
)

SOCKET_FD = 3


@dataclass(frozen=True)
class PreparedSession:
    """What the zygote prepares for one session before it forks."""

    socket_fd: int
    output_fd: int
    scratch: Path
    zygote: int
    held_bytes: int
    """Address space of the warmed interpreter."""
    walls: tuple[landlock.LandlockRule, ...] | None
    """What may be read, scratch apart; None confines nothing."""


def settle(place: PreparedSession, limits: SandboxLimits) -> None:
    """Leave behind all that belongs to the zygote, take on the limits and, where there are walls, stand behind them.

    Afterwards 0 is empty, 1 and 2 are the output, SOCKET_FD is the socket, and nothing else is open; until then the
    socket is where `place` says. Raises OSError.
    """
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.setpgid(0, 0)
    killed_first()
    os.chdir(place.scratch)
    if place.walls is not None:
        no_new_privileges()
        scratch = landlock.rule(place.scratch, landlock.SCRATCH)
        landlock.restrict((*place.walls, scratch) if scratch else place.walls)
        drop_capabilities()
    die_with(place.zygote, signal.SIGKILL)  # after the capabilities: losing them would clear it
    highest = os.sysconf("SC_OPEN_MAX")
    limit(limits, place.held_bytes)
    _keep_only(place, highest)


def seal(place: PreparedSession) -> None:
    """The last step: from here on only what the filter lists can be asked of the kernel. Raises OSError."""
    if place.walls is not None:
        seccomp.restrict()


def _keep_only(place: PreparedSession, highest: int) -> None:
    os.dup2(place.output_fd, 1)
    os.dup2(place.output_fd, 2)
    os.dup2(place.socket_fd, SOCKET_FD)
    os.closerange(SOCKET_FD + 1, highest)
