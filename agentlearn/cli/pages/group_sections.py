"""The lessons of the library that a run selected, each with its origin."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentlearn.cli.live import cost_words, stage_order, sum_of_stages
from agentlearn.cli.output import clock_time, count_words
from agentlearn.cli.pages.learn_record import EPOCH, LearnRecord, PageGroup, Rewards
from agentlearn.cli.show.lessons import LessonOrigin
from agentlearn.cli.show.words import TASK_ID, group_address, one_line
from agentlearn.config.command_words import command_words
from agentlearn.learning.batch import differ
from agentlearn.learning.report import StageLine
from agentlearn.store import TrajectoryRow
from agentlearn.types.experience import Experience
from agentlearn.views import (
    Bar,
    BarGroup,
    Bars,
    Column,
    Details,
    KeyFigure,
    KeyFigures,
    PagePart,
    Paragraph,
    Section,
    Table,
    TableCell,
)
from agentlearn.views.figure import count, decimal, large, money
from agentlearn.views.markup import clipped, shown

Stages = Sequence[tuple[str, StageLine]]
_MEASURES: tuple[tuple[str, Callable[[StageLine], float | None], Callable[[float | None], str]], ...] = (
    ("Model calls", lambda line: line.calls, lambda value: count(None if value is None else round(value))),
    ("Tokens in and out", lambda line: line.tokens_in + line.tokens_out, large),
    ("Cost", lambda line: line.cost_usd, money),
    ("Time, summed over calls that ran side by side", lambda line: line.seconds, lambda value: clock_time(value or 0)),
)


def calls_section(record: LearnRecord) -> Section:
    """Calls by stage, rollouts by phase, and what early stops and skipped visits saved."""
    stages = [(name, line) for name, line in stage_order(record.report.stages) if line.calls]
    parts: list[PagePart] = [_rollouts(record)]
    if stages:
        parts += [_bars(stages), _calls_table(stages)]
    else:
        parts.append(Paragraph(text="The report names no model call."))
    if record.rollouts:
        parts.append(_phases(record.rollouts))
    if any(line.malformed for _, line in stages):
        parts.append(_malformed(stages))
    return Section(title="Where the calls went", parts=tuple(parts))


def cost_section(record: LearnRecord) -> Section:
    """What the run cost, and for what."""
    report = record.report
    total = report.cost_usd
    rollouts = len(record.rollouts)
    figures = [KeyFigure(label="Whole run", value=money(total))]
    if total and rollouts:
        figures.append(KeyFigure(label="Per rollout", value=money(total / rollouts), sub=f"{rollouts:,} rollouts"))
    if total and record.library is not None and len(record.library):
        figures.append(KeyFigure(label="Per lesson of the library", value=money(total / len(record.library))))
    for label, name in (("Cost limit", "max_cost_usd"), ("Token limit", "max_tokens")):
        if (limit := record.settings.get(name)) is not None:
            figures.append(KeyFigure(label=label, value=money(limit) if name == "max_cost_usd" else large(limit)))
    parts: list[PagePart] = [KeyFigures(caption="Cost", figures=tuple(figures))]
    if report.simulated:
        parts.append(Paragraph(text="Simulated models and lab models cost nothing.", quiet=True))
    elif total is None:
        parts.append(Paragraph(text="The price of at least one model is not known.", quiet=True))
    if report.pilot is not None:
        parts.append(Paragraph(text="\n".join(report.pilot.lines())))
    return Section(title="Cost", parts=tuple(parts))


def _rollouts(record: LearnRecord) -> KeyFigures:
    found, drawn = record.report.allocated, sum(len(group.rewards) for group in record.groups)
    if not found.planned and not found.drawn:
        figures = (KeyFigure(label="Drawn", value=count(drawn), sub=f"in {len(record.groups):,} groups"),)
    else:
        share = f"{found.drawn / found.planned:.0%} of the plan" if found.planned else ""
        figures = (
            KeyFigure(label="Planned", value=count(found.planned)),
            KeyFigure(label="Drawn", value=count(found.drawn), sub=share),
            KeyFigure(label="Groups stopped early", value=count(found.stopped), sub=f"saved {found.saved:,} rollouts"),
            KeyFigure(label="Skipped visits", value=count(found.skipped), sub="to tasks that were all right"),
        )
    return KeyFigures(caption="Rollouts to learn from", figures=figures)


def _bars(stages: Stages) -> Bars:
    groups = tuple(
        BarGroup(
            label=label,
            bars=tuple(Bar(label=name, value=value(line), words=words(value(line))) for name, line in stages),
        )
        for label, value, words in _MEASURES
        if any(value(line) for _, line in stages)
    )
    return Bars(caption="Calls, tokens and time by stage", groups=groups)


def _calls_table(stages: Stages) -> Table:
    names = ("Calls", "Tokens in", "Of them cached", "Tokens out", "Cost", "Time", "Retried", "Replayed", "Malformed")
    rows = [_calls_row(name, line) for name, line in stages]
    if len(rows) > 1:
        rows.append(_calls_row("all", sum_of_stages([line for _, line in stages])))
    return Table(
        caption="Model calls by stage",
        columns=(Column(name="Stage"), *(Column(name=name, kind="number") for name in names)),
        rows=tuple(rows),
        note=(
            "Time is the sum over all calls, many of which ran side by side. Retried: requests sent again. Replayed:"
            " calls that a resumed run took from the journal."
        ),
    )


def _calls_row(name: str, line: StageLine) -> tuple[TableCell, ...]:
    malformed = sum(line.malformed.values())
    return (
        TableCell(text=name),
        TableCell(text=count(line.calls), value=line.calls),
        TableCell(text=large(line.tokens_in), value=line.tokens_in),
        TableCell(text=large(line.tokens_cached), value=line.tokens_cached),
        TableCell(text=large(line.tokens_out), value=line.tokens_out),
        TableCell(text=cost_words(line.cost_usd), value=line.cost_usd),
        TableCell(text=clock_time(line.seconds), value=line.seconds),
        TableCell(text=count(line.retried), value=line.retried),
        TableCell(text=count(line.replayed), value=line.replayed),
        TableCell(text=count(malformed), value=malformed),
    )


def _phases(rollouts: Sequence[TrajectoryRow]) -> Table:
    names = ("Rollouts", "Mean reward", "Failed", "Undecided", "Tokens in", "Tokens out", "Cost", "Time")
    phases = dict.fromkeys(one.phase for one in rollouts)
    return Table(
        caption="Rollouts by phase",
        columns=(Column(name="Phase"), *(Column(name=name, kind="number") for name in names)),
        rows=tuple(_phase(phase, [one for one in rollouts if one.phase == phase]) for phase in phases),
    )


def _phase(phase: str, members: Sequence[TrajectoryRow]) -> tuple[TableCell, ...]:
    rewards = [one.reward for one in members if one.reward is not None]
    costs = [one.cost_usd for one in members if one.cost_usd is not None]
    mean = sum(rewards) / len(rewards) if rewards else None
    cost = sum(costs) if len(costs) == len(members) else None
    seconds = sum(one.seconds for one in members)
    tokens_in, tokens_out = sum(one.tokens_in for one in members), sum(one.tokens_out for one in members)
    return (
        TableCell(text=phase, sub="to learn from" if phase.startswith(EPOCH) else "to measure"),
        TableCell(text=count(len(members)), value=len(members)),
        TableCell(text=decimal(mean), value=mean),
        TableCell(text=count(sum(one.outcome == "failed" for one in members))),
        TableCell(text=count(sum(one.outcome == "undecided" for one in members))),
        TableCell(text=large(tokens_in), value=tokens_in),
        TableCell(text=large(tokens_out), value=tokens_out),
        TableCell(text=cost_words(cost), value=cost),
        TableCell(text=clock_time(seconds), value=seconds),
    )


def _malformed(stages: Stages) -> Table:
    return Table(
        caption="Malformed replies and failed units of work",
        columns=(Column(name="Code"), Column(name="Stage"), Column(name="Number", kind="number")),
        rows=tuple(
            (TableCell(text=code), TableCell(text=name), TableCell(text=count(number), value=number))
            for name, line in stages
            for code, number in line.malformed.items()
        ),
    )


MOST_GROUPS = 4_000
"""Largest number of groups on the page."""
PROBLEM = 80
"""Characters of a problem that are shown."""
_OTHER_RUNS = "rollouts of other runs"


def groups_section(record: LearnRecord) -> Section:
    """One row per group: its task, the rewards, what kind of group it is, and the ends of its proposals."""
    shown_groups, parts = record.groups[:MOST_GROUPS], list[PagePart]()
    phases = dict.fromkeys(group.phase for group in shown_groups)
    for phase in phases:
        members = [group for group in shown_groups if group.phase == phase]
        kinds = Counter(group_kind(group, record.settings) for group in members)
        parts.append(
            Details(
                summary=f"Epoch {phase.removeprefix(EPOCH)}",
                aside=f"{count_words(len(members), 'group')}, {kinds['mixed']:,} mixed",
                parts=(_groups_table(phase, members, record),),
                unfolded=len(phases) == 1 and len(members) <= 30,
            )
        )
    if len(record.groups) > MOST_GROUPS:
        more = len(record.groups) - MOST_GROUPS
        trace = command_words("trace", record.row.run, store=record.store)
        parts.append(Paragraph(text=f"{more:,} more groups are not on this page; {trace} lists all of them."))
    if not parts:
        parts.append(Paragraph(text="The run had no group to learn from."))
    lede = "Only groups whose rewards differ (mixed) teach. Each row is one task in one epoch."
    return Section(title="Groups", lede=lede, parts=tuple(parts))


def group_kind(group: PageGroup, settings: Mapping[str, Any]) -> str:
    """What kind of group it is: `mixed`, `all right`, `all wrong`, `all equal`, `failed` or `undecided`."""
    if not group.rewards:
        return _OTHER_RUNS
    decided = [reward for reward in group.rewards if reward is not None]
    if not decided:
        return "undecided"
    if differ(decided, float(settings.get("reward_margin") or 0.0)):
        return "mixed"
    if group.failed:
        return "failed"
    return "all right" if min(decided) >= 1 else "all wrong" if max(decided) <= 0 else "all equal"


def _groups_table(phase: str, members: Sequence[PageGroup], record: LearnRecord) -> Table:
    address = group_address(record.row.run, members[0].task, phase)
    return Table(
        caption=f"Groups of epoch {phase.removeprefix(EPOCH)}",
        columns=(
            Column(name="Task"),
            Column(name="Batch", kind="number"),
            Column(name="Rewards"),
            Column(name="Mean", kind="number"),
            Column(name="Kind", choices=True),
            Column(name="Proposals"),
        ),
        rows=tuple(_groups_row(group, record.settings) for group in members),
        note=f"One group in full: {command_words('trace', address, store=record.store)}",
    )


def _groups_row(group: PageGroup, settings: Mapping[str, Any]) -> tuple[TableCell, ...]:
    decided = [reward for reward in group.rewards if reward is not None]
    mean = sum(decided) / len(decided) if decided else None
    planned, kind = settings.get("group_size"), group_kind(group, settings)
    drawn = f"{len(group.rewards)} of {planned} planned" if group.rewards and planned != len(group.rewards) else ""
    ends = ", ".join(f"{number} {end}" for end, number in sorted(group.ends.items()))
    problem = clipped(shown(one_line(group.problem, PROBLEM)), PROBLEM) or "this store does not hold the task"
    return (
        TableCell(text=problem, sub=group.task[:TASK_ID]),
        TableCell(text=f"{group.batch}", value=group.batch),
        TableCell(text=_rewards(group.rewards), sub=drawn),
        TableCell(text=decimal(mean), value=mean),
        TableCell(text=kind),
        TableCell(text=ends or "none"),
    )


def _rewards(rewards: Rewards) -> str:
    """Rewards one by one, or counted when there are many."""
    words = ["undecided" if one is None else f"{one:.3g}" for one in rewards]
    if len(words) <= 12:
        return "\u00a0".join(words) or "-"
    return ", ".join(f"{number} x {word}" for word, number in sorted(Counter(words).items()))


MOST_LESSONS = 2_000
"""Largest number of lessons on the page."""
_TASKS = 3
"""Largest number of tasks that are named for one lesson."""


def lessons_section(record: LearnRecord) -> Section:
    """A table of the lessons: what made each, from which tasks, and what it replaced."""
    title = "Lessons"
    if record.library is None:
        return Section(title=title, parts=(Paragraph(text="This store does not hold the library of the run."),))
    library = record.library
    if not len(library):
        return Section(title=title, parts=(Paragraph(text="The library is empty."),))
    table = Table(
        caption=f"{count_words(len(library), 'lesson')} of version {library.version[:8]}",
        columns=(
            Column(name="Lesson"),
            Column(name="Origin"),
            Column(name="Made from"),
            Column(name="Rollouts", kind="number"),
            Column(name="Replaces"),
        ),
        rows=tuple(_row(one, record) for one in library.experiences[:MOST_LESSONS]),
        note=f"The origins in full: {_command(record)}",
    )
    parts: list[PagePart] = [table] if len(library) <= 40 else [Details(summary=table.caption, parts=(table,))]
    if (more := len(library) - MOST_LESSONS) > 0:
        parts.append(Paragraph(text=f"{more:,} more lessons are not on this page."))
    return Section(title=title, parts=tuple(parts))


def _command(record: LearnRecord) -> str:
    assert record.library is not None
    reference = f"@{record.library.version[:8]}"
    return command_words("library", "show", reference, "--origins", store=record.store)


def _row(one: Experience, record: LearnRecord) -> tuple[TableCell, ...]:
    origins = record.origins.get(one.id, ())
    own = [origin for origin in origins if origin.run == record.row.run]
    replaced = "; ".join(record.lessons.get(parent, parent[:8]) for parent in one.origin.parents)
    rollouts = max((origin.rollouts for origin in origins), default=None)
    return (
        TableCell(text=one.lesson, sub=", ".join(filter(None, (one.id[:8], *one.tags)))),
        TableCell(text=_origin(one, own or origins, record)),
        TableCell(text=_tasks(own or origins, record)),
        TableCell(text=count(rollouts), value=rollouts),
        TableCell(text=clipped(shown(replaced), 420) or "nothing"),
    )


def _origin(one: Experience, origins: Sequence[LessonOrigin], record: LearnRecord) -> str:
    if not origins:
        kinds = {"person": "written by a person", "import": "imported from another program"}
        return kinds.get(one.origin.kind, "another store holds the run that made it")
    first = origins[0]
    place = f"epoch {first.phase.removeprefix(EPOCH)}, batch {first.batch}"
    return f"{one.origin.kind}, {place}" if first.run == record.row.run else f"{one.origin.kind}, run {first.run}"


def _tasks(origins: Sequence[LessonOrigin], record: LearnRecord) -> str:
    """The first tasks of the groups that a lesson was made from."""
    if not origins:
        return "not known"
    starts = [address.partition("/")[2].partition("@")[0] for address in origins[0].groups]
    named = [problem for start in starts[:_TASKS] for id_, problem in record.problems.items() if id_.startswith(start)]
    words = " · ".join(clipped(shown(one_line(problem, PROBLEM)), PROBLEM // 2) for problem in named)
    more = f" · and {len(starts) - _TASKS:,} more" if len(starts) > _TASKS else ""
    return f"{count_words(len(starts), 'task')}: {words}{more}" if words else count_words(len(starts), "task")
