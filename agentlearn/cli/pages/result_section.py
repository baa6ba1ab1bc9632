"""The result of a learn run: the verdict on held-out tasks, what became of the library, and the parts of the result."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from agentlearn.cli.output import clock_time, count_words
from agentlearn.cli.pages.learn_record import LearnRecord
from agentlearn.config.command_words import command_words
from agentlearn.learning.report import Delta, HeldOut, HeldOutScore, VersionLine
from agentlearn.measure.contrast import ContrastVerdict
from agentlearn.views import (
    CodeBlock,
    Column,
    Dumbbell,
    DumbbellRow,
    Forest,
    ForestRow,
    KeyFigure,
    KeyFigures,
    LineChart,
    Note,
    PagePart,
    Paragraph,
    Point,
    Section,
    Series,
    Statement,
    Table,
    TableCell,
    Tone,
)
from agentlearn.views.figure import DASH, count, decimal, interval, large, money, signed
from agentlearn.views.markup import clipped

TONES: dict[ContrastVerdict, Tone] = {"better": "good", "worse": "bad", "no_worse": "held", "cannot_tell": "open"}
FAMILIES = 60
"""Largest number of families with a row of their own."""
_WORDS = 600
"""Largest number of characters of a sentence on the page."""


class Fate(NamedTuple):
    """What became of the library that a run learned."""

    status: Literal["published", "pending", "unchanged", "pilot", "unknown"]
    sentence: str
    command: str
    """The command that shows or publishes it; empty for none."""


def opening_parts(record: LearnRecord) -> tuple[PagePart, ...]:
    """The verdict, what became of the library, what to know before trusting it, and the run in numbers."""
    fate = library_fate(record)
    tone: Tone = "open" if fate.status == "pending" else "plain"
    parts: list[PagePart] = [_verdict(record), Statement(text=clipped(fate.sentence, _WORDS), tone=tone)]
    if fate.command:
        label = "Publish it anyway" if fate.status == "pending" else "Show its lessons"
        parts.append(CodeBlock(text=fate.command, label=label))
    parts += [Note(text=words, kind="warning", title="Caution") for words in _cautions(record.report.delta)]
    return (*parts, _figures(record))


def result_section(record: LearnRecord) -> Section:
    """The difference on all held-out tasks and on each part of them."""
    report = record.report
    lede = "Before: the library at the start. After: the learned one. Both had the same tasks and the same seeds."
    if report.before is None or report.after is None or report.delta is None:
        return Section(title="Held-out result", parts=(Paragraph(text=_why_unmeasured(record)),))
    whole = HeldOut(name="all held-out tasks", before=report.before, after=report.after, delta=report.delta, families=0)
    named = (report.known_families, report.unseen_families, *report.test_sets)
    sets = [whole, *(one for one in named if one is not None)]
    parts: list[PagePart] = []
    if report.delta.compared:
        parts.append(_forest(sets))
    parts.append(_table(sets))
    if len(record.families) > 1:
        parts.append(_families(record))
    return Section(title="Held-out result", lede=lede, parts=tuple(parts))


def library_fate(record: LearnRecord) -> Fate:
    """What became of the library, and why."""
    found, line = record.report.selection, record.report.library
    if found is None:
        return Fate("pilot", "This was a pilot, so no library was published.", "")
    version = f"{line.name}@{found.selected[:8]}"
    start = {
        "published": f"The library {version} is published",
        "pending": f"The library {version} is stored and waits for your decision",
        "unchanged": f"The library {line.name!r} is unchanged",
    }[found.status]
    show = command_words("library", "show", f"{line.name}@{line.version[:8]}", store=record.store)
    command = found.command or (show if found.status == "published" else "")
    return Fate(found.status, f"{start}: {found.reason}", command)


def _verdict(record: LearnRecord) -> Statement:
    report, delta = record.report, record.report.delta
    words = _why_unmeasured(record) if delta is None else delta.sentence or _numbers(delta)
    start = f"{record.mark.capitalize()}: {words[:1].lower()}{words[1:]}" if record.mark else words
    tone: Tone = "plain"
    if delta is not None and delta.compared:
        tone = "open" if delta.withheld else TONES[delta.verdict]
    scores = ""
    if report.before is not None and report.after is not None and delta is not None and delta.compared:
        scores = f" Mean reward before: {decimal(report.before.mean)}, after: {decimal(report.after.mean)}."
    return Statement(text=clipped(f"{start}{scores}", 2 * _WORDS), tone=tone)


def _numbers(delta: Delta) -> str:
    """The difference in words, for a report of a version that wrote no sentence."""
    if delta.mean is None:
        return "no task was measured both before and after learning."
    low, high = delta.ci or (None, None)
    return f"the difference on held-out tasks is {signed(delta.mean)} {interval(low, high, sign=True)}."


def _why_unmeasured(record: LearnRecord) -> str:
    if record.report.pilot is not None:
        return "Nothing was measured on held-out tasks, because this was a pilot."
    if record.settings.get("evaluate") is False:
        return "Nothing was measured on held-out tasks, because the run was asked not to (--no-eval)."
    return "Nothing was measured on held-out tasks."


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


def _figures(record: LearnRecord) -> KeyFigures:
    report = record.report
    figures: list[KeyFigure] = []
    if report.before is not None and report.after is not None and report.delta is not None:
        low, high = report.delta.ci or (None, None)
        figures += [
            KeyFigure(label="Before", value=decimal(report.before.mean), sub=_interval_of(report.before)),
            KeyFigure(label="After", value=decimal(report.after.mean), sub=_interval_of(report.after)),
            KeyFigure(label="Difference", value=signed(report.delta.mean), sub=interval(low, high, sign=True)),
        ]
    calls = sum(stage.calls for stage in report.stages.values())
    tokens = sum(stage.tokens_in + stage.tokens_out for stage in report.stages.values())
    lessons = len(record.library) if record.library is not None else report.library.lessons
    figures += [
        KeyFigure(label="Lessons", value=count(lessons)),
        KeyFigure(label="Model calls", value=count(calls), sub=f"{large(tokens)} tokens"),
        KeyFigure(label="Cost", value=money(report.cost_usd)),
        KeyFigure(label="Time", value=clock_time(report.wall_s)),
    ]
    return KeyFigures(caption="The run in numbers", figures=tuple(figures))


def _interval_of(score: HeldOutScore) -> str:
    low, high = score.ci or (None, None)
    return interval(low, high)


def _forest(sets: list[HeldOut]) -> Forest:
    rows = tuple(
        ForestRow(
            label=one.name,
            sub=_size(one),
            mean=one.delta.mean,
            low=one.delta.ci[0] if one.delta.ci else None,
            high=one.delta.ci[1] if one.delta.ci else None,
            tone="open" if one.delta.withheld else TONES[one.delta.verdict],
            words="no verdict" if one.delta.withheld else one.delta.verdict.replace("_", " "),
        )
        for one in sets
    )
    return Forest(
        caption="Difference after learning, with 95 % intervals",
        rows=rows,
        row_name="tasks",
        left="worse",
        right="better",
        limits=(-1.5, 1.5),
    )


def _size(one: HeldOut) -> str:
    families = one.delta.clusters or one.families
    tasks = count_words(one.delta.n, "task")
    return f"{tasks} in {count_words(families, 'family')}" if 0 < families < one.delta.n else tasks


def _table(sets: list[HeldOut]) -> Table:
    numbers = ("Before", "After", "pass@k before", "pass@k after", "Rollouts", "Failed", "Undecided")
    return Table(
        caption="Scores on held-out tasks",
        columns=(Column(name="Tasks"), *(Column(name=name, kind="number") for name in numbers)),
        rows=tuple(_row(one) for one in sets),
        note=(
            "Failed: the agent gave no usable answer, which counts as 0. Undecided: nothing is known about the answer,"
            " so the rollout is left out before and after."
        ),
    )


def _row(one: HeldOut) -> tuple[TableCell, ...]:
    before, after = one.before, one.after
    return (
        TableCell(text=one.name, sub=_size(one)),
        TableCell(text=decimal(before.mean), sub=_interval_of(before), value=before.mean),
        TableCell(text=decimal(after.mean), sub=_interval_of(after), value=after.mean),
        _passes(before),
        _passes(after),
        TableCell(text=count(before.rollouts + after.rollouts), sub=f"{before.k} per task and side"),
        TableCell(text=f"{before.failed} → {after.failed}", value=after.failed),
        TableCell(text=f"{before.undecided} → {after.undecided}", value=after.undecided),
    )


def _passes(score: HeldOutScore) -> TableCell:
    largest = max((one for one in score.passes if one.at_least_one is not None), key=lambda one: one.k, default=None)
    if largest is None:
        return TableCell(text=DASH)
    return TableCell(text=decimal(largest.at_least_one), sub=f"k = {largest.k}", value=largest.at_least_one)


def _families(record: LearnRecord) -> Dumbbell:
    rows = tuple(
        DumbbellRow(
            label=clipped(one.family or "no family", 60),
            sub=count_words(one.tasks, "task"),
            before=one.before,
            after=one.after,
        )
        for one in record.families[:FAMILIES]
    )
    more = len(record.families) - len(rows)
    caption = f"The first {FAMILIES} of {len(record.families)} families" if more else "Families of held-out tasks"
    return Dumbbell(
        caption=caption, before="the start", after="the learned library", rows=rows, row_name="family", shown=8
    )


_BASES = {
    "validation": "The finalists were compared on validation tasks.",
    "rollouts": "The rollouts to learn from decided.",
    "last": "The last version was taken.",
}


def versions_section(record: LearnRecord) -> Section:
    """The curve by version, with the finalists and the selected one marked, and the curve by epoch."""
    report = record.report
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
    parts += [_estimates(report.versions), *_validation(report.versions), _versions_table(report.versions)]
    parts += _epochs(record)
    return Section(title="Versions of the library", parts=tuple(parts))


def _estimates(versions: Sequence[VersionLine]) -> LineChart:
    line = [one for one in versions if one.role != "empty"]
    marked: list[tuple[str, Callable[[VersionLine], bool]]] = [
        ("empty library", lambda one: one.role == "empty"),
        ("finalist", lambda one: one.role == "finalist"),
        ("selected", lambda one: one.role == "selected"),
    ]
    series = [Series(label="each version", points=tuple(_estimate(one) for one in line))]
    for label, belongs in marked:
        chosen = tuple(_estimate(one, ends=one.role == "empty") for one in versions if belongs(one))
        if chosen:
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


def _estimate(one: VersionLine, *, ends: bool = True) -> Point:
    low, high = one.ci if one.ci is not None and ends else (None, None)
    value = one.estimate if one.estimate is not None or one.role != "start" else 0.0
    return Point(x=one.updates, y=value, low=low, high=high, label=one.version[:8])


def _validation(versions: Sequence[VersionLine]) -> list[PagePart]:
    measured = [(one, one.validation) for one in versions if one.validation is not None]
    if len(measured) < 2:
        return []
    points = tuple(_score_point(one.updates, score, one.version[:8]) for one, score in measured)
    return [
        LineChart(
            caption="Score of the finalists on validation tasks",
            x_name="updates before the version",
            y_name="reward",
            series=(Series(label="finalists", points=points, connected=False),),
            note="95 % intervals over families of tasks.",
        )
    ]


def _score_point(x: float, score: HeldOutScore, label: str = "") -> Point:
    low, high = score.ci or (None, None)
    return Point(x=x, y=score.mean, low=low, high=high, label=label)


def _versions_table(versions: Sequence[VersionLine]) -> Table:
    numbers = ("Updates", "Lessons", "Tokens", "Rollouts", "Mean reward", "Estimate", "Validation")
    return Table(
        caption="Every version of the run",
        columns=(Column(name="Version"), *(Column(name=name, kind="number") for name in numbers)),
        rows=tuple(_versions_row(one) for one in versions),
    )


def _versions_row(one: VersionLine) -> tuple[TableCell, ...]:
    low, high = one.ci or (None, None)
    score = one.validation
    ends = interval(*score.ci) if score is not None and score.ci is not None else ""
    return (
        TableCell(text=one.version[:8], sub=one.role, tone="good" if one.role == "selected" else "plain"),
        TableCell(text=count(one.updates), value=one.updates),
        TableCell(text=count(one.lessons), value=one.lessons),
        TableCell(text=count(one.tokens), value=one.tokens),
        TableCell(text=count(one.rollouts), value=one.rollouts),
        TableCell(text=decimal(one.reward), value=one.reward),
        TableCell(text=signed(one.estimate), sub=interval(low, high, sign=True), value=one.estimate),
        TableCell(text=decimal(score.mean), sub=ends, value=score.mean) if score else TableCell(text=DASH),
    )


def _epochs(record: LearnRecord) -> list[PagePart]:
    report = record.report
    parts: list[PagePart] = []
    if report.curve:
        points = tuple(_score_point(one.updates, one.held_out) for one in report.curve)
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
        parts.append(Paragraph(text="No epoch was finished.", quiet=True))
        return parts
    if len(report.epochs) > 1:
        points = tuple(Point(x=one.epoch, y=one.reward) for one in report.epochs)
        parts.append(
            LineChart(
                caption="Reward while learning, by epoch",
                x_name="epoch",
                y_name="mean reward",
                series=(Series(label="rollouts to learn from", points=points),),
                note="Within an epoch the library changes and tasks may be skipped, so this does not compare versions.",
            )
        )
    numbers = ("Reward", "Mixed groups", "Groups", "Lessons", "Applied", "Folded", "Dropped", "Rejected", "Held back")
    parts.append(
        Table(
            caption="Epochs",
            columns=(
                Column(name="Epoch"),
                *(Column(name=name, kind="number") for name in numbers),
                Column(name="Time"),
            ),
            rows=tuple(
                (
                    TableCell(text=f"Epoch {one.epoch}"),
                    TableCell(text=decimal(one.reward), value=one.reward),
                    TableCell(text=count(one.groups.get("mixed", 0))),
                    TableCell(text=count(sum(one.groups.values()))),
                    *(
                        TableCell(text=count(number))
                        for number in (one.lessons, one.applied, one.folded, one.dropped, one.rejected, one.quarantined)
                    ),
                    TableCell(text=clock_time(one.seconds)),
                )
                for one in report.epochs
            ),
            note="Applied to held back: ends of the proposals. Held back: quarantined until a person decides.",
        )
    )
    return parts
