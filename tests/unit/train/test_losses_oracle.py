# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""Our losses equal TRL's where definitions coincide, and planted bugs in ours are seen."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from agentlearn.train.arguments import GRPOArguments
from agentlearn.train.update import losses
from tests.support.trl_oracle import Case, apart, grid, our_loss, some_case, trl_loss, written_importance

MUTATIONS = {
    "the ratio upside down": ("torch.exp(logprobs_N - old_N)", "torch.exp(old_N - logprobs_N)"),
    "no gradient through the ratio": ("torch.exp(logprobs_N - old_N)", "torch.exp((logprobs_N - old_N).detach())"),
    "the sequence's ratio not averaged": (
        "torch.exp(row_means(logprobs_N - old_N, row_N, rows))[row_N]",
        "torch.exp(row_sums(logprobs_N - old_N, row_N, rows))[row_N]",
    ),
    "a token's ratio for gspo": ('arguments.loss == "gspo":', 'arguments.loss == "none":'),
    "the other clip bound": (
        "1 - arguments.eps_low, 1 + arguments.eps_high",
        "1 - arguments.eps_high, 1 + arguments.eps_low",
    ),
    "eps_low on both sides": ("1 + arguments.eps_high", "1 + arguments.eps_low"),
    "maximum for minimum": ("-torch.minimum(", "-torch.maximum("),
    "the sign of the loss": ("-torch.minimum(", "torch.minimum("),
    "always clipped": ("torch.minimum(free_N * advantage_N,", "torch.minimum(ratio_N.clamp(low, high) * advantage_N,"),
    "delta forgotten": ("ratio_N.clamp(max=delta)", "ratio_N"),
    "cispo's cap forgotten": ("ratio_N.detach().clamp(max=cap)", "ratio_N.detach()"),
    "cispo's weight carries a gradient": ("ratio_N.detach().clamp(max=cap)", "ratio_N.clamp(max=cap)"),
    "cispo's cap above 1": ("cap=arguments.cispo_cap)", "cap=1 + arguments.cispo_cap)"),
    "the divergence the other way round": ("d_N = reference_N - logprobs_N", "d_N = logprobs_N - reference_N"),
    "k3 without its linear term": ("torch.expm1(d_N) - d_N", "torch.expm1(d_N)"),
    "the divergence not weighted by the ratio": ("kl_N * ratio_N if", "kl_N if"),
    "beta twice": ("arguments.kl_beta * kl_N", "2 * arguments.kl_beta * kl_N"),
    "the correction on the divergence too": (
        "loss_N = loss_N + arguments.kl_beta * kl_N",
        "loss_N = loss_N + importance_N * arguments.kl_beta * kl_N",
    ),
    "the correction forgotten": ("loss_N = policy_N * importance_N", "loss_N = policy_N"),
    "the correction upside down": ("(old_N - sampler_N).detach()", "(sampler_N - old_N).detach()"),
    "truncated where it is to be masked": ('kind.endswith("truncate")', "True"),
    "a token's correction for a sequence": ('kind.startswith("sequence")', "False"),
    "grpo averaged over tokens": ("1 / (tokens * len(counted))", "1 / sum(counted)"),
    "rows not averaged": ("1 / (tokens * len(counted))", "1 / tokens"),
    "dr_grpo by the rows' own length": ("float(len(counted) * completion_length)", "float(sum(counted))"),
    "bnpo by rows": ("divisor = float(sum(counted))", "divisor = float(len(counted))"),
    "another row's advantage": ("scored.advantages_B[scored.row_N]", "scored.advantages_B.roll(1)[scored.row_N]"),
    "another row's weight": ("scored.weights_B[scored.row_N]", "scored.weights_B.roll(1)[scored.row_N]"),
}


def mutated(source: str, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`losses` with another source."""
    module = ModuleType(f"losses_{abs(hash(name))}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(source, module.__name__, "exec"), module.__dict__)
    return module


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_losses_and_gradients_equal_trl(dtype: torch.dtype, tolerance: float) -> None:
    assert apart(losses, grid(seeds=range(2), dtype=dtype)) < tolerance


def test_the_grid_reaches_clipping_from_both_sides_and_leaves_some_free() -> None:
    clipped = {"low": 0, "high": 0, "free": 0}
    for arguments, case in grid(seeds=range(2), dtype=torch.float64):
        _, _, found = our_loss(losses, arguments, case)
        clipped["low"] += int(found.clipped_low_N.sum())
        clipped["high"] += int(found.clipped_high_N.sum())
        clipped["free"] += int((~found.clipped_low_N & ~found.clipped_high_N).sum())
    assert min(clipped.values()) > 100, clipped


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_bug_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = MUTATIONS[name]
    source = Path(losses.__file__).read_text(encoding="utf-8")
    assert source.count(right) == 1, "the planted bug has lost its place"
    broken = mutated(source.replace(right, wrong), name, monkeypatch)
    assert apart(broken, grid(seeds=range(1), dtype=torch.float64)) > 1e-4


def test_the_same_source_loaded_anew_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is the planted bug that is seen, and not the way it is planted."""
    again = mutated(Path(losses.__file__).read_text(encoding="utf-8"), "same", monkeypatch)
    assert apart(again, grid(seeds=range(1), dtype=torch.float64)) < 1e-12


def test_clipping_is_counted_as_trl_counts_it() -> None:
    for arguments, case in grid(seeds=range(1), dtype=torch.float64):
        if arguments.loss in ("gspo", "cispo"):
            continue  # TRL counts sequences for the one, we tokens; the other has a name of its own
        _, _, theirs = trl_loss(arguments, case)
        _, _, ours = our_loss(losses, arguments, case)
        assert float(ours.clipped_low_N.double().mean()) == pytest.approx(theirs["clip_ratio/low_mean"][0], abs=1e-7)
        assert float(ours.clipped_high_N.double().mean()) == pytest.approx(theirs["clip_ratio/high_mean"][0], abs=1e-7)


@pytest.mark.parametrize("loss", ["grpo", "dapo"])
def test_micro_batches_add_up_to_trls_accumulation(loss: str) -> None:
    """Two micro-batches of as many rows: TRL divides each by two, or by the batch's tokens; ours by one denominator."""
    whole = some_case(3, drift=0.4, rows=6)
    arguments = GRPOArguments.model_validate({"loss": loss, "importance_sampling": "none"})
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
    assert torch.allclose(torch.cat([gradient for _, gradient, _ in theirs]), ours[1], atol=1e-12)


def test_dapo_divides_by_its_share_of_the_whole_batch_as_trl_does() -> None:
    """Two optimiser steps to a generation, one micro-batch each: half of the batch's tokens, whichever falls here."""
    case = some_case(4, drift=0.4)
    arguments = GRPOArguments(loss="dapo", importance_sampling="none")
    theirs, gradient, _ = trl_loss(arguments, case, accumulation=1, steps_per_generation=2, tokens=70.0)
    ours = our_loss(losses, arguments, case, batch_tokens=35.0)
    assert float(theirs) == pytest.approx(float(ours[0]), abs=1e-12)
    assert torch.allclose(gradient, ours[1], atol=1e-12)


@pytest.mark.parametrize("kind", ["token_truncate", "token_mask", "sequence_truncate", "sequence_mask", "none"])
def test_importance_weights_equal_a_written_reference(kind: str) -> None:
    case = some_case(5, drift=0.5)
    arguments = GRPOArguments.model_validate({"importance_sampling": kind, "importance_cap": 1.3})
    keep = case.mask_BT.bool()
    ours = losses.importance(
        arguments.importance_sampling, case.old_BT[keep], case.sampler_BT[keep], keep.nonzero()[:, 0], 5, cap=1.3
    )
    written = written_importance(arguments, case).expand_as(case.mask_BT)[keep]
    assert torch.allclose(ours, written, atol=1e-12)
    assert kind == "none" or float(ours.max()) <= 1.3
    assert not kind.endswith("mask") or (ours == 0).any()
