"""Checks on the result: notes, flags, missing rollouts and earlier looks."""

from agentlearn.html import Column, Note, PagePart, Section, Table, TableCell
from agentlearn.html.number_format import count, p_value
from agentlearn_evals.comparison import Comparison

MISSING_SHOWN = 200
"""Largest number of missing rollouts that is shown."""


def checks_section(comparison: Comparison) -> Section | None:
    """Return the section; None when there is nothing to report."""
    tables = (_flags(comparison), _missing(comparison), _looks(comparison))
    parts: list[PagePart] = [Note(text=text) for text in comparison.notes]
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
        caption=f"Earlier looks at these arms (this is look {comparison.look})",
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
        note="Each further look at the same arms raises the chance of a false finding. The corrected p allows for it.",
    )
