"""How the library changed during a run: the estimate of each version, validation scores, and rewards by epoch."""

from collections.abc import Callable, Sequence

from agentlearn.cli.pages.learn_record import LearnRecord
from agentlearn.cli.words import clock_time, count_words
from agentlearn.html import (
    Column,
    LineChart,
    Note,
    PagePart,
    Paragraph,
    Point,
    Section,
    Series,
    Table,
    TableCell,
)
from agentlearn.html.number_format import DASH, count, decimal, interval, signed
from agentlearn.learning.report import HeldOutScore, VersionLine

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
    parts += [_estimates(report.versions), *_validation(report.versions), _table(report.versions)]
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


def _table(versions: Sequence[VersionLine]) -> Table:
    numbers = ("Updates", "Lessons", "Tokens", "Rollouts", "Mean reward", "Estimate", "Validation")
    return Table(
        caption="Every version of the run",
        columns=(Column(name="Version"), *(Column(name=name, kind="number") for name in numbers)),
        rows=tuple(_row(one) for one in versions),
    )


def _row(one: VersionLine) -> tuple[TableCell, ...]:
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
