"""Landlock rules: the files that a session may open. All others are closed to it.

Landlock protects contents, not names: a session can still find out whether a path exists, its size and its owner.
It does not protect modes, owners and times of files either; the system-call filter does.
"""

import ctypes
import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path

from agentlearn.sandbox.inside.process import check_syscall
from agentlearn.sandbox.inside.syscalls import LANDLOCK_ADD_RULE, LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF

_VERSION_FLAG = 1
_BENEATH = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Access(IntFlag):
    """Access rights on files, with the kernel's bit values."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    REFER = 1 << 13
    TRUNCATE = 1 << 14


READ = Access.READ_FILE | Access.READ_DIR
FILE_RIGHTS = Access.EXECUTE | Access.WRITE_FILE | Access.READ_FILE | Access.TRUNCATE
SCRATCH = (
    READ
    | Access.WRITE_FILE
    | Access.TRUNCATE
    | Access.REMOVE_DIR
    | Access.REMOVE_FILE
    | Access.MAKE_DIR
    | Access.MAKE_REG
    | Access.REFER
)
"""Rights on the scratch directory. No device, socket, pipe or link can be created."""

_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Number of file rights (bits) by ABI version; later versions add none."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("fd", ctypes.c_int32))


@dataclass(frozen=True)
class LandlockRule:
    """Access rights on an open path and everything below it."""

    fd: int
    access: Access


def _abi() -> int:
    """Version of Landlock's ABI on this machine; 0 if there is no Landlock."""
    return max(0, _libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, _VERSION_FLAG))


def why_no_landlock() -> str:
    """Why Landlock cannot be used here; empty if it can."""
    if _abi():
        return ""
    return "the kernel has no Landlock (Linux 5.13 or later, with `landlock` among its `lsm=` modules), or forbids it"


def rule(path: Path, access: Access) -> LandlockRule | None:
    """A rule for a path; None if it cannot be opened. The rule's descriptor stays open."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    return LandlockRule(fd, access if path.is_dir() else access & FILE_RIGHTS)


def restrict_files(rules: Iterable[LandlockRule]) -> None:
    """Deny this process, permanently, all files but these, and, if the kernel supports it, TCP, signals to other
    processes and their abstract sockets. The process must have no_new_privs set. Raises OSError."""
    version = _abi()
    handled = (1 << _RIGHTS_BY_ABI[min(version, 5)]) - 1
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    wanted = _Ruleset(handled, 0b11 if version >= 4 else 0, 0b11 if version >= 6 else 0)
    ruleset = check_syscall("landlock ruleset", _libc.syscall(LANDLOCK_CREATE_RULESET, ctypes.byref(wanted), size, 0))
    for one in rules:
        path_rule = _PathRule(one.access & handled, one.fd)
        check_syscall("landlock rule", _libc.syscall(LANDLOCK_ADD_RULE, ruleset, _BENEATH, ctypes.byref(path_rule), 0))
    check_syscall("landlock", _libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
