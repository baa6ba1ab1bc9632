"""Prints the result of a hybrid run: a table of arms, a table of lessons, and sentences."""

from collections.abc import Sequence

from rich.console import Console

from agentlearn.cli.table import print_table
from agentlearn.cli.words import clock_time, score_words
from agentlearn.config.command_words import command_words
from agentlearn.text import visible
from agentlearn_evals.hybrid.hybrid_report import ComparedStage, HybridReport, HybridRound, LessonRemoval, PruningStage
from agentlearn_evals.hybrid.hybrid_settings import HybridSettings, of_lab

_ID = 12


def print_hybrid(report: HybridReport, settings: HybridSettings, out: Console) -> None:
    """Print what was found."""
    if any(one.learned is not None and one.learned.simulated for one in report.rounds) or of_lab(settings):
        out.print(
            "simulated or lab models took part: these numbers show how the stages work; they are no result about a real"
            " model"
        )
    for one in report.rounds:
        _print_round(one, out, several=settings.rounds > 1)
    for sentence in report.sentences:
        out.print(sentence)
    shown = command_words("runs", "show", report.run, "--short", store=settings.store)
    out.print(f"  {'spent'.ljust(10)}{clock_time(report.wall_s)}      {shown}")


def _print_round(one: HybridRound, out: Console, *, several: bool) -> None:
    if several:
        out.print(f"round {one.number}")
    if one.compared is not None:
        _print(out, _arms(one.compared))
    if one.pruning is not None and one.pruning.removals:
        _print(out, _removals(one.pruning))
        for removal in one.pruning.removals:
            out.print(f"  {removal.lesson[:_ID]}  {visible(removal.text)}")
        out.print()


def _print(out: Console, rows: Sequence[Sequence[str]]) -> None:
    print_table(out, rows, label=_ID, indent=2)
    out.print()


def _arms(compared: ComparedStage) -> list[tuple[str, ...]]:
    gains = {one.arm: one for one in compared.contrasts if one.baseline == "none"}
    rows = [
        ("arm", "score", "95 % interval", "gain", "95 % interval", "in/call", "out/call", "rollouts", "undecided"),
    ]
    for arm in compared.arms:
        gain = gains.get(arm.arm)
        rows.append(
            (
                arm.arm,
                score_words(arm.score),
                _interval(arm.low, arm.high, sign=""),
                "" if gain is None else _change(gain.mean),
                "" if gain is None else _interval(gain.low, gain.high, sign="+"),
                _count(arm.tokens_in_per_call),
                _count(arm.tokens_out_per_call),
                f"{arm.rollouts:,}",
                f"{arm.undecided:,}",
            )
        )
    return rows


def _removals(pruning: PruningStage) -> list[tuple[str, ...]]:
    rows = [("without", "tokens", "change", "95 % interval", "state")]
    rows += [_removal(one) for one in pruning.removals]
    return rows


def _removal(one: LessonRemoval) -> tuple[str, ...]:
    found = one.contrast
    return (
        one.lesson[:_ID],
        f"{one.tokens:,}",
        _change(found.mean),
        _interval(found.low, found.high, sign="+"),
        one.state,
    )


def _interval(low: float | None, high: float | None, *, sign: str) -> str:
    return "-" if low is None or high is None else f"{low:{sign}.2f} to {high:{sign}.2f}"


def _change(mean: float | None) -> str:
    return "-" if mean is None else f"{mean:+.2f}"


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
