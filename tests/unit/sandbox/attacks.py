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

POPEN = "[c for c in object.__subclasses__() if c.__name__ == 'Popen'][0]"
UNPICKLED = "import pickle\nif pickle.loads(b\"cos\\nsystem\\n(S'true'\\ntR.\"): raise PermissionError('no shell')"
BY_FILE = """
import importlib.util
spec = importlib.util.spec_from_file_location('stolen', PYDANTIC)
spec.loader.exec_module(importlib.util.module_from_spec(spec))
"""
RENAME_EXCHANGE = """
os.mkdir('own')
if libc.renameat2(-100, os.path.dirname(os.getcwd()).encode() + b'/packages', -100, b'own', 2):
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""
SECRET_IN_MEMORY = """
names = (ctypes.c_char_p * 99).from_address(ctypes.c_void_p.in_dll(libc, 'environ').value)
found = b''
for name in names:
    if name is None: break
    found += name
start = ctypes.addressof(names) & ~4095
if b'hunter2' not in found + ctypes.string_at(start, 1024): raise PermissionError('no secret')
"""
SECRET_IN_OBJECTS = """
import gc
seen = [value for value in gc.get_objects() if type(value) is dict]
text = ' '.join(str(item) for one in seen for item in list(one.values()) if type(item) in (str, bytes))
if 'hunter' + '2' not in text: raise PermissionError('no secret')
"""
WAITING_THREADS = """
held = threading.Event()
try:
    for n in range(5_000): threading.Thread(target=held.wait, daemon=True).start()
finally:
    held.set()
"""
DELETED_FILES = """
files = []
for n in range(40):
    files.append(open('a', 'wb')); os.unlink('a'); files[-1].write(bytes(9 << 20)); files[-1].flush()
"""
MAPPED_FILES = """
files = []
for n in range(40):
    with open('a', 'wb+') as f:
        f.write(bytes(9 << 20)); f.flush()
        files.append(mmap.mmap(f.fileno(), 9 << 20))
        os.unlink('a')
"""
NO_SUCH_CALL = r"OSError: \[Errno 38\].*"
NO_SPACE = r"OSError: \[Errno 28\].*"


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
    Attack("send a descriptor to our side", "call(SENDMSG, 3, 0, 0)", NOT_PERMITTED),
]
NEW = [
    Attack("start a program found among the classes", POPEN + "(['/bin/true'])", NOT_PERMITTED),
    Attack("start a shell by unpickling", UNPICKLED, "PermissionError: no shell"),
    Attack("read by a codec", "import codecs; codecs.open('/etc/passwd').read()", DENIED),
    Attack("map a file by numpy", "import numpy; numpy.memmap('/etc/passwd', mode='r')", DENIED),
    Attack("read a file by numpy", "import numpy; numpy.fromfile('/etc/passwd', dtype='u1')", DENIED),
    Attack(
        "read lines by the cache of lines",
        "import linecache\nif not linecache.getlines('/etc/passwd'): raise PermissionError('nothing')",
        "PermissionError: nothing",
    ),
    Attack("run a system file as a module", "import runpy; runpy.run_path('/etc/passwd')", DENIED),
    Attack("load a library of the system", "ctypes.CDLL('/etc/passwd')", "OSError: /etc/passwd.*"),
    Attack("import a package that looks absent", "import pydantic", "ModuleNotFoundError: No module named 'pydantic'"),
    Attack("add its folder to the path", "sys.path.append(SITE); import pydantic", "ModuleNotFoundError.*"),
    Attack("import it by its file", BY_FILE, f"{DENIED}.*|ModuleNotFoundError.*|FileNotFoundError.*"),
    Attack("list the installed packages", "os.listdir(SITE)", DENIED),
    Attack("list them from a package of its own", "import numpy; os.listdir(numpy.__path__[0] + '/..')", DENIED),
    Attack(
        "list them by the real path", "import numpy; os.listdir(os.path.realpath(numpy.__path__[0]) + '/..')", DENIED
    ),
    Attack("change a package", "import numpy; open(numpy.__file__, 'a')", DENIED),
    Attack(
        "put a file beside compiled modules", "import numpy; open(numpy.__path__[0] + '/__pycache__/x', 'w')", DENIED
    ),
    Attack("add to the packages", "import sympy; open(sympy.__path__[0] + '/../breach.py', 'w')", DENIED),
    Attack(
        "remove a package of all sessions",
        "import sympy; os.unlink(os.path.dirname(sympy.__path__[0]) + '/sympy')",
        f"{DENIED}|IsADirectoryError.*",
    ),
    Attack(
        "rename its own directory", "os.rename(os.getcwd(), os.getcwd() + 'x')", f"{DENIED}|OSError: .Errno 1[68].*"
    ),
    Attack("swap its directory with another", RENAME_EXCHANGE, f"{DENIED}|OSError: .Errno (18|16).*"),
    Attack("open an unnamed file elsewhere", "os.open('/tmp', os.O_TMPFILE | os.O_RDWR)", DENIED),
    Attack("open its task's memory", "open(f'/proc/self/task/{os.getpid()}/mem', 'rb')", DENIED),
    Attack("open its thread's environment", "open('/proc/thread-self/environ')", DENIED),
    Attack("leave by the first process", "open('/proc/1/root/etc/passwd')", f"{DENIED}.*"),
    Attack("list its own descriptors", "os.listdir('/proc/self/fd')", DENIED),
    Attack("open the socket again", "open('/proc/self/fd/3', 'wb')", f"{DENIED}.*|OSError: .Errno 6.*"),
    Attack("write a time zone", "open('/usr/share/zoneinfo/breach', 'w')", f"{DENIED}.*|FileNotFoundError.*"),
    Attack("write a locale", "open('/usr/lib/locale/breach', 'w')", f"{DENIED}.*|FileNotFoundError.*"),
    Attack("open a device", "open('/dev/zero', 'rb')", f"{DENIED}.*|FileNotFoundError.*"),
    Attack("open a new terminal", "os.openpty()", f"{DENIED}|{NOT_PERMITTED}|OSError.*|FileNotFoundError.*"),
    Attack("read the kernel's memory", "open('/dev/mem', 'rb')", f"{DENIED}.*|FileNotFoundError.*"),
    Attack("fork with a terminal", "os.forkpty()", f"{NOT_PERMITTED}|{DENIED}|OSError.*|FileNotFoundError.*"),
    Attack(
        "start a pool of processes", "import multiprocessing; multiprocessing.Pool(1)", f"{DENIED}.*|{NOT_PERMITTED}"
    ),
    Attack(
        "share memory", "import multiprocessing.shared_memory as s; s.SharedMemory('breach', True, 9)", f"{DENIED}.*"
    ),
    Attack("leave a semaphore", "import multiprocessing; multiprocessing.Semaphore()", f"{DENIED}.*"),
    Attack("pass on a descriptor", "a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [1])", NOT_PERMITTED),
    Attack("take a descriptor", "a, b = socket.socketpair(); b.send(b'x'); socket.recv_fds(a, 9, 1)", NOT_PERMITTED),
    Attack("take a descriptor of our side", "socket.recv_fds(socket.socket(fileno=os.dup(3)), 9, 1)", NOT_PERMITTED),
    Attack("make a pair of datagram sockets", "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)", NOT_PERMITTED),
    Attack("make a pair of packet sockets", "socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)", NOT_PERMITTED),
    Attack("make a pair of network sockets", "call(SOCKETPAIR, 2, 1, 0, (ctypes.c_int * 2)())", f"{NOT_PERMITTED}"),
    Attack("connect a socket of a pair", "socket.socketpair()[0].connect('\\0breach')", NOT_PERMITTED),
    Attack("bind a socket of a pair", "socket.socketpair()[0].bind('\\0breach')", NOT_PERMITTED),
    Attack("listen on a socket of a pair", "socket.socketpair()[0].listen()", NOT_PERMITTED),
    Attack("send from a pair to a path", "socket.socketpair()[0].sendto(b'x', '/dev/log')", NOT_PERMITTED),
    Attack("send out of band", "a, b = socket.socketpair(); a.send(b'x', socket.MSG_OOB)", NOT_PERMITTED),
    Attack("receive out of band", "a, b = socket.socketpair(); b.recv(1, socket.MSG_OOB)", NOT_PERMITTED),
    Attack("ask for the peer's process", "socket.socket(fileno=os.dup(3)).getsockopt(1, 77)", NOT_PERMITTED),
    Attack("ask for the peer's user", "socket.socketpair()[0].getsockopt(1, socket.SO_PEERCRED, 12)", NOT_PERMITTED),
    Attack("filter a socket", "socket.socketpair()[0].setsockopt(1, 26, bytes(16))", NOT_PERMITTED),
    Attack(
        "enlarge the socket's memory", "socket.socketpair()[0].setsockopt(1, socket.SO_SNDBUF, 1 << 20)", NOT_PERMITTED
    ),
    Attack("have itself continued by a descriptor", "fcntl.fcntl(3, 10, signal.SIGCONT)", NOT_PERMITTED),
    Attack("be told of changes by signal", "fcntl.fcntl(os.open('.', 0), 1026, 1)", NOT_PERMITTED),
    Attack("take a lease", "fcntl.fcntl(os.open(os.__file__, 0), 1024, 0)", NOT_PERMITTED),
    Attack("type into a terminal", "fcntl.ioctl(0, 0x5412, b'x')", NOT_PERMITTED),
    Attack("have input announced by signal", "fcntl.ioctl(3, 0x5452, b'1234')", NOT_PERMITTED),
    Attack("make a file unchangeable", "fcntl.ioctl(os.open('.', 0), 0x40086602, bytes(8))", NOT_PERMITTED),
    Attack("share a file's blocks", "fcntl.ioctl(os.open('.', 0), 0x40049409, 0)", NOT_PERMITTED),
    Attack("kill itself as from outside", "os.kill(os.getpid(), signal.SIGKILL)", NOT_PERMITTED),
    Attack("signal its group by number", "os.kill(-os.getpid(), signal.SIGTERM)", NOT_PERMITTED),
    Attack("take real-time priority", "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))", NOT_PERMITTED),
    Attack("dump core", "resource.setrlimit(resource.RLIMIT_CORE, (1, 1))", f"{NOT_PERMITTED}|ValueError.*"),
    Attack(
        "allow itself larger files",
        "resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))",
        f"{NOT_PERMITTED}|ValueError.*",
    ),
    Attack(
        "allow itself more files",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (999, 999))",
        f"{NOT_PERMITTED}|ValueError.*",
    ),
    Attack(
        "allow itself more time", "resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))", f"{NOT_PERMITTED}|ValueError.*"
    ),
    Attack("make a sparse file", "open('a', 'wb').truncate(1 << 40)", r"OSError: \[Errno 27\].*"),
    Attack(
        "set an attribute of its own file", "open('a', 'w').close(); os.setxattr('a', 'user.a', b'b')", NOT_PERMITTED
    ),
    Attack("link its own file", "open('a', 'w').close(); os.link('a', 'b')", NOT_PERMITTED),
    Attack("find a secret in the environment of its memory", SECRET_IN_MEMORY, "PermissionError: no secret"),
    Attack("find a secret among the objects", SECRET_IN_OBJECTS, "PermissionError: no secret"),
    Attack(
        "find a secret in the arguments",
        "import gc\nif 'hunter2' not in str(sys.orig_argv): raise PermissionError('no secret')",
        "PermissionError: no secret",
    ),
    Attack("take the processor for good", "os.setpriority(os.PRIO_PROCESS, 0, -20)", NOT_PERMITTED),
    Attack("make a directory its root", "os.chroot('.')", NOT_PERMITTED),
    Attack("read a core of the zygote", "call(TRACE, 16, os.getppid(), None, None)", NOT_PERMITTED),
]
"""Written as a list of ideas before the sandbox was made to run threads, event loops and socket pairs."""
FLOODS = [
    Attack("flood with threads that wait", WAITING_THREADS, "RuntimeError: can't start new thread"),
    Attack(
        "flood with threads of small stacks",
        "threading.stack_size(1 << 15)\n" + WAITING_THREADS,
        "RuntimeError: can't start new thread",
    ),
    Attack("fill the disk with files that are deleted", DELETED_FILES, NO_SPACE),
    Attack(
        "fill the disk by appending",
        "for n in range(40):\n  for _ in range(9): open(str(n), 'ab').write(bytes(1 << 20))",
        NO_SPACE,
    ),
    Attack(
        "fill the disk in deep directories",
        "for n in range(40):\n  os.mkdir('d'); os.chdir('d'); open('f', 'wb').write(bytes(9 << 20))",
        NO_SPACE,
    ),
    Attack(
        "fill the disk by reserving",
        "for n in range(40): os.posix_fallocate(os.open(str(n), 66), 0, 9 << 20)",
        NOT_PERMITTED,
    ),
    Attack("fill the disk by maps", MAPPED_FILES, f"{NO_SPACE}|MemoryError"),
    Attack("use up the inodes with directories", "for n in range(99_999): os.mkdir(str(n))", NO_SPACE),
    Attack(
        "hide files in a directory that cannot be listed",
        "os.mkdir('d', 0o300)\nfor n in range(40): open(f'd/{n}', 'wb').write(bytes(9 << 20))",
        NO_SPACE,
    ),
]
"""These may also end with the session, which is then killed for its threads or its files."""
FLOODS_BEFORE = ("fill the disk", "use up the inodes")
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
    return [*FILES, *PROCESSES, *NETWORK, *NEW, *FLOODS, *(ON_X86_64 if platform.machine() == "x86_64" else [])]


def got_through(attack: Attack, result: CodeResult) -> str:
    """How an attack ended, where it did not end as it must; else empty."""
    last_line = result.error.strip().splitlines()[-1] if result.error else ""
    stopped = result.status in ("error", "oom") and re.match(attack.raises, last_line)
    if attack in FLOODS or attack.name in FLOODS_BEFORE:
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
