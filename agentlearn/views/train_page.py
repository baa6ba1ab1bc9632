"""The HTML report of a training run: held-out scores, rewards, metrics of the updates, and settings."""

import json
from collections.abc import Callable
from dataclasses import dataclass
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
    write_whole(page, TrainPage(report, settings).html().encode(), private=True)
    return page


@dataclass(frozen=True, slots=True)
class TrainPage:
    """The page of one run."""

    report: TrainReport
    settings: TrainSettings

    def html(self) -> str:
        """The run as one self-contained HTML file."""
        return render_page(self.content())

    def content(self) -> HtmlPage:
        """The content of the page."""
        distils = self._only_distils()
        sections = [self._rewards(), self._updates(), self._conditions()]
        if self.report.notes:
            notes = tuple(Note(text=note) for note in self.report.notes)
            sections.append(Section(title="Notes", parts=notes))
        return HtmlPage(
            title=f"Training {Path(self.report.model).name or self.report.model} on {self.report.domain}",
            kicker="Lessons distilled into a local model" if distils else "Gradient GRPO on a local model",
            mark="lab model" if is_lab(self.report.model) else "",
            front=(self._result(), self._figures()),
            sections=tuple(sections),
            footer="A single self-contained file: it loads nothing and sends nothing.",
        )

    def _result(self) -> Statement:
        delta = self.report.delta
        if self.report.before is None or self.report.after is None or delta is None or delta.mean is None:
            return Statement(text="The weights were trained, but not measured on held-out tasks.")
        before, after = score_words(self.report.before.mean), score_words(self.report.after.mean)
        tones: dict[str, Tone] = {"better": "good", "worse": "bad"}
        text = f"{delta.sentence} Mean reward before: {before}, after: {after}."
        return Statement(text=text, tone=tones.get(delta.verdict, "open"))

    def _figures(self) -> KeyFigures:
        rollouts = sum(self.report.rollouts.values())
        figures = (
            KeyFigure(label="Updates", value=f"{len(self.report.updates)}", sub=f"{self.report.skipped} skipped"),
            KeyFigure(label="Rollouts", value=f"{rollouts:,}", sub=f"{self.report.rollouts['failed']} failed"),
            KeyFigure(label="Trained tokens", value=f"{sum(one.tokens for one in self.report.updates):,}"),
            KeyFigure(label="Time", value=clock_time(self.report.wall_s)),
        )
        return KeyFigures(caption="The run in numbers", figures=figures)

    def _rewards(self) -> Section:
        held_out = tuple(score_point(one.updates, one.held_out) for one in self.report.curve)
        series = [Series(label="held-out tasks", points=held_out)] if held_out else []
        series.append(self._series("tasks learned from", lambda line: line.reward))
        chart = LineChart(
            caption="Mean reward by update",
            x_name="updates",
            y_name="reward",
            series=tuple(series),
            note="Held-out tasks: 95 % intervals over tasks. Tasks learned from: the rollouts of each update.",
        )
        return Section(title="Reward", parts=(chart,))

    def _updates(self) -> Section:
        only_distils = self._only_distils()
        charts: list[tuple[str, str, Callable[[UpdateLine], float | None]]] = [
            ("Entropy of trained tokens", "nats", lambda line: line.entropy),
            ("Share of tasks with different rewards", "share", lambda line: line.mixed),
            ("Share of tokens whose ratio was clipped", "share", lambda line: None if only_distils else line.clipped),
            ("Divergence between sampler and trainer", "nats per token", lambda line: line.mismatch),
            ("Divergence from the teacher that reads the lessons", "nats per token", lambda line: line.teacher),
            ("Length of answers without lessons", "tokens", lambda line: line.answer_tokens),
        ]
        parts = tuple(
            LineChart(caption=caption, x_name="updates", y_name=unit, series=(self._series(caption, value),))
            for caption, unit, value in charts
            if any(value(line) is not None for line in self.report.updates)
        )
        lede = (
            "Only tasks whose rollouts get different rewards contribute to an update."
            if not only_distils
            else "Rewards were only measured: the model learned from a teacher that reads the lessons."
        )
        lede += " If entropy falls to 0, the model no longer explores."
        return Section(title="Updates", lede=lede, parts=parts or (Paragraph(text="The run made no update."),))

    def _only_distils(self) -> bool:
        """Whether the run learned from a teacher and not from rewards."""
        return self.report.loss == "distill"

    def _conditions(self) -> Section:
        weights = self.report.weights
        before, after, turns = weights.sha256_before[:16], weights.sha256_after[:16], self.report.turns
        unpublished = "" if weights.published else " This is a checkpoint: they were not published; the notes say why."
        words = (
            f"The weights changed from {before} to {after}; they are in {weights.path}.{unpublished}"
            f" {turns['clean']:,} model turns continue the exact tokens before them, {turns['forked']:,} do not."
        )
        resolved = json.dumps(json.loads(self.settings.resolved()), indent=2)
        return Section(title="Conditions", parts=(Paragraph(text=words), CodeBlock(text=resolved, label="Settings")))

    def _series(self, label: str, value: Callable[[UpdateLine], float | None]) -> Series:
        return Series(label=label, points=tuple(Point(x=line.update, y=value(line)) for line in self.report.updates))
