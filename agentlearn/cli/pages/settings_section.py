"""How to repeat a run: the command, what went in, and all its settings."""

import json

from agentlearn.cli.pages.learn_record import LearnRecord
from agentlearn.cli.pages.run_command import run_command
from agentlearn.html import CodeBlock, Column, Details, PagePart, Paragraph, Section, Table, TableCell
from agentlearn.html.markup import clipped, shown

_LONGEST = 20_000
"""Largest number of characters of the settings that are shown."""
_VALUE = 300


def settings_section(record: LearnRecord) -> Section:
    """The command, the seed, versions and hashes, and the settings."""
    command = run_command(record.row, record.start)
    given = record.settings.get("given")
    parts: list[PagePart] = []
    if command:
        parts.append(CodeBlock(text=command, label="The same run again"))
    elif given:
        names = ", ".join(str(one) for one in given) if isinstance(given, list) else str(given)
        parts.append(Paragraph(text=f"A program started this run and gave it objects of its own: {names}."))
    parts.append(_inputs(record))
    settings = clipped(shown(json.dumps(record.settings, indent=2, ensure_ascii=False)), _LONGEST)
    parts.append(Details(summary="All settings", parts=(CodeBlock(text=settings),)))
    return Section(title="Settings and reproduction", parts=tuple(parts))


def _inputs(record: LearnRecord) -> Table:
    row, report = record.row, record.report
    answered = [(f"Model that answered as {one.name}", ", ".join(one.models)) for one in report.services]
    prompts = {ref.label: ref.sha256 for one in record.proposals for ref in one.ended.proposal.prompts}
    named = [
        ("Run", row.run),
        ("State", row.state),
        ("Started", f"{row.started_at:%Y-%m-%d %H:%M:%S}"),
        ("agentlearn-lib", row.package_version),
        ("Domain", row.domain),
        ("Model", f"{row.model}{' (simulated)' if row.simulated else ''}"),
        ("Model that writes lessons", report.reflector),
        *answered,
        ("Weights", f"{report.weights.identity}: {report.weights.note}".rstrip(": ")),
        ("Weights before (sha256)", report.weights.sha256_before or ""),
        ("Weights after (sha256)", report.weights.sha256_after or ""),
        ("Seed", f"{report.seed}"),
        *((f"Tasks ({name})", f"{number:,}") for name, number in report.tasks.items()),
        ("Library at the start", record.start or ""),
        ("Library at the end", record.library.version if record.library is not None else report.library.version),
        *((f"Prompt {label}", sha256) for label, sha256 in sorted(prompts.items())),
    ]
    rows = tuple(
        (TableCell(text=clipped(shown(name), _VALUE)), TableCell(text=clipped(shown(value), _VALUE)))
        for name, value in named
        if value
    )
    return Table(caption="What went in", columns=(Column(name="Item"), Column(name="Value")), rows=rows)
