"""The zygote: imports the modules of sessions once, then forks one child per session and reports how each ended.

It runs no untrusted code itself. It communicates over one SOCK_SEQPACKET socket, one JSON object per message:
in: `{"open": id, "seed": n}` with the session's end of a socket; `{"kill": id}`
out: `{"kind": "hello", …}`, then `{"kind": "ready"}` or `{"kind": "failed", …}`; `{"kind": "exit", …}` per session

Sessions also have limits that the kernel does not enforce: their threads and, without namespaces, their files. They are
counted from outside, so code can exceed them for the moment until the next count, and is then killed.
"""

import contextlib
import fcntl
import gc
import importlib
import json
import os
import resource
import select
import signal
import site
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from agentlearn.sandbox.inside.config import Config, SandboxLimits, remove_tree
from agentlearn.sandbox.inside.isolation import (
    PreparedSession,
    isolate,
    link_packages,
    load_system_libraries,
    preloaded_packages,
)
from agentlearn.sandbox.inside.kernel import (
    LandlockRule,
    address_space_bytes,
    adopt_orphans,
    children,
    cpu_limit_s,
    die_with,
    ignore_stops_of_children,
    most_files,
    mount_scratch,
    unmount_scratch,
    use_one_heap,
)
from agentlearn.sandbox.inside.session import Order, cut_middle, read_ends, run_session

_BLOCK_BYTES = 512
_DELETED = " (deleted)"


class _Excess(Exception):
    """Raised with a sentence about the limit that a session exceeds."""


@dataclass
class WatchedSession:
    """One session, as seen from outside."""

    pid: int
    scratch: Path
    limits: SandboxLimits
    own_disk: bool
    """Whether its files are on a file system of their own, where the kernel enforces their limit."""
    _ran_for: str = ""
    """How long it had run when its files were last counted, in the kernel's words."""

    def excess(self) -> str:
        """Which limit the session exceeds; empty if none."""
        try:
            fields = _text(f"/proc/{self.pid}/stat").rpartition(")")[2].split()
            state, threads = fields[0], int(fields[17])
            if threads > self.limits.threads:
                return f"the session had more than {self.limits.threads} threads"
            if not self.own_disk and (state != "T" or self._ran()):
                self._count_files()
        except _Excess as excess:
            return str(excess)
        except OSError:  # it has ended
            return ""
        return ""

    def _ran(self) -> bool:
        """Whether it ran since this was last asked. Its first thread runs in every call."""
        before, self._ran_for = self._ran_for, ""
        with contextlib.suppress(OSError):
            self._ran_for = _text(f"/proc/{self.pid}/schedstat")
        return not before or before != self._ran_for

    def _count_files(self) -> None:
        """Raises Excess; OSError when the session has ended."""
        total, files = 0, 0
        for size in (*self._deleted_files().values(), *_sizes(str(self.scratch))):
            total, files = total + size, files + 1
            if total > self.limits.scratch_bytes:
                raise _Excess(f"the session's files took more than {self.limits.scratch_bytes:,} bytes")
            if files > most_files(self.limits):
                raise _Excess(f"the session had more than {most_files(self.limits):,} files and folders")

    def _deleted_files(self) -> dict[int, int]:
        """Bytes of the deleted files that the session keeps open or mapped, by inode."""
        found: dict[int, int] = {}
        for fd in os.listdir(f"/proc/{self.pid}/fd"):  # noqa: PTH208
            path = f"/proc/{self.pid}/fd/{fd}"
            with contextlib.suppress(OSError):  # it was closed
                if self._is_deleted(os.readlink(path)):  # noqa: PTH115
                    kept = os.stat(path)  # noqa: PTH116
                    found[kept.st_ino] = kept.st_blocks * _BLOCK_BYTES
        for line in _text(f"/proc/{self.pid}/maps").splitlines():
            if line.endswith(_DELETED) and self._is_deleted("/" + line.partition("/")[2]):
                addresses, _, offset, _, inode, *_ = line.split()
                first, last = (int(address, 16) for address in addresses.split("-"))
                found[int(inode)] = max(found.get(int(inode), 0), int(offset, 16) + last - first)
        return found

    def _is_deleted(self, path: str) -> bool:
        return path.endswith(_DELETED) and path.startswith(f"{self.scratch}{os.sep}")


def _sizes(folder: str) -> Iterator[int]:
    """Bytes on the disk of each file and folder below this one. Raises Excess where they cannot be counted."""
    folders = [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):  # it was removed
                        yield entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _Excess(f"the session's files could not be counted ({error.strerror})") from error


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.read()


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


class _ChildSessions:
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
        with contextlib.suppress(ChildProcessError):
            while True:
                child = self._children.pop(os.waitpid(-1, 0)[0], None)
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


def _kill_group(pid: int) -> None:
    """Kill a session and its process group. Processes that left the group become our children."""
    os.kill(pid, signal.SIGKILL)
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # it had not created its group yet


MAX_MESSAGE_BYTES = 1 << 12


def run_zygote(control_fd: int, config_json: str) -> None:
    """Run the zygote until our side closes the control socket or ends. Leaves no process and no file behind."""
    config = Config.from_json(config_json)
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(remove_tree, Path(config.scratch))
        try:
            signal.signal(signal.SIGTERM, _leave)
            die_with(config.parent, signal.SIGTERM)
            adopt_orphans()
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            _ZygoteServer(socket.socket(fileno=control_fd), config).run(cleanup)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent when our side is killed; finish cleaning up


class _ZygoteServer:
    """Carries out the requests that arrive on the control socket."""

    def __init__(self, control: socket.socket, config: Config) -> None:
        self._control = control
        self._config = config

    def run(self, cleanup: contextlib.ExitStack) -> None:
        """Report the isolation, import the modules, then handle requests."""
        isolation = isolate(self._config)
        layers, missing, refusal = isolation.layers, isolation.missing, isolation.refusal
        self._send({"kind": "hello", "layers": layers, "missing": missing, "refusal": refusal})
        if refusal:
            return
        try:
            _preload(self._config)
        except ImportError as error:
            self._send({"kind": "failed", "reason": f"{type(error).__name__}: {error}"})
            return
        walls = None if isolation.walls is None else (*isolation.walls, *preloaded_packages(self._config))
        child_sessions = _ChildSessions(
            Path(self._config.scratch),
            self._config.limits,
            self._send,
            walls=walls,
            quota="namespaces" in layers,
        )
        cleanup.callback(child_sessions.clear)
        self._send({"kind": "ready"})
        self._serve(child_sessions)

    def _serve(self, child_sessions: _ChildSessions) -> None:
        """Handle requests and reap children until the control socket closes."""
        woken, wake = socket.socketpair()
        woken.setblocking(False)
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _wake_up)
        ignore_stops_of_children()
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(woken, select.POLLIN)
        listening, watched_at = True, time.monotonic()
        while listening:
            wait_s = child_sessions.watch_every_s
            ready = {fd for fd, _ in poll.poll(1000 * wait_s if child_sessions.are_open else None)}
            if woken.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    while woken.recv(4096):
                        continue
                child_sessions.reap()
            if (now := time.monotonic()) - watched_at >= wait_s:
                child_sessions.watch()
                watched_at = now
            if self._control.fileno() in ready:
                listening = self._handle_message(child_sessions)

    def _handle_message(self, child_sessions: _ChildSessions) -> bool:
        """Handle the next message. Returns False at the end of the messages."""
        message, fds, _, _ = socket.recv_fds(self._control, MAX_MESSAGE_BYTES, 1)
        if not message:
            return False
        order: dict[str, Any] = json.loads(message)
        if "kill" in order:
            child_sessions.kill(order["kill"])
            return True
        if not fds:  # the kernel drops a descriptor when this process has too many open files
            self._send({"kind": "exit", "session": order["open"], "error": "too many open files"})
            return True
        try:
            child_sessions.open(Order(id=order["open"], seed=order["seed"]), fds[0])
        finally:
            os.close(fds[0])
        return True

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._control.send(json.dumps(message).encode())
        except (BrokenPipeError, ConnectionResetError):
            sys.exit(0)  # our side has ended


def _preload(config: Config) -> None:
    """Import the modules of sessions, and use them once, so that forks share the memory. Raises ImportError."""
    gc.disable()
    link_packages(Path(config.package_folder), config.packages)
    sys.path.append(config.package_folder)
    load_system_libraries()
    use_one_heap()
    site.setquit()
    site.sethelper()
    for name in config.modules:
        importlib.import_module(name)
    scope: dict[str, Any] = {}
    for code in config.warm_up:
        with contextlib.suppress(Exception), warnings.catch_warnings():  # a session then sees each warning as its first
            warnings.simplefilter("ignore")
            exec(code, scope)  # noqa: S102  our own code
    del scope
    gc.collect()
    gc.freeze()


def _leave(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def _wake_up(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. A Python handler is needed for the signal to wake the loop."""
