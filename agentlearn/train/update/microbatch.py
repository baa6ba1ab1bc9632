"""Micro-batches: training rows of similar length, as the tensors of one forward pass.

Rows are padded, or packed: laid end to end in one sequence. transformers recognises that by positions that start again
at 0, and lets no token attend to another row. Or rows share their prompts: the answers of a group are laid end to end
behind one copy of their prompt, as in sampling. A mask lets each answer see the prompt and itself only, and its
positions continue those of the prompt. So every token has the context that it was sampled after. Not every
architecture supports this, so a short forward pass checks each model.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.utils.generic import is_flash_attention_requested

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.engine.attention import FULL, attention_layout
from agentlearn.train.update.logprob_model import LogprobModel, core_of, device_of
from agentlearn.train.update.sequences import TrainingRow


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
    positions_BT: Tensor | None = None
    """Position of each token in its own row, for packed rows and shared prompts; None for padded rows."""
    seen_BTT: Tensor | None = None
    """Which tokens each token sees, where rows share their prompts; None: those before it in its own row."""

    @property
    def forward_inputs(self) -> tuple[Tensor | None, ...]:
        """What `LogprobModel` takes."""
        return self.ids_BT, self.places_N, self.targets_N, self.positions_BT, self.seen_BTT

    def to(self, device: torch.device) -> "MicroBatch":
        """Return a copy on a device."""
        return MicroBatch(
            *(one.to(device) for one in (self.ids_BT, self.places_N, self.targets_N)),
            *(one.to(device) for one in (self.row_N, self.sampler_N, self.advantages_B, self.comparable_B)),
            positions_BT=None if self.positions_BT is None else self.positions_BT.to(device),
            seen_BTT=None if self.seen_BTT is None else self.seen_BTT.to(device),
        )


def forward_length(row: TrainingRow) -> int:
    """Return the number of tokens that a forward pass needs: those before the last trained one; 0 for none."""
    trained = np.flatnonzero(row.mask_T)
    return int(trained[-1]) if len(trained) else 0


def canonical_order(rows: Sequence[TrainingRow]) -> list[TrainingRow]:
    """Return the rows sorted by content, so that their original order does not matter."""
    return sorted(rows, key=_content)


def _content(row: TrainingRow) -> tuple[object, ...]:
    arrays = (row.ids_T.tobytes(), row.mask_T.tobytes(), row.logprobs_T.tobytes())
    return (row.length, *arrays, row.advantage, row.staleness)


def plan_microbatches(lengths_B: Sequence[int], budget: int, *, packed: bool = False) -> list[list[int]]:
    """Return row indexes by micro-batch, longest rows first, with at most `budget` tokens each, padding included.

    A row longer than the budget is alone. Rows of length 0 are left out. packed: there is no padding.
    """
    parts: list[list[int]] = []
    held = 0
    by_length = sorted((b for b, length in enumerate(lengths_B) if length), key=lambda b: (-lengths_B[b], b))
    for b in by_length:
        needed = held + lengths_B[b] if packed or not parts else lengths_B[parts[-1][0]] * (len(parts[-1]) + 1)
        if parts and needed <= budget:
            parts[-1].append(b)
            held = needed
        else:
            parts.append([b])
            held = lengths_B[b]
    return parts


def collate(rows: Sequence[TrainingRow], *, packed: bool = False) -> MicroBatch:
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
    return MicroBatch(
        ids_BT=torch.from_numpy(ids_BT.astype(np.int64)),
        places_N=torch.from_numpy(np.concatenate(places)),
        targets_N=torch.from_numpy(np.concatenate([row.ids_T[row.mask_T] for row in rows]).astype(np.int64)),
        row_N=torch.from_numpy(np.repeat(np.arange(len(rows)), [row.trained for row in rows])),
        sampler_N=torch.from_numpy(np.concatenate([row.logprobs_T[row.mask_T] for row in rows]).astype(np.float32)),
        advantages_B=torch.tensor([row.advantage for row in rows], dtype=torch.float32),
        comparable_B=torch.tensor([float(row.is_comparable) for row in rows]),
        positions_BT=positions_BT,
    )


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """The rows of a batch to train, in canonical order, and counts of the others."""

    rows: tuple[TrainingRow, ...]
    masked: int
    """Number of rows without a token to train."""


def check_rows(rows: Sequence[TrainingRow], vocabulary: int) -> None:
    """Raise ConfigError for a row with missing log-probabilities, or with tokens that the model does not have."""
    for row in rows:
        if fault := _fault(row, vocabulary):
            code, sentence = fault
            raise ConfigError(f"a row of rollout {row.rollout!r} {sentence}", code=code)


def select_rows(rows: Sequence[TrainingRow], arguments: GradientArguments) -> SelectedRows:
    """Return the rows to train: those with at least one token to train."""
    trained = [row for row in rows if row.trained and not (row.overlong and arguments.overlong == "mask")]
    return SelectedRows(
        rows=tuple(canonical_order(trained)),
        masked=len(rows) - len(trained),
    )


def divide_rows(rows: Sequence[TrainingRow], minibatches: int, seed: object) -> list[list[TrainingRow]]:
    """Return the rows of each optimiser step: shuffled by the seed, of similar number; fewer steps for few rows."""
    if not rows:
        return []
    shuffled = list(rows)
    if minibatches > 1:
        random.Random(repr(seed)).shuffle(shuffled)
    cuts = [round(k * len(shuffled) / minibatches) for k in range(minibatches + 1)]
    return [shuffled[low:high] for low, high in pairwise(cuts) if high > low]


def _fault(row: TrainingRow, vocabulary: int) -> tuple[str, str] | None:
    """Error code and the rest of the error message; None for a valid row."""
    if len(row.logprobs_T) == 0 and row.trained:
        return "missing_logprobs", (
            f"has {row.trained} sampled tokens and no log-probabilities; sample from an endpoint that reports them"
        )
    if not len(row.ids_T) == len(row.mask_T) == len(row.logprobs_T):
        return "unequal_logprobs", (
            f"has {len(row.ids_T)} tokens, a mask of {len(row.mask_T)} and {len(row.logprobs_T)} log-probabilities; "
            "these numbers must be equal, so leave the rollout out and check its sampler"
        )
    sampled = row.logprobs_T[row.mask_T]
    if not bool(np.isfinite(sampled).all()):
        return "missing_logprobs", (
            f"has {int((~np.isfinite(sampled)).sum())} sampled tokens whose log-probability is not a number; "
            "sample from an endpoint that reports them"
        )
    if len(row.mask_T) and bool(row.mask_T[0]):
        return "bad_row", "marks its first token as sampled, but has no prompt before it; include the prompt"
    if len(row.ids_T) and not 0 <= int(row.ids_T.min()) <= int(row.ids_T.max()) < vocabulary:
        return "foreign_tokens", (
            f"has token ids from {int(row.ids_T.min())} to {int(row.ids_T.max())}, but the model has 0 to "
            f"{vocabulary - 1}; train the model that sampled them"
        )
    if not math.isfinite(row.advantage):
        return "bad_row", f"has the advantage {row.advantage!r}; an advantage is a finite number"
    return None


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
    raise ConfigError(
        f"packing is true, but {type(core).__name__} does not keep packed rows apart; set packing=false",
        code="cannot_pack",
    )


def is_exact_when_packed(scorer: LogprobModel, precision: Callable[[], Any]) -> bool:
    """Whether a packed row has the result that it has alone, and does not depend on the row before it."""
    device = device_of(scorer)
    positions = torch.cat([torch.arange(_FIRST), torch.arange(_SECOND)])[None].to(device)
    first, other, second = (torch.arange(n, device=device) % 2 for n in (_FIRST, _FIRST + 1, _SECOND))
    modes = [(one, one.training) for one in scorer.modules()]
    try:
        with torch.no_grad(), precision():
            scorer.eval()
            after_first = _states(scorer, torch.cat([first, second])[None], positions)[_FIRST:]
            after_other = _states(scorer, torch.cat([other[1:], second])[None], positions)[_FIRST:]
            alone = _states(scorer, second[None], None)
    except TypeError:  # the model takes no positions
        return False
    finally:
        for one, mode in modes:
            one.training = mode
    bound = (_TOLERANCE if alone.dtype == torch.float32 else _HALF_TOLERANCE) * float(alone.abs().max())
    return torch.equal(after_first, after_other) and float((after_first - alone).abs().max()) <= bound


def _states(scorer: LogprobModel, ids_BT: Tensor, positions_BT: Tensor | None) -> Tensor:
    """Last hidden states of one sequence."""
    layout = {} if positions_BT is None else {"position_ids": positions_BT}
    model: Any = core_of(scorer.model).base_model
    return model(input_ids=ids_BT, use_cache=False, **layout).last_hidden_state[0]


def shares_prompts(scorer: LogprobModel, arguments: GradientArguments, precision: Callable[[], Any]) -> bool:
    """Return whether rows share their prompts, as set.

    precision: context of a forward pass. With weights in another process only the config is checked here. Raises
    ConfigError when it is set and would change results.
    """
    if not arguments.share_prompts:
        return False
    if arguments.packing:
        raise ConfigError(
            "share_prompts and packing are both true, and rows can be laid out in one way only; leave out one of them",
            code="contradiction",
        )
    core = core_of(scorer.model)
    if reason := _unfit(core):
        raise ConfigError(
            f"share_prompts is true, but {type(core).__name__} {reason}; set share_prompts=false",
            code="cannot_share_prompts",
        )
    if any(one.is_meta for one in scorer.parameters()) or is_exact_when_shared(scorer, precision):
        return True
    raise ConfigError(
        f"share_prompts is true, but {type(core).__name__} does not keep answers to one prompt apart; set"
        " share_prompts=false",
        code="cannot_share_prompts",
    )


def _unfit(core: Any) -> str:
    """Why a model cannot read the masks that this needs, as far as its config says; empty when it can."""
    try:
        layout = attention_layout(core)
    except ConfigError:
        return "has layers that see more or less than the tokens before them"
    if set(layout.windows) != {FULL}:
        return "has layers that do not see all tokens before them"
    return "computes flash attention, which takes no masks" if is_flash_attention_requested(core.config) else ""


def is_exact_when_shared(scorer: LogprobModel, precision: Callable[[], Any]) -> bool:
    """Whether answers that share a prompt have the log-probabilities that they have alone."""
    ids = [np.array([0, 1, 1, 0, 1, *answer]) for answer in ([1, 1, 0, 1], [0, 0, 1], [0, 1])]
    rows = [_probe_row(one) for one in ids]
    modes = [(one, one.training) for one in scorer.modules()]
    device = device_of(scorer)
    try:
        with torch.no_grad(), precision():
            scorer.eval()
            together = scorer(*collate_shared(rows, most=len(np.concatenate(ids))).to(device).forward_inputs)[0]
            alone = [scorer(*collate_shared([row], most=1).to(device).forward_inputs)[0] for row in rows]
            plain = [_plain(scorer, one, device) for one in ids]
    except TypeError:  # the model takes no positions
        return False
    finally:
        for one, mode in modes:
            one.training = mode
    bound = _TOLERANCE if _products(scorer, precision) == torch.float32 else _HALF_TOLERANCE
    apart = max(float((torch.cat(one) - torch.cat(plain)).abs().max()) for one in (alone, [together]))
    return apart <= bound


def _products(scorer: LogprobModel, precision: Callable[[], Any]) -> torch.dtype:
    """Return the number format of products."""
    device = device_of(scorer)
    with precision():
        if torch.is_autocast_enabled(device.type):
            return torch.get_autocast_dtype(device.type)
    return next(scorer.parameters()).dtype


def _probe_row(ids: NDArray[np.int64]) -> TrainingRow:
    mask_T = np.arange(len(ids)) >= 5
    return TrainingRow("probe", ids, mask_T, np.zeros(len(ids), dtype=np.float32), 0.0, 0.0)  # pyright: ignore[reportArgumentType]


def _plain(scorer: LogprobModel, ids: NDArray[np.int64], device: torch.device) -> Tensor:
    """Log-probabilities of an answer, computed without masks."""
    places_N = torch.arange(4, len(ids) - 1, device=device)
    targets_N = torch.from_numpy(ids[5:]).to(device)
    return scorer(torch.from_numpy(ids[:-1])[None].to(device), places_N, targets_N)[0]


def shared_trees(rows: Sequence[TrainingRow], *, most: int) -> list[list[int]]:
    """Return the indexes of rows that are computed behind one copy of their prompt, in order.

    most: largest number of tokens of a prompt and its answers. A row that needs more is alone. Rows without a trained
    token are left out.
    """
    trees: dict[bytes, list[list[int]]] = {}
    sizes: dict[bytes, int] = {}
    for b, row in enumerate(rows):
        length = forward_length(row)
        if not length:
            continue
        start = _first_trained(row)
        key = row.ids_T[:start].tobytes()
        if key in trees and sizes[key] + length - start <= most:
            trees[key][-1].append(b)
            sizes[key] += length - start
        else:
            trees.setdefault(key, []).append([b])
            sizes[key] = length
    return [tree for found in trees.values() for tree in found]


def plan_shared(rows: Sequence[TrainingRow], lengths_B: Sequence[int], budget: int) -> list[list[int]]:
    """Return row indexes by micro-batch with at most `budget` tokens each, where answers share their prompt.

    lengths_B: number of tokens that each row needs; 0: the row is left out. A row longer than the budget is alone.
    """
    kept = [b for b, length in enumerate(lengths_B) if length]
    trees = [[kept[at] for at in tree] for tree in shared_trees([rows[b] for b in kept], most=budget)]
    sizes = [_tree_length([rows[b] for b in tree]) for tree in trees]
    return [[b for number in part for b in trees[number]] for part in plan_microbatches(sizes, budget)]


def collate_shared(rows: Sequence[TrainingRow], *, most: int) -> MicroBatch:
    """Return the micro-batch of these rows, each with at least one trained token. most: as in `shared_trees`."""
    trees = shared_trees(rows, most=most)
    width = max(_tree_length([rows[b] for b in tree]) for tree in trees)
    shape = (len(trees), width)
    ids_BT, positions_BT = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    answers_BT = np.full(shape, -1, dtype=np.int64)  # 0 is the prompt, and padding is -1
    places: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)] * len(rows)
    for tree_number, tree in enumerate(trees):
        start = _first_trained(rows[tree[0]])
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
    return MicroBatch(
        ids_BT=torch.from_numpy(ids_BT),
        places_N=torch.from_numpy(np.concatenate(places)),
        targets_N=torch.from_numpy(np.concatenate([row.ids_T[row.mask_T] for row in rows]).astype(np.int64)),
        row_N=torch.from_numpy(np.repeat(np.arange(len(rows)), [row.trained for row in rows])),
        sampler_N=torch.from_numpy(np.concatenate([row.logprobs_T[row.mask_T] for row in rows]).astype(np.float32)),
        advantages_B=torch.tensor([row.advantage for row in rows], dtype=torch.float32),
        comparable_B=torch.tensor([float(row.is_comparable) for row in rows]),
        positions_BT=torch.from_numpy(positions_BT),
        seen_BTT=_seen(torch.from_numpy(answers_BT)),
    )


def _seen(answers_BT: Tensor) -> Tensor:
    """Which tokens each token sees: the prompt and the tokens of its own answer before it, and always itself."""
    width = answers_BT.shape[1]
    own_BTT = answers_BT[:, :, None] == answers_BT[:, None, :]
    prompt_BTT = (answers_BT == 0)[:, None, :]
    before_TT = torch.ones(width, width, dtype=torch.bool).tril()
    return (own_BTT | prompt_BTT) & before_TT


def _first_trained(row: TrainingRow) -> int:
    return int(row.mask_T.argmax())


def _tree_length(rows: Sequence[TrainingRow]) -> int:
    start = _first_trained(rows[0])
    return start + sum(forward_length(row) - start for row in rows)
