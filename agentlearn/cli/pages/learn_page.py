"""The page of a learn run: the held-out result first, then the evidence for it, as one self-contained HTML file."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from agentlearn.cli.output import count_words
from agentlearn.cli.pages.group_sections import calls_section, cost_section, groups_section, lessons_section
from agentlearn.cli.pages.learn_record import EPOCH, LearnRecord, run_command
from agentlearn.cli.pages.result_section import opening_parts, result_section, versions_section
from agentlearn.cli.show.words import one_line
from agentlearn.config.command_words import command_words
from agentlearn.config.outputs import Outputs
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.files import own, own_folder, write_whole
from agentlearn.store import ProposalRow
from agentlearn.types.ids import ExperienceId, ProposalId, RunId
from agentlearn.types.operation import (
    Add,
    Applied,
    Delete,
    Dropped,
    Folded,
    Merge,
    Modify,
    Proposal,
    Quarantined,
    Rejected,
)
from agentlearn.views import (
    CodeBlock,
    Column,
    Details,
    HtmlPage,
    KeyFigure,
    KeyFigures,
    Note,
    PagePart,
    Paragraph,
    Section,
    Table,
    TableCell,
    Tone,
    render_page,
)
from agentlearn.views.figure import count
from agentlearn.views.markup import clipped, shown

if TYPE_CHECKING:
    from agentlearn.store import RunRow, StoreReader

MOST_NOTES = 100
"""Largest number of notes on the page."""
_NOTES_LONGEST = 1_500
_ALARMS = ("held-out tasks got worse", "reward fell", "warning")
"""How notes start that are shown as warnings."""


def notes_section(record: LearnRecord) -> Section:
    """The notes of the report, then a table of everything that failed."""
    report = record.report
    parts: list[PagePart] = [
        Note(text=clipped(shown(note), _NOTES_LONGEST), kind="warning" if note.startswith(_ALARMS) else "note")
        for note in report.notes[:MOST_NOTES]
    ]
    if (more := len(report.notes) - MOST_NOTES) > 0:
        parts.append(Paragraph(text=f"{more:,} more notes are in the report of the run."))
    parts += _failures(record)
    if not parts:
        parts.append(Paragraph(text="There is nothing to note, and nothing failed."))
    return Section(title="Notes and failures", parts=tuple(parts))


def _failures(record: LearnRecord) -> list[PagePart]:
    report = record.report
    counts: list[tuple[str, Mapping[str, int]]] = [
        (f"rollouts {side}", score.errors)
        for side, score in (("before", report.before), ("after", report.after))
        if score is not None
    ]
    outcomes = {name: number for name, number in report.rollouts.items() if name != "ok"}
    counts += [("all rollouts", outcomes), ("requests without an answer", report.failed_requests)]
    counts += [(f"replies of {stage}", line.malformed) for stage, line in report.stages.items()]
    counts += [(f"proposals {end}", codes) for end, codes in _ends(record).items()]
    rows = tuple(_rows(counts))
    if not rows:
        return []
    return [
        Table(
            caption="Failures and refusals by code",
            columns=(Column(name="Code"), Column(name="What", choices=True), Column(name="Number", kind="number")),
            rows=rows,
        )
    ]


def _ends(record: LearnRecord) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {"rejected": Counter(), "dropped": Counter(), "quarantined": Counter()}
    for row in record.proposals:
        match row.ended.end:
            case Rejected(code=code) | Quarantined(code=code):
                found[row.ended.end.end][code] += 1
            case Dropped(reason=reason):
                found["dropped"][reason] += 1
            case _:
                pass
    return found


def _rows(counts: Iterable[tuple[str, Mapping[str, int]]]) -> Iterable[tuple[TableCell, ...]]:
    for what, codes in counts:
        for code, number in sorted(codes.items(), key=lambda one: -one[1])[:MOST_NOTES]:
            if number:
                yield (
                    TableCell(text=clipped(shown(code), 200)),
                    TableCell(text=what),
                    TableCell(text=count(number), value=number),
                )


MOST_PROPOSALS = 3_000
"""Largest number of proposals on the page. Applied ones come first."""
_TEXT = 420
"""Characters of a text that are shown. A lesson has at most 400."""
_TASK = 44
"""Characters of a problem that are shown."""
_ENDS = ("applied", "folded", "dropped", "rejected", "quarantined")
_TONES: dict[str, Tone] = {"applied": "good", "rejected": "bad", "quarantined": "open"}


@dataclass(frozen=True, slots=True)
class _Known:
    """What the rows name beyond themselves."""

    proposals: Mapping[tuple[str, int, ProposalId], ProposalRow]
    lessons: Mapping[ExperienceId, str]


def proposals_section(record: LearnRecord) -> Section:
    """A table of the proposals, which can be filtered by epoch, stage, operation and end."""
    if not record.proposals:
        return Section(title="Proposals", parts=(Paragraph(text="The run made no proposal."),))
    ends = Counter(row.ended.end.end for row in record.proposals)
    figures = tuple(KeyFigure(label=end.capitalize(), value=f"{ends[end]:,}") for end in _ENDS if ends[end])
    known = _Known({(row.phase, row.batch, row.ended.proposal.id): row for row in record.proposals}, record.lessons)
    kept = record.proposals
    parts: list[PagePart] = [KeyFigures(caption="Ends of the proposals", figures=figures)]
    if len(kept) > MOST_PROPOSALS:
        kept = tuple(sorted(kept, key=lambda row: row.ended.end.end != "applied")[:MOST_PROPOSALS])
        more, show = len(record.proposals) - MOST_PROPOSALS, command_words("trace", record.row.run, store=record.store)
        parts.append(Paragraph(text=f"{more:,} proposals are not on this page; {show} leads to all of them."))
    few = len(kept) <= 40
    table = _table(kept, record, known)
    aside = "can be sorted and filtered"
    parts.append(Details(summary=count_words(len(kept), "proposal"), aside=aside, parts=(table,), unfolded=few))
    lede = (
        "Comparisons of single groups propose changes, and the consolidation of a batch decides what to apply."
        " Folded: the consolidation used it in other proposals. Rejected: it broke a rule. Quarantined: it waits for"
        " a person."
    )
    return Section(title="Proposals", lede=lede, parts=tuple(parts))


def _table(rows: tuple[ProposalRow, ...], record: LearnRecord, known: _Known) -> Table:
    return Table(
        caption="Proposals",
        columns=(
            Column(name="Lesson"),
            Column(name="Epoch", choices=True),
            Column(name="Stage", choices=True),
            Column(name="Operation", choices=True),
            Column(name="End", choices=True),
            Column(name="Why"),
            Column(name="Support"),
        ),
        rows=tuple(_row(one, record, known) for one in rows),
    )


def _row(row: ProposalRow, record: LearnRecord, known: _Known) -> tuple[TableCell, ...]:
    proposal, end = row.ended.proposal, row.ended.end
    operation, lesson, target = _asked(proposal, known.lessons)
    doubts = f"in doubt: {', '.join(row.ended.flags)}" if row.ended.flags else ""
    support, task = _support(row, record, known)
    return (
        TableCell(text=_short(lesson), sub=_short(target)),
        TableCell(text=row.phase.removeprefix(EPOCH), sub=f"batch {row.batch}"),
        TableCell(text=proposal.stage),
        TableCell(text=operation),
        TableCell(text=end.end, tone=_TONES.get(end.end, "plain")),
        TableCell(text=_short(_why(row, known)), sub=_short(doubts)),
        TableCell(text=support, sub=task),
    )


def _asked(proposal: Proposal, lessons: Mapping[ExperienceId, str]) -> tuple[str, str, str]:
    """The operation, its lesson, and what it replaces."""

    def named(*targets: ExperienceId) -> str:
        return "; ".join(lessons.get(one, one[:8]) for one in targets)

    match proposal.operation:
        case Add(lesson=lesson):
            return "add", lesson, ""
        case Modify(lesson=lesson, target=target):
            return "modify", lesson, f"instead of: {named(target)}"
        case Merge(lesson=lesson, targets=targets):
            return "merge", lesson, f"instead of: {named(*targets)}"
        case Delete(target=target):
            return "delete", named(target), ""
        case None:
            return "unusable", one_line(proposal.raw, _TEXT) or "an empty item", ""
        case _:
            assert_never(proposal.operation)


def _why(row: ProposalRow, known: _Known) -> str:
    match row.ended.end:
        case Applied(experience=experience):
            return "" if experience is None else f"made the lesson {experience[:8]}"
        case Folded(into=into):
            others = [known.proposals.get((row.phase, row.batch, one)) for one in into]
            asked = [_asked(other.ended.proposal, known.lessons)[1] for other in others if other is not None]
            return f"into: {'; '.join(asked)}" if asked else f"into {', '.join(one[:8] for one in into)}"
        case Dropped(reason=reason):
            return reason
        case Rejected(code=code, reason=reason) | Quarantined(code=code, reason=reason):
            return f"{code}: {reason}"
        case _:
            assert_never(row.ended.end)


def _support(row: ProposalRow, record: LearnRecord, known: _Known) -> tuple[str, str]:
    """How much a proposal rests on, and the task of a comparison."""
    proposal = row.ended.proposal
    rollouts = count_words(len(proposal.evidence), "rollout")
    if proposal.task is not None:
        return rollouts, _short(one_line(record.problems.get(proposal.task, ""), _TASK))
    others = [known.proposals.get((row.phase, row.batch, one)) for one in proposal.rests_on]
    tasks = {other.ended.proposal.task for other in others if other is not None}
    return f"{count_words(len(proposal.rests_on), 'proposal')}, {rollouts}", count_words(len(tasks), "task")


def _short(text: str) -> str:
    return clipped(shown(text), _TEXT)


_SETTINGS_LONGEST = 20_000
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
    settings = clipped(shown(json.dumps(record.settings, indent=2, ensure_ascii=False)), _SETTINGS_LONGEST)
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


_TITLE = 160


def learn_page(record: LearnRecord) -> str:
    """The run as one HTML file."""
    report = record.report
    writer = f", lessons by {report.reflector}" if report.reflector and report.reflector != report.model else ""
    return render_page(
        HtmlPage(
            title=clipped(f"{report.domain} with {report.model}{writer}, run {report.run}", _TITLE),
            kicker="Lessons learned from rollouts",
            mark=record.mark,
            front=opening_parts(record),
            sections=(
                result_section(record),
                versions_section(record),
                calls_section(record),
                groups_section(record),
                proposals_section(record),
                lessons_section(record),
                cost_section(record),
                notes_section(record),
                settings_section(record),
            ),
            footer="This page is one file. It loads nothing and sends nothing.",
        )
    )


REPORTS = "reports"
"""The folder of the store that holds the pages."""


def write_learn_page(store: "Path | str | StoreReader", run: str, out: Path | None = None) -> Path:
    """Write the page of a learn run, and return its path.

    store: the directory of the store, or an open one. run: the id of the run, or its start. out: the file to write;
    None: `reports/RUN.html` in the store. A page that is there is replaced, and any other file is left alone.

    Raises ConfigError for a run that is unknown, is no learn run or has no report; StoreError, OSError.
    """
    from agentlearn.store import read_store

    opened = read_store(Path(store)) if isinstance(store, Path | str) else nullcontext(store)
    with opened as reader:
        row = reader.run(run)
        html = _html(reader, row)
        page, outputs = out or reader.directory / REPORTS / f"{row.run}.html", Outputs(reader.directory)
    if out is not None:
        outputs.refuse_others(out)
    if out is None:
        own(own_folder(page.parent, reader.directory) / page.name, reader.directory)
    page.parent.mkdir(parents=True, exist_ok=True)
    write_whole(page, html.encode(), private=out is None)
    if out is not None:
        outputs.remember(out)
    return page


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


def _html(reader: "StoreReader", row: "RunRow") -> str:
    from agentlearn.cli.pages.learn_record import LearnRecord

    if row.kind != "learn":
        raise ConfigError(
            f"run {row.run!r} is of the kind {row.kind!r}, and only learn runs have a page that can be written again;"
            f" {command_words('runs', 'show', row.run, store=reader.directory)} shows it",
            code="no_page",
        )
    if not row.report:
        raise ConfigError(
            f"run {row.run!r} has no report, because it is {row.state!r};"
            f" {command_words('runs', 'show', row.run, store=reader.directory)} says how to go on",
            code="no_page",
        )
    return learn_page(LearnRecord.read(reader, row))
