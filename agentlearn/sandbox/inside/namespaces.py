"""Linux namespaces for the zygote and its sessions: no network, no shared memory, scratch space of limited size."""

import ctypes
import os
from pathlib import Path

from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.inside.process import check_syscall

_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWNET = 0x20000, 0x8000000, 0x10000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 0x4000, 1 << 18
_MNT_DETACH = 2
_INODE_BYTES = 16 << 10
"""Bytes of scratch space for which one file is allowed."""

_libc = ctypes.CDLL(None, use_errno=True)


def allowed(scratch: Path, limits: SandboxLimits) -> bool:
    """Whether `enter` and `mount_scratch` work here. Tested in a child process because they cannot be undone."""
    status = _status_of_trial(scratch, limits)
    if os.WIFSIGNALED(status):  # killed from outside
        status = _status_of_trial(scratch, limits)
    return status == 0


def _status_of_trial(scratch: Path, limits: SandboxLimits) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            enter()
            mount_scratch(scratch, limits)
            os._exit(0)
        except OSError:
            os._exit(1)
        finally:
            os._exit(2)
    return os.waitpid(pid, 0)[1]


def enter() -> None:
    """Move this process, which must have one thread, to new user, network, IPC and mount namespaces. Raises OSError."""
    uid, gid = os.geteuid(), os.getegid()
    check_syscall("unshare", _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWNS))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    check_syscall("mount", _libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))


def most_files(limits: SandboxLimits) -> int:
    """Most files and directories that a session may have."""
    return limits.scratch_bytes // _INODE_BYTES


def mount_scratch(where: Path, limits: SandboxLimits) -> None:
    """Mount an empty file system of limited size on a directory. Raises OSError."""
    options = f"size={limits.scratch_bytes},nr_inodes={most_files(limits)},mode=0700"
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    check_syscall("mount", _libc.mount(b"tmpfs", os.fsencode(where), b"tmpfs", flags, options.encode()))


def unmount_scratch(where: Path) -> None:
    """Unmount the file system of `mount_scratch` and so delete its files. Raises OSError."""
    check_syscall("umount", _libc.umount2(os.fsencode(where), _MNT_DETACH))
