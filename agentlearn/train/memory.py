"""Memory: how large weights are, what is at hand, what an update needs, and how many tokens it computes at once.

What an update needs is measured by a forward pass of short rows in which every tensor that the backward pass needs is
counted. It is not a timing and does not read the memory in use, so the same model always gives the same figures. Two
rows of the same length need twice the memory of one, so a single row tells all. Importing this module needs no torch.
"""

import ctypes
import json
import math
import os
import resource
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from agentlearn.train.update.logprob_model import LogprobModel

GIB = 2**30
_WEIGHTS = (".safetensors", ".bin", ".npz")
_LONGEST_HEADER = 100_000_000
_ITEM_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2, "I16": 2}


@dataclass(frozen=True, slots=True)
class _StoredSize:
    """Size of the weights in a folder."""

    size_bytes: int
    """Bytes of all weight files."""
    parameters: int | None
    """Number of weights; None when the files do not say."""


def stored_size(folder: Path) -> _StoredSize:
    """Return the size of the weights in a folder. An adapter's base model is not counted."""
    files = [one for one in sorted(folder.iterdir()) if one.suffix in _WEIGHTS and one.is_file()]
    counts = [
        None if (found := _tensors(one)) is None else sum(math.prod(shape) for _, shape in found) for one in files
    ]
    known = [count for count in counts if count is not None]
    return _StoredSize(
        size_bytes=sum(one.stat().st_size for one in files),
        parameters=sum(known) if known and len(known) == len(counts) else None,
    )


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

_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def memory_at_hand(device: "torch.device") -> int:
    """Return the bytes that can still be allocated on a device.

    On a CPU, the processes that `torchrun` started on this machine share them equally.
    """
    if device.type == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return main_memory_at_hand() // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def main_memory_at_hand(proc: Path = _PROC, cgroups: Path = _CGROUPS, *, swap: bool = False) -> int:
    """Return the bytes of main memory at hand: the least of what the machine, control groups and `ulimit -v` leave.

    swap: count free swap space of the machine too.
    """
    try:
        lines = [line.split() for line in (proc / "meminfo").read_text().splitlines()]
        counts = {words[0]: int(words[1]) * 1024 for words in lines}
        machine = counts["MemAvailable:"] + (counts.get("SwapFree:", 0) if swap else 0)
    except (OSError, KeyError, ValueError, IndexError):  # where the kernel does not tell, half of all memory
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return max(0, min((machine, *_control_groups(proc, cgroups), *_address_space(proc))))


def _control_groups(proc: Path, cgroups: Path) -> Iterator[int]:
    """What is left under each limit of a control group of this process. A group's limit holds for its members too."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            root, files = cgroups, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root, files = cgroups / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        limit, used, cached = files
        folder = root / path.lstrip("/")
        for one in (folder, *folder.parents):
            if not one.is_relative_to(root):
                break
            try:
                bound = int((one / limit).read_text())  # "max" is not a number: there is no limit
                stat = dict(line.split(maxsplit=1) for line in (one / "memory.stat").read_text().splitlines())
                yield bound - int((one / used).read_text()) + int(stat.get(cached, 0))  # cached files can be dropped
            except (OSError, ValueError):
                continue


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


# Updates.

FEWEST, MOST_CPU, MOST_GPU = 16, 8192, 65_536
"""Bounds of a planned number of tokens."""
_CPU_SHARE, _CPU_BYTES, _GPU_SHARE = 0.4, 2 * GIB, 0.6
_PROBED = 64
"""Length of the longest row that is measured."""


@dataclass(frozen=True, slots=True)
class RowMemory:
    """Bytes that a forward and backward pass of one row needs, by its number of tokens."""

    constant: float
    """Bytes that do not depend on the length, such as copies of weights in another number format."""
    per_token: float
    per_token_squared: float
    """Bytes per pair of tokens, where attention keeps its weights or a mask."""
    longest: int | None = None
    """Longest row that the model can read; None when unknown."""

    def of_row(self, tokens: int) -> float:
        """Bytes for one row alone."""
        return self.constant + self.of_tokens(tokens)

    def of_tokens(self, tokens: int) -> float:
        """Bytes for this number of tokens in rows as long as possible, without the constant."""
        row = tokens if self.longest is None else min(tokens, self.longest)
        return self.per_token * tokens + self.per_token_squared * tokens * row


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """How many tokens an update computes at once, and why."""

    tokens: int
    """Tokens in one forward pass, padding included."""
    rows: RowMemory | None
    """Measured memory; None when weights have no storage yet, so that nothing can be measured."""
    at_hand: int
    """Bytes that were at hand when the plan was made."""
    chosen_by: str = "memory"
    """memory, the setting tokens_per_microbatch (`setting`), or the start of a resumed run (`start`)."""

    def set_allocator(self, fixed: float) -> None:
        """Set what the C library does with freed memory, for a model with large activations on a CPU. fixed: as below.

        By default glibc keeps freed blocks of up to 32 MiB for reuse. They fit the next tensors badly, so that the
        memory of an update grew to twice the tensors in it. Where that does not fit, each large block is given back
        when it is freed, which costs up to a third of the CPU time of an update. Elsewhere all are kept. Other C
        libraries are left as they are.
        """
        if self.rows is None or self.rows.of_tokens(MOST_CPU) <= _CPU_BYTES:
            return
        trim_threshold, mmap_threshold, mmap_max = -1, -3, -4
        tight = 2 * (fixed + self.rows.of_row(self.tokens)) > self.at_hand
        give_back, keep = {mmap_max: 65_536, mmap_threshold: 128 * 2**10}, {mmap_max: 0, trim_threshold: 2**31 - 1}
        try:
            library = ctypes.CDLL(None)
            for option, value in (give_back if tight else keep).items():
                library.mallopt(option, value)
        except (AttributeError, OSError):
            return

    @property
    def sentence(self) -> str:
        """The plan in a sentence for the user."""
        said = f"an update computes up to {self.tokens:,} tokens at once"
        if self.chosen_by == "setting":
            return f"{said}, as set by tokens_per_microbatch"
        if self.chosen_by == "start":
            return f"{said}, as at the start of the run"
        if self.rows is None:
            return f"{said}. Set tokens_per_microbatch for another number"
        return (
            f"{said}: each needs {in_units(self.rows.per_token)}, and {in_units(self.at_hand)} of memory are at hand. "
            "Set tokens_per_microbatch for another number"
        )


def plan_memory(
    rows: RowMemory | None, arguments: GradientArguments, *, at_hand: int, fixed: float, gpu: bool
) -> MemoryPlan:
    """Return the plan for a model with these needs.

    fixed: bytes that an update needs whatever its rows, such as gradients. at_hand: bytes that can be allocated.
    Without a setting, the number of tokens is a power of two, so that small changes of the memory at hand rarely change
    it. Raises ConfigError when not even the fewest tokens fit.
    """
    if rows is not None:
        refuse_too_little(rows, arguments, tokens=FEWEST, at_hand=at_hand, fixed=fixed)
    if arguments.tokens_per_microbatch is not None:
        return MemoryPlan(arguments.tokens_per_microbatch, rows, at_hand, "setting")
    if rows is None:
        return MemoryPlan(MOST_CPU, None, at_hand)
    left = at_hand - fixed - rows.constant
    room = _GPU_SHARE * left if gpu else min(_CPU_SHARE * left, _CPU_BYTES)
    tokens = MOST_GPU if gpu else MOST_CPU
    while tokens > FEWEST and rows.of_tokens(tokens) > room:
        tokens //= 2
    return MemoryPlan(tokens, rows, at_hand)


def refuse_too_little(
    rows: RowMemory, arguments: GradientArguments, *, tokens: int, at_hand: int, fixed: float
) -> None:
    """Raise ConfigError when one row of this number of tokens does not fit into the memory at hand."""
    needed = fixed + rows.of_row(tokens)
    if needed <= at_hand:
        return
    raise ConfigError(
        f"an update needs {in_units(needed)} of memory ({in_units(fixed)} for gradients and the optimizer, "
        f"{in_units(rows.of_row(tokens))} for a row of {tokens} tokens), but {in_units(at_hand)} are at hand; "
        f"{_less_memory(arguments)}",
        code="too_little_memory",
    )


@contextmanager
def said_when_out_of_memory(arguments: GradientArguments, tokens: int) -> Generator[None]:
    """Turn an error of torch about memory into a ConfigError that says what to set."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise ConfigError(
            f"memory ran out in an update that computes up to {tokens:,} tokens at once; resume the run on a machine "
            f"with more free memory, or {_less_memory(arguments)}",
            code="out_of_memory",
        ) from error


def _less_memory(arguments: GradientArguments) -> str:
    """Return what the user can set so that an update needs less memory."""
    ways = (
        *(() if arguments.gradient_checkpointing else ("gradient_checkpointing=true",)),
        *(() if arguments.lora_rank else ("lora_rank=16",)),
        *(() if arguments.dtype == "bf16" else ("dtype=bf16",)),
        "fewer tokens in prompts and answers (max_output_tokens)",
    )
    return f"set {ways[0]}" if len(ways) == 1 else f"set {', '.join(ways[:-1])} or {ways[-1]}"


def measure_rows(scorer: "LogprobModel", precision: Callable[[], Any], *, packed: bool = False) -> RowMemory | None:
    """Measure what one row needs; None when a weight has no storage. Changes neither weights nor random numbers.

    precision: context of a forward pass. packed: measure rows that are laid end to end, which need a mask.
    """
    import torch

    from agentlearn.train.update.logprob_model import core_of, device_of

    core = core_of(scorer.model)
    if any(one.is_meta for one in scorer.parameters()):
        return None
    longest, device = longest_row(scorer.model), device_of(scorer)
    length = max(4, min(_PROBED, longest or _PROBED)) // 4
    masked = packed or getattr(core.config, "sliding_window", None) is not None
    recomputes = any(getattr(one, "gradient_checkpointing", False) for one in core.modules())
    modes = [(one, one.training) for one in scorer.modules()]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            scorer.train()
            kept = whole = _fit(scorer, length, precision, masked=masked)
            if recomputes:  # layers are checkpointed in training mode only
                scorer.train(False)
                whole = _fit(scorer, length, precision, masked=masked)
        finally:
            for one, mode in modes:
                one.training = mode
    # The backward pass also holds temporary tensors of one layer. `scripts.bench.update_memory` measures them.
    layers = max(1, getattr(core.config, "num_hidden_layers", 1))
    copies = 4 if recomputes else 2
    return RowMemory(
        constant=kept[0],
        per_token=kept[1] + copies * whole[1] / layers,
        per_token_squared=kept[2] + copies * whole[2] / layers,
        longest=None if packed else longest,
    )


def longest_row(model: "nn.Module", *, packed: bool = False) -> int | None:
    """Return the longest row that the model can read; None when unknown, or when rows are packed into longer ones."""
    from agentlearn.train.update.logprob_model import core_of

    longest = getattr(core_of(model).config, "max_position_embeddings", None)
    return longest if isinstance(longest, int) and longest > 0 and not packed else None


def fixed_bytes(
    trained: Iterable["nn.Parameter"],
    optimizer: "torch.optim.Optimizer",
    scorer: "nn.Module",
    arguments: GradientArguments,
) -> float:
    """Return the bytes that an update will still allocate whatever its rows: gradients, optimiser state, logits.

    What exists already is not counted. scorer: the model with its head.
    """
    from agentlearn.train.update.logprob_model import core_of

    weights = list(trained)
    states = 2 if arguments.optimizer == "adamw" else 0
    total = float(arguments.logits_mib * 2**20)
    for one in weights:
        size = _local(one).numel()
        total += 0 if one.grad is not None else size * (getattr(one, "grad_dtype", None) or one.dtype).itemsize
        total += 0 if optimizer.state.get(one) else states * size * 4
    if any(one.is_cuda for one in weights):  # the optimizer computes with copies of all weights at once
        total += sum(_local(one).numel() * 4 for one in weights)
    head = cast("nn.Linear", core_of(cast("LogprobModel", scorer).model).get_output_embeddings()).weight
    return total + (_local(head).numel() * 4 if head.requires_grad else 0)


def _local(weight: "Tensor") -> "Tensor":
    """This process's part of a weight."""
    part = getattr(weight, "to_local", None)
    return weight if part is None else part()


def _fit(
    scorer: "LogprobModel", length: int, precision: Callable[[], Any], *, masked: bool
) -> tuple[float, float, float]:
    """Fit c + a T + b T^2 to the bytes saved at the lengths L, 2 L and 4 L; returns c, a and b, none below 0."""
    one, two, four = (_saved_bytes(scorer, n * length, precision, masked=masked) for n in (1, 2, 4))
    squared = max(0.0, (four - 3 * two + 2 * one) / (6 * length**2))
    linear = max(0.0, (four - two) / (2 * length) - 6 * squared * length)
    return max(0.0, one - linear * length - squared * length**2), linear, squared


def _saved_bytes(scorer: "LogprobModel", tokens: int, precision: Callable[[], Any], *, masked: bool) -> int:
    """Bytes of the tensors that the backward pass of one row would need, weights excluded."""
    import torch
    from torch.autograd.graph import saved_tensors_hooks

    device = next(scorer.parameters()).device

    def address(tensor: "Tensor") -> int:
        return _local(tensor).untyped_storage().data_ptr()

    own = {address(one) for one in (*scorer.parameters(), *scorer.buffers())}
    seen: dict[int, Tensor] = {}

    def keep(tensor: "Tensor") -> "Tensor":
        if (at := address(tensor)) not in own:
            seen[at] = tensor  # kept alive, so that no other storage gets its address
        return tensor

    ids_BT = torch.arange(tokens, device=device)[None] % 2
    positions_BT = torch.arange(tokens, device=device)[None] % math.ceil(tokens / 2) if masked else None
    places_N = torch.arange(tokens, device=device)
    with torch.enable_grad(), saved_tensors_hooks(keep, lambda tensor: tensor), precision():
        result = scorer(ids_BT, places_N, ids_BT[0], positions_BT)
    del result
    return sum(one.untyped_storage().nbytes() for one in seen.values())
