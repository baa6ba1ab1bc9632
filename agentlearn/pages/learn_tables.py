"""Sections of the page of a learn run: calls, cost, groups, proposals, lessons, notes and failures, and settings."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agentlearn.config.defaults import command_words
from agentlearn.learning.batch import differ
from agentlearn.learning.report import StageLine
from agentlearn.pages.charts import Bar, BarGroup, Bars
from agentlearn.pages.figure import Tone, clipped, clock_time, count, count_words, decimal, large, money, shown
from agentlearn.pages.learn_record import EPOCH, LearnRecord, run_command
from agentlearn.pages.page import Details, PagePart, Section
from agentlearn.pages.records import ENDS, SHORT_ID, GroupRow, counted_ends, end_words, group_address, operation_parts
from agentlearn.pages.runs import phase_table
from agentlearn.pages.table import CodeBlock, Note, Paragraph, TableCell, box, keys, lesson_box, number_cells, sheet
from agentlearn.pages.terminal import ordered_stages, stage_table
from agentlearn.store import ProposalRow
from agentlearn.types.experience import MAX_LESSON_CHARACTERS, Experience
from agentlearn.types.ids import ProposalId
from agentlearn.types.operation import (
    Dropped,
    Folded,
    Proposal,
    Quarantined,
    Rejected,
)

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
_TONES: dict[str, Tone] = {"applied": "good", "refused": "bad", "quarantined": "open"}


def _short(text: str, most: int = _TEXT) -> str:
    return clipped(shown(text), most)


@dataclass(frozen=True, slots=True)
class LearnTables:
    """The sections of the page of one run."""

    record: LearnRecord

    def calls_section(self) -> Section:
        """Calls by stage, and rollouts by phase."""
        stages = ordered_stages(self.record.report.stages)
        parts: list[PagePart] = []
        if (table := stage_table(self.record.report.stages)) is not None:
            parts += [_bars(stages[:-1] if len(stages) > 1 else stages), table]
        else:
            parts.append(Paragraph(text="The report names no model call."))
        if self.record.rollouts:
            parts.append(phase_table(self.record.rollouts))
        return Section(title="Where the calls went", parts=tuple(parts))

    def cost_section(self) -> Section:
        """What the run cost, and for what."""
        report, total, rollouts = self.record.report, self.record.report.cost_usd, len(self.record.rollouts)
        figures = [("Whole run", money(total), "")]
        if total and rollouts:
            figures.append(("Per rollout", money(total / rollouts), f"{rollouts:,} rollouts"))
        if total and self.record.library is not None and len(self.record.library):
            figures.append(("Per lesson of the library", money(total / len(self.record.library)), ""))
        limits = (("Cost limit", "max_cost_usd", money), ("Token limit", "max_tokens", large))
        for label, name, words in limits:
            if (limit := self.record.settings.get(name)) is not None:
                figures.append((label, words(limit), ""))
        parts: list[PagePart] = [keys("Cost", *figures)]
        if report.simulated:
            parts.append(Paragraph(text="Simulated models and lab models cost nothing.", quiet=True))
        elif total is None:
            parts.append(Paragraph(text="The price of at least one model is not known.", quiet=True))
        return Section(title="Cost", parts=tuple(parts))

    def groups_section(self) -> Section:
        """One row per group: its task, the rewards, what kind of group it is, and the ends of its proposals."""
        parts: list[PagePart] = []
        listed = self.record.groups[:MOST_GROUPS]
        phases = dict.fromkeys(group.phase for group in listed)
        for phase in phases:
            members, epoch = [group for group in listed if group.phase == phase], phase.removeprefix(EPOCH)
            address = group_address(self.record.row.run, members[0].task, phase)
            note = f"One group in full: {command_words('trace', address, store=self.record.store)}"
            names, rows = "Task, #Batch, Rewards, #Mean, *Kind, Proposals", map(self._group_cells, members)
            table = sheet(f"Groups of epoch {epoch}", names, rows, note)
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
        version, counted = library.version[:8], count_words(len(library), "lesson")
        command = command_words("library", "show", f"@{version}", "--origins", store=self.record.store)
        caption, rows = f"{counted} of version {version}", map(self._lesson_cells, library.experiences[:MOST_LESSONS])
        names = "Lesson, Origin, Made from, #Rollouts, Replaces"
        table = sheet(caption, names, rows, f"The origins in full: {command}")
        parts: list[PagePart] = [table] if len(library) <= 40 else [Details(summary=table.caption, parts=(table,))]
        if (more := len(library) - MOST_LESSONS) > 0:
            parts.append(Paragraph(text=f"{more:,} more lessons are not on this page."))
        return Section(title=title, parts=tuple(parts))

    def proposals_section(self) -> Section:
        """A table of the proposals, which can be filtered by epoch, stage, operation and end."""
        if not self.record.proposals:
            return Section(title="Proposals", parts=(Paragraph(text="The run made no proposal."),))
        ends = Counter(row.ended.end.end for row in self.record.proposals)
        counted = ((ENDS[end].capitalize(), f"{ends[end]:,}") for end in ENDS if ends[end])
        parts: list[PagePart] = [keys("Ends of the proposals", *counted)]
        kept = self.record.proposals
        if (more := len(kept) - MOST_PROPOSALS) > 0:
            kept = tuple(sorted(kept, key=lambda row: row.ended.end.end != "applied")[:MOST_PROPOSALS])
            show = command_words("trace", self.record.row.run, store=self.record.store)
            parts.append(Paragraph(text=f"{more:,} proposals are not on this page; {show} leads to all of them."))
        known = {(row.phase, row.batch, row.ended.proposal.id): row.ended.proposal for row in self.record.proposals}
        rows = (self._proposal_cells(one, known) for one in kept)
        table = sheet("Proposals", "Lesson, *Epoch, *Stage, *Operation, *End, Why, Support", rows)
        summary, aside = count_words(len(kept), "proposal"), "can be sorted and filtered"
        parts.append(Details(summary=summary, aside=aside, parts=(table,), unfolded=len(kept) <= 40))
        lede = (
            "Comparisons of single groups propose changes, and the consolidation of a batch decides what to apply."
            " Merged: the consolidation used it in other proposals. Refused: it broke a rule. Quarantined: it waits"
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
        counts += [(f"proposals {ENDS[end]}", codes) for end, codes in ends.items()]
        rows = [
            (box(_short(code, 200)), box(what), *number_cells(count, number))
            for what, codes in counts
            for code, number in sorted(codes.items(), key=lambda one: -one[1])[:_MOST_NOTES]
            if number
        ]
        if rows:
            parts.append(sheet("Failures and refusals by code", "Code, *What, #Number", rows))
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
        rows = ((box(_short(name, 300)), box(_short(value, 300))) for name, value in named if value)
        parts.append(sheet("What went in", "Item, Value", rows))
        settings = _short(json.dumps(self.record.settings, indent=2, ensure_ascii=False), 20_000)
        parts.append(Details(summary="All settings", parts=(CodeBlock(text=settings),)))
        return Section(title="Settings and reproduction", parts=tuple(parts))

    def _group_cells(self, group: GroupRow) -> tuple[TableCell, ...]:
        decided = [reward for reward in group.rewards if reward is not None]
        words = ["undecided" if one is None else f"{one:.3g}" for one in group.rewards]
        rewards = "\u00a0".join(words) or "-"
        if len(words) > 12:
            rewards = ", ".join(f"{number} x {word}" for word, number in sorted(Counter(words).items()))
        planned = self.record.settings.get("group_size")
        drawn = f"{len(group.rewards)} of {planned} planned" if group.rewards and planned != len(group.rewards) else ""
        problem = _short(" ".join(group.problem.split()), 80) or "this store does not hold the task"
        return (
            box(problem, group.task[:SHORT_ID]),
            box(f"{group.batch}", value=group.batch),
            box(rewards, drawn),
            *number_cells(decimal, sum(decided) / len(decided) if decided else None),
            box(self.group_kind(group)),
            box(counted_ends(group.ends)),
        )

    def group_kind(self, group: GroupRow) -> str:
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

    def _lesson_cells(self, one: Experience) -> tuple[TableCell, ...]:
        every = self.record.origins.get(one.id, ())
        origins = [origin for origin in every if origin.run == self.record.row.run] or every
        replaced = "; ".join(self.record.lessons.get(parent, parent[:8]) for parent in one.origin.parents)
        learned = one.origin.kind not in {"person", "import"}
        origin, tasks = "another store holds the run that made it" if learned else one.origin.words, "not known"
        if origins:
            first = origins[0]
            place = f"epoch {first.phase.removeprefix(EPOCH)}, batch {first.batch}"
            origin = f"{one.origin.kind}, {place if first.run == self.record.row.run else f'run {first.run}'}"
            starts = [address.partition("/")[2].partition("@")[0] for address in first.groups]
            named = [
                text for start in starts[:3] for task, text in self.record.problems.items() if task.startswith(start)
            ]
            words = " · ".join(_short(" ".join(problem.split()), 40) for problem in named)
            more = f" · and {len(starts) - 3:,} more" if len(starts) > 3 else ""
            tasks = count_words(len(starts), "task") + (f": {words}{more}" if words else "")
        return (
            lesson_box(one.lesson, ", ".join(filter(None, (one.id[:8], *one.tags)))),
            box(origin),
            box(tasks),
            *number_cells(count, max((origin.rollouts for origin in every), default=None)),
            box(_short(replaced) or "nothing"),
        )

    def _proposal_cells(
        self, row: ProposalRow, known: Mapping[tuple[str, int, ProposalId], Proposal]
    ) -> tuple[TableCell, ...]:
        proposal, end = row.ended.proposal, row.ended.end
        operation, targets, lesson = operation_parts(proposal.operation, proposal.raw)
        target = "; ".join(self.record.lessons.get(one, one[:SHORT_ID]) for one in targets)
        lesson, target = (lesson, target and f"instead of: {target}") if lesson else (target, "")
        ended, why = end_words(end)
        if isinstance(end, Folded):
            others = [known.get((row.phase, row.batch, one)) for one in end.into]
            asked = [operation_parts(other.operation, other.raw)[2] for other in others if other is not None]
            why = f"into: {'; '.join(asked)}" if asked else why
        doubts = f"in doubt: {', '.join(row.ended.flags)}" if row.ended.flags else ""
        support = count_words(len(proposal.evidence), "rollout")
        if proposal.task is not None:
            task = _short(" ".join(self.record.problems.get(proposal.task, "").split()), 44)
        else:
            others = [known.get((row.phase, row.batch, one)) for one in proposal.rests_on]
            task = count_words(len({other.task for other in others if other is not None}), "task")
            support = f"{count_words(len(proposal.rests_on), 'proposal')}, {support}"
        return (
            box(_short(lesson), _short(target)),
            box(row.phase.removeprefix(EPOCH), f"batch {row.batch}"),
            box(proposal.stage),
            box(operation),
            box(ended, tone=_TONES.get(ended, "plain")),
            box(_short(why), _short(doubts)),
            box(support, task),
        )


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
