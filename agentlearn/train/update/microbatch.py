"""Micro-batches: training rows of similar length, as the tensors of one forward pass.

Rows are padded, or packed: laid end to end in one sequence. transformers recognises that by positions that start again
at 0, and lets no token attend to another row. Or rows share their prompts: the answers of a group are laid end to end
behind one copy of their prompt, as in sampling. A mask lets each answer see the prompt and itself only, and its
positions continue those of the prompt. So every token has the context that it was sampled after. Not every
architecture supports this, so a short forward pass checks each model.
"""

import math
import random
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.utils.generic import is_flash_attention_requested

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.engine.attention import FULL, AttentionLayout
from agentlearn.train.update.logprob_model import LogprobModel, core_of, device_of
from agentlearn.train.update.sequences import TrainingRow
from agentlearn.types.ids import RolloutId


def forward_length(row: TrainingRow) -> int:
    """Return the number of tokens that a forward pass needs: those before the last trained one; 0 for none."""
    trained = np.flatnonzero(row.mask_T)
    return int(trained[-1]) if len(trained) else 0


def _shared_trees(rows: Sequence[TrainingRow], *, most: int) -> list[tuple[list[int], int]]:
    """Return the indexes of rows that are computed behind one copy of their prompt, and their number of tokens.

    most: largest number of tokens of a prompt and its answers. A row that needs more is alone. Rows without a trained
    token are left out.
    """
    trees: dict[bytes, list[tuple[list[int], int]]] = {}
    for b, row in enumerate(rows):
        length = forward_length(row)
        if not length:
            continue
        start = int(row.mask_T.argmax())
        found = trees.setdefault(row.ids_T[:start].tobytes(), [])
        if found and found[-1][1] + length - start <= most:
            found[-1] = [*found[-1][0], b], found[-1][1] + length - start
        else:
            found.append(([b], length))
    return [tree for found in trees.values() for tree in found]


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """The tensors of one forward pass: B rows of at most T tokens, with N trained tokens in total.

    A row ends before its last trained token, because nothing after that is needed. Padding is at the end, where no real
    token of a causal model attends to it, so no attention mask is needed. Packed rows are one row of the tensors,
    without padding.
    """

    ids_BT: Tensor
    places_N: Tensor
    """Index into the flattened B x T of the position that predicts each trained token, one before its own."""
    targets_N: Tensor
    """The trained tokens."""
    row_N: Tensor
    sampler_N: Tensor
    """The sampler's log-probability of each trained token."""
    advantages_B: Tensor
    comparable_B: Tensor
    """1 for rows whose sampler's log-probabilities must be those of the present weights, 0 for others."""
    rollout_B: Tensor
    """Index of each row's rollout in the micro-batch."""
    numbers_B: Tensor
    """Number of each row in its batch."""
    positions_BT: Tensor | None = None
    """Position of each token in its own row, for packed rows and shared prompts; None for padded rows."""
    seen_BTT: Tensor | None = None
    """Which tokens each token sees, where rows share their prompts; None: those before it in its own row."""

    @classmethod
    def of(cls, rows: Sequence[TrainingRow], *, packed: bool = False) -> "MicroBatch":
        """Return the micro-batch of these rows, each with at least one trained token."""
        lengths = [forward_length(row) for row in rows]
        if packed:
            starts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
            ids_BT = np.concatenate([row.ids_T[:length] for row, length in zip(rows, lengths, strict=True)])[None]
            positions_BT = torch.from_numpy(np.concatenate([np.arange(length) for length in lengths])[None])
        else:
            starts = np.arange(len(rows)) * max(lengths)
            ids_BT = np.zeros((len(rows), max(lengths)), dtype=np.int64)
            for b, (row, length) in enumerate(zip(rows, lengths, strict=True)):
                ids_BT[b, :length] = row.ids_T[:length]
            positions_BT = None
        places = [np.flatnonzero(row.mask_T) - 1 + start for row, start in zip(rows, starts, strict=True)]
        return cls._made(rows, ids_BT, places, positions_BT=positions_BT)

    @classmethod
    def shared(cls, rows: Sequence[TrainingRow], *, most: int) -> "MicroBatch":
        """Return the micro-batch of these rows, each with at least one trained token. most: as in `_shared_trees`."""
        trees = _shared_trees(rows, most=most)
        width = max(size for _, size in trees)
        shape = (len(trees), width)
        ids_BT, positions_BT = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        answers_BT = np.full(shape, -1, dtype=np.int64)  # 0 is the prompt, and padding is -1
        places: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)] * len(rows)
        for tree_number, (tree, _) in enumerate(trees):
            start = int(rows[tree[0]].mask_T.argmax())
            ids_BT[tree_number, :start] = rows[tree[0]].ids_T[:start]
            positions_BT[tree_number, :start] = np.arange(start)
            answers_BT[tree_number, :start] = 0
            held = start
            for number, b in enumerate(tree, start=1):
                length = forward_length(rows[b])
                own = slice(held, held + length - start)
                ids_BT[tree_number, own] = rows[b].ids_T[start:length]
                positions_BT[tree_number, own] = np.arange(start, length)
                answers_BT[tree_number, own] = number
                before = np.flatnonzero(rows[b].mask_T) - 1
                places[b] = tree_number * width + np.where(before < start, before, before - start + held)
                held = own.stop
        # Each token sees the prompt and the tokens of its own answer before it, and always itself.
        own_BTT = answers_BT[:, :, None] == answers_BT[:, None, :]
        seen_BTT = torch.from_numpy((own_BTT | (answers_BT == 0)[:, None, :]) & np.tri(width, dtype=bool))
        return cls._made(rows, ids_BT, places, positions_BT=torch.from_numpy(positions_BT), seen_BTT=seen_BTT)

    @classmethod
    def _made(
        cls,
        rows: Sequence[TrainingRow],
        ids_BT: NDArray[np.int64],
        places: Sequence[NDArray[np.int64]],
        **layout: Tensor | None,
    ) -> "MicroBatch":
        """places: index of the position that predicts each trained token, by row."""
        return cls(
            ids_BT=torch.from_numpy(ids_BT.astype(np.int64)),
            places_N=torch.from_numpy(np.concatenate(places)),
            targets_N=torch.from_numpy(np.concatenate([row.ids_T[row.mask_T] for row in rows]).astype(np.int64)),
            row_N=torch.from_numpy(np.repeat(np.arange(len(rows)), [row.trained for row in rows])),
            sampler_N=torch.from_numpy(np.concatenate([row.logprobs_T[row.mask_T] for row in rows]).astype(np.float32)),
            advantages_B=torch.tensor([row.advantage for row in rows], dtype=torch.float32),
            comparable_B=torch.tensor([float(row.is_comparable) for row in rows]),
            rollout_B=torch.from_numpy(np.unique([row.rollout for row in rows], return_inverse=True)[1]),
            numbers_B=torch.tensor([row.number for row in rows]),
            **layout,
        )

    @property
    def forward_inputs(self) -> tuple[Tensor | None, ...]:
        """What `LogprobModel` takes."""
        return self.ids_BT, self.places_N, self.targets_N, self.positions_BT, self.seen_BTT

    def to(self, device: torch.device) -> "MicroBatch":
        """Return a copy on a device."""
        moved: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        moved = {name: tensor if tensor is None else tensor.to(device) for name, tensor in moved.items()}
        return MicroBatch(**moved)


def canonical_order(rows: Sequence[TrainingRow]) -> list[TrainingRow]:
    """Return the rows sorted by content, so that their original order does not matter."""

    def content(row: TrainingRow) -> tuple[object, ...]:
        arrays = (row.ids_T.tobytes(), row.mask_T.tobytes(), row.logprobs_T.tobytes())
        return (row.length, *arrays, row.advantage, row.staleness)

    return [replace(row, number=number) for number, row in enumerate(sorted(rows, key=content))]


def plan_microbatches(
    lengths_B: Sequence[int], budget: int, *, packed: bool = False, together_B: Sequence[Hashable] | None = None
) -> list[list[int]]:
    """Return row indexes by micro-batch, longest rows first, with at most `budget` tokens each, padding included.

    A row longer than the budget is alone. Rows of length 0 are left out. packed: there is no padding. together_B: rows
    with the same value are in one micro-batch, even if they need more than the budget; None: each row is for itself.
    """
    units: dict[Hashable, list[int]] = {}
    for b in sorted((b for b, length in enumerate(lengths_B) if length), key=lambda b: (-lengths_B[b], b)):
        units.setdefault(b if together_B is None else together_B[b], []).append(b)
    parts: list[list[int]] = []
    for unit in units.values():
        joined = [*parts[-1], *unit] if parts else unit
        lengths = [lengths_B[b] for b in joined]
        if parts and (sum(lengths) if packed else lengths[0] * len(lengths)) <= budget:
            parts[-1] = joined
        else:
            parts.append(unit)
    return parts


def check_rows(rows: Sequence[TrainingRow], vocabulary: int) -> None:
    """Raise ConfigError for a row with missing log-probabilities, or with tokens that the model does not have."""
    reporting = "sample from an endpoint that reports them"
    for row in rows:
        ids_T, mask_T, logprobs_T = row.ids_T, row.mask_T, row.logprobs_T
        read_T = ids_T if row.teacher_ids_T is None else np.concatenate([ids_T, row.teacher_ids_T])
        if len(logprobs_T) == 0 and row.trained:
            why = f"has {row.trained} sampled tokens and no log-probabilities; {reporting}"
        elif not len(ids_T) == len(mask_T) == len(logprobs_T):
            why = (
                f"has {len(ids_T)} tokens, a mask of {len(mask_T)} and {len(logprobs_T)} log-probabilities; these"
                " numbers must be equal, so leave the rollout out and check its sampler"
            )
        elif wrong := int((~np.isfinite(logprobs_T[mask_T])).sum()):
            why = f"has {wrong} sampled tokens whose log-probability is not a number; {reporting}"
        elif len(mask_T) and bool(mask_T[0]):
            why = "marks its first token as sampled, but has no prompt before it; include the prompt"
        elif len(read_T) and not 0 <= int(read_T.min()) <= int(read_T.max()) < vocabulary:
            why = (
                f"has token ids from {int(read_T.min())} to {int(read_T.max())}, but the model has 0 to"
                f" {vocabulary - 1}; train the model that sampled them"
            )
        elif not math.isfinite(row.advantage):
            why = f"has the advantage {row.advantage!r}; an advantage is a finite number"
        else:
            continue
        raise ConfigError(f"a row of rollout {row.rollout!r} {why}")


def divide_rows(rows: Sequence[TrainingRow], minibatches: int, seed: object) -> list[list[TrainingRow]]:
    """Return the rows of each optimiser step: of rollouts shuffled by the seed, a similar number; fewer steps for few.

    All rows of a rollout are in one step.
    """
    rollouts: dict[RolloutId, list[TrainingRow]] = {}
    for row in rows:
        rollouts.setdefault(row.rollout, []).append(row)
    shuffled = list(rollouts.values())
    if minibatches > 1:
        random.Random(repr(seed)).shuffle(shuffled)
    cuts = [round(k * len(shuffled) / minibatches) for k in range(minibatches + 1)]
    return [[row for one in shuffled[low:high] for row in one] for low, high in pairwise(cuts) if high > low]


_FIRST, _SECOND = 7, 5
"""Numbers of tokens of the two rows of the check."""
_TOLERANCE, _HALF_TOLERANCE = 1e-4, 0.1
"""Largest difference in fp32 and in 16-bit formats."""


def packs_rows(scorer: LogprobModel, arguments: GradientArguments, precision: Callable[[], Any]) -> bool:
    """Return whether rows are packed: as set, or by default with flash attention, where it saves time.

    precision: context of a forward pass. False for a model whose weights are in another process, which checks it.
    Raises ConfigError when it is set and would change results.
    """
    if arguments.packing is False:
        return False
    core = core_of(scorer.model)
    if arguments.packing is None and not is_flash_attention_requested(core.config):
        return False
    if any(one.is_meta for one in scorer.parameters()):
        return False
    if is_exact_when_packed(scorer, precision):
        return True
    if arguments.packing is None:
        return False
    raise ConfigError(f"packing is true, but {type(core).__name__} does not keep packed rows apart; set packing=false")


@contextmanager
def _evaluating(scorer: LogprobModel, precision: Callable[[], Any]) -> Generator[None]:
    """No dropout and no gradients inside the block; each layer's mode is as before after it."""
    modes = [(one, one.training) for one in scorer.modules()]
    try:
        with torch.no_grad(), precision():
            scorer.eval()
            yield
    finally:
        for one, mode in modes:
            one.training = mode


def is_exact_when_packed(scorer: LogprobModel, precision: Callable[[], Any]) -> bool:
    """Whether a packed row has the result that it has alone, and does not depend on the row before it."""
    device, model = device_of(scorer), cast("Any", core_of(scorer.model).base_model)
    layout = {"position_ids": torch.cat([torch.arange(_FIRST), torch.arange(_SECOND)])[None].to(device)}
    first, other, second = (torch.arange(n, device=device) % 2 for n in (_FIRST, _FIRST + 1, _SECOND))

    def states(ids_T: Tensor, **layout: Tensor) -> Tensor:
        return model(input_ids=ids_T[None], use_cache=False, **layout).last_hidden_state[0]

    try:
        with _evaluating(scorer, precision):
            after_first = states(torch.cat([first, second]), **layout)[_FIRST:]
            after_other = states(torch.cat([other[1:], second]), **layout)[_FIRST:]
            alone = states(second)
    except TypeError:  # the model takes no positions
        return False
    bound = (_TOLERANCE if alone.dtype == torch.float32 else _HALF_TOLERANCE) * float(alone.abs().max())
    return torch.equal(after_first, after_other) and float((after_first - alone).abs().max()) <= bound


def shares_prompts(scorer: LogprobModel, arguments: GradientArguments, precision: Callable[[], Any]) -> bool:
    """Return whether rows share their prompts, as set.

    precision: context of a forward pass. With weights in another process only the config is checked here. Raises
    ConfigError when it is set and would change results.
    """
    if not arguments.share_prompts:
        return False
    if arguments.packing:
        raise ConfigError(
            "share_prompts and packing are both true, and rows can be laid out in one way only; leave out one of them"
        )
    core = core_of(scorer.model)
    try:
        sees_all = set(AttentionLayout.of(core).windows) == {FULL}
        reason = "" if sees_all else "has layers that do not see all tokens before them"
    except ConfigError:
        reason = "has layers that see more or less than the tokens before them"
    if not reason and is_flash_attention_requested(core.config):
        reason = "computes flash attention, which takes no masks"
    if reason:
        raise ConfigError(f"share_prompts is true, but {type(core).__name__} {reason}; set share_prompts=false")
    if any(one.is_meta for one in scorer.parameters()) or _is_exact_when_shared(scorer, precision):
        return True
    raise ConfigError(
        f"share_prompts is true, but {type(core).__name__} does not keep answers to one prompt apart; set"
        " share_prompts=false"
    )


def _is_exact_when_shared(scorer: LogprobModel, precision: Callable[[], Any]) -> bool:
    """Whether answers that share a prompt have the log-probabilities that they have alone."""
    ids = [np.array([0, 1, 1, 0, 1, *answer]) for answer in ([1, 1, 0, 1], [0, 0, 1], [0, 1])]
    rows = [
        TrainingRow(RolloutId("probe"), one, np.arange(len(one)) >= 5, np.zeros(len(one), dtype=np.float32), 0.0, 0.0)
        for one in ids
    ]
    device = device_of(scorer)

    def logprobs(batch: MicroBatch) -> Tensor:
        return scorer(*batch.to(device).forward_inputs)[0]

    try:
        with _evaluating(scorer, precision):
            autocast = torch.is_autocast_enabled(device.type)
            products = torch.get_autocast_dtype(device.type) if autocast else next(scorer.parameters()).dtype
            together = logprobs(MicroBatch.shared(rows, most=sum(map(len, ids))))
            alone = torch.cat([logprobs(MicroBatch.shared([row], most=1)) for row in rows])
            plain = torch.cat([logprobs(MicroBatch.of([row])) for row in rows])
    except TypeError:  # the model takes no positions
        return False
    apart = max(float((one - plain).abs().max()) for one in (alone, together))
    return apart <= (_TOLERANCE if products == torch.float32 else _HALF_TOLERANCE)


def plan_shared(rows: Sequence[TrainingRow], lengths_B: Sequence[int], budget: int) -> list[list[int]]:
    """Return row indexes by micro-batch with at most `budget` tokens each, where answers share their prompt.

    lengths_B: number of tokens that each row needs; 0: the row is left out. A row longer than the budget is alone.
    """
    kept = [b for b, length in enumerate(lengths_B) if length]
    trees = _shared_trees([rows[b] for b in kept], most=budget)
    parts = plan_microbatches([size for _, size in trees], budget)
    return [[kept[at] for number in part for at in trees[number][0]] for part in parts]
