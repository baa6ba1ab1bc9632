"""The zygote's children: how sessions are forked, killed, collected and cleaned up after."""

import fcntl
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.inside.confine import PreparedSession
from agentlearn.sandbox.inside.landlock import LandlockRule
from agentlearn.sandbox.inside.namespaces import mount_scratch, unmount_scratch
from agentlearn.sandbox.inside.output import cut, read_ends
from agentlearn.sandbox.inside.process import address_space_bytes, children
from agentlearn.sandbox.inside.scratch import remove_tree
from agentlearn.sandbox.inside.session import Order, live


@dataclass
class _Child:
    session: int
    output_fd: int
    scratch: Path
    ordered: bool = False
    """Whether our side ordered its end."""


class Nursery:
    """Sessions by process id.

    tell: takes the message that says how a session ended. walls: what sessions may read; None confines nothing.
    quota: whether each session's scratch is a file system of its own.
    """

    def __init__(
        self,
        home: Path,
        limits: SandboxLimits,
        tell: Callable[[dict[str, Any]], None],
        *,
        walls: tuple[LandlockRule, ...] | None,
        quota: bool,
    ) -> None:
        self._home = home
        self._limits = limits
        self._tell = tell
        self._walls = walls
        self._quota = quota
        self._children: dict[int, _Child] = {}
        self._cleaners: set[int] = set()
        self._held_bytes = address_space_bytes()

    def open(self, order: Order, socket_fd: int) -> None:
        """Fork a session; socket_fd is its end of the socket and stays the caller's to close."""
        try:
            child, pid = self._fork(order, socket_fd)
        except OSError as error:
            self._tell({"kind": "exit", "session": order.id, "error": str(error)})
        else:
            self._children[pid] = child

    def kill(self, session: int) -> None:
        """Kill a session; one that has ended already is fine."""
        for pid, child in self._children.items():
            if child.session == session:
                child.ordered = True
                os.kill(pid, signal.SIGKILL)  # not collected yet, so the id is still its own

    def reap(self) -> None:
        """Collect what has ended; a session takes with it whatever it started."""
        while (pid := _ended_child()) is not None:
            child = self._children.pop(pid, None)
            if child is not None:
                _kill_group(pid)
            _, status = os.waitpid(pid, 0)
            self._cleaners.discard(pid)
            if child is not None:
                self._tell_end(child, os.waitstatus_to_exitcode(status))
                self._clean(child.scratch)
        for stranger in children() - self._children.keys() - self._cleaners:
            os.kill(stranger, signal.SIGKILL)

    def clear(self) -> None:
        """Kill all there is, and wait until it is gone."""
        for pid in self._children:
            _kill_group(pid)
        for pid in self._cleaners | children():  # among them one that a signal kept us from listing
            os.kill(pid, signal.SIGKILL)
        while (left := _wait_for_one()) is not None:
            child = self._children.pop(left, None)
            if child is not None and self._quota:
                unmount_scratch(child.scratch)
            for stranger in children() - self._children.keys():
                os.kill(stranger, signal.SIGKILL)

    def _fork(self, order: Order, socket_fd: int) -> tuple[_Child, int]:
        scratch = self._home / str(order.id)
        scratch.mkdir(0o700)
        if self._quota:
            mount_scratch(scratch, self._limits)
        output_fd = os.memfd_create("output")
        fcntl.fcntl(output_fd, fcntl.F_SETFL, os.O_APPEND)
        os.set_blocking(socket_fd, True)
        place = PreparedSession(socket_fd, output_fd, scratch, os.getpid(), self._held_bytes, self._walls)
        pid = os.fork()
        if pid == 0:
            live(order, place, self._limits)
        return _Child(order.id, output_fd, scratch), pid

    def _tell_end(self, child: _Child, status: int) -> None:
        """Tell how a session ended, with the text that its last call had printed."""
        limit_chars = self._limits.output_chars
        head, tail, size = read_ends(child.output_fd, 4 * limit_chars)
        os.close(child.output_fd)
        self._tell(
            {
                "kind": "exit",
                "session": child.session,
                "status": status,
                "ordered": child.ordered,
                "stdout": cut(head, tail, size, limit_chars),
                "stdout_bytes": size,
            }
        )

    def _clean(self, scratch: Path) -> None:
        """Remove a scratch directory; a full one in a process of its own, for that may take long."""
        if self._quota:
            unmount_scratch(scratch)
        try:
            scratch.rmdir()
        except OSError:
            pid = os.fork()
            if pid == 0:
                try:
                    remove_tree(scratch)
                finally:
                    os._exit(0)
            self._cleaners.add(pid)


def _ended_child() -> int | None:
    """A child that ended and is not collected yet: its process id is still its own."""
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if ended is None else ended.si_pid


def _wait_for_one() -> int | None:
    try:
        return os.waitpid(-1, 0)[0]
    except ChildProcessError:
        return None


def _kill_group(pid: int) -> None:
    """Kill a session and what it forked, which stays in its group or becomes our child."""
    os.kill(pid, signal.SIGKILL)
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # it had not made its group yet
