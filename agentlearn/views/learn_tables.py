"""Sections of the page of a learn run: calls, cost, groups, proposals, lessons, notes and failures, and settings."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from agentlearn.config.command_words import command_words
from agentlearn.learning.batch import differ
from agentlearn.learning.report import StageLine
from agentlearn.store import ProposalRow, TrajectoryRow
from agentlearn.types.experience import MAX_LESSON_CHARACTERS, Experience
from agentlearn.types.ids import ExperienceId, ProposalId
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
from agentlearn.views.charts import Bar, BarGroup, Bars
from agentlearn.views.figure import Tone, clock_time, cost_words, count, count_words, decimal, large, money
from agentlearn.views.learn_record import EPOCH, LearnRecord, run_command
from agentlearn.views.markup import clipped, shown
from agentlearn.views.page import Details, PagePart, Section
from agentlearn.views.records import SHORT_ID, GroupRow, group_address
from agentlearn.views.table import (
    CodeBlock,
    Column,
    KeyFigure,
    KeyFigures,
    Note,
    Paragraph,
    Table,
    TableCell,
    number_cells,
    number_columns,
)
from agentlearn.views.terminal import one_line, ordered_stages

MOST_GROUPS = 4_000
"""Largest number of groups on the page."""
MOST_PROPOSALS = 3_000
"""Largest number of proposals on the page. Applied ones come first."""
MOST_LESSONS = 2_000
"""Largest number of lessons on the page."""
_MOST_NOTES = 100
"""Largest number of notes on the page."""
_TEXT = MAX_LESSON_CHARACTERS + 20
"""Characters of a text that are shown. A lesson is shown whole."""
_ALARMS = ("held-out tasks got worse", "reward fell", "warning")
"""How notes start that are shown as warnings."""
_MEASURES: tuple[tuple[str, Callable[[StageLine], float | None], Callable[[float | None], str]], ...] = (
    ("Model calls", lambda line: line.calls, lambda value: count(None if value is None else round(value))),
    ("Tokens in and out", lambda line: line.tokens_in + line.tokens_out, large),
    ("Cost", lambda line: line.cost_usd, money),
    ("Time, summed over calls that ran side by side", lambda line: line.seconds, lambda value: clock_time(value or 0)),
)
_ENDS = ("applied", "folded", "dropped", "rejected", "quarantined")
_TONES: dict[str, Tone] = {"applied": "good", "rejected": "bad", "quarantined": "open"}


def _short(text: str, most: int = _TEXT) -> str:
    return clipped(shown(text), most)


@dataclass(frozen=True, slots=True)
class LearnTables:
    """The sections of the page of one run."""

    record: LearnRecord

    def calls_section(self) -> Section:
        """Calls by stage, rollouts by phase, and what early stops and skipped visits saved."""
        stages = ordered_stages(self.record.report.stages)
        parts: list[PagePart] = [self._rollouts()]
        if stages:
            parts += [_bars(stages[:-1] if len(stages) > 1 else stages), _calls_table(stages)]
        else:
            parts.append(Paragraph(text="The report names no model call."))
        if self.record.rollouts:
            names = ("Rollouts", "Mean reward", "Failed", "Undecided", "Tokens in", "Tokens out", "Cost", "Time")
            phases = dict.fromkeys(one.phase for one in self.record.rollouts)
            rows = tuple(_phase(phase, [one for one in self.record.rollouts if one.phase == phase]) for phase in phases)
            columns = (Column(name="Phase"), *number_columns(*names))
            parts.append(Table(caption="Rollouts by phase", columns=columns, rows=rows))
        malformed = tuple(
            (TableCell(text=code), TableCell(text=name), *number_cells(count, number))
            for name, line in stages
            if name in self.record.report.stages
            for code, number in line.malformed.items()
        )
        if malformed:
            caption = "Malformed replies and failed units of work"
            columns = (Column(name="Code"), Column(name="Stage"), *number_columns("Number"))
            parts.append(Table(caption=caption, columns=columns, rows=malformed))
        return Section(title="Where the calls went", parts=tuple(parts))

    def _rollouts(self) -> KeyFigures:
        found, drawn = self.record.report.allocated, sum(len(group.rewards) for group in self.record.groups)
        if not found.planned and not found.drawn:
            figures = (KeyFigure(label="Drawn", value=count(drawn), sub=f"in {len(self.record.groups):,} groups"),)
        else:
            share = f"{found.drawn / found.planned:.0%} of the plan" if found.planned else ""
            figures = (
                KeyFigure(label="Planned", value=count(found.planned)),
                KeyFigure(label="Drawn", value=count(found.drawn), sub=share),
                KeyFigure(
                    label="Groups stopped early", value=count(found.stopped), sub=f"saved {found.saved:,} rollouts"
                ),
                KeyFigure(label="Skipped visits", value=count(found.skipped), sub="to tasks that were all right"),
            )
        return KeyFigures(caption="Rollouts to learn from", figures=figures)

    def cost_section(self) -> Section:
        """What the run cost, and for what."""
        report, total, rollouts = self.record.report, self.record.report.cost_usd, len(self.record.rollouts)
        figures = [KeyFigure(label="Whole run", value=money(total))]
        if total and rollouts:
            figures.append(KeyFigure(label="Per rollout", value=money(total / rollouts), sub=f"{rollouts:,} rollouts"))
        if total and self.record.library is not None and len(self.record.library):
            figures.append(KeyFigure(label="Per lesson of the library", value=money(total / len(self.record.library))))
        limits = (("Cost limit", "max_cost_usd", money), ("Token limit", "max_tokens", large))
        for label, name, words in limits:
            if (limit := self.record.settings.get(name)) is not None:
                figures.append(KeyFigure(label=label, value=words(limit)))
        parts: list[PagePart] = [KeyFigures(caption="Cost", figures=tuple(figures))]
        if report.simulated:
            parts.append(Paragraph(text="Simulated models and lab models cost nothing.", quiet=True))
        elif total is None:
            parts.append(Paragraph(text="The price of at least one model is not known.", quiet=True))
        if report.pilot is not None:
            parts.append(Paragraph(text="\n".join(report.pilot.lines())))
        return Section(title="Cost", parts=tuple(parts))

    def groups_section(self) -> Section:
        """One row per group: its task, the rewards, what kind of group it is, and the ends of its proposals."""
        parts: list[PagePart] = []
        listed = self.record.groups[:MOST_GROUPS]
        phases = dict.fromkeys(group.phase for group in listed)
        for phase in phases:
            members, epoch = [group for group in listed if group.phase == phase], phase.removeprefix(EPOCH)
            address = group_address(self.record.row.run, members[0].task, phase)
            table = Table(
                caption=f"Groups of epoch {epoch}",
                columns=(
                    Column(name="Task"),
                    *number_columns("Batch"),
                    Column(name="Rewards"),
                    *number_columns("Mean"),
                    Column(name="Kind", choices=True),
                    Column(name="Proposals"),
                ),
                rows=tuple(self._group_cells(group) for group in members),
                note=f"One group in full: {command_words('trace', address, store=self.record.store)}",
            )
            mixed = sum(self.group_kind(group) == "mixed" for group in members)
            aside = f"{count_words(len(members), 'group')}, {mixed:,} mixed"
            unfolded = len(phases) == 1 and len(members) <= 30
            parts.append(Details(summary=f"Epoch {epoch}", aside=aside, parts=(table,), unfolded=unfolded))
        if (more := len(self.record.groups) - MOST_GROUPS) > 0:
            trace = command_words("trace", self.record.row.run, store=self.record.store)
            parts.append(Paragraph(text=f"{more:,} more groups are not on this page; {trace} lists all of them."))
        if not parts:
            parts.append(Paragraph(text="The run had no group to learn from."))
        lede = (
            "Groups teach whose rewards differ (mixed), and groups that are all wrong where a reason or the expected"
            " answer says what was wanted. Each row is one task in one epoch."
        )
        return Section(title="Groups", lede=lede, parts=tuple(parts))

    def lessons_section(self) -> Section:
        """A table of the lessons: what made each, from which tasks, and what it replaced."""
        title, library = "Lessons", self.record.library
        if library is None:
            return Section(title=title, parts=(Paragraph(text="This store does not hold the library of the run."),))
        if not len(library):
            return Section(title=title, parts=(Paragraph(text="The library is empty."),))
        version = library.version[:8]
        command = command_words("library", "show", f"@{version}", "--origins", store=self.record.store)
        texts = (Column(name=name) for name in ("Lesson", "Origin", "Made from"))
        table = Table(
            caption=f"{count_words(len(library), 'lesson')} of version {version}",
            columns=(*texts, *number_columns("Rollouts"), Column(name="Replaces")),
            rows=tuple(self._lesson_cells(one) for one in library.experiences[:MOST_LESSONS]),
            note=f"The origins in full: {command}",
        )
        parts: list[PagePart] = [table] if len(library) <= 40 else [Details(summary=table.caption, parts=(table,))]
        if (more := len(library) - MOST_LESSONS) > 0:
            parts.append(Paragraph(text=f"{more:,} more lessons are not on this page."))
        return Section(title=title, parts=tuple(parts))

    def proposals_section(self) -> Section:
        """A table of the proposals, which can be filtered by epoch, stage, operation and end."""
        if not self.record.proposals:
            return Section(title="Proposals", parts=(Paragraph(text="The run made no proposal."),))
        ends = Counter(row.ended.end.end for row in self.record.proposals)
        figures = tuple(KeyFigure(label=end.capitalize(), value=f"{ends[end]:,}") for end in _ENDS if ends[end])
        parts: list[PagePart] = [KeyFigures(caption="Ends of the proposals", figures=figures)]
        kept = self.record.proposals
        if (more := len(kept) - MOST_PROPOSALS) > 0:
            kept = tuple(sorted(kept, key=lambda row: row.ended.end.end != "applied")[:MOST_PROPOSALS])
            show = command_words("trace", self.record.row.run, store=self.record.store)
            parts.append(Paragraph(text=f"{more:,} proposals are not on this page; {show} leads to all of them."))
        known = {(row.phase, row.batch, row.ended.proposal.id): row.ended.proposal for row in self.record.proposals}
        chosen = (Column(name=name, choices=True) for name in ("Epoch", "Stage", "Operation", "End"))
        table = Table(
            caption="Proposals",
            columns=(Column(name="Lesson"), *chosen, Column(name="Why"), Column(name="Support")),
            rows=tuple(self._proposal_cells(one, known) for one in kept),
        )
        summary, aside = count_words(len(kept), "proposal"), "can be sorted and filtered"
        parts.append(Details(summary=summary, aside=aside, parts=(table,), unfolded=len(kept) <= 40))
        lede = (
            "Comparisons of single groups propose changes, and the consolidation of a batch decides what to apply."
            " Folded: the consolidation used it in other proposals. Rejected: it broke a rule. Quarantined: it waits"
            " for a person."
        )
        return Section(title="Proposals", lede=lede, parts=tuple(parts))

    def notes_section(self) -> Section:
        """The notes of the report, then a table of everything that failed."""
        report = self.record.report
        parts: list[PagePart] = [
            Note(text=_short(note, 1_500), kind="warning" if note.startswith(_ALARMS) else "note")
            for note in report.notes[:_MOST_NOTES]
        ]
        if (more := len(report.notes) - _MOST_NOTES) > 0:
            parts.append(Paragraph(text=f"{more:,} more notes are in the report of the run."))
        ends: dict[str, Counter[str]] = {"rejected": Counter(), "dropped": Counter(), "quarantined": Counter()}
        for end in (row.ended.end for row in self.record.proposals):
            if isinstance(end, Rejected | Quarantined | Dropped):
                ends[end.end][end.reason if isinstance(end, Dropped) else end.code] += 1
        sides = (("rollouts before", report.before), ("rollouts after", report.after))
        counts: list[tuple[str, Mapping[str, int]]] = [
            (side, score.errors) for side, score in sides if score is not None
        ]
        outcomes = {name: number for name, number in report.rollouts.items() if name != "ok"}
        counts += [("all rollouts", outcomes), ("requests without an answer", report.failed_requests)]
        counts += [(f"replies of {stage}", line.malformed) for stage, line in report.stages.items()]
        counts += [(f"proposals {end}", codes) for end, codes in ends.items()]
        rows = tuple(
            (TableCell(text=_short(code, 200)), TableCell(text=what), *number_cells(count, number))
            for what, codes in counts
            for code, number in sorted(codes.items(), key=lambda one: -one[1])[:_MOST_NOTES]
            if number
        )
        if rows:
            columns = (Column(name="Code"), Column(name="What", choices=True), *number_columns("Number"))
            parts.append(Table(caption="Failures and refusals by code", columns=columns, rows=rows))
        if not parts:
            parts.append(Paragraph(text="There is nothing to note, and nothing failed."))
        return Section(title="Notes and failures", parts=tuple(parts))

    def settings_section(self) -> Section:
        """The command, the seed, versions and hashes, and the settings."""
        row, report, given = self.record.row, self.record.report, self.record.settings.get("given")
        parts: list[PagePart] = []
        if command := run_command(row, self.record.start):
            parts.append(CodeBlock(text=command, label="The same run again"))
        elif given:
            names = ", ".join(str(one) for one in given) if isinstance(given, list) else str(given)
            parts.append(Paragraph(text=f"A program started this run and gave it objects of its own: {names}."))
        prompts = {ref.label: ref.sha256 for one in self.record.proposals for ref in one.ended.proposal.prompts}
        named = [
            ("Run", row.run),
            ("State", row.state),
            ("Started", f"{row.started_at:%Y-%m-%d %H:%M:%S}"),
            ("agentlearn-lib", row.package_version),
            ("Domain", row.domain),
            ("Model", f"{row.model}{' (simulated)' if row.simulated else ''}"),
            ("Model that writes lessons", report.reflector),
            *((f"Model that answered as {one.name}", ", ".join(one.models)) for one in report.services),
            ("Weights", f"{report.weights.identity}: {report.weights.note}".rstrip(": ")),
            ("Weights before (sha256)", report.weights.sha256_before or ""),
            ("Weights after (sha256)", report.weights.sha256_after or ""),
            ("Seed", f"{report.seed}"),
            *((f"Tasks ({name})", f"{number:,}") for name, number in report.tasks.items()),
            ("Library at the start", self.record.start or ""),
            (
                "Library at the end",
                self.record.library.version if self.record.library is not None else report.library.version,
            ),
            *((f"Prompt {label}", sha256) for label, sha256 in sorted(prompts.items())),
        ]
        rows = tuple(
            (TableCell(text=_short(name, 300)), TableCell(text=_short(value, 300))) for name, value in named if value
        )
        parts.append(Table(caption="What went in", columns=(Column(name="Item"), Column(name="Value")), rows=rows))
        settings = _short(json.dumps(self.record.settings, indent=2, ensure_ascii=False), 20_000)
        parts.append(Details(summary="All settings", parts=(CodeBlock(text=settings),)))
        return Section(title="Settings and reproduction", parts=tuple(parts))

    def _group_cells(
        self,
        group: GroupRow,
    ) -> tuple[TableCell, ...]:
        decided = [reward for reward in group.rewards if reward is not None]
        words = ["undecided" if one is None else f"{one:.3g}" for one in group.rewards]
        rewards = "\u00a0".join(words) or "-"
        if len(words) > 12:
            rewards = ", ".join(f"{number} x {word}" for word, number in sorted(Counter(words).items()))
        planned = self.record.settings.get("group_size")
        drawn = f"{len(group.rewards)} of {planned} planned" if group.rewards and planned != len(group.rewards) else ""
        ends = ", ".join(f"{number} {end}" for end, number in sorted(group.ends.items()))
        problem = _short(one_line(group.problem, 80), 80) or "this store does not hold the task"
        return (
            TableCell(text=problem, sub=group.task[:SHORT_ID]),
            TableCell(text=f"{group.batch}", value=group.batch),
            TableCell(text=rewards, sub=drawn),
            *number_cells(decimal, sum(decided) / len(decided) if decided else None),
            TableCell(text=self.group_kind(group)),
            TableCell(text=ends or "none"),
        )

    def group_kind(
        self,
        group: GroupRow,
    ) -> str:
        """What kind of group it is: `mixed`, `all right`, `all wrong`, `all equal`, `failed` or `undecided`."""
        if not group.rewards:
            return "rollouts of other runs"
        decided = [reward for reward in group.rewards if reward is not None]
        if not decided:
            return "undecided"
        if differ(decided, float(self.record.settings.get("reward_margin") or 0.0)):
            return "mixed"
        if group.failed:
            return "failed"
        return "all right" if min(decided) >= 1 else "all wrong" if max(decided) <= 0 else "all equal"

    def _lesson_cells(
        self,
        one: Experience,
    ) -> tuple[TableCell, ...]:
        every = self.record.origins.get(one.id, ())
        origins = [origin for origin in every if origin.run == self.record.row.run] or every
        replaced = "; ".join(self.record.lessons.get(parent, parent[:8]) for parent in one.origin.parents)
        kinds = {"person": "written by a person", "import": "imported from another program"}
        origin = kinds.get(one.origin.kind, "another store holds the run that made it")
        tasks = "not known"
        if origins:
            first = origins[0]
            place = f"epoch {first.phase.removeprefix(EPOCH)}, batch {first.batch}"
            origin = f"{one.origin.kind}, {place if first.run == self.record.row.run else f'run {first.run}'}"
            starts = [address.partition("/")[2].partition("@")[0] for address in first.groups]
            named = [
                text for start in starts[:3] for task, text in self.record.problems.items() if task.startswith(start)
            ]
            words = " · ".join(_short(one_line(problem, 80), 40) for problem in named)
            more = f" · and {len(starts) - 3:,} more" if len(starts) > 3 else ""
            tasks = count_words(len(starts), "task") + (f": {words}{more}" if words else "")
        return (
            TableCell(text=one.lesson, sub=", ".join(filter(None, (one.id[:8], *one.tags)))),
            TableCell(text=origin),
            TableCell(text=tasks),
            *number_cells(count, max((origin.rollouts for origin in every), default=None)),
            TableCell(text=_short(replaced) or "nothing"),
        )

    def _proposal_cells(
        self, row: ProposalRow, known: Mapping[tuple[str, int, ProposalId], Proposal]
    ) -> tuple[TableCell, ...]:
        proposal, end = row.ended.proposal, row.ended.end
        operation, lesson, target = self._asked(proposal)
        match end:
            case Applied(experience=experience):
                why = "" if experience is None else f"made the lesson {experience[:8]}"
            case Folded(into=into):
                others = [known.get((row.phase, row.batch, one)) for one in into]
                asked = [self._asked(other)[1] for other in others if other is not None]
                why = f"into: {'; '.join(asked)}" if asked else f"into {', '.join(one[:8] for one in into)}"
            case Dropped(reason=reason):
                why = reason
            case Rejected(code=code, reason=reason) | Quarantined(code=code, reason=reason):
                why = f"{code}: {reason}"
            case _:
                assert_never(end)
        doubts = f"in doubt: {', '.join(row.ended.flags)}" if row.ended.flags else ""
        support = count_words(len(proposal.evidence), "rollout")
        if proposal.task is not None:
            task = _short(one_line(self.record.problems.get(proposal.task, ""), 44))
        else:
            others = [known.get((row.phase, row.batch, one)) for one in proposal.rests_on]
            task = count_words(len({other.task for other in others if other is not None}), "task")
            support = f"{count_words(len(proposal.rests_on), 'proposal')}, {support}"
        return (
            TableCell(text=_short(lesson), sub=_short(target)),
            TableCell(text=row.phase.removeprefix(EPOCH), sub=f"batch {row.batch}"),
            TableCell(text=proposal.stage),
            TableCell(text=operation),
            TableCell(text=end.end, tone=_TONES.get(end.end, "plain")),
            TableCell(text=_short(why), sub=_short(doubts)),
            TableCell(text=support, sub=task),
        )

    def _asked(
        self,
        proposal: Proposal,
    ) -> tuple[str, str, str]:
        """The operation, its lesson, and what it replaces."""

        def named(*targets: ExperienceId) -> str:
            return "; ".join(self.record.lessons.get(one, one[:8]) for one in targets)

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


def _bars(stages: Sequence[tuple[str, StageLine]]) -> Bars:
    groups = tuple(
        BarGroup(
            label=label,
            bars=tuple(Bar(label=name, value=value(line), words=words(value(line))) for name, line in stages),
        )
        for label, value, words in _MEASURES
        if any(value(line) for _, line in stages)
    )
    return Bars(caption="Calls, tokens and time by stage", groups=groups)


def _calls_table(stages: Sequence[tuple[str, StageLine]]) -> Table:
    names = ("Calls", "Tokens in", "Of them cached", "Tokens out", "Cost", "Time", "Retried", "Replayed", "Malformed")
    rows = tuple(
        (
            TableCell(text=name),
            *number_cells(count, line.calls),
            *number_cells(large, line.tokens_in, line.tokens_cached, line.tokens_out),
            *number_cells(cost_words, line.cost_usd),
            *number_cells(clock_time, line.seconds),
            *number_cells(count, line.retried, line.replayed, sum(line.malformed.values())),
        )
        for name, line in stages
    )
    return Table(
        caption="Model calls by stage",
        columns=(Column(name="Stage"), *number_columns(*names)),
        rows=rows,
        note=(
            "Time is the sum over all calls, many of which ran side by side. Retried: requests sent again. Replayed:"
            " calls that a resumed run took from the journal."
        ),
    )


def _phase(phase: str, members: Sequence[TrajectoryRow]) -> tuple[TableCell, ...]:
    rewards = [one.reward for one in members if one.reward is not None]
    costs = [one.cost_usd for one in members if one.cost_usd is not None]
    outcomes = Counter(one.outcome for one in members)
    return (
        TableCell(text=phase, sub="to learn from" if phase.startswith(EPOCH) else "to measure"),
        *number_cells(count, len(members)),
        *number_cells(decimal, sum(rewards) / len(rewards) if rewards else None),
        *number_cells(count, outcomes["failed"], outcomes["undecided"]),
        *number_cells(large, sum(one.tokens_in for one in members), sum(one.tokens_out for one in members)),
        *number_cells(cost_words, sum(costs) if len(costs) == len(members) else None),
        *number_cells(clock_time, sum(one.seconds for one in members)),
    )
