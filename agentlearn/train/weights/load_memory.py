"""Memory for loading a model: what its weights need and what the machine has, before and after it runs out."""

import json
import math
import os
from pathlib import Path
from typing import Any

from agentlearn.errors import ConfigError
from agentlearn.train.weights.model_source import ModelSource

_ITEM_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2, "I16": 2}
_WORDS = ("out of memory", "not enough memory", "can't allocate memory", "cannot allocate")
_CGROUP = Path("/sys/fs/cgroup")


def check_memory(source: ModelSource, *, dtype: Any, device: str) -> None:
    """Raise ConfigError when the model's weights alone are larger than the memory at hand.

    Models whose size is not known before loading pass.
    """
    needed, free = loaded_bytes(Path(source.base), dtype=dtype), free_bytes(device)
    if needed is not None and free is not None and needed > free:
        raise out_of_memory(source, dtype=dtype, device=device)


def out_of_memory(source: ModelSource, *, dtype: Any, device: str) -> ConfigError:
    """Return the error for a model that does not fit into memory."""
    needed, free = loaded_bytes(Path(source.base), dtype=dtype), free_bytes(device)
    size = f"{needed / 2**30:.1f} GiB as {str(dtype).removeprefix('torch.')}" if needed else "more than there is"
    at_hand = "" if free is None else f", and {free / 2**30:.1f} GiB are free"
    where = "GPU memory" if device.startswith("cuda") else "memory"
    how = "use a smaller model or a larger machine, or end other programs"
    if str(dtype) == "torch.float32":
        how = f"to train an adapter on bf16 weights, which are half as large, set lora_rank and dtype=bf16; else {how}"
    return ConfigError(
        f"the model {source.name!r} does not fit into {where}: its weights need {size}{at_hand}; {how}",
        code="out_of_memory",
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that the CPU or a GPU has no memory left."""
    words = str(error).lower()
    told = any(one in words for one in _WORDS)
    return isinstance(error, MemoryError) or (told and isinstance(error, (RuntimeError, OSError)))


def loaded_bytes(folder: Path, *, dtype: Any) -> int | None:
    """Size of the folder's weights in this dtype, from the headers of its safetensors files; None when not known.

    dtype: of torch, or "auto" for the files' own.
    """
    total = 0
    for file in folder.glob("model*.safetensors") if folder.is_dir() else ():
        for entry in _header(file).values():
            if "shape" in entry:
                own = _ITEM_BYTES.get(str(entry.get("dtype")), 1)
                total += math.prod(entry["shape"]) * (getattr(dtype, "itemsize", own) if own > 1 else 1)
    return total or None


def free_bytes(device: str = "cpu") -> int | None:
    """Memory that is free on a device, swap space and the limit of a container included; None when not known."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.mem_get_info(device)[0]
    known = [one for one in (_machine_free(), _container_free()) if one is not None]
    return min(known, default=None)


def _machine_free() -> int | None:
    """Memory and swap space that the kernel could give to a new program."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        fields = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        return fields["MemAvailable"] + fields.get("SwapFree", 0)
    except (OSError, ValueError, KeyError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return None


def _container_free() -> int | None:
    """What is left of the container's limit; None without one."""
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        stat = (_CGROUP / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):
        return None
    cached = sum(int(line.split()[1]) for line in stat if line.split()[0] in {"inactive_file", "active_file"})
    return max(0, limit - used + cached)


def _header(file: Path) -> dict[str, Any]:
    """The names, types and shapes of a safetensors file's tensors."""
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        return json.loads(stream.read(size))
