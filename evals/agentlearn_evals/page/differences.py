"""The differences in numbers: intervals, p-values, corrections, detectable differences, bounds, margins and methods."""

from agentlearn.measure.contrast import Contrast
from agentlearn.views import Column, Forest, ForestRow, Note, PagePart, Section, Table, TableCell
from agentlearn.views.figure import DASH, count, decimal, interval, p_value, signed
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.contrast_words import assumptions, bounds_words
from agentlearn_evals.page.findings import TONES, WORDS, scale_limits

CORRECTIONS = {
    "holm": "Corrected p: corrected for the number of contrasts (Holm) and for earlier looks if any.",
    "bh": "Corrected p: corrected for the number of contrasts (Benjamini and Hochberg) and for earlier looks if any.",
    "none": "Corrected p: corrected for earlier looks if any, but not for the number of contrasts.",
}
P_NOTE = (
    "p: two-sided sign-flip test, uncorrected. It asks how often random signs of the differences of tasks, or "
    "of clusters, give a mean difference at least this large."
)
SEQUENTIAL_P_NOTE = "p: valid at any time during a sequential comparison, uncorrected for the number of contrasts."
PAIRS_NOTE = (
    "Pairs: rollouts of both arms with the same task and index. Clusters: groups of tasks with a common source, whose "
    "errors are not independent. Bounds: the difference if all undecided or missing rollouts had gone against the arm, "
    "or in its favour."
)
METHODS = {
    "t": "t: Student's t over tasks.",
    "cr2": "cr2: clustered standard errors for few clusters (CR2), with Satterthwaite's degrees of freedom.",
    "score": "score: a score interval, for tasks of which most tie.",
    "bets": "bets: valid at any time during a sequential comparison, over the means of clusters.",
}

COLUMN_NOTE = (
    "Wins, losses and ties count tasks. Detectable: the smallest true difference that this many tasks and rollouts "
    "detect with 80 % power. Needed: rollouts per task and arm, or tasks, to detect the observed difference. "
    "Degrees: degrees of freedom of the interval."
)


def differences_section(comparison: Comparison) -> Section | None:
    """Return the section that compares the arms in numbers."""
    if not comparison.contrasts:
        return None
    tables = (_estimates(comparison), _evidence(comparison), _margins(comparison))
    parts: list[PagePart] = [table for table in tables if table is not None]
    return Section(title="Differences", parts=(*parts, *_methods(comparison)))


def _estimates(comparison: Comparison) -> Table:
    columns = ("Difference", "Bounds", "Standard error", "Corrected p", "p", "Tasks", "Pairs", "Clusters")
    means = any(one.p_mean is not None for one in comparison.contrasts)
    mcnemar = any(one.mcnemar_p is not None for one in comparison.contrasts)
    rows = tuple(
        (
            _arm(comparison, one),
            TableCell(text=signed(one.mean), sub=interval(one.low, one.high, sign=True), value=one.mean),
            TableCell(text=bounds_words(comparison, one).replace("-", "−") or DASH),
            TableCell(text=decimal(one.standard_error, 3), value=one.standard_error),
            TableCell(text=p_value(one.p_adjusted), value=one.p_adjusted),
            TableCell(text=p_value(one.p), value=one.p),
            *([TableCell(text=p_value(one.p_mean), value=one.p_mean)] if means else []),
            *([TableCell(text=p_value(one.mcnemar_p), value=one.mcnemar_p)] if mcnemar else []),
            TableCell(text=count(one.tasks), value=one.tasks),
            TableCell(text=count(one.pairs), value=one.pairs),
            TableCell(text=count(one.clusters), value=one.clusters),
        )
        for one in comparison.contrasts
    )
    p_note = SEQUENTIAL_P_NOTE if comparison.sequential else P_NOTE
    names = [*columns[:5], *["p_mean"] * means, *["McNemar p"] * mcnemar, *columns[5:]]
    return Table(
        caption="Pairs of arms" if comparison.pairwise else f"Arms compared with {comparison.baseline}",
        columns=(Column(name="Arm"), *(Column(name=name, kind="number") for name in names)),
        rows=rows,
        note=" ".join((p_note, *_sentences(assumptions(comparison)), CORRECTIONS[comparison.correction], PAIRS_NOTE)),
    )


def _evidence(comparison: Comparison) -> Table | None:
    """Return how the intervals were computed and which differences they can detect."""
    if not any(one.method or one.tasks or one.unsafe for one in comparison.contrasts):
        return None
    numbers = ("Wins", "Losses", "Ties", "Detectable", "Rollouts needed", "Tasks needed", "Degrees")
    rows = tuple(
        (
            _arm(comparison, one),
            TableCell(text=count(one.wins), value=one.wins),
            TableCell(text=count(one.losses), value=one.losses),
            TableCell(text=count(one.ties), value=one.ties),
            TableCell(text=decimal(one.detectable), value=one.detectable),
            TableCell(text=count(one.rollouts_needed), value=one.rollouts_needed),
            TableCell(text=count(one.tasks_needed), value=one.tasks_needed),
            TableCell(text=decimal(one.degrees, 1), value=one.degrees),
            TableCell(text=one.method or DASH),
        )
        for one in comparison.contrasts
    )
    used = {one.method for one in comparison.contrasts}
    return Table(
        caption="What this comparison can detect",
        columns=(
            Column(name="Arm"),
            *(Column(name=name, kind="number") for name in numbers),
            Column(name="Interval method"),
        ),
        rows=rows,
        note=" ".join((COLUMN_NOTE, *(METHODS[name] for name in METHODS if name in used))),
    )


def _margins(comparison: Comparison) -> Table | None:
    rows = tuple(
        (
            _arm(comparison, one),
            TableCell(text=signed(-one.margin.margin), value=-one.margin.margin),
            TableCell(text=signed(one.margin.bound), value=one.margin.bound),
            TableCell(text=p_value(one.margin.p), value=one.margin.p),
            TableCell(text="shown" if one.margin.holds else "not shown", tone="held" if one.margin.holds else "open"),
        )
        for one in comparison.contrasts
        if one.margin is not None
    )
    if not rows:
        return None
    names = ("Margin", "Lower bound", "p")
    return Table(
        caption="Test: the arm is not worse than the baseline by more than the margin",
        columns=(Column(name="Arm"), *(Column(name=name, kind="number") for name in names), Column(name="Finding")),
        rows=rows,
        note="Lower bound: one-sided 95 % bound of the difference. The margin was stated beforehand.",
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
        caption=f"Methods compared with {comparison.baseline}, over the libraries that they learned",
        rows=rows,
        row_name="method",
        words_name="sign-flip test",
        limits=scale_limits([row.mean for row in rows]),
        left=f"{comparison.baseline} better",
        right="method better",
    )
    notes = [Note(title=one.method, text=one.note) for one in comparison.methods if one.note]
    return [figure, *notes]


def _sentences(lines: list[str]) -> list[str]:
    return [f"{line.rstrip('.')}." for line in lines]


def _arm(comparison: Comparison, contrast: Contrast) -> TableCell:
    return TableCell(text=comparison.label(contrast), sub=WORDS[contrast.verdict], tone=TONES[contrast.verdict])
