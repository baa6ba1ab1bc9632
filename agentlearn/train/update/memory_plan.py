"""The memory of an update: measured per token, and how many tokens are computed at once.

The measuring is a forward pass of short rows in which every tensor that the backward pass needs is counted. It is not a
timing and does not read the memory in use, so the same model always gives the same figures. Two rows of the same length
need twice the memory of one, so a single row tells all.
"""

import ctypes
import math
import os
import resource
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.update.logprob_model import LogprobModel, core_of, device_of

GIB = 2**30
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

    @property
    def measured(self) -> tuple[float, float, float]:
        """The measured numbers: constant, per token, and per pair of tokens."""
        return self.constant, self.per_token, self.per_token_squared

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

    @property
    def is_large(self) -> bool:
        """Whether activations of MOST_CPU tokens would need more than a small part of a usual machine's memory."""
        return self.rows is not None and self.rows.of_tokens(MOST_CPU) > _CPU_BYTES

    def is_tight(self, fixed: float) -> bool:
        """Whether twice an update's tensors would not fit: freed blocks that are kept can double its memory."""
        return self.rows is not None and 2 * (fixed + self.rows.of_row(self.tokens)) > self.at_hand

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
        f"{less_memory(arguments)}",
        code="too_little_memory",
    )


@contextmanager
def said_when_out_of_memory(arguments: GradientArguments, tokens: int) -> Generator[None]:
    """Turn an error of torch about memory into a ConfigError that says what to set."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not _is_about_memory(error):
            raise
        raise ConfigError(
            f"memory ran out in an update that computes up to {tokens:,} tokens at once; resume the run on a machine "
            f"with more free memory, or {less_memory(arguments)}",
            code="out_of_memory",
        ) from error


def less_memory(arguments: GradientArguments) -> str:
    """Return what the user can set so that an update needs less memory."""
    ways = (
        *(() if arguments.gradient_checkpointing else ("gradient_checkpointing=true",)),
        *(() if arguments.lora_rank else ("lora_rank=16",)),
        *(() if arguments.dtype == "bf16" else ("dtype=bf16",)),
        "fewer tokens in prompts and answers (max_output_tokens)",
    )
    return f"set {ways[0]}" if len(ways) == 1 else f"set {', '.join(ways[:-1])} or {ways[-1]}"


def in_units(size_bytes: float) -> str:
    """Return a number of bytes as text, such as 6.1 MiB."""
    for unit, name in ((GIB, "GiB"), (2**20, "MiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return f"{max(0.0, size_bytes) / 2**10:.0f} KiB"


def measure_rows(scorer: LogprobModel, precision: Callable[[], Any], *, packed: bool = False) -> RowMemory | None:
    """Measure what one row needs; None when a weight has no storage. Changes neither weights nor random numbers.

    precision: context of a forward pass. packed: measure rows that are laid end to end, which need a mask.
    """
    core = core_of(scorer.model)
    if any(one.is_meta for one in scorer.parameters()):
        return None
    longest = longest_row(scorer.model)
    length = max(4, min(_PROBED, longest or _PROBED)) // 4
    masked = packed or getattr(core.config, "sliding_window", None) is not None
    with _as_in_training(scorer) as set_training:
        kept = _fit(length, lambda tokens: _saved_bytes(scorer, tokens, precision, masked=masked))
        whole = kept
        if _recomputes(core):  # layers are checkpointed in training mode only
            set_training(False)
            whole = _fit(length, lambda tokens: _saved_bytes(scorer, tokens, precision, masked=masked))
    # The backward pass also holds temporary tensors of one layer. `scripts.bench.update_memory` measures them.
    layers = max(1, getattr(core.config, "num_hidden_layers", 1))
    copies = 4 if _recomputes(core) else 2
    return RowMemory(
        constant=kept[0],
        per_token=kept[1] + copies * whole[1] / layers,
        per_token_squared=kept[2] + copies * whole[2] / layers,
        longest=None if packed else longest,
    )


def longest_row(model: nn.Module, *, packed: bool = False) -> int | None:
    """Return the longest row that the model can read; None when unknown, or when rows are packed into longer ones."""
    longest = getattr(core_of(model).config, "max_position_embeddings", None)
    return longest if isinstance(longest, int) and longest > 0 and not packed else None


def fixed_bytes(
    trained: Iterable[nn.Parameter], optimizer: torch.optim.Optimizer, scorer: nn.Module, arguments: GradientArguments
) -> float:
    """Return the bytes that an update will still allocate whatever its rows: gradients, optimiser state, logits.

    What exists already is not counted. scorer: the model with its head.
    """
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


def _local(weight: Tensor) -> Tensor:
    """This process's part of a weight."""
    part = getattr(weight, "to_local", None)
    return weight if part is None else part()


def _is_about_memory(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return any(words in str(error) for words in ("not enough memory", "can't allocate memory", "out of memory"))


def _recomputes(core: nn.Module) -> bool:
    return any(getattr(one, "gradient_checkpointing", False) for one in core.modules())


@contextmanager
def _as_in_training(scorer: nn.Module) -> Generator[Callable[[bool], Any]]:
    """Training mode inside the block; modes and random numbers are as before after it."""
    device = device_of(scorer)
    modes = [(one, one.training) for one in scorer.modules()]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            scorer.train()
            yield scorer.train
        finally:
            for one, mode in modes:
                one.training = mode


def _fit(length: int, saved: Callable[[int], int]) -> tuple[float, float, float]:
    """Fit c + a T + b T^2 to the bytes saved at the lengths L, 2 L and 4 L; returns c, a and b, none below 0."""
    one, two, four = (saved(n * length) for n in (1, 2, 4))
    squared = max(0.0, (four - 3 * two + 2 * one) / (6 * length**2))
    linear = max(0.0, (four - two) / (2 * length) - 6 * squared * length)
    return max(0.0, one - linear * length - squared * length**2), linear, squared


def _saved_bytes(scorer: LogprobModel, tokens: int, precision: Callable[[], Any], *, masked: bool) -> int:
    """Bytes of the tensors that the backward pass of one row would need, weights excluded."""
    device = device_of(scorer)
    own = {_address(one) for one in (*scorer.parameters(), *scorer.buffers())}
    seen: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        if (address := _address(tensor)) not in own:
            seen[address] = tensor  # kept alive, so that no other storage gets its address
        return tensor

    ids_BT = torch.arange(tokens, device=device)[None] % 2
    positions_BT = torch.arange(tokens, device=device)[None] % math.ceil(tokens / 2) if masked else None
    places_N = torch.arange(tokens, device=device)
    with torch.enable_grad(), saved_tensors_hooks(keep, lambda tensor: tensor), precision():
        result = scorer(ids_BT, places_N, ids_BT[0], positions_BT)
    del result
    return sum(one.untyped_storage().nbytes() for one in seen.values())


def _address(tensor: Tensor) -> int:
    return _local(tensor).untyped_storage().data_ptr()


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
