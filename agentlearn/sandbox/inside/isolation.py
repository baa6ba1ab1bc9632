"""Isolation: the packages that sessions may import, how a process is confined, and the attacks that test it.

The packages are a folder of links: everything else that is installed looks absent. The folder takes the place of
`site-packages` on the search path, so that importing, finding and listing packages depend only on the packages of the
sandbox. It also has the system's data files that the standard library reads.

A process is confined in the order that the kernel requires. A zygote tests its own isolation before it runs untrusted
code: each attack attempts one thing that code in a session must not be able to do. It raises when it is stopped.
"""

import contextlib
import ctypes
import json
import mmap
import os
import select
import signal
import socket
import sys
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from agentlearn.sandbox.inside.config import Config, SandboxLimits
from agentlearn.sandbox.inside.kernel import (
    READ,
    SCRATCH,
    Access,
    LandlockRule,
    die_with,
    drop_capabilities,
    enter_namespaces,
    filter_syscalls,
    kill_first_when_out_of_memory,
    landlock_rule,
    namespaces_allowed,
    no_new_privileges,
    restrict_files,
    set_limits,
    why_no_landlock,
    why_no_seccomp,
)

DATA_FILES = (
    *("/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"),
    *("/usr/lib/locale", "/usr/share/locale", "/etc/mime.types"),
)
"""Time zones, locales and media types of the system; they contain nothing about its users."""
_USE_SYSTEM_LIBRARIES = (
    *("_sqlite3", "_ssl", "_hashlib", "_lzma", "_bz2", "zlib", "_uuid", "_ctypes", "_dbm", "_gdbm"),
    *("_curses", "readline"),
)
"""Modules of the standard library that need a library of the system. Others would only make forks slower."""


def link_packages(folder: Path, packages: Iterable[str]) -> None:
    """Make a folder with a link to each of these packages and files."""
    folder.mkdir(0o700)
    for package in packages:
        (folder / Path(package).name).symlink_to(package)


def load_system_libraries() -> None:
    """Load the system's libraries that the standard library uses, such as SQLite; sessions cannot open their files."""
    folder = Path(sysconfig.get_path("platstdlib"), "lib-dynload")
    for module in _USE_SYSTEM_LIBRARIES:
        for library in folder.glob(f"{module}.*"):
            with contextlib.suppress(OSError):  # a library of the system is missing, so the module does not work
                ctypes.CDLL(str(library))


SOCKET_FD = 3


@dataclass(frozen=True)
class PreparedSession:
    """What the zygote prepares for a session before it forks."""

    socket_fd: int
    """Descriptor of the session's end of its socket."""
    output_fd: int
    """Descriptor of the file that receives printed text."""
    scratch: Path
    """Directory that the session may write to."""
    zygote: int
    """Process id of the zygote."""
    held_bytes: int
    """Address space that the interpreter with its preloaded modules uses."""
    walls: tuple[LandlockRule, ...] | None
    """What may be read besides `scratch`; None means no isolation."""

    def confine_process(self, limits: SandboxLimits) -> None:
        """Give up all access inherited from the zygote, set the resource limits and, with walls, apply Landlock.

        Afterwards descriptor 0 is an ended pipe of this process, 1 and 2 are the output, SOCKET_FD is the socket, and
        no other is open. No other session has any of them. If it fails, the socket may still be at `socket_fd`. Raises
        OSError.
        """
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)
        kill_first_when_out_of_memory()
        os.chdir(self.scratch)
        if self.walls is not None:
            no_new_privileges()
            scratch = landlock_rule(self.scratch, SCRATCH)
            restrict_files((*self.walls, scratch) if scratch else self.walls)
            drop_capabilities()
        die_with(self.zygote, signal.SIGKILL)  # after dropping capabilities, which would clear it
        highest = os.sysconf("SC_OPEN_MAX")
        nothing, closed = os.pipe()
        os.close(closed)
        os.dup2(nothing, 0)  # a pipe that has ended; `/dev/null` would be one file, with its locks, for all sessions
        set_limits(limits, self.held_bytes)
        for ours, theirs in ((self.output_fd, 1), (self.output_fd, 2), (self.socket_fd, SOCKET_FD)):
            os.dup2(ours, theirs)
        os.closerange(SOCKET_FD + 1, highest)

    def confine_syscalls(self) -> None:
        """Apply the system-call filter, if there are walls. This is the last step. Raises OSError."""
        if self.walls is not None:
            filter_syscalls()

    def open_walls(self, limits: SandboxLimits, secret: Path) -> dict[str, str]:
        """Run all attacks from a confined process; return the layer that failed, by name of each successful attack.

        It needs no valid descriptors. Raises OSError when the process could not be confined or reported nothing.
        """
        reading, writing = os.pipe()
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
            pid = os.fork()
            if pid == 0:
                ready = replace(self, socket_fd=writing, output_fd=nowhere.fileno())
                ready.attack(limits, _AttackTarget(secret, self.zygote, limits))
        os.close(writing)
        with os.fdopen(reading, "rb") as report:
            reply = report.read() if select.select([report], [], [], TIMEOUT_S)[0] else b""
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if not reply:
            raise OSError("the self-test of the code sandbox reported nothing")
        result = json.loads(reply)
        if isinstance(result, str):
            raise OSError(result)
        return result

    def attack(self, limits: SandboxLimits, target: "_AttackTarget") -> NoReturn:
        """Confine this process, try every attack, report those that succeed on the socket, and end."""
        socket_fd = self.socket_fd
        try:
            try:
                self.confine_process(limits)
                socket_fd = SOCKET_FD
                self.confine_syscalls()
                reply: object = {attack.name: attack.layer for attack in ATTACKS if attack.succeeds(target)}
            except OSError as error:
                reply = f"{type(error).__name__}: {error}"
            os.write(socket_fd, json.dumps(reply).encode())
        finally:
            os._exit(0)


TIMEOUT_S = 20.0
_PTRACE_SEIZE = 0x4206
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class _AttackTarget:
    """What the attacks try to reach."""

    secret: Path
    """A file outside the session's scratch directory."""
    zygote: int
    """Process id of the zygote."""
    limits: SandboxLimits
    """Limits that the attacks try to exceed."""


@dataclass(frozen=True)
class _Attack:
    """One attack, and the layer that must stop it."""

    name: str
    layer: str
    attempt: Callable[[_AttackTarget], object]

    def succeeds(self, target: "_AttackTarget") -> bool:
        """Whether nothing stops it."""
        try:
            self.attempt(target)
        except (OSError, MemoryError):
            return False
        return True


def _fork(_target: "_AttackTarget") -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _system_call(name: str, *arguments: int | None) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def _large_file(target: "_AttackTarget") -> None:
    with open("large", "wb") as file:  # noqa: PTH123
        file.truncate(target.limits.file_bytes + 1)


ATTACKS = (
    _Attack("read a file outside", "landlock", lambda target: target.secret.read_bytes()),
    _Attack("write a file outside", "landlock", lambda target: target.secret.with_name("written").write_bytes(b"")),
    _Attack("list a directory outside", "landlock", lambda target: list(target.secret.parent.iterdir())),
    _Attack("read the zygote's environment", "landlock", lambda t: Path(f"/proc/{t.zygote}/environ").read_bytes()),
    _Attack("change a file's mode", "seccomp", lambda target: target.secret.chmod(0o777)),
    _Attack("open a socket", "seccomp", lambda _: socket.socket()),
    _Attack("fork", "seccomp", _fork),
    _Attack("signal the zygote", "seccomp", lambda target: os.kill(target.zygote, 0)),
    _Attack("trace the zygote", "seccomp", lambda t: _system_call("ptrace", _PTRACE_SEIZE, t.zygote, None, None)),
    _Attack("outlive the zygote", "seccomp", lambda _: _system_call("prctl", _PR_SET_PDEATHSIG, 0, 0, 0, 0)),
    _Attack("take much memory", "rlimits", lambda target: mmap.mmap(-1, 2 * target.limits.memory_bytes)),
    _Attack("write a large file", "rlimits", _large_file),
    _Attack("run a program", "seccomp", lambda _: os.execv(sys.executable, [sys.executable, "-S", "-c", ""])),  # noqa: S606
)
"""In order of execution; "run a program" must be last because it would replace the attacking process."""


_NULL = Path("/dev/null")
_PACKAGES = ("site-packages", "dist-packages")
_NAMESPACES = ("namespaces",)
SEALED_LAYERS = ("process", "rlimits", "no-new-privileges", "capabilities", "landlock", "seccomp")


@dataclass(frozen=True)
class Isolation:
    """The isolation that works on this machine."""

    layers: tuple[str, ...]
    """Active layers."""
    missing: tuple[str, ...]
    """Layers that are not active."""
    refusal: str = ""
    """Which required layer is missing or broken; empty if sessions may be opened."""
    walls: tuple[LandlockRule, ...] | None = None
    """Which of the interpreter's files sessions may read; None means no isolation."""


UNSEALED = Isolation(("process", "rlimits"), ("landlock", "seccomp", "namespaces"))


def isolate(config: Config) -> Isolation:
    """Set up the zygote's own isolation, and test that of a session by attacks.

    Call it early: namespaces need a process with one thread.
    """
    if not config.sealed:
        return UNSEALED
    scratch = Path(config.scratch, "0")
    scratch.mkdir(0o700)
    own_namespaces = namespaces_allowed(scratch, config.limits)
    if own_namespaces:
        enter_namespaces()
    walls = _standard_library()
    refusal = (
        why_no_seccomp()
        or why_no_landlock()
        or _self_test(config, PreparedSession(-1, -1, scratch, os.getpid(), 0, walls))
    )
    held, not_held = (_NAMESPACES, ()) if own_namespaces else ((), _NAMESPACES)
    return Isolation((*SEALED_LAYERS, *held), not_held, refusal, walls)


def _standard_library() -> tuple[LandlockRule, ...]:
    """Rules for reading the standard library, without installed packages."""
    named = {Path(folder) for folder in sys.path if Path(folder).is_dir()}
    folders = [folder for folder in sorted(named) if named.isdisjoint(folder.parents)]
    inside = [entry for folder in folders for entry in folder.iterdir() if entry.name not in _PACKAGES]
    data = [Path(path) for path in DATA_FILES]
    return (
        *_rules(folders, Access.READ_DIR),
        *_rules([*inside, *data], READ),
        *_rules([_NULL], READ | Access.WRITE_FILE),
    )


def preloaded_packages(config: Config) -> tuple[LandlockRule, ...]:
    """Rules for reading the packages of the sandbox and for listing the folder of links to them.

    Other installed packages stay unreadable: a domain's package may contain the answers to its tasks.
    """
    return (*_rules(map(Path, config.packages), READ), *_rules([Path(config.package_folder)], Access.READ_DIR))


def _rules(paths: Iterable[Path], access: Access) -> tuple[LandlockRule, ...]:
    return tuple(rule for path in paths if (rule := landlock_rule(path, access)) is not None)


def _self_test(config: Config, prepared: PreparedSession) -> str:
    """Attack a session's isolation. Returns a sentence about what failed; empty if every attack was stopped."""
    secret = Path(config.scratch, "secret")
    secret.write_bytes(b"")
    try:
        try:
            broken = prepared.open_walls(config.limits, secret)
        except OSError:  # the attacking process may have been killed from outside
            broken = prepared.open_walls(config.limits, secret)
    except OSError as error:
        return f"its isolation could not be set up ({error})"
    finally:
        secret.unlink()
    through = ", ".join(f"{attack!r} (against {layer})" for attack, layer in broken.items())
    return f"attacks of its self-test succeeded: {through}" if through else ""
