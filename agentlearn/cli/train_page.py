"""A training run as a page: the curve on held-out tasks, rewards and figures of the updates, and what was used."""

import json
from collections.abc import Callable
from pathlib import Path

from agentlearn.cli.output import duration
from agentlearn.config import is_lab
from agentlearn.files import write_whole
from agentlearn.html import (
    CodeBlock,
    HtmlPage,
    KeyFigure,
    KeyFigures,
    LineChart,
    Note,
    Paragraph,
    Point,
    Section,
    Series,
    Statement,
    render_page,
)
from agentlearn.train.report import TrainReport, UpdateLine
from agentlearn.train.settings import TrainSettings


def write_train_page(report: TrainReport, settings: TrainSettings) -> Path:
    """Write the page below the store's `reports`; its path."""
    page = settings.store / "reports" / f"{report.run}.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    write_whole(page, train_page(report, settings).encode())
    return page


def train_page(report: TrainReport, settings: TrainSettings) -> str:
    """The run as one HTML file that loads nothing."""
    sections = [_course(report), _updates(report), _conditions(report, settings)]
    if report.notes:
        notes = tuple(Note(text=note) for note in report.notes)
        sections.append(Section(title="Notes", parts=notes))
    return render_page(
        HtmlPage(
            title=f"Training {Path(report.model).name or report.model} on {report.domain}",
            kicker="Gradient GRPO on a local model",
            mark="lab model" if is_lab(report.model) else "",
            front=(_finding(report), _figures(report)),
            sections=tuple(sections),
            footer="One file: it loads nothing, sends nothing, and can be passed on.",
        )
    )


def _finding(report: TrainReport) -> Statement:
    delta = report.delta
    if report.before is None or report.after is None or delta is None or delta.mean is None:
        return Statement(text="Weights were trained; nothing was measured on held-out tasks.")
    interval = "" if delta.ci is None else f" [{delta.ci[0]:+.2f}, {delta.ci[1]:+.2f}]"
    text = (
        f"Mean reward on {delta.n} held-out tasks went from {report.before.mean:.2f} to {report.after.mean:.2f}:"
        f" {delta.mean:+.2f}{interval}."
    )
    if delta.ci is None or delta.ci[0] <= 0 <= delta.ci[1]:
        return Statement(text=text, tone="open")
    return Statement(text=text, tone="good" if delta.mean > 0 else "bad")


def _figures(report: TrainReport) -> KeyFigures:
    rollouts = sum(report.rollouts.values())
    figures = (
        KeyFigure(label="Updates", value=f"{len(report.updates)}", sub=f"{report.skipped} skipped"),
        KeyFigure(label="Rollouts", value=f"{rollouts:,}", sub=f"{report.rollouts['failed']} failed"),
        KeyFigure(label="Trained tokens", value=f"{sum(one.tokens for one in report.updates):,}"),
        KeyFigure(label="Time", value=duration(report.wall_s)),
    )
    return KeyFigures(caption="The run in numbers", figures=figures)


def _course(report: TrainReport) -> Section:
    held_out = tuple(
        Point(
            x=one.updates,
            y=one.held_out.mean,
            low=one.held_out.ci[0] if one.held_out.ci else None,
            high=one.held_out.ci[1] if one.held_out.ci else None,
        )
        for one in report.curve
    )
    series = [Series(label="held-out tasks", points=held_out)] if held_out else []
    series.append(_series("tasks learned from", report, lambda line: line.reward))
    chart = LineChart(
        caption="Mean reward by updates",
        x_name="updates",
        y_name="reward",
        series=tuple(series),
        note="Held-out tasks with 95 % intervals over tasks; rollouts that were learned from as each update saw them.",
    )
    return Section(title="Reward", parts=(chart,))


def _updates(report: TrainReport) -> Section:
    charts: list[tuple[str, str, Callable[[UpdateLine], float | None]]] = [
        ("Entropy of trained tokens", "nats", lambda line: line.entropy),
        ("Share of groups whose rewards differ", "share", lambda line: line.mixed),
        ("Share of tokens whose ratio was clipped", "share", lambda line: line.clipped),
        ("Divergence of the sampler from the trainer", "nats per token", lambda line: line.mismatch),
    ]
    parts = tuple(
        LineChart(caption=caption, x_name="updates", y_name=unit, series=(_series(caption, report, value),))
        for caption, unit, value in charts
        if any(value(line) is not None for line in report.updates)
    )
    lede = "Only groups whose rewards differ teach; an entropy that falls to 0 means that nothing new is tried."
    return Section(title="Updates", lede=lede, parts=parts or (Paragraph(text="There was no update."),))


def _series(label: str, report: TrainReport, value: Callable[[UpdateLine], float | None]) -> Series:
    return Series(label=label, points=tuple(Point(x=line.update, y=value(line)) for line in report.updates))


def _conditions(report: TrainReport, settings: TrainSettings) -> Section:
    weights = report.weights
    words = (
        f"Weights {weights.sha256_before[:16]} became {weights.sha256_after[:16]} and are kept in {weights.path}."
        f" {report.turns['clean']:,} turns continued the tokens before them and {report.turns['forked']:,} did not;"
        " no token was encoded again."
    )
    resolved = json.dumps(json.loads(settings.resolved()), indent=2)
    return Section(title="Conditions", parts=(Paragraph(text=words), CodeBlock(text=resolved, label="Settings")))
