# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""Our losses equal TRL's where definitions coincide, and planted bugs in ours are seen."""

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from agentlearn.train.arguments import GRPOArguments, gradient_arguments
from agentlearn.train.update import losses
from agentlearn.train.update.entropy import EntropyBonus, highest_entropies
from tests.support.trl_oracle import Case, apart, grid, our_loss, some_case, trl_loss, written_importance

MUTATIONS = {
    "the ratio upside down": ("torch.exp(logprobs_N - old_N)", "torch.exp(old_N - logprobs_N)"),
    "no gradient through the ratio": ("torch.exp(logprobs_N - old_N)", "torch.exp((logprobs_N - old_N).detach())"),
    "the sequence's ratio not averaged": (
        "torch.exp(row_means(logprobs_N - old_N, row_N, rows))[row_N]",
        "torch.exp(row_sums(logprobs_N - old_N, row_N, rows))[row_N]",
    ),
    "a token's ratio for gspo": ('arguments.loss in ("gspo", "luspo"):', 'arguments.loss == "none":'),
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
    "the correction forgotten": ("else policy_N * importance_N", "else policy_N"),
    "the correction on vespo twice": (
        "policy_N if vespo_weight_N is not None else policy_N * importance_N",
        "policy_N * importance_N",
    ),
    "the floor forgotten where it is raised": ("weight_N.clamp(min=floor, max=cap)", "weight_N.clamp(max=cap)"),
    "the floor forgotten where it is masked": ("(weight_N > cap) | (weight_N < floor)", "weight_N > cap"),
    "sapo's temperatures exchanged": (
        "torch.where(\n        advantage_N > 0,",
        "torch.where(\n        advantage_N < 0,",
    ),
    "sapo without its scale": ("-4 / temperature_N * torch.sigmoid", "-4 * torch.sigmoid"),
    "sapo centred at 0": ("temperature_N * (ratio_N - 1)", "temperature_N * ratio_N"),
    "vespo's signs exchanged": ("good_B = scored.advantages_B >= 0", "good_B = scored.advantages_B < 0"),
    "vespo's weight without the correction": (
        "log_ratio_N + importance_N.log().clamp(_SMALLEST, _FARTHEST)",
        "log_ratio_N",
    ),
    "vespo's weight by tokens' mean": (
        "row_sums(corrected_N, scored.row_N, rows)",
        "row_means(corrected_N, scored.row_N, rows)",
    ),
    "vespo's decay by the logarithm": ("lambda_B * log_w_B.exp()", "lambda_B * log_w_B"),
    "vespo's weight carries a gradient": (
        "(scored.logprobs_N - scored.old_N).detach().clamp(",
        "(scored.logprobs_N - scored.old_N).clamp(",
    ),
    "luspo divided by lengths": ("divisor = float(len(counted))", "divisor = float(sum(counted))"),
    "good rows masked too": ("(scored.advantages_B >= 0) | (drift_B", "(drift_B"),
    "the mask against the old weights": (
        "scored.sampler_N - scored.logprobs_N.detach()",
        "scored.old_N - scored.logprobs_N.detach()",
    ),
    "the mask by the drift's sum": ("drift_B = row_means(", "drift_B = row_sums("),
    "the mask on the divergence too": (
        "loss_N = loss_N + arguments.kl_beta * kl_N",
        "loss_N = loss_N + arguments.kl_beta * kl_N * (1 if on_policy_N is None else on_policy_N)",
    ),
    "tokens of low entropy trained": ("policy_N = policy_N * scored.chosen_N", "policy_N = policy_N"),
    "the mean over rows of one token": ("tokens_B.clamp(min=1)", "tokens_B.clamp(min=2)"),
    "the correction upside down": ("(old_N - sampler_N).detach()", "(sampler_N - old_N).detach()"),
    "truncated where it is to be masked": ('kind.endswith("truncate")', "True"),
    "a token's correction for a sequence": ('kind.startswith("sequence")', "False"),
    "grpo averaged over tokens": ("1 / (tokens * len(counted))", "1 / sum(counted)"),
    "rows not averaged": ("1 / (tokens * len(counted))", "1 / tokens"),
    "dr_grpo by the rows' own length": ("float(len(counted) * completion_length)", "float(sum(counted))"),
    "bnpo by rows": (
        "is None:\n        divisor = float(sum(counted))",
        "is None:\n        divisor = float(len(counted))",
    ),
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
    assert apart(broken, grid(seeds=range(2), dtype=torch.float64), enough=1e-4) > 1e-4


def test_the_same_source_loaded_anew_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is the planted bug that is seen, and not the way it is planted."""
    again = mutated(Path(losses.__file__).read_text(encoding="utf-8"), "same", monkeypatch)
    assert apart(again, grid(seeds=range(1), dtype=torch.float64)) < 1e-12


def test_clipping_is_counted_as_trl_counts_it() -> None:
    for arguments, case in grid(seeds=range(1), dtype=torch.float64):
        if arguments.loss in ("cispo", "sapo", "vespo"):
            continue  # the one has a name of its own, the others do not clip
        _, _, theirs = trl_loss(arguments, case)
        _, _, ours = our_loss(losses, arguments, case)
        if arguments.loss in ("gspo", "luspo"):  # TRL counts sequences: all tokens of one are clipped, or none
            row_N = case.mask_BT.bool().nonzero()[:, 0]
            low, high = (losses.row_means(one.double(), row_N, 5) for one in (ours.clipped_low_N, ours.clipped_high_N))
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
    logprobs, entropies = zip(*(gradient.chunk(2) for _, gradient, _ in theirs), strict=True)
    assert torch.allclose(torch.cat([*logprobs, *entropies]), ours[1], atol=1e-12)


def test_dapo_divides_by_its_share_of_the_whole_batch_as_trl_does() -> None:
    """Two optimiser steps to a generation, one micro-batch each: half of the batch's tokens, whichever falls here."""
    case = some_case(4, drift=0.4)
    arguments = GRPOArguments(loss="dapo", importance_sampling="none")
    theirs, gradient, _ = trl_loss(arguments, case, accumulation=1, steps_per_generation=2, tokens=70.0)
    ours = our_loss(losses, arguments, case, batch_tokens=35.0)
    assert float(theirs) == pytest.approx(float(ours[0]), abs=1e-12)
    assert torch.allclose(gradient, ours[1], atol=1e-12)


def test_adaptive_entropy_equals_trls_step_by_step() -> None:
    """Loss, gradient and coefficient, while the entropy falls below its target and rises above it again."""
    arguments = gradient_arguments(
        {
            "entropy_target": 0.8,
            "entropy_coef": 0.01,
            "entropy_coef_delta": 0.02,
            "entropy_coef_min": 0.005,
            "entropy_coef_max": 0.06,
            "top_entropy_quantile": 0.9,
        }
    )
    bonus = EntropyBonus(arguments)
    coefficients, applied = [], []
    for seed in range(14):
        scale = 0.25 if seed in range(3, 9) else 2.0  # exact in fp32, to which TRL rounds
        case = some_case(seed, drift=0.3)
        case = replace(case, entropy_BT=case.entropy_BT * scale)
        theirs, gradient, metrics = trl_loss(arguments, case, bonus=bonus)
        ours = our_loss(losses, arguments, case, bonus=bonus)
        assert float(theirs) == pytest.approx(float(ours[0]), abs=1e-12)
        assert torch.allclose(gradient, ours[1], atol=1e-12)
        entropy_N = case.entropy_BT[case.mask_BT.bool()]
        applied.append(bonus.applied)
        bonus.step_made(float(entropy_N[highest_entropies(entropy_N, 0.9)].mean()))
        assert bonus.coefficient == pytest.approx(metrics["entropy_coef"][0])
        coefficients.append(bonus.coefficient)
    assert (min(coefficients), max(coefficients)) == (0.005, 0.06)
    assert applied[:4] == [0.0] * 4
    assert applied[4] > 0


def test_vespo_and_sapo_have_trls_defaults() -> None:
    from trl.trainer.grpo_config import GRPOConfig

    fields = ("sapo_temperature_pos", "sapo_temperature_neg", "vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg")
    for name in (*fields, "vespo_lambda_neg", "entropy_coef_delta", "entropy_coef_min", "entropy_coef_max"):
        assert GRPOArguments.model_fields[name].default == GRPOConfig.__dataclass_fields__[name].default, name


def test_vespo_s_weight_is_1_on_policy_and_its_metric_is_trls() -> None:
    arguments = GRPOArguments(loss="vespo")
    case = some_case(2, drift=0.0)
    _, _, found = our_loss(losses, arguments, case)
    assert torch.allclose(found.vespo_weight_N, torch.ones_like(found.vespo_weight_N))
    case = some_case(2, drift=0.4)
    _, _, metrics = trl_loss(arguments, case)
    _, _, found = our_loss(losses, arguments, case)
    weights_B = losses.row_means(found.vespo_weight_N, case.mask_BT.bool().nonzero()[:, 0], 5)
    assert float(weights_B.mean()) == pytest.approx(metrics["vespo/phi_seq_mean"][0], abs=1e-9)


@pytest.mark.parametrize("floor", [None, 0.8])
@pytest.mark.parametrize("kind", ["token_truncate", "token_mask", "sequence_truncate", "sequence_mask", "none"])
def test_importance_weights_equal_a_written_reference(kind: str, floor: float | None) -> None:
    case = some_case(5, drift=0.5)
    floor = None if kind == "none" else floor
    arguments = GRPOArguments.model_validate(
        {"importance_sampling": kind, "importance_cap": 1.3, "importance_floor": floor}
    )
    keep = case.mask_BT.bool()
    ours = losses.importance(
        arguments.importance_sampling,
        case.old_BT[keep],
        case.sampler_BT[keep],
        keep.nonzero()[:, 0],
        5,
        cap=1.3,
        floor=floor,
    )
    written = written_importance(arguments, case).expand_as(case.mask_BT)[keep]
    assert torch.allclose(ours, written, atol=1e-12)
    assert kind == "none" or float(ours.max()) <= 1.3
    assert not kind.endswith("mask") or (ours == 0).any()
