"""The page of a learn run: the held-out result first, then the evidence for it, as one self-contained HTML file."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from agentlearn.config.defaults import command_words
from agentlearn.config.outputs import Outputs
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.learning.report import HeldOut, HeldOutScore, Taught, VersionLine
from agentlearn.measure.contrast import PAIRED
from agentlearn.pages.charts import Dumbbell, DumbbellRow, Forest, ForestRow
from agentlearn.pages.figure import (
    DASH,
    TONES,
    Tone,
    clipped,
    clock_time,
    count,
    count_words,
    decimal,
    interval,
    signed,
)
from agentlearn.pages.learn_record import LearnRecord
from agentlearn.pages.learn_tables import LearnTables
from agentlearn.pages.lines import LineChart, Point, Series, one_line_chart
from agentlearn.pages.page import HtmlPage, PagePart, Section, render_page
from agentlearn.pages.records import ENDS
from agentlearn.pages.runs import delta_verdict, learn_end, size_words
from agentlearn.pages.table import Note, Paragraph, Statement, Table, TableCell, box, keys, number_cells, sheet
from agentlearn.pages.terminal import labelled_table
from agentlearn.store import StoreReader, read_store
from agentlearn.text.files import own, own_folder, write_whole
from agentlearn.types.ids import RunId

FAMILIES = 60
"""Largest number of families with a row of their own."""
_WORDS = 600
"""Largest number of characters of a sentence on the page."""
_OVER_FAMILIES = "95 % intervals over families of tasks."
_BASES = {
    "validation": "The finalists were compared on validation tasks.",
    "rollouts": "The rollouts to learn from decided.",
    "last": "The last version was taken.",
}


def write_learn_page(store: Path | str | StoreReader, run: str, out: Path | None = None) -> Path:
    """Write the page of a learn run, and return its path.

    store: the directory of the store, or an open one. run: the id of the run, or its start. out: the file to write;
    None: `reports/RUN.html` in the store. A page that is there is replaced, and any other file is left alone.

    Raises ConfigError for a run that is unknown, is no learn run or has no report; StoreError, OSError.
    """
    opened = read_store(Path(store)) if isinstance(store, Path | str) else nullcontext(store)
    with opened as reader:
        row, directory = reader.run(run), reader.directory
        show = command_words("runs", "show", row.run, store=directory)
        if row.kind != "learn":
            raise ConfigError(
                f"run {row.run!r} is of the kind {row.kind!r}, and only learn runs have a page that can be written"
                f" again; {show} shows it"
            )
        if not row.report:
            raise ConfigError(f"run {row.run!r} has no report, because it is {row.state!r}; {show} says how to go on")
        html = learn_page(LearnRecord.read(reader, row))
    if out is None:
        page = directory / "reports" / f"{row.run}.html"
        own(own_folder(page.parent, directory) / page.name, directory)
        write_whole(page, html.encode(), private=True)
        return page
    outputs = Outputs(directory)
    outputs.refuse_others(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, html.encode())
    outputs.remember(out, runs=(row.run,))
    return out


def page_at_the_end(store: Path, run: RunId) -> tuple[Path | None, str]:
    """Write the page of a run that has just ended. Return its path, or None and the reason why there is none.

    The run is stored, so nothing that happens here makes it fail.
    """
    try:
        return write_learn_page(store, run), ""
    except Exception as error:  # noqa: BLE001  a page that cannot be written must not cost the result of a run
        reason = str(error) if isinstance(error, AgentlearnError | OSError) else f"{type(error).__name__}: {error}"
        again = command_words("runs", "page", run, store=store)
        return None, f"the report page was not written: {reason}; the run is stored, {again} writes it"


def learn_page(record: LearnRecord) -> str:
    """The run as one HTML file."""
    return render_page(LearnPage(record).content())


@dataclass(frozen=True, slots=True)
class LearnPage(LearnTables):
    """The page of one run."""

    def content(self) -> HtmlPage:
        """The content of the page."""
        record, report = self.record, self.record.report
        writer = f", lessons by {report.reflector}" if report.reflector and report.reflector != report.model else ""
        return HtmlPage(
            title=clipped(f"{report.domain} with {report.model}{writer}, run {report.run}", 160),
            kicker="Lessons learned from rollouts",
            mark=record.mark,
            front=self._opening_parts(),
            sections=(
                self._result_section(),
                self.lessons_section(),
                self._versions_section(),
                self.calls_section(),
                self.groups_section(),
                self.proposals_section(),
                self.cost_section(),
                self.notes_section(),
                self.settings_section(),
            ),
            footer="This page is one file. It loads nothing and sends nothing.",
        )

    def _opening_parts(self) -> tuple[PagePart, ...]:
        """The verdict, what the end of the run says, and the run in numbers."""
        report, delta = self.record.report, self.record.report.delta
        before, after = report.before, report.after
        verdict, tone, scores = self._why_unmeasured(), "plain", ""
        if delta is not None:
            verdict = delta.sentence or "no task was measured both before and after learning."
            if delta.compared:
                tone = "open" if delta.withheld else TONES[delta.verdict]
                if before is not None and after is not None:
                    scores = f" Mean reward before: {decimal(before.mean)}, after: {decimal(after.mean)}."
        if self.record.mark:
            verdict = f"{self.record.mark.capitalize()}: {verdict[:1].lower()}{verdict[1:]}"
        lines = (part for part in learn_end(report, self.record.store) if isinstance(part, tuple) and part[0] != "note")
        parts = (
            Statement(text=clipped(f"{verdict}{scores}", 2 * _WORDS), tone=tone),
            *labelled_table("The end of the run", lines),
        )
        figures = list[tuple[str, str, str]]()
        if before is not None and after is not None and delta is not None:
            change = interval(*(delta.ci or (None, None)), sign=True)
            figures += [
                ("Before", decimal(before.mean), _interval_of(before)),
                ("After", decimal(after.mean), _interval_of(after)),
                ("Difference", signed(delta.mean), change),
            ]
        lessons = len(self.record.library) if self.record.library is not None else report.library.lessons
        return (*parts, keys("The run in numbers", *figures, ("Lessons", count(lessons))))

    def _why_unmeasured(self) -> str:
        if self.record.report.pilot is not None:
            return "Nothing was measured on held-out tasks, because this was a pilot."
        if self.record.settings.get("evaluate") is False:
            return "Nothing was measured on held-out tasks, because the run was asked not to (--no-eval)."
        return "Nothing was measured on held-out tasks."

    def _result_section(self) -> Section:
        """The difference on all held-out tasks and on each part of them."""
        report, title = self.record.report, "Held-out result"
        if report.before is None or report.after is None or report.delta is None:
            return Section(title=title, parts=(Paragraph(text=self._why_unmeasured()),))
        whole = HeldOut(
            name="all held-out tasks", before=report.before, after=report.after, delta=report.delta, families=0
        )
        named = (whole, report.known_families, report.unseen_families, *report.test_sets)
        sets = [one for one in named if one is not None]
        parts: list[PagePart] = [_differences(sets)] if report.delta.compared else []
        parts.append(_scores(sets))
        if len(self.record.families) > 1:
            rows = tuple(
                DumbbellRow(
                    label=clipped(one.family or "no family", 60),
                    sub=count_words(one.tasks, "task"),
                    before=one.before,
                    after=one.after,
                )
                for one in self.record.families[:FAMILIES]
            )
            more = len(self.record.families) > len(rows)
            caption = (
                f"The first {FAMILIES} of {len(self.record.families)} families"
                if more
                else "Families of held-out tasks"
            )
            ends = {"before": "the start", "after": "the learned library"}
            parts.append(Dumbbell(caption=caption, **ends, rows=rows, row_name="family", shown=8))
        lede = "Before: the library at the start. After: the learned one. Both had the same tasks and the same seeds."
        return Section(title=title, lede=lede, parts=tuple(parts))

    def _versions_section(self) -> Section:
        """The curve by version, with the finalists and the selected one marked, and the curve by epoch."""
        report, versions = self.record.report, self.record.report.versions
        parts: list[PagePart] = []
        if (choice := report.selection) is not None:
            words = f"{_BASES[choice.basis]} {choice.reason[:1].upper()}{choice.reason[1:]}"
            if choice.tasks:
                number = f"{count_words(choice.rollouts, 'rollout')} on {count_words(choice.tasks, 'task')}"
                words += f". All versions together had {number}"
                if choice.delta is not None and choice.delta.n < choice.tasks:
                    words += f"; the selected version and the start share {choice.delta.n} of these tasks"
                words += "."
            parts.append(Note(title="Selection", text=words))
        parts.append(_estimates(versions))
        measured = [(one, one.validation) for one in versions if one.validation is not None]
        if len(measured) > 1:
            points = (score_point(one.updates, score, one.version[:8]) for one, score in measured)
            caption, names = "Score of the finalists on validation tasks", ("updates before the version", "reward")
            parts.append(one_line_chart(caption, "finalists", points, names, _OVER_FAMILIES, connected=False))
        parts.append(versions_table(versions))
        return Section(title="Versions of the library", parts=(*parts, *self._epochs()))

    def _epochs(self) -> list[PagePart]:
        report = self.record.report
        parts: list[PagePart] = []
        if report.curve:
            points, names = (score_point(one.updates, one.held_out) for one in report.curve), ("updates", "reward")
            caption = "Held-out score during learning"
            parts.append(one_line_chart(caption, "held-out tasks", points, names, _OVER_FAMILIES))
        if not report.epochs:
            return [*parts, Paragraph(text="No epoch was finished.", quiet=True)]
        if len(report.epochs) > 1:
            points, names = (Point(x=one.epoch, y=one.reward) for one in report.epochs), ("epoch", "mean reward")
            note = "Within an epoch the library changes and tasks may be skipped, so this does not compare versions."
            parts.append(
                one_line_chart("Reward while learning, by epoch", "rollouts to learn from", points, names, note)
            )
        ends = ", ".join(f"#{end.capitalize()}" for end in ENDS.values())
        rows = (
            (
                box(f"Epoch {one.epoch}"),
                *number_cells(decimal, one.reward),
                *number_cells(count, one.groups.get("mixed", 0), sum(one.groups.values()), one.lessons),
                *number_cells(count, one.applied, one.folded, one.dropped, one.rejected, one.quarantined),
                box(clock_time(one.seconds)),
            )
            for one in report.epochs
        )
        names = f"Epoch, #Reward, #Mixed groups, #Groups, #Lessons, {ends}, Time"
        note = "Applied to quarantined: ends of the proposals. Quarantined: it waits for a person's decision."
        note += f" Groups that taught, in all epochs: {report.taught.words}." if report.taught != Taught() else ""
        return [*parts, sheet("Epochs", names, rows, note)]


def versions_table(versions: Sequence[VersionLine], address: Callable[[str], str] = lambda _: "") -> Table:
    """Every version of the library on the way. address: of the page of a version."""
    names = "Version, #Updates, #Lessons, #Tokens, #Rollouts, #Mean reward, #Estimate, #Validation"
    rows: list[tuple[TableCell, ...]] = []
    for one in versions:
        score, ends = one.validation, interval(*(one.ci or (None, None)), sign=True)
        row = (
            box(one.version[:8], one.role, address(one.version), tone="good" if one.role == "selected" else "plain"),
            *number_cells(count, one.updates, one.lessons, one.tokens, one.rollouts),
            *number_cells(decimal, one.reward),
            box(signed(one.estimate), ends, value=one.estimate),
            _score(score) if score else box(DASH),
        )
        rows.append(row)
    return sheet("Every version of the run", names, rows)


def _interval_of(score: HeldOutScore) -> str:
    return interval(*(score.ci or (None, None)))


def _differences(sets: Sequence[HeldOut]) -> Forest:
    rows: list[ForestRow] = []
    for one in sets:
        delta, (low, high) = one.delta, one.delta.ci or (None, None)
        size, words = size_words(delta.n, delta.clusters or one.families), delta_verdict(delta)
        tone: Tone = "open" if delta.withheld else TONES[delta.verdict]
        rows.append(ForestRow(label=one.name, sub=size, mean=delta.mean, low=low, high=high, tone=tone, words=words))
    caption, ends = "Difference after learning, with 95 % intervals", {"left": "worse", "right": "better"}
    return Forest(caption=caption, rows=tuple(rows), row_name="tasks", **ends, limits=(-1.5, 1.5))


def _scores(sets: Sequence[HeldOut]) -> Table:
    names = "Tasks, #Before, #After, #pass@k before, #pass@k after, #Rollouts, #Failed, #Undecided"
    rows: list[tuple[TableCell, ...]] = []
    for one in sets:
        before, after = one.before, one.after
        row = (
            box(one.name, size_words(one.delta.n, one.delta.clusters or one.families)),
            _score(before),
            _score(after),
            _passes(before),
            _passes(after),
            box(count(before.rollouts + after.rollouts), f"{before.k} per task and side"),
            box(f"{before.failed} → {after.failed}", value=after.failed),
            box(f"{before.undecided} → {after.undecided}", value=after.undecided),
        )
        rows.append(row)
    note = (
        "Failed: the agent gave no usable answer, which counts as 0. Undecided: nothing is known about the answer,"
        f" so the rollout is left out before and after. {PAIRED}"
    )
    return sheet("Scores on held-out tasks", names, rows, note)


def _score(score: HeldOutScore) -> TableCell:
    return box(decimal(score.mean), _interval_of(score), value=score.mean)


def _passes(score: HeldOutScore) -> TableCell:
    largest = max((one for one in score.passes if one.at_least_one is not None), key=lambda one: one.k, default=None)
    if largest is None:
        return box(DASH)
    return box(decimal(largest.at_least_one), f"k = {largest.k}", value=largest.at_least_one)


def _estimates(versions: Sequence[VersionLine]) -> LineChart:
    def point(one: VersionLine, *, ends: bool = True) -> Point:
        low, high = one.ci if one.ci is not None and ends else (None, None)
        value = one.estimate if one.estimate is not None or one.role != "start" else 0.0
        return Point(x=one.updates, y=value, low=low, high=high, label=one.version[:8])

    series = [Series(label="each version", points=tuple(point(one) for one in versions if one.role != "empty"))]
    for role in ("empty", "finalist", "selected"):
        if chosen := tuple(point(one, ends=role == "empty") for one in versions if one.role == role):
            label = "empty library" if role == "empty" else role
            series.append(Series(label=label, points=chosen, connected=False))
    return LineChart(
        caption="Estimated difference to the start, by version",
        x_name="updates before the version",
        y_name="difference in reward",
        series=tuple(series),
        note=(
            "Estimated from the rollouts to learn from, on the same tasks; 95 % intervals. A version met only some"
            " tasks, so do not compare the plain means of versions."
        ),
    )


def score_point(x: float, score: HeldOutScore, label: str = "") -> Point:
    """A score on held-out tasks as a point of a chart."""
    low, high = score.ci or (None, None)
    return Point(x=x, y=score.mean, low=low, high=high, label=label)
