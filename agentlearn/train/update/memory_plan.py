"""What an update needs of memory, and how many tokens it computes at once.

It is measured by a forward pass of short rows in which every tensor that the backward pass needs is counted. It is not
a timing and does not read the memory in use, so the same model always gives the same figures. Two rows of the same
length need twice the memory of one, so a single row tells all.
"""

import ctypes
import math
import os
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.memory import GIB, in_units, is_out_of_memory, main_memory_at_hand
from agentlearn.train.update.logprob_model import LogprobModel, core_of, device_of

_Precision = Callable[[], AbstractContextManager[Any]]
FEWEST, MOST_CPU, MOST_GPU = 16, 8192, 65_536
"""Bounds of a planned number of tokens."""
_CPU_SHARE, _CPU_BYTES, _GPU_SHARE = 0.4, 2 * GIB, 0.6
_PROBED = 64
"""Length of the longest row that is measured."""


def memory_at_hand(device: torch.device) -> int:
    """Return the bytes that can still be allocated on a device.

    On a CPU, the processes that `torchrun` started on this machine share them equally.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return main_memory_at_hand() // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def longest_row(model: nn.Module, *, packed: bool = False) -> int | None:
    """Return the longest row that the model can read; None when unknown, or when rows are packed into longer ones."""
    longest = getattr(core_of(model).config, "max_position_embeddings", None)
    return longest if isinstance(longest, int) and longest > 0 and not packed else None


def _local(weight: Tensor) -> Tensor:
    """This process's part of a weight."""
    part = getattr(weight, "to_local", None)
    return weight if part is None else part()


def _saved_bytes(
    scorer: LogprobModel, tokens: int, precision: Callable[[], AbstractContextManager[Any]], *, masked: bool
) -> int:
    """Bytes of the tensors that the backward pass of one row would need, weights excluded."""
    device = next(scorer.parameters()).device

    def address(tensor: Tensor) -> int:
        return _local(tensor).untyped_storage().data_ptr()

    own = {address(one) for one in (*scorer.parameters(), *scorer.buffers())}
    seen: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        tensor = tensor.detach()  # with its graph, which holds this function, it would never be freed
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


def _less_memory(arguments: GradientArguments) -> str:
    """Return what the user can set so that an update needs less memory."""
    ways = (
        *(() if arguments.gradient_checkpointing else ("gradient_checkpointing=true",)),
        *(() if arguments.lora_rank else ("lora_rank=16",)),
        *(() if arguments.dtype == "bf16" else ("dtype=bf16",)),
        "fewer tokens in prompts and answers (max_output_tokens)",
    )
    return f"set {ways[0]}" if len(ways) == 1 else f"set {', '.join(ways[:-1])} or {ways[-1]}"


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

    @classmethod
    def measured(cls, scorer: LogprobModel, precision: _Precision, *, packed: bool) -> "RowMemory | None":
        """Measure what one row needs; None when a weight has no storage. Changes neither weights nor random numbers.

        precision: context of a forward pass. packed: measure rows that are laid end to end, which need a mask.
        """
        core = core_of(scorer.model)
        if any(one.is_meta for one in scorer.parameters()):
            return None
        longest, device = longest_row(scorer.model), device_of(scorer)
        length = max(4, min(_PROBED, longest or _PROBED)) // 4
        masked = packed or getattr(core.config, "sliding_window", None) is not None
        recomputes = any(getattr(one, "gradient_checkpointing", False) for one in core.modules())

        def fit() -> tuple[float, float, float]:
            """Fit c + a T + b T^2 to the bytes saved at the lengths L, 2 L and 4 L; c, a and b, none below 0."""
            one, two, four = (_saved_bytes(scorer, n * length, precision, masked=masked) for n in (1, 2, 4))
            squared = max(0.0, (four - 3 * two + 2 * one) / (6 * length**2))
            linear = max(0.0, (four - two) / (2 * length) - 6 * squared * length)
            return max(0.0, one - linear * length - squared * length**2), linear, squared

        modes = [(one, one.training) for one in scorer.modules()]
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            try:
                scorer.train()
                kept = whole = fit()
                if recomputes:  # layers are checkpointed in training mode only
                    scorer.train(False)
                    whole = fit()
            finally:
                for one, mode in modes:
                    one.training = mode
        # The backward pass also holds temporary tensors, as large as those of some layers: measured on a CPU by
        # `scripts.bench.update_memory`, on a GPU by `scripts.bench.on_gpu`.
        layers = 1 if device.type == "cuda" else 4 if recomputes else 2
        share = layers / max(1, getattr(core.config, "num_hidden_layers", 1))
        return cls(
            constant=kept[0],
            per_token=kept[1] + share * whole[1],
            per_token_squared=kept[2] + share * whole[2],
            longest=None if packed else longest,
        )

    def refuse_too_little(
        self, arguments: GradientArguments, *, tokens: int, at_hand: int, fixed: float, stepping: float = 0.0
    ) -> None:
        """Raise ConfigError when one row of this number of tokens does not fit into the memory at hand.

        fixed, stepping: as `fixed_bytes` returns them. The rows are freed before the optimizer's step.
        """
        row = self.of_row(tokens)
        needed = fixed + max(row, stepping)
        if needed > at_hand:
            raise ConfigError(
                f"an update needs {in_units(needed)} of memory ({in_units(needed - row)} for gradients and the "
                f"optimizer, {in_units(row)} for a row of {tokens} tokens), but {in_units(at_hand)} are at hand; "
                f"{_less_memory(arguments)}"
            )


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

    @classmethod
    def of(
        cls,
        rows: RowMemory | None,
        arguments: GradientArguments,
        *,
        at_hand: int,
        fixed: float,
        gpu: bool,
        stepping: float = 0.0,
    ) -> "MemoryPlan":
        """Return the plan for a model with these needs.

        fixed, stepping: as `fixed_bytes` returns them. at_hand: bytes that can be allocated.
        Without a setting, the number of tokens is a power of two, so that small changes of the memory at hand rarely
        change it. Raises ConfigError when not even the fewest tokens fit.
        """
        if rows is not None:
            rows.refuse_too_little(arguments, tokens=FEWEST, at_hand=at_hand, fixed=fixed, stepping=stepping)
        if arguments.tokens_per_microbatch is not None:
            return cls(arguments.tokens_per_microbatch, rows, at_hand, "setting")
        if rows is None:
            return cls(MOST_CPU, None, at_hand)
        left = at_hand - fixed - rows.constant
        room = _GPU_SHARE * left if gpu else min(_CPU_SHARE * left, _CPU_BYTES)
        tokens = MOST_GPU if gpu else MOST_CPU
        while tokens > FEWEST and rows.of_tokens(tokens) > room:
            tokens //= 2
        return cls(tokens, rows, at_hand)

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


def fixed_bytes(
    trained: Iterable[nn.Parameter],
    optimizer: torch.optim.Optimizer,
    scorer: nn.Module,
    arguments: GradientArguments,
) -> tuple[float, float]:
    """Return the bytes that an update will still allocate whatever its rows: gradients, optimiser state, logits.

    The second number is what the optimiser's step needs beside them, when the rows are freed. What exists already is
    not counted. scorer: the model with its head.
    """
    weights = list(trained)
    states = 2 if arguments.optimizer == "adamw" else 0
    total = float(arguments.logits_mib * 2**20)
    for one in weights:
        size = _local(one).numel()
        total += 0 if one.grad is not None else size * (getattr(one, "grad_dtype", None) or one.dtype).itemsize
        total += 0 if optimizer.state.get(one) else states * size * 4
    stepping = 0.0
    if any(one.is_cuda for one in weights):  # the optimizer computes with copies of all weights at once
        stepping = sum(_local(one).numel() * 4.0 for one in weights)
    head = cast("nn.Linear", core_of(cast("LogprobModel", scorer).model).get_output_embeddings()).weight
    return total + (_local(head).numel() * 4 if head.requires_grad else 0), stepping
