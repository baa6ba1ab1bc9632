"""Our losses equal TRL's where definitions coincide."""

from typing import get_args

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from agentlearn.train.arguments import LOSS_SETTINGS, GradientArguments, LossName  # noqa: E402
from agentlearn.train.update import losses  # noqa: E402
from tests.support.trl_oracle import Case, apart, grid, our_loss, some_case, trl_loss  # noqa: E402

NOT_IN_GRID = {"distill"}
"""Losses without this comparison: `test_distillation.py` compares distill with TRL's sdft. Others are not in TRL."""


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_losses_and_gradients_equal_trl(dtype: torch.dtype, tolerance: float) -> None:
    assert apart(losses, grid(seeds=range(2), dtype=dtype)) < tolerance


def test_the_oracle_has_every_loss_clips_from_both_sides_and_leaves_some_free() -> None:
    clipped = {"low": 0, "high": 0, "free": 0}
    seen = set(NOT_IN_GRID)
    for arguments, case in grid(seeds=range(2), dtype=torch.float64):
        _, _, found = our_loss(losses, arguments, case)
        seen.add(arguments.loss)
        clipped["low"] += int(found.clipped_low_N.sum())
        clipped["high"] += int(found.clipped_high_N.sum())
        clipped["free"] += int((~found.clipped_low_N & ~found.clipped_high_N).sum())
    assert seen == set(get_args(LossName)), "add it to `grid` of trl_oracle.py or, if TRL lacks it, to NOT_IN_GRID"
    assert min(clipped.values()) > 100, clipped


def test_clipping_is_counted_as_trl_counts_it() -> None:
    for arguments, case in grid(seeds=range(1), dtype=torch.float64):
        if arguments.loss in ("cispo", "sapo", "vespo"):
            continue  # the one has a name of its own, the others do not clip
        _, _, theirs = trl_loss(arguments, case)
        _, _, ours = our_loss(losses, arguments, case)
        if arguments.loss in ("gspo", "luspo"):  # TRL counts sequences: all tokens of one are clipped, or none
            row_N = case.mask_BT.bool().nonzero()[:, 0]
            low, high = (losses.means_by(row_N, one.double(), 5) for one in (ours.clipped_low_N, ours.clipped_high_N))
            assert set(low.tolist()) | set(high.tolist()) <= {0.0, 1.0}
            assert float(low.mean()) == pytest.approx(theirs["clip_ratio/low_mean"][0], abs=1e-7)
            assert float(high.mean()) == pytest.approx(theirs["clip_ratio/high_mean"][0], abs=1e-7)
            continue
        assert float(ours.clipped_low_N.double().mean()) == pytest.approx(theirs["clip_ratio/low_mean"][0], abs=1e-7)
        assert float(ours.clipped_high_N.double().mean()) == pytest.approx(theirs["clip_ratio/high_mean"][0], abs=1e-7)


@pytest.mark.parametrize("loss", ["grpo", "dapo"])
def test_micro_batches_add_up_to_trls_accumulation(loss: str) -> None:
    """Two micro-batches of as many rows: TRL divides each by two, or by the batch's tokens; ours by one denominator."""
    whole = some_case(3, drift=0.4, rows=6)
    arguments = GradientArguments.model_validate({"loss": loss, "importance_sampling": "none"})
    halves = [
        Case(**{name: getattr(whole, name)[part] for name in Case.__dataclass_fields__})
        for part in (slice(3), slice(3, 6))
    ]
    theirs = [
        trl_loss(arguments, half, accumulation=2, steps_per_generation=2, tokens=float(whole.mask_BT.sum()))
        for half in halves
    ]
    ours = our_loss(losses, arguments, whole)
    assert float(sum(loss for loss, _, _ in theirs)) == pytest.approx(float(ours[0]), abs=1e-12)
    logprobs, entropies = zip(*(gradient.chunk(2) for _, gradient, _ in theirs), strict=True)
    assert torch.allclose(torch.cat([*logprobs, *entropies]), ours[1], atol=1e-12)


def test_dapo_divides_by_its_share_of_the_whole_batch_as_trl_does() -> None:
    """Two optimiser steps to a generation, one micro-batch each: half of the batch's tokens, whichever falls here."""
    case = some_case(4, drift=0.4)
    arguments = GradientArguments(loss="dapo", importance_sampling="none")
    theirs, gradient, _ = trl_loss(arguments, case, accumulation=1, steps_per_generation=2, tokens=70.0)
    ours = our_loss(losses, arguments, case, batch_tokens=35.0)
    assert float(theirs) == pytest.approx(float(ours[0]), abs=1e-12)
    assert torch.allclose(gradient, ours[1], atol=1e-12)


def test_vespo_and_sapo_have_trls_defaults() -> None:
    from trl.trainer.grpo_config import GRPOConfig

    for loss in ("sapo", "vespo"):
        for name, field in LOSS_SETTINGS[loss].model_fields.items():
            theirs = GRPOConfig.__dataclass_fields__.get(f"{loss}_{name}")
            assert theirs is None or field.default == theirs.default, name
