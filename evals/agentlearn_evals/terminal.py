"""Prints a comparison on the terminal: verdicts first, then arms, differences, and what to check."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from agentlearn.config import DEFAULT_STORE
from agentlearn.config.command_words import command_words
from agentlearn.measure.sentences import signed_difference
from agentlearn.text import number_text
from agentlearn.views.figure import cost_words
from agentlearn.views.figure import large as short_count
from agentlearn.views.terminal import print_table
from agentlearn_evals.comparison import ArmLine, Comparison, Flip, MethodLine, Slice
from agentlearn_evals.contrast_words import (
    assumptions,
    bounds_words,
    cautions,
    estimated_tokens,
    full_sentence,
    looks_words,
    rollouts_words,
    worst_first,
)
from agentlearn_evals.designing import PowerReport

_FLIPS = 5
"""Number of flips, and of missing tasks, that are printed."""
_LABEL = 10
_ID = 12
"""Characters of a rollout id that are printed; `agentlearn trace` accepts the start of an id."""


def print_comparison(found: Comparison, out: Console, *, store: Path = DEFAULT_STORE) -> None:
    """Print the verdicts and the main numbers, in the columns of the terminal; the page and the JSON have the rest.

    store: directory of the rollouts, for the commands that show them.
    """
    for warning in found.warnings:
        out.print(warning)
    if found.simulated:
        out.print("simulated models: these numbers show how compare works; they are not a result about a real model")
    elif found.of_lab_models:
        out.print("lab models are real but tiny transformers: these numbers show how compare works, not a result")
    for contrast in worst_first(found.contrasts):
        out.print(full_sentence(contrast), style="bold")
        if contrast.holds_if:
            out.print(contrast.holds_if)
    out.print()
    _print(out, _arms(found.arms))
    _print(out, _differences(found))
    for line in assumptions(found):
        out.print(f"  {line}", style="dim")
    out.print()
    if matrix := _across_domains(found):
        _print(out, matrix)
    if all(arm.passes for arm in found.arms):
        _print(out, _passes(found.arms))
    for label, lines in _remarks(found, store):
        for line in lines:
            out.print(f"  {label.ljust(_LABEL)}{line}")


def _print(out: Console, rows: Sequence[Sequence[str]]) -> None:
    print_table(out, rows, label=_LABEL, indent=2)
    out.print()


def _arms(arms: Sequence[ArmLine]) -> list[tuple[str, ...]]:
    rows = [
        ("arm", "score", "95 % interval", "rollouts", "reused", "failed", "undecided", "cost", "in", "lessons", "out")
    ]
    rows.extend(
        (
            arm.arm,
            _share(arm.score),
            _interval(arm.low, arm.high, ".3f"),
            rollouts_words(arm),
            f"{arm.reused:,}",
            f"{arm.failed:,}",
            f"{arm.undecided:,}",
            "nothing" if arm.simulated else cost_words(arm.cost_usd),
            _tokens(arm.tokens_in),
            estimated_tokens(arm),
            _tokens(arm.tokens_out),
        )
        for arm in arms
    )
    return rows


def _tokens(count: int | None) -> str:
    return "-" if count is None else short_count(count)


def _interval(low: float | None, high: float | None, form: str) -> str:
    return "-" if low is None or high is None else f"{low:{form}} to {high:{form}}"


def _differences(found: Comparison) -> list[tuple[str, ...]]:
    """Return the table of differences, with the bounds of each in its row."""
    columns: dict[str, Sequence[str]] = {
        "difference": [f"{one.arm} - {one.baseline}" for one in found.contrasts],
        "mean": [signed_difference(one.mean) for one in found.contrasts],
        "95 % interval": [_interval(one.low, one.high, "+.3f") for one in found.contrasts],
        "bounds": [bounds_words(found, one) for one in found.contrasts],
        "p": [_p(one.p) for one in found.contrasts],
        "p_mean": ["" if one.p_mean is None else _p(one.p_mean) for one in found.contrasts],
        "corrected": [_p(one.p_adjusted) for one in found.contrasts],
        "won": [str(one.wins) for one in found.contrasts],
        "lost": [str(one.losses) for one in found.contrasts],
        "same": [str(one.ties) for one in found.contrasts],
        "detectable": [_share(one.detectable) for one in found.contrasts],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    return [tuple(shown), *zip(*([cell or "-" for cell in cells] for cells in shown.values()), strict=True)]


def _across_domains(found: Comparison) -> list[tuple[str, ...]]:
    """Return a table of arms by domains with differences from the baseline; empty for one domain."""
    slices = {(one.arm, one.name): one for one in found.slices if one.by == "domain"}
    domains = sorted({name for _, name in slices})
    if len(domains) < 2:
        return []
    rows = [("by domain", *(word for name in domains for word in (name, "difference")))]
    for arm in found.names:
        cells = (slices.get((arm, name)) for name in domains)
        rows.append((arm, *(word for one in cells for word in _cell(one))))
    return rows


def _cell(one: Slice | None) -> tuple[str, str]:
    if one is None:
        return "-", "-"
    if one.mean is None:
        return _share(one.score), "-"
    limits = "" if one.low is None or one.high is None else f" [{one.low:+.3f}, {one.high:+.3f}]"
    return _share(one.score), f"{signed_difference(one.mean)}{limits}"


def _p(p: float | None) -> str:
    return "-" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def _passes(arms: Sequence[ArmLine]) -> list[tuple[str, ...]]:
    shared = sorted(set.intersection(*({one.k for one in arm.passes} for arm in arms)))
    rows = [("arm", *(f"pass@{k}" for k in shared), *(f"pass^{k}" for k in shared[1:]))]
    for arm in arms:
        kept = [one for one in arm.passes if one.k in shared]
        once, every = [one.at_least_one for one in kept], [one.all_of_them for one in kept[1:]]
        rows.append((arm.arm, *map(_share, once), *map(_share, every)))
    return rows


def _share(value: float | None) -> str:
    return "-" if value is None else number_text(value, 3)


def _remarks(found: Comparison, store: Path) -> list[tuple[str, list[str]]]:
    """Return what a reader should know before trusting the verdicts, as (label, lines)."""
    return [
        ("method", [_method(found, one) for one in found.methods]),
        ("caution", [f"{arms}: {caution}" for caution, arms in cautions(found).items()]),
        ("suspect", [f"{one.arm}: {one.words}" for one in found.flags]),
        ("sequential", [found.sequential] if found.sequential else []),
        ("look", looks_words(found)),
        ("missing", _missing(found)),
        (
            "flip",
            [_flip(one, store, pairwise=found.pairwise) for one in found.flips[:_FLIPS] if one.rollout or one.place],
        ),
        ("note", list(found.notes)),
    ]


def _missing(found: Comparison) -> list[str]:
    lines = [f"{one.arm}: {one.task}: {one.reason}" for one in found.missing[:_FLIPS]]
    more = len(found.missing) - len(lines)
    return [*lines, f"and {more:,} more; --json lists them"] if more > 0 else lines


def _method(found: Comparison, line: MethodLine) -> str:
    interval = f"[{signed_difference(line.low)}, {signed_difference(line.high)}]"
    return f"{line.method} - {found.baseline}: {signed_difference(line.mean)} {interval}, {line.note}"


def _flip(flip: Flip, store: Path, *, pairwise: bool) -> str:
    scores = f"{number_text(flip.baseline_score)} → {number_text(flip.score)}"
    against = f" against {flip.baseline}" if pairwise else ""
    result = f"{flip.arm} {'wins' if flip.won else 'loses'}{against} {scores} {_excerpt(flip.problem or flip.task)}"
    if flip.place:
        return f"{result}   {flip.baseline_place} → {flip.place}"
    rollouts = (flip.rollout, flip.baseline_rollout)
    commands = "   ".join(command_words("trace", one[:_ID], store=store) for one in rollouts if one)
    return f"{result}   {commands}"


def _excerpt(problem: str) -> str:
    line = " ".join(problem.split())
    return repr(line if len(line) <= 48 else f"{line[:47]}…")


def print_power(report: PowerReport, out: Console) -> None:
    """Print the sizes that detect the effect, one row each."""
    settings = report.settings
    what = f"to detect a difference of {settings.effect:g} with {settings.power:.0%} power at alpha {settings.alpha:g}"
    out.print(f"{what}, {settings.arms} arms, {settings.model}")
    out.print()
    rows = [("tasks", "rollouts each", "all rollouts", "detects", "chance", "tokens in", "tokens out", "about")]
    rows.extend(
        (
            f"{one.tasks:,}",
            f"{one.k:,}",
            f"{one.rollouts:,}",
            f"{one.detectable:.3f}",
            f"{one.chance:.2f}",
            short_count(one.price.tokens_in),
            short_count(one.price.tokens_out),
            cost_words(one.price.cost_usd),
        )
        for one in report.designs
    )
    _print(out, rows)
    if report.rollouts_needed is not None:
        out.print(f"  {'needed'.ljust(_LABEL)}{settings.tasks} tasks need {report.rollouts_needed:,} rollouts each")
    for note in report.notes:
        out.print(f"  {'note'.ljust(_LABEL)}{note}")
