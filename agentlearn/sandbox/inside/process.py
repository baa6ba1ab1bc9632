"""Settings of a process by system call: lifetime, privileges, resource limits."""

import ctypes
import os
import platform
import resource
import signal
import struct
import sys

from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.inside.syscalls import CAPSET

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION_3 = 0x20080522
_SA_NOCLDSTOP = 1
_SIGACTION_BYTES, _SIGACTION_FLAGS_AT = 256, 136
"""Room for the C library's `struct sigaction`, and where its flags are on 64-bit machines."""
_M_ARENA_MAX = -8

_libc = ctypes.CDLL(None, use_errno=True)


def check_syscall(what: str, result: int) -> int:
    """Return a system call's result. Raises OSError, naming the call, when it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def no_new_privileges() -> None:
    """Prevent this process from gaining privileges; the kernel requires it for filters and Landlock. Raises OSError."""
    check_syscall("no_new_privs", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def drop_capabilities() -> None:
    """Give up all capabilities (privileges of root), inside and outside our namespace. Raises OSError."""
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    check_syscall("capset", _libc.syscall(CAPSET[platform.machine()], header, bytes(24)))


def die_with(parent: int, by: signal.Signals) -> None:
    """Have the kernel send this process a signal when its parent ends; exit if the parent has already ended."""
    check_syscall("parent-death signal", _libc.prctl(_PR_SET_PDEATHSIG, int(by), 0, 0, 0))
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent ends, so that all of them can be killed."""
    check_syscall("subreaper", _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def ignore_stops_of_children() -> None:
    """Have SIGCHLD sent only when a child ends, not when it is stopped. Call it after setting the signal's handler."""
    action = ctypes.create_string_buffer(_SIGACTION_BYTES)
    check_syscall("sigaction", _libc.sigaction(int(signal.SIGCHLD), None, action))
    flags = struct.unpack_from("i", action, _SIGACTION_FLAGS_AT)[0]
    struct.pack_into("i", action, _SIGACTION_FLAGS_AT, flags | _SA_NOCLDSTOP)
    check_syscall("sigaction", _libc.sigaction(int(signal.SIGCHLD), action, None))


def use_one_heap() -> None:
    """Have threads share one heap; with one each, every thread would take 64 MB of a session's address space."""
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(_M_ARENA_MAX, 1)


def children() -> set[int]:
    """Process ids of our children, ended or not; empty if the kernel does not list them."""
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as listed:  # noqa: PTH123  pathlib is slow to load
            return {int(child) for child in listed.read().split()}
    except OSError:
        return set()


def address_space_bytes() -> int:
    """Size of this process's address space."""
    with open("/proc/self/statm") as counted:  # noqa: PTH123
        return int(counted.read().split()[0]) * resource.getpagesize()


def set_limits(limits: SandboxLimits, held_bytes: int) -> None:
    """Set the resource limits of a session. held_bytes: address space that its interpreter already uses."""
    for what, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1),  # SIGXCPU at the soft limit, SIGKILL at the hard one
        (resource.RLIMIT_AS, held_bytes + limits.memory_bytes, held_bytes + limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files, limits.open_files),
    ):
        allowed = resource.getrlimit(what)[1]
        bounds = (soft, hard) if allowed == resource.RLIM_INFINITY else (min(soft, allowed), min(hard, allowed))
        resource.setrlimit(what, bounds)


def cpu_limit_s(pid: int) -> int:
    """Hard limit of a child's processor time, which it may have lowered. The child may have ended, if not reaped."""
    hard = resource.prlimit(pid, resource.RLIMIT_CPU)[1]
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def kill_first_when_out_of_memory() -> None:
    """Ask the kernel to kill this process before others when memory runs out. Does nothing if the kernel refuses."""
    try:
        with open("/proc/self/oom_score_adj", "w") as score:  # noqa: PTH123
            score.write("500")
    except OSError:
        return
