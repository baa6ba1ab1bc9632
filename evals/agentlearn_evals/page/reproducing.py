"""What another person needs to see the same."""

from collections.abc import Mapping

from agentlearn.html import CodeBlock, Column, PagePart, Section, Table, TableCell
from agentlearn_evals.comparison import Comparison


def reproducing_section(comparison: Comparison) -> Section | None:
    """The command, and the identity of everything that went in."""
    block = comparison.reproducibility
    named = (
        ("Run", "", comparison.run),
        ("Seed", "", "" if block.seed is None else str(block.seed)),
        ("Tasks with their answers", "", block.data),
        *_each("Library", block.libraries),
        *_each("Model", block.models),
        *(("Sampling", name, value) for name, value in block.sampling.items()),
        *(("Prompt", name, value) for name, value in block.prompts.items()),
        ("Isolation", "", block.isolation),
        *(("Version", name, value) for name, value in block.versions.items()),
        *(("Log", name, value) for name, value in block.sources.items()),
    )
    rows = tuple(
        (TableCell(text=kind), TableCell(text=name), TableCell(text=value)) for kind, name, value in named if value
    )
    parts: list[PagePart] = []
    if block.command:
        parts.append(CodeBlock(text=block.command))
    if rows:
        columns = (Column(name="What"), Column(name="Of"), Column(name="Value"))
        parts.append(Table(caption="What went in", columns=columns, rows=rows))
    return Section(title="Reproduce", parts=tuple(parts)) if parts else None


def _each(kind: str, by_arm: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """A row for each arm; one for all of them where they have the same."""
    if len(by_arm) > 1 and len(set(by_arm.values())) == 1:
        return [(kind, "all arms", value) for value in set(by_arm.values())]
    return [(kind, name, value) for name, value in by_arm.items()]
