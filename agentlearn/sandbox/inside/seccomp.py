"""The system-call filter of a session: a list of allowed calls, as a hand-written BPF program.

All other calls fail with EPERM: sockets, new processes, exec, signals to other processes, ptrace, changing modes and
owners (which Landlock does not protect), mounts, namespaces, keys, bpf, io_uring, memfd and more. Threads are allowed
and, for event loops, epoll and pairs of connected stream sockets; a socket of a pair cannot connect elsewhere or pass
on descriptors. Calls by another interface of the machine (32 bit, x32) kill the process.
"""

import ctypes
import fcntl
import os
import platform
import signal
import socket
import struct
import termios
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentlearn.sandbox.inside import syscalls
from agentlearn.sandbox.inside.process import check_syscall

ALLOW = 0x7FFF0000
DENY = 0x00050000 | 1  # SECCOMP_RET_ERRNO with EPERM
ABSENT = 0x00050000 | 38  # SECCOMP_RET_ERRNO with ENOSYS
KILL = 0x80000000  # SECCOMP_RET_KILL_PROCESS

_LOAD_WORD, _JUMP_EQUAL, _JUMP_AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16
_X32_BIT = 0x40000000
_SECCOMP_SET_MODE_FILTER = 1
_THREAD_FLAGS = (0x3D0F00, 0x7D0F00)
"""Flags of `clone` with which glibc and musl start a thread."""
_FIONBIO = 0x5421


@dataclass(frozen=True)
class Machine:
    """A processor architecture and its system calls."""

    audit: int
    """The architecture's number in the kernel's audit codes."""
    numbers: Mapping[str, int]
    """Number of each allowed system call, by name."""
    x32: bool
    """Whether it has a second numbering of calls (x32), which the filter must refuse."""


MACHINES = {
    "x86_64": Machine(0xC000003E, syscalls.X86_64, x32=True),
    "aarch64": Machine(0xC00000B7, syscalls.AARCH64, x32=False),
}


@dataclass(frozen=True)
class ArgumentRule:
    """Refuse a call depending on the value of one 32-bit argument."""

    argument: int
    """Position of the argument, from 0."""
    values: tuple[int, ...]
    """Values of the argument that are allowed, or refused."""
    mask: int = 0xFFFFFFFF
    """Bits of the argument that are compared."""
    refuse: bool = False
    """Whether `values` are refused; by default all other values are refused."""


def calls_with_argument_rules(pid: int) -> dict[str, tuple[ArgumentRule, ...]]:
    """Rules for the calls that the process `pid` may make with some arguments only, by name; all must allow the call.

    It cannot send itself SIGKILL: a session that ended by this signal was ended from outside.
    """
    itself = ArgumentRule(0, (pid,))
    # Landlock before Linux 6.2 allows truncating a file by opening it in a mode that does not write
    emptied = (os.O_TRUNC | os.O_RDONLY, os.O_TRUNC | os.O_ACCMODE), os.O_TRUNC | os.O_ACCMODE, True
    return {
        "open": (ArgumentRule(1, *emptied),),
        "openat": (ArgumentRule(2, *emptied),),
        "kill": (itself, _no_sigkill(1)),
        "tgkill": (itself, _no_sigkill(2)),
        "tkill": (itself, _no_sigkill(1)),
        "prlimit64": (ArgumentRule(0, (0, pid)),),
        "fcntl": (
            ArgumentRule(
                1,
                (
                    *(fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, fcntl.F_SETFL),
                    *(fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_SETLKW),
                ),
            ),
        ),
        "ioctl": (
            ArgumentRule(
                1,
                (
                    *(termios.TCGETS, termios.TIOCGWINSZ, termios.FIONREAD, termios.FIOCLEX, termios.FIONCLEX),
                    _FIONBIO,
                ),
            ),
        ),
        "clone": (ArgumentRule(0, _THREAD_FLAGS),),
        **_calls_on_socket_pairs(),
    }


def _calls_on_socket_pairs() -> dict[str, tuple[ArgumentRule, ...]]:
    """Rules for pairs of stream sockets: without addresses, urgent data and the peer's identity."""
    blocking = 0xFFFFFFFF & ~(socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    waits, quiet = socket.MSG_DONTWAIT, socket.MSG_NOSIGNAL
    return {
        "socketpair": (
            ArgumentRule(0, (socket.AF_UNIX,)),
            ArgumentRule(1, (socket.SOCK_STREAM,), mask=blocking),
        ),
        "sendto": (ArgumentRule(3, (0, waits, quiet, waits | quiet)), ArgumentRule(5, (0,))),  # 5: size of the address
        "recvfrom": (ArgumentRule(3, (0, waits)),),
        "getsockopt": (
            ArgumentRule(1, (socket.SOL_SOCKET,)),
            ArgumentRule(2, (socket.SO_TYPE, socket.SO_ERROR, socket.SO_PROTOCOL, socket.SO_DOMAIN)),
        ),
    }


def _no_sigkill(argument: int) -> ArgumentRule:
    return ArgumentRule(argument, (signal.SIGKILL,), refuse=True)


Instruction = tuple[int, int, int, int]


def program(machine: Machine, pid: int) -> list[Instruction]:
    """The filter for the process `pid`: BPF instructions as (code, jump if true, jump if false, value)."""
    with_rules = calls_with_argument_rules(pid)
    lines: list[Instruction] = [
        (_LOAD_WORD, 0, 0, _MACHINE_AT),
        (_JUMP_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, KILL),
        (_LOAD_WORD, 0, 0, _NUMBER_AT),
    ]
    if machine.x32:
        lines += [(_JUMP_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, KILL)]
    lines += [(_JUMP_EQUAL, 0, 1, syscalls.CLONE3), (_RETURN, 0, 0, ABSENT)]  # the C library then calls `clone`
    for first, last in _ranges(number for name, number in machine.numbers.items() if name not in with_rules):
        lines += [(_JUMP_AT_LEAST, 0, 2, first), (_JUMP_AT_LEAST, 1, 0, last + 1), (_RETURN, 0, 0, ALLOW)]
    for name, rules in with_rules.items():
        if name in machine.numbers:
            body = [line for rule in rules for line in _rule_instructions(rule)]
            lines += [(_JUMP_EQUAL, 0, len(body) + 1, machine.numbers[name]), *body, (_RETURN, 0, 0, ALLOW)]
    return [*lines, (_RETURN, 0, 0, DENY)]


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ranges of consecutive numbers as (first, last)."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs


def _rule_instructions(rule: ArgumentRule) -> list[Instruction]:
    """Instructions that refuse a call by the low word of one argument; all supported machines are little-endian.

    They end with a return, over which an allowed call jumps.
    """
    last = len(rule.values) - 1
    return [
        (_LOAD_WORD, 0, 0, _ARGUMENTS_AT + 8 * rule.argument),
        (_AND, 0, 0, rule.mask),
        *(
            (_JUMP_EQUAL, last - at, at == last, value) if rule.refuse else (_JUMP_EQUAL, last - at + 1, 0, value)
            for at, value in enumerate(rule.values)
        ),
        (_RETURN, 0, 0, DENY),
    ]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def why_no_seccomp() -> str:
    """Why no filter can be set here; empty if one can."""
    if platform.machine() not in MACHINES:
        return f"there is no system-call filter for {platform.machine()!r} (only for x86_64 and aarch64)"
    libc = ctypes.CDLL(None, use_errno=True)
    number = syscalls.SECCOMP[platform.machine()]
    libc.syscall(number, _SECCOMP_SET_MODE_FILTER, 0, None)
    if ctypes.get_errno() == 14:  # EFAULT: the kernel supports filters and found our null pointer
        return ""
    return "the kernel has no system-call filters (seccomp), or forbids them"


def filter_syscalls() -> None:
    """Filter all further system calls of this process, permanently. It must have no_new_privs set. Raises OSError."""
    lines = program(MACHINES[platform.machine()], os.getpid())
    packed = b"".join(struct.pack("HBBI", *line) for line in lines)
    filter_ = _Program(len(lines), packed)
    libc = ctypes.CDLL(None, use_errno=True)
    number = syscalls.SECCOMP[platform.machine()]
    check_syscall("seccomp", libc.syscall(number, _SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(filter_)))
