"""The system calls that a session may make: a list of what is allowed, as a BPF program written by hand.

Whatever is not listed fails with EPERM, among it: sockets, new processes and threads, exec, signals to others, ptrace,
changing modes and owners (which Landlock does not guard), mounts, namespaces, keys, bpf, io_uring, memfd. Calls of
another machine's interface (32 bit, x32) kill the process.
"""

import ctypes
import fcntl
import os
import platform
import struct
import termios
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentlearn.sandbox.inside import syscalls
from agentlearn.sandbox.inside.process import check

ALLOW = 0x7FFF0000
DENY = 0x00050000 | 1  # SECCOMP_RET_ERRNO with EPERM
KILL = 0x80000000  # SECCOMP_RET_KILL_PROCESS

_LOAD_WORD, _JUMP_EQUAL, _JUMP_AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16
_X32_BIT = 0x40000000
_SECCOMP_SET_MODE_FILTER = 1


@dataclass(frozen=True)
class Machine:
    """A processor whose system calls we know."""

    audit: int
    """Its name in the kernel's audit codes."""
    numbers: Mapping[str, int]
    x32: bool
    """Whether it has a second numbering that must not be used to slip past the filter."""


MACHINES = {
    "x86_64": Machine(0xC000003E, syscalls.X86_64, x32=True),
    "aarch64": Machine(0xC00000B7, syscalls.AARCH64, x32=False),
}


@dataclass(frozen=True)
class Guarded:
    """A call that is allowed by the value of one of its arguments, a 32-bit one."""

    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF
    """The bits of the argument that count."""
    refuse: bool = False
    """Whether the values are the ones refused, not the ones allowed."""


def guarded_calls(pid: int) -> dict[str, Guarded]:
    """Calls that are allowed for some arguments only, in the process `pid`."""
    itself = Guarded(0, (pid,))
    # Landlock before Linux 6.2 lets a file be emptied as it is opened in a mode that does not write
    emptied = (os.O_TRUNC | os.O_RDONLY, os.O_TRUNC | os.O_ACCMODE), os.O_TRUNC | os.O_ACCMODE, True
    return {
        "open": Guarded(1, *emptied),
        "openat": Guarded(2, *emptied),
        "kill": itself,
        "tgkill": itself,
        "tkill": itself,
        "prlimit64": Guarded(0, (0, pid)),
        "fcntl": Guarded(
            1,
            (
                *(fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, fcntl.F_SETFL),
                *(fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_SETLKW),
            ),
        ),
        "ioctl": Guarded(1, (termios.TCGETS, termios.TIOCGWINSZ, termios.FIONREAD, termios.FIOCLEX, termios.FIONCLEX)),
    }


Instruction = tuple[int, int, int, int]


def program(machine: Machine, pid: int) -> list[Instruction]:
    """The filter for a process: BPF instructions as (code, jump if true, jump if false, value)."""
    guarded = guarded_calls(pid)
    lines: list[Instruction] = [
        (_LOAD_WORD, 0, 0, _MACHINE_AT),
        (_JUMP_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, KILL),
        (_LOAD_WORD, 0, 0, _NUMBER_AT),
    ]
    if machine.x32:
        lines += [(_JUMP_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, KILL)]
    for first, last in _ranges(number for name, number in machine.numbers.items() if name not in guarded):
        lines += [(_JUMP_AT_LEAST, 0, 2, first), (_JUMP_AT_LEAST, 1, 0, last + 1), (_RETURN, 0, 0, ALLOW)]
    for name, guard in guarded.items():
        if name in machine.numbers:
            lines += _guard(machine.numbers[name], guard)
    return [*lines, (_RETURN, 0, 0, DENY)]


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of consecutive numbers as (first, last)."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs


def _guard(number: int, guard: Guarded) -> list[Instruction]:
    """Decide one call by the low word of one argument; both machines are little-endian."""
    tests: list[Instruction] = [
        (_JUMP_EQUAL, len(guard.values) - place, 0, value) for place, value in enumerate(guard.values)
    ]
    listed, other = (DENY, ALLOW) if guard.refuse else (ALLOW, DENY)
    body: list[Instruction] = [
        (_LOAD_WORD, 0, 0, _ARGUMENTS_AT + 8 * guard.argument),
        (_AND, 0, 0, guard.mask),
        *tests,
        (_RETURN, 0, 0, other),
        (_RETURN, 0, 0, listed),
    ]
    return [(_JUMP_EQUAL, 0, len(body), number), *body]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def missing() -> str:
    """Why no filter can be set here; empty when one can."""
    if platform.machine() not in MACHINES:
        return f"no system-call filter is written for {platform.machine()!r} (there is one for x86_64 and aarch64)"
    libc = ctypes.CDLL(None, use_errno=True)
    number = syscalls.SECCOMP[platform.machine()]
    libc.syscall(number, _SECCOMP_SET_MODE_FILTER, 0, None)
    if ctypes.get_errno() == 14:  # EFAULT: filters are known, and this one was nowhere
        return ""
    return "the kernel has no system-call filters (seccomp), or forbids them"


def restrict() -> None:
    """Filter every further system call of this process, for good. It must have no_new_privs set."""
    lines = program(MACHINES[platform.machine()], os.getpid())
    packed = b"".join(struct.pack("HBBI", *line) for line in lines)
    filter_ = _Program(len(lines), packed)
    libc = ctypes.CDLL(None, use_errno=True)
    number = syscalls.SECCOMP[platform.machine()]
    check("seccomp", libc.syscall(number, _SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(filter_)))
