"""How much memory this process can still get: the machine's free memory, or less under a limit of its container."""

import ctypes
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import torch

_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_V2 = ("memory.max", "memory.current", "inactive_file")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
_LARGE_BLOCK, _USUAL_MMAPS, _NEVER = 128 * 2**10, 65_536, 2**31 - 1
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def memory_at_hand(device: torch.device) -> int:
    """Return the bytes that can still be allocated on a device.

    On a CPU, the processes that `torchrun` started on this machine share them equally.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return main_memory_at_hand() // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def main_memory_at_hand(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int:
    """Return the bytes of main memory at hand: the least of what the machine, control groups and `ulimit -v` leave."""
    return max(0, min((_machine(proc), *_control_groups(proc, cgroups), *_address_space(proc))))


def _machine(proc: Path) -> int:
    """Memory that the kernel can give without swapping. Where it does not tell, half of all memory."""
    try:
        lines = (proc / "meminfo").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _control_groups(proc: Path, cgroups: Path) -> Iterator[int]:
    """What is left under each limit of a control group of this process. A group's limit holds for its members too."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            root, files = cgroups, _V2
        elif "memory" in controllers.split(","):
            root, files = cgroups / "memory", _V1
        else:
            continue
        folder = root / path.lstrip("/")
        for one in (folder, *folder.parents):
            if one.is_relative_to(root) and (left := _left_in(one, *files)) is not None:
                yield left


def _left_in(folder: Path, limit: str, used: str, cached: str) -> int | None:
    """Limit minus use of one group; None without a limit. Files that are only cached can be dropped."""
    try:
        bound = int((folder / limit).read_text())  # "max" is not a number: there is no limit
        taken = int((folder / used).read_text())
        counts = dict(line.split(maxsplit=1) for line in (folder / "memory.stat").read_text().splitlines())
        return bound - taken + int(counts.get(cached, 0))
    except (OSError, ValueError):
        return None


def _address_space(proc: Path) -> Iterator[int]:
    """What `ulimit -v` leaves, when it is set."""
    bound, _ = resource.getrlimit(resource.RLIMIT_AS)
    if bound == resource.RLIM_INFINITY:
        return
    try:
        pages = int((proc / "self" / "statm").read_text().split()[0])
    except (OSError, ValueError):
        return
    yield bound - pages * os.sysconf("SC_PAGE_SIZE")


def return_freed_memory() -> None:
    """Make the C library give each large block back to the machine when it is freed.

    By default glibc keeps freed blocks of up to 32 MiB for reuse. They fit the next tensors badly, so that the memory
    of an update grew to twice the tensors in it. Asking for each block again costs up to a third of the CPU time of an
    update. Other C libraries are left as they are.
    """
    _set_allocator((_M_MMAP_MAX, _USUAL_MMAPS), (_M_MMAP_THRESHOLD, _LARGE_BLOCK))


def keep_freed_memory() -> None:
    """Make the C library keep freed blocks of any size for the next tensors, which saves asking for them again."""
    _set_allocator((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _NEVER))


def _set_allocator(*options: tuple[int, int]) -> None:
    """Set options of glibc's allocator; other C libraries do not have them."""
    try:
        library = ctypes.CDLL(None)
        for option, value in options:
            library.mallopt(option, value)
    except (AttributeError, OSError):
        return
