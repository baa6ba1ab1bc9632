"""The zygote's child processes: fork, kill, reap and clean up sessions."""

import contextlib
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
from agentlearn.sandbox.inside.output import cut_middle, read_ends
from agentlearn.sandbox.inside.process import address_space_bytes, children, cpu_limit_s
from agentlearn.sandbox.inside.scratch import remove_tree
from agentlearn.sandbox.inside.session import Order, run_session
from agentlearn.sandbox.inside.watch import WatchedSession

MOST_LAST_CHARS = 12_000
"""Most printed text in the report of a session's end, which must fit into one message of the control socket."""
_CPU_MARGIN_S = 0.5
"""How much less processor time the kernel may count for a session that it killed at the limit."""


@dataclass
class _ChildSession:
    session: int
    output_fd: int
    scratch: Path
    watched: WatchedSession
    ordered: bool = False
    """Whether our side requested to kill it."""
    excess: str = ""
    """The limit for which it was killed, as a sentence; empty if it was not."""


class ChildSessions:
    """The sessions that the zygote has forked.

    report: called with a message when a session has ended. walls: what sessions may read; None means no isolation.
    quota: whether each session's scratch directory is a separate file system.
    """

    def __init__(
        self,
        home: Path,
        limits: SandboxLimits,
        report: Callable[[dict[str, Any]], None],
        *,
        walls: tuple[LandlockRule, ...] | None,
        quota: bool,
    ) -> None:
        self._home = home
        self._limits = limits
        self._report = report
        self._walls = walls
        self._quota = quota
        self._children: dict[int, _ChildSession] = {}
        self._cleaners: set[int] = set()
        self._held_bytes = address_space_bytes()

    def open(self, order: Order, socket_fd: int) -> None:
        """Fork a session. socket_fd: its end of the socket; the caller closes it."""
        scratch = self._home / str(order.id)
        try:
            child, pid = self._fork(order, socket_fd, scratch)
        except OSError as error:
            self._remove_unused(scratch)
            self._report({"kind": "exit", "session": order.id, "error": str(error)})
        else:
            self._children[pid] = child

    def kill(self, session: int) -> None:
        """Kill a session; does nothing if it has already ended."""
        for pid, child in self._children.items():
            if child.session == session and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                child.ordered = True
                os.kill(pid, signal.SIGKILL)  # not reaped yet, so the process id is still valid

    @property
    def are_open(self) -> bool:
        """Whether there are sessions."""
        return bool(self._children)

    @property
    def watch_every_s(self) -> float:
        """How often to call `watch`: more often where it counts files."""
        return 0.05 if self._quota else 0.02

    def watch(self) -> None:
        """Kill the sessions that exceed a limit which the kernel does not enforce."""
        for pid, child in self._children.items():
            if not child.excess:
                child.excess = child.watched.excess()
                if child.excess:
                    os.kill(pid, signal.SIGKILL)  # not reaped yet, so the process id is still valid

    def reap(self) -> None:
        """Reap ended sessions, and kill the processes that they started."""
        while (pid := _ended_child()) is not None:
            child = self._children.pop(pid, None)
            if child is not None:
                _kill_group(pid)
            limit_s = cpu_limit_s(pid)
            _, status, used = os.wait4(pid, 0)
            self._cleaners.discard(pid)
            if child is not None:
                spent = used.ru_utime + used.ru_stime >= limit_s - _CPU_MARGIN_S
                self._report_end(child, os.waitstatus_to_exitcode(status), spent=spent)
                self._clean(child.scratch)
        for orphan in children() - self._children.keys() - self._cleaners:
            os.kill(orphan, signal.SIGKILL)

    def clear(self) -> None:
        """Kill all child processes and wait until they have ended."""
        for pid in self._children:
            _kill_group(pid)
        for pid in self._cleaners | children():  # includes a session that a signal kept us from recording
            os.kill(pid, signal.SIGKILL)
        while (left := _wait_for_one()) is not None:
            child = self._children.pop(left, None)
            if child is not None and self._quota:
                unmount_scratch(child.scratch)
            for orphan in children() - self._children.keys():
                os.kill(orphan, signal.SIGKILL)

    def _fork(self, order: Order, socket_fd: int, scratch: Path) -> tuple[_ChildSession, int]:
        scratch.mkdir(0o700)
        if self._quota:
            mount_scratch(scratch, self._limits)
        output_fd = os.memfd_create("output")
        fcntl.fcntl(output_fd, fcntl.F_SETFL, os.O_APPEND)
        os.set_blocking(socket_fd, True)
        prepared = PreparedSession(socket_fd, output_fd, scratch, os.getpid(), self._held_bytes, self._walls)
        try:
            pid = os.fork()
        except OSError:
            os.close(output_fd)
            raise
        if pid == 0:
            run_session(order, prepared, self._limits)
        watched = WatchedSession(pid, scratch, self._limits, self._quota)
        return _ChildSession(order.id, output_fd, scratch, watched), pid

    def _remove_unused(self, scratch: Path) -> None:
        """Remove the directory of a session that could not be forked."""
        with contextlib.suppress(OSError):
            if self._quota:
                unmount_scratch(scratch)
        with contextlib.suppress(OSError):
            scratch.rmdir()

    def _report_end(self, child: _ChildSession, status: int, *, spent: bool) -> None:
        """Report how a session ended, with the text that its last call had printed.

        spent: whether it had used up its processor time. The kernel's signal at the hard limit is SIGKILL; it is
        reported as SIGXCPU, so that a reported SIGKILL is always one of another process or of the kernel.
        """
        if status == -signal.SIGKILL and spent and not child.ordered and not child.excess:
            status = -signal.SIGXCPU
        limit_chars = min(self._limits.output_chars, MOST_LAST_CHARS)
        head, tail, size = read_ends(child.output_fd, 4 * limit_chars)
        os.close(child.output_fd)
        self._report(
            {
                "kind": "exit",
                "session": child.session,
                "status": status,
                "ordered": child.ordered,
                "error": child.excess,
                "stdout": cut_middle(head, tail, size, limit_chars),
                "stdout_bytes": size,
            }
        )

    def _clean(self, scratch: Path) -> None:
        """Remove a scratch directory; one with files in a separate process, as that may take long."""
        if self._quota:
            with contextlib.suppress(OSError):
                unmount_scratch(scratch)
        try:
            scratch.rmdir()
        except OSError:
            try:
                pid = os.fork()
            except OSError:
                return  # it is removed with the zygote's other files at the end
            if pid == 0:
                try:
                    remove_tree(scratch)
                finally:
                    os._exit(0)
            self._cleaners.add(pid)


def _ended_child() -> int | None:
    """Process id of a child that ended and is not reaped yet, so the id is still valid; None if there is none."""
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
    """Kill a session and its process group. Processes that left the group become our children."""
    os.kill(pid, signal.SIGKILL)
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # it had not created its group yet
