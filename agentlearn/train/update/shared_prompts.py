"""Shared prompts: rows with the same prompt are computed behind one copy of it, as in sampling.

The answers of a group are laid end to end behind their prompt. A mask lets each answer see the prompt and itself only,
and its positions continue those of the prompt. So every token has the context that it was sampled after. Layers that
limit what a token sees by its place would need other masks, so a short forward pass checks each model.
"""

from collections.abc import Callable, Sequence
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
from agentlearn.train.update.microbatch import MicroBatch, forward_length, plan_microbatches
from agentlearn.train.update.sequences import TrainingRow

_TOLERANCE, _HALF_TOLERANCE = 1e-4, 0.1
"""Largest difference of a log-probability in fp32 and in 16-bit formats, in nats."""


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
