"""Memory: how large weights are, and what is at hand. Importing this module needs no torch."""

import json
import math
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentlearn.errors import ConfigError

GIB = 2**30
_WEIGHTS = (".safetensors", ".bin", ".npz")
_LONGEST_HEADER = 100_000_000
_ITEM_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2, "I16": 2}


def stored_size(folder: Path) -> tuple[int, int | None]:
    """Return the bytes and the number of the weights in a folder; None when the files do not say how many.

    An adapter's base model is not counted.
    """
    files = [one for one in sorted(folder.iterdir()) if one.suffix in _WEIGHTS and one.is_file()]
    tensors = [_tensors(one) for one in files]
    known = [math.prod(shape) for found in tensors for _, shape in found or ()]
    return sum(one.stat().st_size for one in files), sum(known) if tensors and None not in tensors else None


def loaded_bytes(folder: Path, *, dtype: Any) -> int | None:
    """Size of the folder's weights in this dtype, from the headers of its safetensors files; None when not known.

    dtype: of torch, or "auto" for the files' own.
    """
    total = 0
    for file in folder.glob("model*.safetensors") if folder.is_dir() else ():
        for kind, shape in _tensors(file) or ():
            own = _ITEM_BYTES.get(kind, 1)
            total += math.prod(shape) * (getattr(dtype, "itemsize", own) if own > 1 else 1)
    return total or None


def _tensors(file: Path) -> list[tuple[str, list[int]]] | None:
    """Type and shape of each tensor in a safetensors file; None for other or broken files."""
    if file.suffix != ".safetensors":
        return None
    with file.open("rb") as source:
        length = int.from_bytes(source.read(8), "little")
        header = source.read(length) if length <= _LONGEST_HEADER else b""
    try:
        entries: dict[str, Any] = json.loads(header)
        return [(str(one["dtype"]), one["shape"]) for name, one in entries.items() if name != "__metadata__"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def size_words(size_bytes: float) -> str:
    """Return the size of files in words, such as `270.0 MB`."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"


def in_units(size_bytes: float) -> str:
    """Return a size in memory as text, such as 6.1 MiB."""
    for unit, name in ((GIB, "GiB"), (2**20, "MiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return f"{max(0.0, size_bytes) / 2**10:.0f} KiB"


# What is at hand.

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def main_memory_at_hand(*, swap: bool = False) -> int:
    """Return the bytes of main memory at hand: the least of what the machine, control groups and `ulimit -v` leave.

    swap: count free swap space of the machine too.
    """
    try:
        lines = [line.split() for line in (PROC / "meminfo").read_text().splitlines()]
        counts = {words[0]: int(words[1]) * 1024 for words in lines}
        machine = counts["MemAvailable:"] + (counts.get("SwapFree:", 0) if swap else 0)
    except (OSError, KeyError, ValueError, IndexError):  # where the kernel does not tell, half of all memory
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    left = [machine, *_control_groups()]
    bound, _ = resource.getrlimit(resource.RLIMIT_AS)  # `ulimit -v`
    if bound != resource.RLIM_INFINITY:
        with suppress(OSError, ValueError):
            pages = int((PROC / "self" / "statm").read_text().split()[0])
            left.append(bound - pages * os.sysconf("SC_PAGE_SIZE"))
    return max(0, min(left))


def _control_groups() -> Iterator[int]:
    """What is left under each limit of a control group of this process. A group's limit holds for its members too."""
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        root, limit, used, cached = CGROUPS, "memory.max", "memory.current", "inactive_file"
        if "memory" in controllers.split(","):
            root, limit, used = CGROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cached = "total_inactive_file"
        elif number != "0" or controllers:
            continue
        folder = root / path.lstrip("/")
        for one in (one for one in (folder, *folder.parents) if one.is_relative_to(root)):
            with suppress(OSError, ValueError):
                bound = int((one / limit).read_text())  # "max" is not a number: there is no limit
                stat = dict(line.split(maxsplit=1) for line in (one / "memory.stat").read_text().splitlines())
                yield bound - int((one / used).read_text()) + int(stat.get(cached, 0))  # cached files can be dropped


# Loading weights.


def check_memory(name: str, folder: Path, *, dtype: Any, device: str) -> None:
    """Raise ConfigError when a model's weights alone are larger than the memory at hand.

    Models whose size is not known before loading pass.
    """
    needed = loaded_bytes(folder, dtype=dtype)
    if needed is not None and needed > free_bytes(device):
        raise out_of_memory(name, folder, dtype=dtype, device=device)


def free_bytes(device: str = "cpu") -> int:
    """Memory that is free on a device for weights, swap space included."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.mem_get_info(device)[0]
    return main_memory_at_hand(swap=True)


def out_of_memory(name: str, folder: Path, *, dtype: Any, device: str) -> ConfigError:
    """Return the error for a model that does not fit into memory."""
    needed = loaded_bytes(folder, dtype=dtype)
    size = f"{in_units(needed)} as {str(dtype).removeprefix('torch.')}" if needed else "more than there is"
    where = "GPU memory" if device.startswith("cuda") else "memory"
    how = "use a smaller model or a larger machine, or end other programs"
    if str(dtype) == "torch.float32":
        how = f"to train an adapter on bf16 weights, which are half as large, set lora_rank and dtype=bf16; else {how}"
    return ConfigError(
        f"the model {name!r} does not fit into {where}: its weights need {size}, and {in_units(free_bytes(device))} are"
        f" free; {how}",
        code="out_of_memory",
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that the CPU or a GPU has no memory left. torch has an error of its own only for a GPU."""
    words = str(error).lower()
    told = any(
        one in words for one in ("out of memory", "not enough memory", "can't allocate memory", "cannot allocate")
    )
    return isinstance(error, MemoryError) or (told and isinstance(error, (RuntimeError, OSError)))
