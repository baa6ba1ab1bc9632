"""Checks on the result: notes, flags, drift checks, missing rollouts and earlier looks."""

from agentlearn.html import Column, Note, PagePart, Section, Table, TableCell
from agentlearn.html.number_format import count, decimal, p_value
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.contrast_words import drift_words

MISSING_SHOWN = 200
"""Largest number of missing rollouts that is shown."""


def checks_section(comparison: Comparison) -> Section | None:
    """Return the section; None when there is nothing to report."""
    tables = (_flags(comparison), _drift_checks(comparison), _missing(comparison), _looks(comparison))
    parts: list[PagePart] = [Note(text=text) for text in comparison.notes if text not in drift_words(comparison)]
    if comparison.sequential:
        parts.append(Note(title="Sequential", text=comparison.sequential))
    parts += [table for table in tables if table is not None]
    return Section(title="Checks", parts=tuple(parts)) if parts else None


def _flags(comparison: Comparison) -> Table | None:
    if not comparison.flags:
        return None
    return Table(
        caption="Flags: reasons not to trust a score",
        columns=(Column(name="Arm"), Column(name="Code"), Column(name="Why")),
        rows=tuple(
            (TableCell(text=one.arm), TableCell(text=one.code), TableCell(text=one.words)) for one in comparison.flags
        ),
    )


def _drift_checks(comparison: Comparison) -> Table | None:
    if not comparison.sentinels:
        return None
    numbers = ("Rollouts", "Then", "Now", "p")
    return Table(
        caption="Drift checks: does the service still answer as it did?",
        columns=(Column(name="Arm"), *(Column(name=name, kind="number") for name in numbers), Column(name="Finding")),
        rows=tuple(
            (
                TableCell(text=one.arm),
                TableCell(text=count(one.rollouts), value=one.rollouts),
                TableCell(text=decimal(one.then), value=one.then),
                TableCell(text=decimal(one.now), value=one.now),
                TableCell(text=p_value(one.p), value=one.p),
                TableCell(
                    text=one.words or ("drifted" if one.drifted else "no drift seen"),
                    tone="bad" if one.drifted else "plain",
                ),
            )
            for one in comparison.sentinels
        ),
        note="Some reused rollouts were repeated with the same tasks, seeds and indexes. Then and now: mean scores.",
    )


def _missing(comparison: Comparison) -> Table | None:
    if not comparison.missing:
        return None
    more = len(comparison.missing) - MISSING_SHOWN
    return Table(
        caption=f"Missing rollouts: {len(comparison.missing):,}",
        columns=(Column(name="Task"), Column(name="Arm"), Column(name="Reason")),
        rows=tuple(
            (TableCell(text=one.task), TableCell(text=one.arm), TableCell(text=one.reason))
            for one in comparison.missing[:MISSING_SHOWN]
        ),
        note=f"{more:,} more are in the JSON of this comparison." if more > 0 else "",
    )


def _looks(comparison: Comparison) -> Table | None:
    if not comparison.looks:
        return None
    return Table(
        caption=f"Earlier looks at these data (this is look {comparison.look})",
        columns=(
            Column(name="Run"),
            Column(name="When"),
            Column(name="Pairs", kind="number"),
            Column(name="p", kind="number"),
        ),
        rows=tuple(
            (
                TableCell(text=one.run),
                TableCell(text=one.at),
                TableCell(text=count(one.pairs), value=one.pairs),
                TableCell(text=p_value(one.p), value=one.p),
            )
            for one in comparison.looks
        ),
        note="Each further look at growing data raises the chance of a false finding. The corrected p allows for this.",
    )
