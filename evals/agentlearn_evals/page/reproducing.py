"""How to repeat the comparison: the command, and hashes of everything that went in."""

from collections.abc import Mapping

from agentlearn.html import CodeBlock, Column, PagePart, Section, Table, TableCell
from agentlearn_evals.comparison import Comparison


def reproducing_section(comparison: Comparison) -> Section | None:
    """Return the section; None when nothing is known."""
    facts = comparison.reproducibility
    named = (
        ("Run", "", comparison.run),
        ("Seed", "", "" if facts.seed is None else str(facts.seed)),
        ("Tasks with their answers", "", facts.data),
        *_each("Library", facts.libraries),
        *_each("Model", facts.models),
        *(("Sampling", name, value) for name, value in facts.sampling.items()),
        *(("Prompt", name, value) for name, value in facts.prompts.items()),
        ("Isolation", "", facts.isolation),
        *(("Version", name, value) for name, value in facts.versions.items()),
        *(("Log", name, value) for name, value in facts.sources.items()),
    )
    rows = tuple(
        (TableCell(text=kind), TableCell(text=name), TableCell(text=value)) for kind, name, value in named if value
    )
    parts: list[PagePart] = []
    if facts.command:
        parts.append(CodeBlock(text=facts.command))
    if rows:
        columns = (Column(name="Item"), Column(name="Name"), Column(name="Value"))
        parts.append(Table(caption="Inputs of the comparison", columns=columns, rows=rows))
    return Section(title="Reproduce", parts=tuple(parts)) if parts else None


def _each(kind: str, by_arm: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return one row per arm; one row for all arms when they have the same value."""
    if len(by_arm) > 1 and len(set(by_arm.values())) == 1:
        return [(kind, "all arms", value) for value in set(by_arm.values())]
    return [(kind, name, value) for name, value in by_arm.items()]
