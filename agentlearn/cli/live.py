"""The live view of a run on a terminal: phase, rewards, tasks, lessons, model calls and costs."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agentlearn.cli.output import clock_time, count_words, parts_of_table, print_table, proposal_words, score_words
from agentlearn.learning.callbacks import Update
from agentlearn.learning.costs import CostEstimate
from agentlearn.learning.report import StageLine
from agentlearn.library.curate import EndCounts, count_ends
from agentlearn.measure.score_table import clustered_score
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.types.group import GroupKind
from agentlearn.types.operation import Ended
from agentlearn.types.trajectory import Trajectory

_HEADERS = ("stage", "calls", "in", "cached", "out", "cost", "seconds", "retried", "replayed", "malformed")
_ORDER = ("rollout", "judge", "summarise", "compare", "consolidate")
"""Stages in the order of a run; other stages follow."""
_RARE = frozenset({"cached", "retried", "replayed", "malformed"})
"""Columns that are left out where every count is 0."""
_LABEL = 11


def print_stages(stages: Mapping[str, StageLine], out: Console, *, indent: int = 0) -> None:
    """Print the table unless it is empty."""
    rows = _rows(stages)
    if len(rows) > 1:
        print_table(out, rows, label=_LABEL, indent=indent)


def stage_lines(stages: Mapping[str, StageLine], columns: int | None = None) -> tuple[str, ...]:
    """The header, a line per stage that made calls, and a sum when there are several stages.

    `in`, `cached` and `out` are tokens. `seconds` is the sum over all calls, many of which ran at the same time.
    columns: where the table is wider, it comes in two parts, one below the other.
    """
    return tuple(line for part in parts_of_table(_rows(stages), label=_LABEL, columns=columns) for line in part)


def _rows(stages: Mapping[str, StageLine]) -> list[tuple[str, ...]]:
    named = [(name, line) for name, line in stage_order(stages) if line.calls]
    rows = [_cells(name, line) for name, line in named]
    if len(rows) > 1:
        rows.append(_cells("all", sum_of_stages([line for _, line in named])))
    columns = [
        column for column in zip(_HEADERS, *rows, strict=True) if column[0] not in _RARE or {*column[1:]} - {"0"}
    ]
    return list(zip(*columns, strict=True))


def malformed_words(stages: Mapping[str, StageLine]) -> tuple[str, ...]:
    """For each stage with malformed replies, the counts by kind of mistake."""
    return tuple(
        f"{name}: {', '.join(f'{code} {count:,}' for code, count in line.malformed.items())}"
        for name, line in stage_order(stages)
        if line.malformed
    )


def stage_order(stages: Mapping[str, StageLine]) -> list[tuple[str, StageLine]]:
    """The stages in the order of a run."""
    places = {name: place for place, name in enumerate(_ORDER)}
    return sorted(stages.items(), key=lambda stage: (places.get(stage[0], len(places)), stage[0]))


def _cells(name: str, line: StageLine) -> tuple[str, ...]:
    return (
        name,
        f"{line.calls:,}",
        short_count(line.tokens_in),
        short_count(line.tokens_cached),
        short_count(line.tokens_out),
        cost_words(line.cost_usd),
        f"{line.seconds:,.0f}",
        f"{line.retried:,}",
        f"{line.replayed:,}",
        f"{sum(line.malformed.values()):,}",
    )


def cost_words(cost_usd: float | None) -> str:
    """A cost in dollars; None is `unknown`, not `nothing`."""
    if cost_usd is None:
        return "unknown"
    return f"${cost_usd:,.4f}" if 0 < cost_usd < 1 else f"${cost_usd:,.2f}" if cost_usd else "nothing"


def short_count(number: int) -> str:
    """A count in at most six characters: `812`, `81.2k`, `38.0M`."""
    for unit, name in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        # a number that rounds up to the next unit uses that unit: 999,960 is 1.0M, not 1000.0k
        if number >= unit * 0.99995:
            return f"{number / unit:.1f}{name}"
    return str(number)


def sum_of_stages(lines: Sequence[StageLine]) -> StageLine:
    """The sum of several stages."""
    costs = [line.cost_usd for line in lines if line.cost_usd is not None]
    return StageLine(
        calls=sum(line.calls for line in lines),
        tokens_in=sum(line.tokens_in for line in lines),
        tokens_cached=sum(line.tokens_cached for line in lines),
        tokens_out=sum(line.tokens_out for line in lines),
        cost_usd=sum(costs) if len(costs) == len(lines) else None,
        seconds=sum(line.seconds for line in lines),
        retried=sum(line.retried for line in lines),
        replayed=sum(line.replayed for line in lines),
        malformed={"all": sum(sum(line.malformed.values()) for line in lines)},
    )


_BAR = 28
_KINDS: dict[GroupKind, tuple[str, str]] = {
    "mixed": ("right and wrong", "green"),
    "all_right": ("all right", "cyan"),
    "all_wrong": ("all wrong", "yellow"),
    "undecided": ("undecided", "magenta"),
    "failed": ("failed", "red"),
}
_ALWAYS: frozenset[GroupKind] = frozenset({"mixed", "all_right", "all_wrong"})
"""Kinds that are shown even when their count is 0."""


@dataclass(slots=True)
class Phase:
    """One pass: an epoch, or a measurement on held-out tasks. Two measurements can share one, interleaved."""

    name: str
    """Such as `epoch-1`; `before+after` for two interleaved measurements."""
    label: str
    rollouts: int
    """Rollouts of the whole phase, without those that are known to be not needed."""
    started: float
    """Time of the view's clock, in seconds."""
    done: int = 0
    """Rollouts that are finished."""
    rewards: dict[str, dict[str, list[float]]] = field(default_factory=dict[str, dict[str, list[float]]])
    """Rewards of finished rollouts by measurement and task, without undecided rollouts."""
    undecided: int = 0
    """Finished rollouts that are undecided."""
    written: int = 0
    """Tokens that models had written when it started."""

    @property
    def parts(self) -> list[str]:
        """Names of its measurements; usually one."""
        return self.name.split("+")


@dataclass(slots=True)
class Traffic:
    """Calls to models so far, and the estimate for the whole run."""

    call_context: CallContext
    endpoint_states: tuple[EndpointState, ...]
    simulated: bool
    """Whether all models are simulated."""
    expected: CostEstimate | None
    """Estimated tokens and cost of the whole run; None when there is no estimate."""

    @property
    def written(self) -> int:
        """Tokens that models have written so far."""
        return self.call_context.budget.usage.tokens_out

    @property
    def cut_off(self) -> int:
        """Answers that were cut at the limit of output tokens."""
        return sum(sum(list(state.cut_off.values())) for state in self.endpoint_states)


@dataclass(slots=True)
class LiveView:
    """What is shown of a run. The run changes it while another thread draws it, so drawing only copies and reads."""

    clock: Callable[[], float] = time.monotonic
    phase: Phase | None = None
    traffic: Traffic | None = None
    groups: Counter[GroupKind] = field(default_factory=Counter[GroupKind])
    clusters: Mapping[str, str] = field(default_factory=dict[str, str])
    """Cluster of each task."""
    lessons: int | None = None
    ended: list[Ended] = field(default_factory=list[Ended])
    _ends: EndCounts = field(default_factory=lambda: count_ends(()))

    def start_phase(self, name: str, label: str, rollouts: int) -> None:
        """Show a new phase."""
        written = 0 if self.traffic is None else self.traffic.written
        self.phase = Phase(name, label, rollouts, self.clock(), written=written)

    def add_rollout(self, phase: str, trajectory: Trajectory) -> None:
        """Add a finished rollout, unless its phase is no longer shown."""
        if self.phase is None or phase not in self.phase.parts:
            return
        self.phase.done += 1
        if trajectory.reward is None:
            self.phase.undecided += 1
        else:
            self.phase.rewards.setdefault(phase, {}).setdefault(trajectory.task, []).append(trajectory.reward)

    def leave_out(self, phase: str, rollouts: int) -> None:
        """Expect fewer rollouts, because a group stopped early."""
        if self.phase is not None and phase in self.phase.parts:
            self.phase.rollouts -= rollouts

    def add_group(self, kind: GroupKind) -> None:
        """Add a finished task of a batch by the kind of its group."""
        self.groups[kind] += 1

    def add_update(self, update: Update) -> None:
        """Add a finished update of the library."""
        self.lessons = len(update.library)
        self.ended.extend(update.evidence.ended)
        self._ends = count_ends(self.ended)

    def words(self) -> str:
        """The state of the run in one line."""
        phase, traffic = self.phase, self.traffic
        if traffic is None:
            return "the model is being opened"
        parts = [f"{traffic.call_context.in_flight:,} model calls in flight"]
        if phase is not None:
            written = f"{short_count(traffic.written - phase.written)} tokens written"
            parts = [f"{phase.label}: {phase.done:,} of {phase.rollouts:,} rollouts", *parts, written]
            parts += [self._speed(phase), clock_time(max(0.0, self.clock() - phase.started))]
        if cut := traffic.cut_off:
            parts.append(f"{count_words(cut, 'answer')} cut at the limit")
        return "   ".join(parts)

    def _speed(self, phase: Phase) -> str:
        """Tokens that models wrote per second in a phase."""
        written = 0 if self.traffic is None else self.traffic.written - phase.written
        return f"{written / max(1.0, self.clock() - phase.started):,.0f} tokens/s"

    def __rich__(self) -> RenderableType:
        """Up to six lines, none wider than the terminal."""
        rows: list[RenderableType] = []
        if self.phase is not None:
            rows += [self._phase(self.phase), _row("reward", _reward(self.phase, self.clusters))]
        if self.groups:
            rows.append(_row("tasks", self._groups()))
        if self.lessons is not None:
            rows.append(_row("lessons", self._lessons()))
        if self.traffic is not None and self.phase is not None:
            rows += [_row("calls", _calls(self.traffic)), _row("spent", _spent(self.traffic))]
        return Lines(*rows)

    def _phase(self, phase: Phase) -> Table:
        line = Table.grid(padding=(0, 2, 0, 0))
        bar = ProgressBar(total=max(1, phase.rollouts), completed=phase.done, width=_BAR)
        count = Text(f"{phase.done:,}/{phase.rollouts:,} rollouts", no_wrap=True)
        label = Text(f"  {phase.label.ljust(_LABEL - 2)}", style="bold", no_wrap=True)
        line.add_row(label, bar, count, self._elapsed(phase))
        return line

    def _elapsed(self, phase: Phase) -> Text:
        elapsed = clock_time(max(0.0, self.clock() - phase.started))
        if self.traffic is not None and self.traffic.written > phase.written:
            elapsed += f"  {self._speed(phase)}"
        return Text(elapsed, style="dim", no_wrap=True)

    def _groups(self) -> Text:
        counts = self.groups.copy()
        parts = [
            Text(f"{words} {counts[kind]:,}", style=style)
            for kind, (words, style) in _KINDS.items()
            if counts[kind] or kind in _ALWAYS
        ]
        return Text(" · ").join(parts).append(f"   of {counts.total():,}", style="dim")

    def _lessons(self) -> Text:
        ends = self._ends
        dropped, rejected = sum(ends.dropped.values()), sum(ends.rejected.values())
        proposals = proposal_words(ends.applied, ends.folded, dropped, rejected, sum(ends.quarantined.values()))
        return Text().append(f"{self.lessons}", style="bold").append(f"   {proposals}")


def _row(label: str, words: Text) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    return line.append(f"  {label.ljust(_LABEL)}", style="dim").append_text(words)


def _reward(phase: Phase, clusters: Mapping[str, str]) -> Text:
    """The mean reward of each measurement, with its interval over families of tasks."""
    words, tasks, intervals = Text(), 0, False
    for name in phase.parts:
        means = {task: sum(rewards) / len(rewards) for task, rewards in list(phase.rewards.get(name, {}).items())}
        if not means:
            continue
        mean = clustered_score(list(means.values()), [clusters.get(task) or f"task {task}" for task in means])
        interval = (
            "" if mean.low is None or mean.high is None else f" [{score_words(mean.low)}, {score_words(mean.high)}]"
        )
        tasks, intervals = max(tasks, len(means)), intervals or bool(interval)
        side = f"{name} " if len(phase.parts) > 1 else ""
        words.append(f"{'   ' if words else ''}{side}").append(score_words(mean.mean), style="bold").append(interval)
    undecided = f"   {phase.undecided} undecided" if phase.undecided else ""
    if not words:
        return Text("-").append(undecided, style="yellow")
    words.append(f"   mean over {count_words(tasks, 'task')}{', 95 % interval' if intervals else ''}", style="dim")
    return words.append(undecided, style="yellow")


def _calls(traffic: Traffic) -> Text:
    limit = sum(int(endpoint_state.limiter.limit) for endpoint_state in traffic.endpoint_states)
    answered = sum(sum(list(endpoint_state.answered.values())) for endpoint_state in traffic.endpoint_states)
    words = Text(f"{traffic.call_context.in_flight:,} in flight (limit {limit:,})   {answered:,} answered")
    for endpoint_state in traffic.endpoint_states:
        if endpoint_state.outage.down:
            words.append(f"   no answer for {endpoint_state.outage.silent_s:.0f} s", style="yellow")
    if cut := traffic.cut_off:
        words.append(f"   {cut:,} cut at the limit", style="yellow")
    if failures := _failures(traffic.endpoint_states):
        words.append(f"   failed: {failures}", style="yellow")
    return words


def _failures(endpoint_states: Sequence[EndpointState]) -> str:
    total = sum((endpoint_state.failures.copy() for endpoint_state in endpoint_states), Counter[str]())
    return ", ".join(f"{kind} {count:,}" for kind, count in total.most_common())


def _spent(traffic: Traffic) -> Text:
    budget, expected = traffic.call_context.budget, traffic.expected
    tokens = short_count(budget.usage.tokens_in + budget.usage.tokens_out)
    cost = cost_words(None if budget.unpriced_calls else budget.cost_usd)
    price = "an unknown price" if cost == "unknown" else cost
    words = Text(f"{price} for {tokens} tokens")
    if expected is None:
        return words
    about = f"{short_count(expected.tokens_in + expected.tokens_out)} tokens"
    if not traffic.simulated and expected.cost_usd is not None:
        about = f"{cost_words(expected.cost_usd)}, {about}"
    return words.append(f"   whole run: about {about} (a rough estimate)", style="dim")
