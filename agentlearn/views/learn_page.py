"""The page of a learn run: the held-out result first, then the evidence for it, as one self-contained HTML file."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from agentlearn.config.command_words import command_words
from agentlearn.config.outputs import Outputs
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.files import own, own_folder, write_whole
from agentlearn.learning.report import Delta, HeldOut, HeldOutScore, Taught, VersionLine
from agentlearn.store import StoreReader, read_store
from agentlearn.types.ids import RunId
from agentlearn.views.charts import Dumbbell, DumbbellRow, Forest, ForestRow
from agentlearn.views.figure import (
    DASH,
    TONES,
    Tone,
    clock_time,
    count,
    count_words,
    decimal,
    interval,
    large,
    money,
    signed,
)
from agentlearn.views.learn_record import LearnRecord
from agentlearn.views.learn_tables import LearnTables
from agentlearn.views.lines import LineChart, Point, Series
from agentlearn.views.markup import clipped
from agentlearn.views.page import HtmlPage, PagePart, Section, render_page
from agentlearn.views.table import (
    CodeBlock,
    Column,
    KeyFigure,
    KeyFigures,
    Note,
    Paragraph,
    Statement,
    Table,
    TableCell,
    number_cells,
    number_columns,
)

FAMILIES = 60
"""Largest number of families with a row of their own."""
_WORDS = 600
"""Largest number of characters of a sentence on the page."""
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
                f" again; {show} shows it",
                code="no_page",
            )
        if not row.report:
            raise ConfigError(
                f"run {row.run!r} has no report, because it is {row.state!r}; {show} says how to go on", code="no_page"
            )
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
                self._versions_section(),
                self.calls_section(),
                self.groups_section(),
                self.proposals_section(),
                self.lessons_section(),
                self.cost_section(),
                self.notes_section(),
                self.settings_section(),
            ),
            footer="This page is one file. It loads nothing and sends nothing.",
        )

    def _opening_parts(self) -> tuple[PagePart, ...]:
        """The verdict, what became of the library, what to know before trusting it, and the run in numbers."""
        report, delta = self.record.report, self.record.report.delta
        before, after = report.before, report.after
        verdict, tone, scores = self._why_unmeasured(), "plain", ""
        if delta is not None:
            verdict = delta.sentence or "no task was measured both before and after learning."
            if not delta.sentence and delta.mean is not None:  # the report of a version that wrote no sentence
                ends = interval(*(delta.ci or (None, None)), sign=True)
                verdict = f"the difference on held-out tasks is {signed(delta.mean)} {ends}."
            if delta.compared:
                tone = "open" if delta.withheld else TONES[delta.verdict]
                if before is not None and after is not None:
                    scores = f" Mean reward before: {decimal(before.mean)}, after: {decimal(after.mean)}."
        if self.record.mark:
            verdict = f"{self.record.mark.capitalize()}: {verdict[:1].lower()}{verdict[1:]}"
        parts: list[PagePart] = [Statement(text=clipped(f"{verdict}{scores}", 2 * _WORDS), tone=tone)]
        parts += self._library_parts()
        parts += [Note(text=words, kind="warning", title="Caution") for words in _cautions(delta)]
        figures: list[KeyFigure] = []
        if before is not None and after is not None and delta is not None:
            change = interval(*(delta.ci or (None, None)), sign=True)
            figures += [
                KeyFigure(label="Before", value=decimal(before.mean), sub=_interval_of(before)),
                KeyFigure(label="After", value=decimal(after.mean), sub=_interval_of(after)),
                KeyFigure(label="Difference", value=signed(delta.mean), sub=change),
            ]
        calls = sum(stage.calls for stage in report.stages.values())
        tokens = sum(stage.tokens_in + stage.tokens_out for stage in report.stages.values())
        lessons = len(self.record.library) if self.record.library is not None else report.library.lessons
        figures += [
            KeyFigure(label="Lessons", value=count(lessons)),
            KeyFigure(label="Model calls", value=count(calls), sub=f"{large(tokens)} tokens"),
            KeyFigure(label="Cost", value=money(report.cost_usd)),
            KeyFigure(label="Time", value=clock_time(report.wall_s)),
        ]
        return (*parts, KeyFigures(caption="The run in numbers", figures=tuple(figures)))

    def _library_parts(self) -> list[PagePart]:
        """What became of the library, and why, with the command that shows or publishes it."""
        found, line = self.record.report.selection, self.record.report.library
        if found is None:
            return [Statement(text="This was a pilot, so no library was published.")]
        version, pending = f"{line.name}@{found.selected[:8]}", found.status == "pending"
        start = {
            "published": f"The library {version} is published",
            "pending": f"The library {version} is stored and waits for your decision",
            "unchanged": f"The library {line.name!r} is unchanged",
        }[found.status]
        text = clipped(f"{start}: {found.reason}", _WORDS)
        parts: list[PagePart] = [Statement(text=text, tone="open" if pending else "plain")]
        show = command_words("library", "show", f"{line.name}@{line.version[:8]}", store=self.record.store)
        if command := found.command or (show if found.status == "published" else ""):
            parts.append(CodeBlock(text=command, label="Publish it anyway" if pending else "Show its lessons"))
        return parts

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
            points = tuple(score_point(one.updates, score, one.version[:8]) for one, score in measured)
            parts.append(
                LineChart(
                    caption="Score of the finalists on validation tasks",
                    x_name="updates before the version",
                    y_name="reward",
                    series=(Series(label="finalists", points=points, connected=False),),
                    note="95 % intervals over families of tasks.",
                )
            )
        names = ("Updates", "Lessons", "Tokens", "Rollouts", "Mean reward", "Estimate", "Validation")
        rows: list[tuple[TableCell, ...]] = []
        for one in versions:
            score, ends = one.validation, interval(*(one.ci or (None, None)), sign=True)
            row = (
                TableCell(text=one.version[:8], sub=one.role, tone="good" if one.role == "selected" else "plain"),
                *number_cells(count, one.updates, one.lessons, one.tokens, one.rollouts),
                *number_cells(decimal, one.reward),
                TableCell(text=signed(one.estimate), sub=ends, value=one.estimate),
                TableCell(text=decimal(score.mean), sub=_interval_of(score), value=score.mean)
                if score
                else TableCell(text=DASH),
            )
            rows.append(row)
        columns = (Column(name="Version"), *number_columns(*names))
        parts.append(Table(caption="Every version of the run", columns=columns, rows=tuple(rows)))
        return Section(title="Versions of the library", parts=(*parts, *self._epochs()))

    def _epochs(self) -> list[PagePart]:
        report = self.record.report
        parts: list[PagePart] = []
        if report.curve:
            points = tuple(score_point(one.updates, one.held_out) for one in report.curve)
            parts.append(
                LineChart(
                    caption="Held-out score during learning",
                    x_name="updates",
                    y_name="reward",
                    series=(Series(label="held-out tasks", points=points),),
                    note="95 % intervals over families of tasks.",
                )
            )
        if not report.epochs:
            return [*parts, Paragraph(text="No epoch was finished.", quiet=True)]
        if len(report.epochs) > 1:
            points = tuple(Point(x=one.epoch, y=one.reward) for one in report.epochs)
            parts.append(
                LineChart(
                    caption="Reward while learning, by epoch",
                    x_name="epoch",
                    y_name="mean reward",
                    series=(Series(label="rollouts to learn from", points=points),),
                    note=(
                        "Within an epoch the library changes and tasks may be skipped, so this does not compare"
                        " versions."
                    ),
                )
            )
        names = ("Reward", "Mixed groups", "Groups", "Lessons", "Applied", "Folded", "Dropped", "Rejected", "Held back")
        rows = tuple(
            (
                TableCell(text=f"Epoch {one.epoch}"),
                *number_cells(decimal, one.reward),
                *number_cells(count, one.groups.get("mixed", 0), sum(one.groups.values()), one.lessons),
                *number_cells(count, one.applied, one.folded, one.dropped, one.rejected, one.quarantined),
                TableCell(text=clock_time(one.seconds)),
            )
            for one in report.epochs
        )
        table = Table(
            caption="Epochs",
            columns=(Column(name="Epoch"), *number_columns(*names), Column(name="Time")),
            rows=rows,
            note="Applied to held back: ends of the proposals. Held back: quarantined until a person decides."
            + (f" Groups that taught, in all epochs: {report.taught.words}." if report.taught != Taught() else ""),
        )
        return [*parts, table]


def _cautions(delta: Delta | None) -> list[str]:
    if delta is None:
        return []
    found = [delta.withheld, delta.caution, delta.carried]
    if delta.only_family:
        found.append(f"All held-out tasks are of the family {delta.only_family!r}. The result holds for such tasks.")
    if delta.worst is not None and delta.worst.open and not delta.left_open:
        low, high = signed(delta.worst.low), signed(delta.worst.high)
        found.append(f"Some rollouts are undecided. Whatever they would have been, the difference is {low} to {high}.")
    return list(dict.fromkeys(clipped(one, _WORDS) for one in found if one))


def _interval_of(score: HeldOutScore) -> str:
    return interval(*(score.ci or (None, None)))


def _size(one: HeldOut) -> str:
    families = one.delta.clusters or one.families
    tasks = count_words(one.delta.n, "task")
    return f"{tasks} in {count_words(families, 'family')}" if 0 < families < one.delta.n else tasks


def _differences(sets: Sequence[HeldOut]) -> Forest:
    rows: list[ForestRow] = []
    for one in sets:
        low, high = one.delta.ci or (None, None)
        tone: Tone = "open" if one.delta.withheld else TONES[one.delta.verdict]
        words = "no verdict" if one.delta.withheld else one.delta.verdict.replace("_", " ")
        row = ForestRow(label=one.name, sub=_size(one), mean=one.delta.mean, low=low, high=high, tone=tone, words=words)
        rows.append(row)
    return Forest(
        caption="Difference after learning, with 95 % intervals",
        rows=tuple(rows),
        row_name="tasks",
        left="worse",
        right="better",
        limits=(-1.5, 1.5),
    )


def _scores(sets: Sequence[HeldOut]) -> Table:
    names = ("Before", "After", "pass@k before", "pass@k after", "Rollouts", "Failed", "Undecided")
    rows: list[tuple[TableCell, ...]] = []
    for one in sets:
        before, after = one.before, one.after
        row = (
            TableCell(text=one.name, sub=_size(one)),
            TableCell(text=decimal(before.mean), sub=_interval_of(before), value=before.mean),
            TableCell(text=decimal(after.mean), sub=_interval_of(after), value=after.mean),
            _passes(before),
            _passes(after),
            TableCell(text=count(before.rollouts + after.rollouts), sub=f"{before.k} per task and side"),
            TableCell(text=f"{before.failed} → {after.failed}", value=after.failed),
            TableCell(text=f"{before.undecided} → {after.undecided}", value=after.undecided),
        )
        rows.append(row)
    return Table(
        caption="Scores on held-out tasks",
        columns=(Column(name="Tasks"), *number_columns(*names)),
        rows=tuple(rows),
        note=(
            "Failed: the agent gave no usable answer, which counts as 0. Undecided: nothing is known about the answer,"
            " so the rollout is left out before and after."
        ),
    )


def _passes(score: HeldOutScore) -> TableCell:
    largest = max((one for one in score.passes if one.at_least_one is not None), key=lambda one: one.k, default=None)
    if largest is None:
        return TableCell(text=DASH)
    return TableCell(text=decimal(largest.at_least_one), sub=f"k = {largest.k}", value=largest.at_least_one)


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
