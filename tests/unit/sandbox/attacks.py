"""Attacks on the sandbox `zygote`, each one cell of code; run as a module, it prints how each ended as JSON.

A cell that gets through prints BREACH. `raises` is what must stop it, as the last line of its traceback.
"""

import asyncio
import contextlib
import errno
import json
import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from agentlearn.sandbox import CodeResult, Session, open_sandbox
from tests.unit.sandbox.deny import deny

PRELUDE = """
import ctypes, os, signal, sys, socket, resource, fcntl, mmap, threading, subprocess
HERE = os.getcwd()
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""
TIDY = """
import shutil
files = hoard = spec = held = None
threading.stack_size(0)
os.chdir(HERE)
for name in os.listdir():
    shutil.rmtree(name) if os.path.isdir(name) else os.unlink(name)
"""
UNSHARE = {"x86_64": 272, "aarch64": 97}
NOT_PERMITTED = r"PermissionError: \[Errno 1\] Operation not permitted"
DENIED = r"PermissionError: \[Errno 13\] Permission denied"

NO_SUCH_CALL = r"OSError: \[Errno 38\].*"
FILE = Path(__file__).with_suffix(".txt")


@dataclass(frozen=True)
class Attack:
    """One cell, and a pattern for the last line of the error that it must end with."""

    name: str
    cell: str
    raises: str


def written() -> list[Attack]:
    """Those of the file: `### name`, then a line with the pattern of the error, then the cell."""
    found: list[Attack] = []
    for block in f"\n{FILE.read_text(encoding='utf-8')}".split("\n### ")[1:]:
        name, pattern, cell = block.split("\n", 2)
        found.append(Attack(name, cell.rstrip("\n"), pattern.format(NOT_PERMITTED=NOT_PERMITTED, DENIED=DENIED)))
    return found


FLOODS = ("flood", "fill the disk", "use up the inodes", "hide files")
"""Begins of names. These may also end with the session, which is then killed for its threads or its files."""
# x86-64 numbers of what no code of a session needs
KERNEL = {
    "accept": 43, "acct": 163, "add_key": 248, "adjtimex": 159, "clock_adjtime": 305, "clock_settime": 227,
    "delete_module": 176, "fsconfig": 431, "fsmount": 432, "io_uring_enter": 426, "landlock_restrict_self": 446,
    "modify_ldt": 154, "mount_setattr": 442, "process_mrelease": 448, "ptrace": 101, "sched_setattr": 314,
    "sched_setscheduler": 144, "swapoff": 168, "vhangup": 153, "bpf": 321, "chroot": 161, "clone": 56, "clone3": 435,
    "execveat": 322, "fanotify_init": 300, "finit_module": 313, "fsopen": 430, "init_module": 175, "inotify_init": 253,
    "io_setup": 206, "io_uring_setup": 425, "ioperm": 173, "iopl": 172, "kcmp": 312, "kexec_load": 246,
    "keyctl": 250, "landlock_create_ruleset": 444, "mbind": 237, "memfd_secret": 447, "migrate_pages": 256,
    "mlockall": 151, "mount": 165, "move_mount": 429, "mq_open": 240, "msgget": 68, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "open_tree": 428, "openat2": 437, "perf_event_open": 298, "personality": 135,
    "pidfd_getfd": 438, "pidfd_send_signal": 424, "pivot_root": 155, "pkey_alloc": 330, "prctl": 157,
    "process_madvise": 440, "process_vm_readv": 310, "process_vm_writev": 311, "quotactl": 179, "reboot": 169,
    "request_key": 249, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "seccomp": 317, "semget": 64,
    "set_mempolicy": 238, "setdomainname": 171, "sethostname": 170, "setns": 308, "settimeofday": 164, "shmget": 29,
    "splice": 275, "swapon": 167, "syslog": 103, "timer_create": 222, "timerfd_create": 283, "umount2": 166,
    "unshare": 272, "userfaultfd": 323, "vfork": 58, "vmsplice": 278,
}  # fmt: skip
ON_X86_64 = [
    Attack(f"call {name}", f"call({number}, 0, 0, 0, 0, 0)", NO_SUCH_CALL if name == "clone3" else NOT_PERMITTED)
    for name, number in KERNEL.items()
]


def all_attacks() -> list[Attack]:
    """Those that this machine's processor knows."""
    return [*written(), *(ON_X86_64 if platform.machine() == "x86_64" else [])]


def got_through(attack: Attack, result: CodeResult) -> str:
    """How an attack ended, where it did not end as it must; else empty."""
    last_line = result.error.strip().splitlines()[-1] if result.error else ""
    stopped = result.status in ("error", "oom") and re.match(attack.raises, last_line)
    if attack.name.startswith(FLOODS):
        stopped = stopped or (
            result.status == "killed" and re.match(r"the session('s files)? (had|took) more", last_line)
        )
    return "" if stopped and "BREACH" not in result.stdout else f"{result.status}: {last_line} {result.stdout}"


async def attack_all() -> dict[str, str]:
    """Run all attacks in one session; return those that succeeded, with how they ended."""
    import pydantic

    os.environ["SOME_SECRET"] = "hunter2"
    known = {"x86_64": (101, 46, 322, 53), "aarch64": (117, 211, 281, 199)}.get(platform.machine(), (-1, -1, -1, -1))
    site = str(Path(pydantic.__file__).parent.parent)
    names = (
        f"PYDANTIC, HOME, SITE = {pydantic.__file__!r}, {str(Path.home())!r}, {site!r}\n"
        f"TRACE, SENDMSG, EXECVEAT, SOCKETPAIR = {known}\n"
    )
    breaches: dict[str, str] = {}
    session: Session | None = None
    async with open_sandbox("zygote") as sandbox, contextlib.AsyncExitStack() as stack:
        for attack in all_attacks():
            if session is None:
                session = await stack.enter_async_context(sandbox.open(1))
                assert (await session.run(PRELUDE + names)).status == "ok"
            result = await session.run(f"{attack.cell}\nprint('BREACH')", timeout_s=60)
            if how := got_through(attack, result):
                breaches[attack.name] = how
            tidied = await session.run(TIDY)
            session = session if tidied.status == "ok" else None
        async with sandbox.open(2) as last:
            assert (await last.run("1 + 1")).stdout == "2\n"
    return breaches


if __name__ == "__main__":
    if "--without-namespaces" in sys.argv:
        deny([UNSHARE[platform.machine()]], errno.EPERM)
    json.dump(asyncio.run(attack_all()), sys.stdout)
