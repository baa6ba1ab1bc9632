"""The contrasts in numbers: intervals, p-values, corrections, what could have been seen, worst cases, methods."""

from agentlearn.html import Column, Forest, ForestRow, Note, PagePart, Section, Table, TableCell
from agentlearn.html.number_format import DASH, count, decimal, interval, p_value, signed
from agentlearn_evals.comparison import Comparison, Contrast
from agentlearn_evals.page.findings import TONES, WORDS, limits_of

CORRECTIONS = {
    "holm": "Adjusted p: Holm's correction for the number of arms, and for earlier looks where there were any.",
    "bh": "Adjusted p: Benjamini and Hochberg's correction for the number of arms.",
    "none": "The p-values are not corrected for the number of arms.",
}
METHODS = {
    "t": "t: Student's t over tasks.",
    "cr2": "cr2: clustered standard errors that hold at few clusters, with Satterthwaite degrees of freedom.",
    "score": "score: a score interval for paired shares.",
    "bets": "bets: holds at any time, over the means of clusters.",
}

WHAT_THEY_SHOW = (
    "Wins, losses and ties count tasks. Detectable: the smallest true difference that as many tasks and rollouts show "
    "with 80 % power. Needed: rollouts per task and arm, or tasks, that would show the difference seen."
)


def differences_section(comparison: Comparison) -> Section | None:
    """Every arm against the baseline, in numbers."""
    if not comparison.contrasts:
        return None
    tables = (_estimates(comparison), _evidence(comparison), _worst(comparison), _margins(comparison))
    parts: list[PagePart] = [table for table in tables if table is not None]
    return Section(title="Differences", parts=(*parts, *_methods(comparison)))


def _estimates(comparison: Comparison) -> Table:
    columns = ("Difference", "Standard error", "Adjusted p", "p", "Tasks", "Pairs", "Clusters")
    mcnemar = any(one.mcnemar_p is not None for one in comparison.contrasts)
    rows = tuple(
        (
            _arm(one),
            TableCell(text=signed(one.mean), sub=interval(one.low, one.high, sign=True), value=one.mean),
            TableCell(text=decimal(one.standard_error, 3), value=one.standard_error),
            TableCell(text=p_value(one.p_adjusted), value=one.p_adjusted),
            TableCell(text=p_value(one.p), value=one.p),
            *([TableCell(text=p_value(one.mcnemar_p), value=one.mcnemar_p)] if mcnemar else []),
            TableCell(text=count(one.tasks), value=one.tasks),
            TableCell(text=count(one.pairs), value=one.pairs),
            TableCell(text=count(one.clusters), value=one.clusters),
        )
        for one in comparison.contrasts
    )
    names = [*columns[:4], *(["McNemar p"] if mcnemar else []), *columns[4:]]
    return Table(
        caption=f"Arms against {comparison.baseline}",
        columns=(Column(name="Arm"), *(Column(name=name, kind="number") for name in names)),
        rows=rows,
        note=f"{CORRECTIONS[comparison.correction]} p: two-sided sign-flip test over tasks, uncorrected.",
    )


def _evidence(comparison: Comparison) -> Table | None:
    """How the interval was made and how much these data can show."""
    if not any(one.method or one.tasks or one.unsafe for one in comparison.contrasts):
        return None
    numbers = ("Wins", "Losses", "Ties", "Detectable", "Rollouts needed", "Tasks needed", "Degrees")
    rows = tuple(
        (
            _arm(one),
            TableCell(text=count(one.wins), value=one.wins),
            TableCell(text=count(one.losses), value=one.losses),
            TableCell(text=count(one.ties), value=one.ties),
            TableCell(text=decimal(one.detectable), value=one.detectable),
            TableCell(text=count(one.rollouts_needed), value=one.rollouts_needed),
            TableCell(text=count(one.tasks_needed), value=one.tasks_needed),
            TableCell(text=decimal(one.degrees, 1), value=one.degrees),
            TableCell(text=one.method or DASH),
            TableCell(text=one.unsafe or one.caution or "safe", tone="bad" if one.unsafe else "plain"),
        )
        for one in comparison.contrasts
    )
    used = {one.method for one in comparison.contrasts}
    return Table(
        caption="What these data can show",
        columns=(
            Column(name="Arm"),
            *(Column(name=name, kind="number") for name in numbers),
            Column(name="Interval"),
            Column(name="Safe to trust"),
        ),
        rows=rows,
        note=" ".join((WHAT_THEY_SHOW, *(METHODS[name] for name in METHODS if name in used))),
    )


def _worst(comparison: Comparison) -> Table | None:
    rows = tuple(
        (
            _arm(one),
            TableCell(text=signed(one.mean), value=one.mean),
            TableCell(text=signed(one.worst.low), value=one.worst.low),
            TableCell(text=signed(one.worst.high), value=one.worst.high),
        )
        for one in comparison.contrasts
        if one.worst is not None
    )
    if not rows:
        return None
    names = ("Difference", "At the least", "At the most")
    return Table(
        caption="Worst cases: whatever the undecided rollouts really were",
        columns=(Column(name="Arm"), *(Column(name=name, kind="number") for name in names)),
        rows=rows,
        note="An undecided rollout leaves its pair out of every arm; these are the differences if all of them had gone "
        "against the arm, or for it.",
    )


def _margins(comparison: Comparison) -> Table | None:
    rows = tuple(
        (
            _arm(one),
            TableCell(text=signed(-one.margin.margin), value=-one.margin.margin),
            TableCell(text=signed(one.margin.bound), value=one.margin.bound),
            TableCell(text=p_value(one.margin.p), value=one.margin.p),
            TableCell(text="kept" if one.margin.holds else "not shown", tone="held" if one.margin.holds else "open"),
        )
        for one in comparison.contrasts
        if one.margin is not None
    )
    if not rows:
        return None
    names = ("Margin", "Lower bound", "p")
    return Table(
        caption="No worse than the baseline by more than the margin?",
        columns=(Column(name="Arm"), *(Column(name=name, kind="number") for name in names), Column(name="Finding")),
        rows=rows,
        note="The bound is the one-sided 95 % lower bound of the difference; the margin was stated beforehand.",
    )


def _methods(comparison: Comparison) -> list[PagePart]:
    if not comparison.methods:
        return []
    rows = tuple(
        ForestRow(
            label=one.method,
            sub=f"{len(one.arms)} libraries: {', '.join(one.arms)}",
            mean=one.mean,
            low=one.low,
            high=one.high,
            words=f"p {p_value(one.p)}" if one.p is not None else "",
        )
        for one in comparison.methods
    )
    figure = Forest(
        caption=f"Methods against {comparison.baseline}, over the libraries they learned",
        rows=rows,
        row_name="method",
        words_name="sign-flip test",
        limits=limits_of([row.mean for row in rows]),
        left=f"{comparison.baseline} better",
        right="method better",
    )
    notes = [Note(title=one.method, text=one.note) for one in comparison.methods if one.note]
    return [figure, *notes]


def _arm(contrast: Contrast) -> TableCell:
    return TableCell(text=contrast.arm, sub=WORDS[contrast.verdict], tone=TONES[contrast.verdict])
