"""What the kernel holds a session to: settings of its process, Landlock, namespaces, and the filter of system calls.

Landlock protects contents, not names: a session can still find out whether a path exists, its size and its owner.
It does not protect modes, owners and times of files either; the system-call filter does.

The filter is a list of allowed calls, as a hand-written BPF program. All other calls fail with EPERM: sockets, new
processes, exec, signals to other processes, ptrace, changing modes and owners, mounts, namespaces, keys, bpf, io_uring,
memfd and more. Threads are allowed and, for event loops, epoll and pairs of connected stream sockets; a socket of a
pair cannot connect elsewhere or pass on descriptors. Calls by another interface of the machine (32 bit, x32) kill the
process. A call that a machine lacks is not in its table: aarch64 has no `open`, only `openat`.
"""

import ctypes
import fcntl
import os
import platform
import resource
import signal
import socket
import struct
import sys
import termios
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path

from agentlearn.sandbox.inside.config import SandboxLimits


def _table(text: str) -> dict[str, int]:
    return {name: int(number) for name, number in (entry.split("=") for entry in text.split())}


X86_64 = _table("""
read=0 write=1 readv=19 writev=20 pread64=17 pwrite64=18 preadv=295 pwritev=296 lseek=8 close=3 close_range=436
open=2 openat=257 creat=85 stat=4 lstat=6 fstat=5 newfstatat=262 statx=332 access=21 faccessat=269 faccessat2=439
readlink=89 readlinkat=267 getdents=78 getdents64=217 getcwd=79 chdir=80 fchdir=81 mkdir=83 mkdirat=258 rmdir=84
unlink=87 unlinkat=263 rename=82 renameat=264 renameat2=316 ftruncate=77 fadvise64=221 fsync=74
fdatasync=75 flock=73 fstatfs=138 statfs=137 sendfile=40 copy_file_range=326 dup=32 dup2=33 dup3=292 pipe=22
pipe2=293 poll=7 ppoll=271 select=23 pselect6=270 umask=95 brk=12 mmap=9 munmap=11 mremap=25 mprotect=10 madvise=28
msync=26 membarrier=324 rt_sigaction=13 rt_sigprocmask=14 rt_sigreturn=15 rt_sigpending=127 rt_sigsuspend=130
rt_sigtimedwait=128 sigaltstack=131 restart_syscall=219 pause=34 alarm=37 getitimer=36 setitimer=38 futex=202
set_tid_address=218 set_robust_list=273 get_robust_list=274 rseq=334 sched_yield=24 sched_getaffinity=204 getcpu=309
nanosleep=35 clock_nanosleep=230 clock_gettime=228 clock_getres=229 gettimeofday=96 time=201 times=100 getrusage=98
getrlimit=97 sysinfo=99 uname=63 getrandom=318 getpid=39 gettid=186 getppid=110 getuid=102 geteuid=107 getgid=104
getegid=108 getresuid=118 getresgid=120 getgroups=115 getpgrp=111 getpgid=121 getsid=124 capget=125 exit=60
exit_group=231 wait4=61 waitid=247 kill=62 tkill=200 tgkill=234 prlimit64=302 fcntl=72 ioctl=16 clone=56
epoll_create1=291 epoll_ctl=233 epoll_wait=232 epoll_pwait=281 socketpair=53 sendto=44 recvfrom=45 getsockname=51
getsockopt=55
""")

AARCH64 = _table("""
read=63 write=64 readv=65 writev=66 pread64=67 pwrite64=68 preadv=69 pwritev=70 lseek=62 close=57 close_range=436
openat=56 fstat=80 statx=291 faccessat=48 faccessat2=439 readlinkat=78 getdents64=61 getcwd=17 chdir=49 fchdir=50
mkdirat=34 unlinkat=35 renameat=38 renameat2=276 ftruncate=46 fadvise64=223 fsync=82 fdatasync=83
flock=32 fstatfs=44 statfs=43 sendfile=71 copy_file_range=285 dup=23 dup3=24 pipe2=59 ppoll=73 pselect6=72 umask=166
brk=214 mmap=222 munmap=215 mremap=216 mprotect=226 madvise=233 msync=227 membarrier=283 rt_sigaction=134
rt_sigprocmask=135 rt_sigreturn=139 rt_sigpending=136 rt_sigsuspend=133 rt_sigtimedwait=137 sigaltstack=132
restart_syscall=128 getitimer=102 setitimer=103 futex=98 set_tid_address=96 set_robust_list=99 get_robust_list=100
rseq=293 sched_yield=124 sched_getaffinity=123 getcpu=168 nanosleep=101 clock_nanosleep=115 clock_gettime=113
clock_getres=114 gettimeofday=169 times=153 getrusage=165 getrlimit=163 sysinfo=179 uname=160 getrandom=278
getpid=172 gettid=178 getppid=173 getuid=174 geteuid=175 getgid=176 getegid=177 getresuid=148 getresgid=150
getgroups=158 getpgid=155 getsid=156 capget=90 exit=93 exit_group=94 wait4=260 waitid=95 kill=129 tkill=130
tgkill=131 prlimit64=261 fcntl=25 ioctl=29 newfstatat=79 clone=220 epoll_create1=20 epoll_ctl=21 epoll_pwait=22
socketpair=199 sendto=206 recvfrom=207 getsockname=204 getsockopt=209
""")

CLONE3 = 435
"""The same on every machine; its arguments lie in memory, which the filter cannot see."""
SECCOMP = {"x86_64": 317, "aarch64": 277}
CAPSET = {"x86_64": 126, "aarch64": 91}
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
"""Landlock's call numbers are the same on every machine."""


_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION_3 = 0x20080522
_SA_NOCLDSTOP = 1
_SIGACTION_BYTES, _SIGACTION_FLAGS_AT = 256, 136
"""Room for the C library's `struct sigaction`, and where its flags are on 64-bit machines."""
_M_ARENA_MAX = -8

_libc = ctypes.CDLL(None, use_errno=True)


def _check_syscall(what: str, result: int) -> int:
    """Return a system call's result. Raises OSError, naming the call, when it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def no_new_privileges() -> None:
    """Prevent this process from gaining privileges; the kernel requires it for filters and Landlock. Raises OSError."""
    _check_syscall("no_new_privs", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def drop_capabilities() -> None:
    """Give up all capabilities (privileges of root), inside and outside our namespace. Raises OSError."""
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _check_syscall("capset", _libc.syscall(CAPSET[platform.machine()], header, bytes(24)))


def die_with(parent: int, by: signal.Signals) -> None:
    """Have the kernel send this process a signal when its parent ends; exit if the parent has already ended."""
    _check_syscall("parent-death signal", _libc.prctl(_PR_SET_PDEATHSIG, int(by), 0, 0, 0))
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent ends, so that all of them can be killed."""
    _check_syscall("subreaper", _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def ignore_stops_of_children() -> None:
    """Have SIGCHLD sent only when a child ends, not when it is stopped. Call it after setting the signal's handler."""
    action = ctypes.create_string_buffer(_SIGACTION_BYTES)
    _check_syscall("sigaction", _libc.sigaction(int(signal.SIGCHLD), None, action))
    flags = struct.unpack_from("i", action, _SIGACTION_FLAGS_AT)[0]
    struct.pack_into("i", action, _SIGACTION_FLAGS_AT, flags | _SA_NOCLDSTOP)
    _check_syscall("sigaction", _libc.sigaction(int(signal.SIGCHLD), action, None))


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


_VERSION_FLAG = 1
_BENEATH = 1


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


def landlock_rule(path: Path, access: Access) -> LandlockRule | None:
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
    ruleset = _check_syscall("landlock ruleset", _libc.syscall(LANDLOCK_CREATE_RULESET, ctypes.byref(wanted), size, 0))
    for one in rules:
        path_rule = _PathRule(one.access & handled, one.fd)
        _check_syscall("landlock rule", _libc.syscall(LANDLOCK_ADD_RULE, ruleset, _BENEATH, ctypes.byref(path_rule), 0))
    _check_syscall("landlock", _libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWNET = 0x20000, 0x8000000, 0x10000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 0x4000, 1 << 18
_MNT_DETACH = 2
_INODE_BYTES = 16 << 10
"""Bytes of scratch space for which one file is allowed."""


def namespaces_allowed(scratch: Path, limits: SandboxLimits) -> bool:
    """Whether `enter_namespaces` and `mount_scratch` work here.

    Tested in a child process because they cannot be undone.
    """
    status = _status_of_trial(scratch, limits)
    if os.WIFSIGNALED(status):  # killed from outside
        status = _status_of_trial(scratch, limits)
    return status == 0


def _status_of_trial(scratch: Path, limits: SandboxLimits) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            enter_namespaces()
            mount_scratch(scratch, limits)
            os._exit(0)
        except OSError:
            os._exit(1)
        finally:
            os._exit(2)
    return os.waitpid(pid, 0)[1]


def enter_namespaces() -> None:
    """Move this process, which must have one thread, to new user, network, IPC and mount namespaces. Raises OSError."""
    uid, gid = os.geteuid(), os.getegid()
    _check_syscall("unshare", _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWNS))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _check_syscall("mount", _libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))


def most_files(limits: SandboxLimits) -> int:
    """Most files and directories that a session may have."""
    return limits.scratch_bytes // _INODE_BYTES


def mount_scratch(where: Path, limits: SandboxLimits) -> None:
    """Mount an empty file system of limited size on a directory. Raises OSError."""
    options = f"size={limits.scratch_bytes},nr_inodes={most_files(limits)},mode=0700"
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _check_syscall("mount", _libc.mount(b"tmpfs", os.fsencode(where), b"tmpfs", flags, options.encode()))


def unmount_scratch(where: Path) -> None:
    """Unmount the file system of `mount_scratch` and so delete its files. Raises OSError."""
    _check_syscall("umount", _libc.umount2(os.fsencode(where), _MNT_DETACH))


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
    "x86_64": Machine(0xC000003E, X86_64, x32=True),
    "aarch64": Machine(0xC00000B7, AARCH64, x32=False),
}


@dataclass(frozen=True)
class _ArgumentRule:
    """Refuse a call depending on the value of one 32-bit argument."""

    argument: int
    """Position of the argument, from 0."""
    values: tuple[int, ...]
    """Values of the argument that are allowed, or refused."""
    mask: int = 0xFFFFFFFF
    """Bits of the argument that are compared."""
    refuse: bool = False
    """Whether `values` are refused; by default all other values are refused."""

    def instructions(self) -> "list[Instruction]":
        """What refuses a call by the low word of one argument; all supported machines are little-endian.

        It ends with a return, over which an allowed call jumps.
        """
        last = len(self.values) - 1
        return [
            (_LOAD_WORD, 0, 0, _ARGUMENTS_AT + 8 * self.argument),
            (_AND, 0, 0, self.mask),
            *(
                (_JUMP_EQUAL, last - at, at == last, value) if self.refuse else (_JUMP_EQUAL, last - at + 1, 0, value)
                for at, value in enumerate(self.values)
            ),
            (_RETURN, 0, 0, DENY),
        ]


def calls_with_argument_rules(pid: int) -> dict[str, tuple[_ArgumentRule, ...]]:
    """Rules for the calls that the process `pid` may make with some arguments only, by name; all must allow the call.

    It cannot send itself SIGKILL: a session that ended by this signal was ended from outside.
    """
    itself = _ArgumentRule(0, (pid,))
    to_process, to_thread = (_ArgumentRule(place, (signal.SIGKILL,), refuse=True) for place in (1, 2))
    # Landlock before Linux 6.2 allows truncating a file by opening it in a mode that does not write
    emptied = (os.O_TRUNC | os.O_RDONLY, os.O_TRUNC | os.O_ACCMODE), os.O_TRUNC | os.O_ACCMODE, True
    blocking = 0xFFFFFFFF & ~(socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    waits, quiet = socket.MSG_DONTWAIT, socket.MSG_NOSIGNAL
    return {
        "open": (_ArgumentRule(1, *emptied),),
        "openat": (_ArgumentRule(2, *emptied),),
        "kill": (itself, to_process),
        "tgkill": (itself, to_thread),
        "tkill": (itself, to_process),
        "prlimit64": (_ArgumentRule(0, (0, pid)),),
        "fcntl": (
            _ArgumentRule(
                1,
                (
                    *(fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, fcntl.F_SETFL),
                    *(fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_SETLKW),
                ),
            ),
        ),
        "ioctl": (
            _ArgumentRule(
                1,
                (
                    *(termios.TCGETS, termios.TIOCGWINSZ, termios.FIONREAD, termios.FIOCLEX, termios.FIONCLEX),
                    _FIONBIO,
                ),
            ),
        ),
        "clone": (_ArgumentRule(0, _THREAD_FLAGS),),
        # pairs of stream sockets: without addresses, urgent data and the peer's identity
        "socketpair": (
            _ArgumentRule(0, (socket.AF_UNIX,)),
            _ArgumentRule(1, (socket.SOCK_STREAM,), mask=blocking),
        ),
        "sendto": (
            _ArgumentRule(3, (0, waits, quiet, waits | quiet)),
            _ArgumentRule(5, (0,)),
        ),  # 5: its size
        "recvfrom": (_ArgumentRule(3, (0, waits)),),
        "getsockopt": (
            _ArgumentRule(1, (socket.SOL_SOCKET,)),
            _ArgumentRule(2, (socket.SO_TYPE, socket.SO_ERROR, socket.SO_PROTOCOL, socket.SO_DOMAIN)),
        ),
    }


Instruction = tuple[int, int, int, int]


def filter_program(machine: Machine, pid: int) -> list[Instruction]:
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
    lines += [(_JUMP_EQUAL, 0, 1, CLONE3), (_RETURN, 0, 0, ABSENT)]  # the C library then calls `clone`
    for first, last in _ranges(number for name, number in machine.numbers.items() if name not in with_rules):
        lines += [(_JUMP_AT_LEAST, 0, 2, first), (_JUMP_AT_LEAST, 1, 0, last + 1), (_RETURN, 0, 0, ALLOW)]
    for name, rules in with_rules.items():
        if name in machine.numbers:
            body = [line for rule in rules for line in rule.instructions()]
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


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def why_no_seccomp() -> str:
    """Why no filter can be set here; empty if one can."""
    if platform.machine() not in MACHINES:
        return f"there is no system-call filter for {platform.machine()!r} (only for x86_64 and aarch64)"
    libc = ctypes.CDLL(None, use_errno=True)
    number = SECCOMP[platform.machine()]
    libc.syscall(number, _SECCOMP_SET_MODE_FILTER, 0, None)
    if ctypes.get_errno() == 14:  # EFAULT: the kernel supports filters and found our null pointer
        return ""
    return "the kernel has no system-call filters (seccomp), or forbids them"


def filter_syscalls() -> None:
    """Filter all further system calls of this process, permanently. It must have no_new_privs set. Raises OSError."""
    lines = filter_program(MACHINES[platform.machine()], os.getpid())
    packed = b"".join(struct.pack("HBBI", *line) for line in lines)
    filter_ = _Program(len(lines), packed)
    libc = ctypes.CDLL(None, use_errno=True)
    number = SECCOMP[platform.machine()]
    _check_syscall("seccomp", libc.syscall(number, _SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(filter_)))
