"""The HTML report of a training run: held-out scores, rewards, metrics of the updates, and settings."""

import json
from collections.abc import Callable
from pathlib import Path

from agentlearn.config import is_lab
from agentlearn.files import own_folder, write_whole
from agentlearn.train.report import TrainReport, UpdateLine
from agentlearn.train.settings import TrainSettings
from agentlearn.views.figure import Tone, clock_time, score_words
from agentlearn.views.learn_page import score_point
from agentlearn.views.lines import LineChart, Point, Series
from agentlearn.views.page import HtmlPage, Section, render_page
from agentlearn.views.table import CodeBlock, KeyFigure, KeyFigures, Note, Paragraph, Statement


def write_train_page(report: TrainReport, settings: TrainSettings) -> Path:
    """Write the page to the folder `reports` of the store, and return its path."""
    page = settings.store / "reports" / f"{report.run}.html"
    own_folder(page.parent, settings.store)
    write_whole(page, train_page(report, settings).encode(), private=True)
    return page


def train_page(report: TrainReport, settings: TrainSettings) -> str:
    """The run as one self-contained HTML file."""
    return render_page(train_content(report, settings))


def train_content(report: TrainReport, settings: TrainSettings) -> HtmlPage:
    """The content of the page of a run."""
    sections = [_rewards(report), _updates(report), _conditions(report, settings)]
    if report.notes:
        notes = tuple(Note(text=note) for note in report.notes)
        sections.append(Section(title="Notes", parts=notes))
    return HtmlPage(
        title=f"Training {Path(report.model).name or report.model} on {report.domain}",
        kicker="Lessons distilled into a local model" if _only_distils(report) else "Gradient GRPO on a local model",
        mark="lab model" if is_lab(report.model) else "",
        front=(_result(report), _figures(report)),
        sections=tuple(sections),
        footer="A single self-contained file: it loads nothing and sends nothing.",
    )


def _result(report: TrainReport) -> Statement:
    delta = report.delta
    if report.before is None or report.after is None or delta is None or delta.mean is None:
        return Statement(text="The weights were trained, but not measured on held-out tasks.")
    before, after = score_words(report.before.mean), score_words(report.after.mean)
    tones: dict[str, Tone] = {"better": "good", "worse": "bad"}
    text = f"{delta.sentence} Mean reward before: {before}, after: {after}."
    return Statement(text=text, tone=tones.get(delta.verdict, "open"))


def _figures(report: TrainReport) -> KeyFigures:
    rollouts = sum(report.rollouts.values())
    figures = (
        KeyFigure(label="Updates", value=f"{len(report.updates)}", sub=f"{report.skipped} skipped"),
        KeyFigure(label="Rollouts", value=f"{rollouts:,}", sub=f"{report.rollouts['failed']} failed"),
        KeyFigure(label="Trained tokens", value=f"{sum(one.tokens for one in report.updates):,}"),
        KeyFigure(label="Time", value=clock_time(report.wall_s)),
    )
    return KeyFigures(caption="The run in numbers", figures=figures)


def _rewards(report: TrainReport) -> Section:
    held_out = tuple(score_point(one.updates, one.held_out) for one in report.curve)
    series = [Series(label="held-out tasks", points=held_out)] if held_out else []
    series.append(_series("tasks learned from", report, lambda line: line.reward))
    chart = LineChart(
        caption="Mean reward by update",
        x_name="updates",
        y_name="reward",
        series=tuple(series),
        note="Held-out tasks: 95 % intervals over tasks. Tasks learned from: the rollouts of each update.",
    )
    return Section(title="Reward", parts=(chart,))


def _updates(report: TrainReport) -> Section:
    only_distils = _only_distils(report)
    charts: list[tuple[str, str, Callable[[UpdateLine], float | None]]] = [
        ("Entropy of trained tokens", "nats", lambda line: line.entropy),
        ("Share of tasks with different rewards", "share", lambda line: line.mixed),
        ("Share of tokens whose ratio was clipped", "share", lambda line: None if only_distils else line.clipped),
        ("Divergence between sampler and trainer", "nats per token", lambda line: line.mismatch),
        ("Divergence from the teacher that reads the lessons", "nats per token", lambda line: line.teacher),
        ("Length of answers without lessons", "tokens", lambda line: line.answer_tokens),
    ]
    parts = tuple(
        LineChart(caption=caption, x_name="updates", y_name=unit, series=(_series(caption, report, value),))
        for caption, unit, value in charts
        if any(value(line) is not None for line in report.updates)
    )
    lede = (
        "Only tasks whose rollouts get different rewards contribute to an update."
        if not only_distils
        else "Rewards were only measured: the model learned from a teacher that reads the lessons."
    )
    lede += " If entropy falls to 0, the model no longer explores."
    return Section(title="Updates", lede=lede, parts=parts or (Paragraph(text="The run made no update."),))


def _only_distils(report: TrainReport) -> bool:
    """Whether the run learned from a teacher and not from rewards."""
    return report.loss == "distill"


def _series(label: str, report: TrainReport, value: Callable[[UpdateLine], float | None]) -> Series:
    return Series(label=label, points=tuple(Point(x=line.update, y=value(line)) for line in report.updates))


def _conditions(report: TrainReport, settings: TrainSettings) -> Section:
    weights = report.weights
    before, after, turns = weights.sha256_before[:16], weights.sha256_after[:16], report.turns
    unpublished = "" if weights.published else " This is a checkpoint: they were not published, because they are worse."
    words = (
        f"The weights changed from {before} to {after}; they are in {weights.path}.{unpublished}"
        f" {turns['clean']:,} model turns continue the exact tokens before them, {turns['forked']:,} do not."
    )
    resolved = json.dumps(json.loads(settings.resolved()), indent=2)
    return Section(title="Conditions", parts=(Paragraph(text=words), CodeBlock(text=resolved, label="Settings")))
