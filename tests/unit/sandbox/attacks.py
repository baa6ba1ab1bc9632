"""Attacks on the sandbox `zygote`, each one cell of code; run as a module, it prints how each ended as JSON.

A cell that gets through prints BREACH. `raises` is what must stop it, as the last line of its traceback.
"""

import asyncio
import json
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from agentlearn.sandbox import CodeResult, open_sandbox

PRELUDE = """
import ctypes, os, signal, sys, socket, resource, fcntl, mmap, threading, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""
NOT_PERMITTED = r"PermissionError: \[Errno 1\] Operation not permitted"
DENIED = r"PermissionError: \[Errno 13\] Permission denied"


@dataclass(frozen=True)
class Attack:
    """One cell, and a pattern for the last line of the error that it must end with."""

    name: str
    cell: str
    raises: str = f"{NOT_PERMITTED}|{DENIED}"


FILES = [
    Attack("read a system file", "open('/etc/passwd').read()", DENIED),
    Attack("list the root", "os.listdir('/')", DENIED),
    Attack("list a home", "os.listdir(HOME)", DENIED),
    Attack("write to the temporary directory", "open('/tmp/breach', 'w')", DENIED),
    Attack("change the standard library", "open(os.__file__, 'a')", DENIED),
    Attack("add to the standard library", "open(os.path.dirname(os.__file__) + '/breach.py', 'w')", DENIED),
    Attack("read a package that was not warmed", "open(PYDANTIC).read()", DENIED),
    Attack("leave scratch by ..", "os.listdir('..')", DENIED),
    Attack("read the zygote's environment", "open(f'/proc/{os.getppid()}/environ').read()", DENIED),
    Attack("read its own environment", "open('/proc/self/environ').read()", DENIED),
    Attack("walk the processes", "os.listdir('/proc')", DENIED),
    Attack("read its own memory map", "open('/proc/self/maps').read()", DENIED),
    Attack("read the zygote's command line", "open(f'/proc/{os.getppid()}/cmdline').read()", DENIED),
    Attack("open the zygote's descriptors", "os.listdir(f'/proc/{os.getppid()}/fd')", DENIED),
    Attack("change the kernel's settings", "open('/proc/sys/kernel/core_pattern', 'w')", DENIED),
    Attack("leave by its own root link", "os.listdir('/proc/self/root/')", DENIED),
    Attack("leave by its own directory link", "os.listdir('/proc/self/cwd/..')", DENIED),
    Attack("write its own memory", "open('/proc/self/mem', 'wb')", DENIED),
    Attack(
        "reopen a path handle", "os.open(f'/proc/self/fd/{os.open(\"/etc/passwd\", os.O_PATH)}', os.O_RDONLY)", DENIED
    ),
    Attack("reopen by openat", "os.open('passwd', os.O_RDONLY, dir_fd=os.open('/etc', os.O_PATH))", DENIED),
    Attack("empty a file it may read", "os.open(os.__file__, os.O_RDONLY | os.O_TRUNC)"),
    Attack("truncate by path", "os.truncate('/etc/passwd', 0)"),
    Attack("remove a file", "os.unlink('/etc/hostname')", f"{DENIED}|FileNotFoundError.*"),
    Attack(
        "move a file out", "open('a', 'w').close(); os.rename('a', '/tmp/breach')", f"{DENIED}|OSError: .Errno 18.*"
    ),
    Attack("link a file in", "os.link('/etc/passwd', 'a')", NOT_PERMITTED),
    Attack("make a symbolic link", "os.symlink('/etc/passwd', 'a')", NOT_PERMITTED),
    Attack("link out of scratch, relatively", "os.symlink('../..', 'a')", NOT_PERMITTED),
    Attack(
        "link a file to itself in another place", "open('a', 'w').close(); os.link('a', '/tmp/breach')", NOT_PERMITTED
    ),
    Attack(
        "swap two files", "open('a', 'w').close(); os.replace('/etc/hostname', 'a')", f"{DENIED}|OSError: .Errno 18.*"
    ),
    Attack("make a pipe", "os.mkfifo('a')", NOT_PERMITTED),
    Attack("make a device", "os.mknod('a', 0o20666, os.makedev(1, 3))", NOT_PERMITTED),
    Attack("change a mode", "os.chmod('/etc/passwd', 0o777)", NOT_PERMITTED),
    Attack("change an owner", "os.chown('/etc/passwd', os.getuid(), os.getgid())", NOT_PERMITTED),
    Attack("change a time", "os.utime('/etc/passwd')", NOT_PERMITTED),
    Attack("set an attribute", "os.setxattr('/etc/passwd', 'user.breach', b'')", NOT_PERMITTED),
    Attack("use a terminal", "os.open('/dev/tty', os.O_RDWR)", f"{DENIED}|OSError.*"),
    Attack("use shared memory", "open('/dev/shm/breach', 'w')", DENIED),
    Attack(
        "fill the disk", "for n in range(99): open(str(n), 'wb').write(bytes(15 << 20))", r"OSError: \[Errno 28\].*"
    ),
    Attack("use up the inodes", "for n in range(99_999): open(str(n), 'wb')", r"OSError: \[Errno 28\].*"),
    Attack("write a large file", "open('a', 'wb').write(bytes(64 << 20))", r"OSError: \[Errno 27\].*"),
    Attack("open many files", "files = [open('a', 'w') for _ in range(999)]", r"OSError: \[Errno 24\].*"),
]
PROCESSES = [
    Attack("fork", "os.fork()", NOT_PERMITTED),
    Attack("start a thread", "threading.Thread(target=print).start()", "RuntimeError: can't start new thread"),
    Attack(
        "flood with threads",
        "for n in range(999): threading.Thread(target=lambda: 1).start()",
        "RuntimeError: can't start new thread",
    ),
    Attack("fork by the C library", "if libc.fork() < 0: raise PermissionError('no fork')", "PermissionError: no fork"),
    Attack(
        "run a shell by the C library",
        "if libc.system(b'true') != 0: raise PermissionError('no shell')",
        "Perm.*no shell",
    ),
    Attack("run a program in memory", "call(EXECVEAT, 3, b'', None, None, 0x1000)", NOT_PERMITTED),
    Attack("set the clock", "import time; time.clock_settime(time.CLOCK_REALTIME, 0)", NOT_PERMITTED),
    Attack("map the zygote's memory", "mmap.mmap(os.open(f'/proc/{os.getppid()}/mem', os.O_RDONLY), 4096)", DENIED),
    Attack("map a library to change it", "mmap.mmap(os.open(os.__file__, os.O_RDWR), 4096)", DENIED),
    Attack("run a program", "os.execv('/bin/true', ['true'])", NOT_PERMITTED),
    Attack("run a child", "subprocess.run(['/bin/true'])", NOT_PERMITTED),
    Attack("spawn", "os.posix_spawn('/bin/true', ['true'], {})", NOT_PERMITTED),
    Attack("signal the zygote", "os.kill(os.getppid(), 0)", NOT_PERMITTED),
    Attack("signal everybody", "os.kill(-1, 0)", NOT_PERMITTED),
    Attack("signal the group", "os.killpg(0, 0)", NOT_PERMITTED),
    Attack("hold the zygote by pidfd", "os.pidfd_open(os.getppid())", NOT_PERMITTED),
    Attack("trace the zygote", "call(TRACE, 0x4206, os.getppid(), None, None)", NOT_PERMITTED),
    Attack("signal by file ownership", "fcntl.fcntl(3, fcntl.F_SETOWN, os.getppid())", NOT_PERMITTED),
    Attack("leave the group", "os.setpgid(0, 0)", NOT_PERMITTED),
    Attack("leave the session", "os.setsid()", NOT_PERMITTED),
    Attack(
        "outlive the zygote",
        "if libc.prctl(1, 0, 0, 0, 0): raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))",
        NOT_PERMITTED,
    ),
    Attack("change user", "os.setuid(0)", NOT_PERMITTED),
    Attack("change groups", "os.setgroups([])", NOT_PERMITTED),
    Attack("raise its memory", "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))", f"{NOT_PERMITTED}|ValueError.*"),
    Attack("lower the zygote's limits", "resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))", NOT_PERMITTED),
    Attack("take a processor", "os.sched_setaffinity(0, {0})", NOT_PERMITTED),
    Attack("go first", "os.nice(-5)", NOT_PERMITTED),
    Attack("take much memory", "bytearray(3 << 30)", "MemoryError"),
    Attack("take memory in parts", "hoard = [bytearray(1 << 24) for _ in range(999)]", "MemoryError"),
    Attack("take memory by a map", "mmap.mmap(-1, 3 << 30)", r"OSError: \[Errno 12\].*"),
    Attack("take memory by a memfd", "os.memfd_create('a')", NOT_PERMITTED),
]
NETWORK = [
    Attack("open a TCP socket", "socket.create_connection(('127.0.0.1', 9))", NOT_PERMITTED),
    Attack("open a UDP socket", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", NOT_PERMITTED),
    Attack("open an abstract socket", "socket.socket(socket.AF_UNIX).bind('\\0breach')", NOT_PERMITTED),
    Attack("open a netlink socket", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)", NOT_PERMITTED),
    Attack("make a socket pair", "socket.socketpair()", NOT_PERMITTED),
    Attack("send a descriptor to our side", "call(SENDMSG, 3, 0, 0)", NOT_PERMITTED),
]
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
ON_X86_64 = [Attack(f"call {name}", f"call({number}, 0, 0, 0, 0, 0)", NOT_PERMITTED) for name, number in KERNEL.items()]


def all_attacks() -> list[Attack]:
    """Those that this machine's processor knows."""
    return [*FILES, *PROCESSES, *NETWORK, *(ON_X86_64 if platform.machine() == "x86_64" else [])]


def got_through(attack: Attack, result: CodeResult) -> str:
    """How an attack ended, where it did not end as it must; else empty."""
    last_line = result.error.strip().splitlines()[-1] if result.error else ""
    stopped = result.status in ("error", "oom") and re.match(attack.raises, last_line)
    return "" if stopped and "BREACH" not in result.stdout else f"{result.status}: {last_line} {result.stdout}"


async def attack_all() -> dict[str, str]:
    """Run all attacks in one session; return those that succeeded, with how they ended."""
    import pydantic

    known = {"x86_64": (101, 46, 322), "aarch64": (117, 211, 281)}.get(platform.machine(), (-1, -1, -1))
    names = f"PYDANTIC, HOME = {pydantic.__file__!r}, {str(Path.home())!r}\nTRACE, SENDMSG, EXECVEAT = {known}\n"
    breaches: dict[str, str] = {}
    async with open_sandbox("zygote") as sandbox, sandbox.open(1) as session:
        assert (await session.run(PRELUDE + names)).status == "ok"
        for attack in all_attacks():
            result = await session.run(f"{attack.cell}\nprint('BREACH')")
            if how := got_through(attack, result):
                breaches[attack.name] = how
            await session.run("files = hoard = None\nfor name in os.listdir(): os.unlink(name)")
        assert (await session.run("1 + 1")).stdout == "2\n"
    return breaches


if __name__ == "__main__":
    json.dump(asyncio.run(attack_all()), sys.stdout)
