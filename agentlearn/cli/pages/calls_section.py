"""Where the calls of a run went: stages, phases, rollouts that were planned, drawn and saved, and malformed replies."""

from collections.abc import Callable, Sequence

from agentlearn.cli.pages.learn_record import EPOCH, LearnRecord
from agentlearn.cli.stages import cost_words, stage_order, sum_of_stages
from agentlearn.cli.words import clock_time
from agentlearn.html import (
    Bar,
    BarGroup,
    Bars,
    Column,
    KeyFigure,
    KeyFigures,
    PagePart,
    Paragraph,
    Section,
    Table,
    TableCell,
)
from agentlearn.html.number_format import count, decimal, large, money
from agentlearn.learning.report import StageLine
from agentlearn.store import TrajectoryRow

Stages = Sequence[tuple[str, StageLine]]
_MEASURES: tuple[tuple[str, Callable[[StageLine], float | None], Callable[[float | None], str]], ...] = (
    ("Model calls", lambda line: line.calls, lambda value: count(None if value is None else round(value))),
    ("Tokens in and out", lambda line: line.tokens_in + line.tokens_out, large),
    ("Cost", lambda line: line.cost_usd, money),
    ("Time, summed over calls that ran side by side", lambda line: line.seconds, lambda value: clock_time(value or 0)),
)


def calls_section(record: LearnRecord) -> Section:
    """Calls by stage, rollouts by phase, and what early stops and skipped visits saved."""
    stages = [(name, line) for name, line in stage_order(record.report.stages) if line.calls]
    parts: list[PagePart] = [_rollouts(record)]
    if stages:
        parts += [_bars(stages), _table(stages)]
    else:
        parts.append(Paragraph(text="The report names no model call."))
    if record.rollouts:
        parts.append(_phases(record.rollouts))
    if any(line.malformed for _, line in stages):
        parts.append(_malformed(stages))
    return Section(title="Where the calls went", parts=tuple(parts))


def cost_section(record: LearnRecord) -> Section:
    """What the run cost, and for what."""
    report = record.report
    total = report.cost_usd
    rollouts = len(record.rollouts)
    figures = [KeyFigure(label="Whole run", value=money(total))]
    if total and rollouts:
        figures.append(KeyFigure(label="Per rollout", value=money(total / rollouts), sub=f"{rollouts:,} rollouts"))
    if total and record.library is not None and len(record.library):
        figures.append(KeyFigure(label="Per lesson of the library", value=money(total / len(record.library))))
    for label, name in (("Cost limit", "max_cost_usd"), ("Token limit", "max_tokens")):
        if (limit := record.settings.get(name)) is not None:
            figures.append(KeyFigure(label=label, value=money(limit) if name == "max_cost_usd" else large(limit)))
    parts: list[PagePart] = [KeyFigures(caption="Cost", figures=tuple(figures))]
    if report.simulated:
        parts.append(Paragraph(text="Simulated models and lab models cost nothing.", quiet=True))
    elif total is None:
        parts.append(Paragraph(text="The price of at least one model is not known.", quiet=True))
    if report.pilot is not None:
        parts.append(Paragraph(text="\n".join(report.pilot.lines())))
    return Section(title="Cost", parts=tuple(parts))


def _rollouts(record: LearnRecord) -> KeyFigures:
    found, drawn = record.report.allocated, sum(len(group.rewards) for group in record.groups)
    if not found.planned and not found.drawn:
        figures = (KeyFigure(label="Drawn", value=count(drawn), sub=f"in {len(record.groups):,} groups"),)
    else:
        share = f"{found.drawn / found.planned:.0%} of the plan" if found.planned else ""
        figures = (
            KeyFigure(label="Planned", value=count(found.planned)),
            KeyFigure(label="Drawn", value=count(found.drawn), sub=share),
            KeyFigure(label="Groups stopped early", value=count(found.stopped), sub=f"saved {found.saved:,} rollouts"),
            KeyFigure(label="Skipped visits", value=count(found.skipped), sub="to tasks that were all right"),
        )
    return KeyFigures(caption="Rollouts to learn from", figures=figures)


def _bars(stages: Stages) -> Bars:
    groups = tuple(
        BarGroup(
            label=label,
            bars=tuple(Bar(label=name, value=value(line), words=words(value(line))) for name, line in stages),
        )
        for label, value, words in _MEASURES
        if any(value(line) for _, line in stages)
    )
    return Bars(caption="Calls, tokens and time by stage", groups=groups)


def _table(stages: Stages) -> Table:
    names = ("Calls", "Tokens in", "Of them cached", "Tokens out", "Cost", "Time", "Retried", "Replayed", "Malformed")
    rows = [_row(name, line) for name, line in stages]
    if len(rows) > 1:
        rows.append(_row("all", sum_of_stages([line for _, line in stages])))
    return Table(
        caption="Model calls by stage",
        columns=(Column(name="Stage"), *(Column(name=name, kind="number") for name in names)),
        rows=tuple(rows),
        note=(
            "Time is the sum over all calls, many of which ran side by side. Retried: requests sent again. Replayed:"
            " calls that a resumed run took from the journal."
        ),
    )


def _row(name: str, line: StageLine) -> tuple[TableCell, ...]:
    malformed = sum(line.malformed.values())
    return (
        TableCell(text=name),
        TableCell(text=count(line.calls), value=line.calls),
        TableCell(text=large(line.tokens_in), value=line.tokens_in),
        TableCell(text=large(line.tokens_cached), value=line.tokens_cached),
        TableCell(text=large(line.tokens_out), value=line.tokens_out),
        TableCell(text=cost_words(line.cost_usd), value=line.cost_usd),
        TableCell(text=clock_time(line.seconds), value=line.seconds),
        TableCell(text=count(line.retried), value=line.retried),
        TableCell(text=count(line.replayed), value=line.replayed),
        TableCell(text=count(malformed), value=malformed),
    )


def _phases(rollouts: Sequence[TrajectoryRow]) -> Table:
    names = ("Rollouts", "Mean reward", "Failed", "Undecided", "Tokens in", "Tokens out", "Cost", "Time")
    phases = dict.fromkeys(one.phase for one in rollouts)
    return Table(
        caption="Rollouts by phase",
        columns=(Column(name="Phase"), *(Column(name=name, kind="number") for name in names)),
        rows=tuple(_phase(phase, [one for one in rollouts if one.phase == phase]) for phase in phases),
    )


def _phase(phase: str, members: Sequence[TrajectoryRow]) -> tuple[TableCell, ...]:
    rewards = [one.reward for one in members if one.reward is not None]
    costs = [one.cost_usd for one in members if one.cost_usd is not None]
    mean = sum(rewards) / len(rewards) if rewards else None
    cost = sum(costs) if len(costs) == len(members) else None
    seconds = sum(one.seconds for one in members)
    tokens_in, tokens_out = sum(one.tokens_in for one in members), sum(one.tokens_out for one in members)
    return (
        TableCell(text=phase, sub="to learn from" if phase.startswith(EPOCH) else "to measure"),
        TableCell(text=count(len(members)), value=len(members)),
        TableCell(text=decimal(mean), value=mean),
        TableCell(text=count(sum(one.outcome == "failed" for one in members))),
        TableCell(text=count(sum(one.outcome == "undecided" for one in members))),
        TableCell(text=large(tokens_in), value=tokens_in),
        TableCell(text=large(tokens_out), value=tokens_out),
        TableCell(text=cost_words(cost), value=cost),
        TableCell(text=clock_time(seconds), value=seconds),
    )


def _malformed(stages: Stages) -> Table:
    return Table(
        caption="Malformed replies and failed units of work",
        columns=(Column(name="Code"), Column(name="Stage"), Column(name="Number", kind="number")),
        rows=tuple(
            (TableCell(text=code), TableCell(text=name), TableCell(text=count(number), value=number))
            for name, line in stages
            for code, number in line.malformed.items()
        ),
    )
