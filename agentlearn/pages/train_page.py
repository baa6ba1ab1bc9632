"""The HTML report of a training run: held-out scores, rewards, metrics of the updates, and settings."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentlearn.config import is_lab
from agentlearn.pages.figure import TONES, clock_time, score_words
from agentlearn.pages.learn_page import score_point
from agentlearn.pages.lines import LineChart, Point, Series
from agentlearn.pages.page import HtmlPage, Section, render_page
from agentlearn.pages.runs import train_end
from agentlearn.pages.table import CodeBlock, KeyFigures, Note, Paragraph, Statement, keys
from agentlearn.pages.terminal import labelled_table
from agentlearn.text.files import own_folder, write_whole
from agentlearn.train.report import TrainReport, UpdateLine
from agentlearn.train.settings import TrainSettings


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
        if self.report.weights.failed:
            return Statement(text=f"Nothing was learned: {self.report.weights.withheld}.", tone=TONES["worse"])
        if self.report.before is None or self.report.after is None or delta is None or delta.mean is None:
            return Statement(text="The weights were trained, but not measured on held-out tasks.")
        before, after = score_words(self.report.before.mean), score_words(self.report.after.mean)
        text = f"{delta.sentence} Mean reward before: {before}, after: {after}."
        return Statement(text=text, tone=TONES[delta.verdict])

    def _figures(self) -> KeyFigures:
        rollouts = sum(self.report.rollouts.values())
        return keys(
            "The run in numbers",
            ("Updates", f"{len(self.report.updates)}", f"{self.report.skipped} skipped"),
            ("Rollouts", f"{rollouts:,}", f"{self.report.rollouts['failed']} failed"),
            ("Trained tokens", f"{sum(one.tokens for one in self.report.updates):,}"),
            ("Time", clock_time(self.report.wall_s)),
        )

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
        lines = (part for part in train_end(self.report) if isinstance(part, tuple) and part[0] != "note")
        resolved = json.dumps(json.loads(self.settings.resolved()), indent=2)
        return Section(
            title="Conditions",
            parts=(*labelled_table("The end of the run", lines), CodeBlock(text=resolved, label="Settings")),
        )

    def _series(self, label: str, value: Callable[[UpdateLine], float | None]) -> Series:
        return Series(label=label, points=tuple(Point(x=line.update, y=value(line)) for line in self.report.updates))
