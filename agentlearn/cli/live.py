"""What the progress displays of `learn` and `train` share: labelled lines, a live view, and the resume command.

The live view on a terminal shows phase, rewards, tasks, lessons, model calls and costs; elsewhere, there is a line
every 30 seconds.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import ClassVar, Self

from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.live import Live
from rich.progress import Progress
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agentlearn.config import RunSettings
from agentlearn.config.defaults import command_words
from agentlearn.errors import Interrupted, ProcessLost, may_go_on
from agentlearn.learning.callbacks import RunWarning, Update
from agentlearn.learning.costs import CostEstimate
from agentlearn.learning.report import HeldOutScore
from agentlearn.library.curate import EndCounts
from agentlearn.measure.score_table import clustered_score
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.pages.figure import clock_time, count_words, large, price_words, proposal_words, score_words
from agentlearn.pages.terminal import EndPart, print_parts
from agentlearn.types.group import GroupKind
from agentlearn.types.ids import RunId
from agentlearn.types.operation import Ended
from agentlearn.types.trajectory import Trajectory

_LABEL = 11
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
class _Phase:
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

    def reward(self, clusters: Mapping[str, str]) -> Text:
        """Return the mean reward of each measurement, with its interval over families of tasks."""
        words, tasks, intervals = Text(), 0, False
        for name in self.parts:
            means = {task: sum(rewards) / len(rewards) for task, rewards in list(self.rewards.get(name, {}).items())}
            if not means:
                continue
            mean = clustered_score(list(means.values()), [clusters.get(task) or f"task {task}" for task in means])
            known = mean.low is not None and mean.high is not None
            interval = f" [{score_words(mean.low)}, {score_words(mean.high)}]" if known else ""
            tasks, intervals = max(tasks, len(means)), intervals or known
            side = f"{name} " if len(self.parts) > 1 else ""
            words.append(f"{'   ' if words else ''}{side}")
            words.append(score_words(mean.mean), style="bold").append(interval)
        undecided = f"   {self.undecided} undecided" if self.undecided else ""
        over = f"   mean over {count_words(tasks, 'task')}{', 95 % interval' if intervals else ''}"
        words.append(over if words else "-", style="dim" if words else "")
        return words.append(undecided, style="yellow")


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

    def calls(self) -> Text:
        """Return the calls in flight and answered, and what went wrong."""
        states = self.endpoint_states
        limit = sum(int(state.limiter.limit) for state in states)
        answered = sum(sum(list(state.answered.values())) for state in states)
        words = Text(f"{self.call_context.in_flight:,} in flight (limit {limit:,})   {answered:,} answered")
        wrong = [f"no answer for {state.outage.silent_s:.0f} s" for state in states if state.outage.down]
        wrong += [f"{self.cut_off:,} cut at the limit"] if self.cut_off else []
        if failures := sum((state.failures.copy() for state in states), Counter[str]()):
            wrong.append(f"failed: {', '.join(f'{kind} {count:,}' for kind, count in failures.most_common())}")
        return words.append("".join(f"   {one}" for one in wrong), style="yellow")

    def spent(self) -> Text:
        """Return the costs so far, and the estimate for the whole run."""
        budget, expected = self.call_context.budget, self.expected
        price = price_words(None if budget.unpriced_calls else budget.cost_usd)
        words = Text(f"{price} for {large(budget.usage.tokens_in + budget.usage.tokens_out)} tokens")
        if expected is None:
            return words
        about = f"{large(expected.tokens_in + expected.tokens_out)} tokens"
        if not self.simulated and expected.cost_usd is not None:
            about = f"{price_words(expected.cost_usd)}, {about}"
        return words.append(f"   whole run: about {about} (a rough estimate)", style="dim")


@dataclass(slots=True)
class LiveView:
    """What is shown of a run. The run changes it while another thread draws it, so drawing only copies and reads."""

    clock: Callable[[], float] = time.monotonic
    phase: _Phase | None = None
    traffic: Traffic | None = None
    groups: Counter[GroupKind] = field(default_factory=Counter[GroupKind])
    clusters: Mapping[str, str] = field(default_factory=dict[str, str])
    """Cluster of each task."""
    lessons: int | None = None
    ended: list[Ended] = field(default_factory=list[Ended])
    _ends: EndCounts = field(default_factory=lambda: EndCounts.of(()))

    def start_phase(self, name: str, label: str, rollouts: int) -> None:
        """Show a new phase."""
        written = 0 if self.traffic is None else self.traffic.written
        self.phase = _Phase(name, label, rollouts, self.clock(), written=written)

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
        self._ends = EndCounts.of(self.ended)

    def words(self) -> str:
        """The state of the run in one line."""
        phase, traffic = self.phase, self.traffic
        if traffic is None:
            return "the model is being opened"
        parts = [f"{traffic.call_context.in_flight:,} model calls in flight"]
        if phase is not None:
            written = f"{large(traffic.written - phase.written)} tokens written"
            parts = [f"{phase.label}: {phase.done:,} of {phase.rollouts:,} rollouts", *parts, written]
            parts += [self._speed(phase), clock_time(max(0.0, self.clock() - phase.started))]
        if cut := traffic.cut_off:
            parts.append(f"{count_words(cut, 'answer')} cut at the limit")
        return "   ".join(parts)

    def _speed(self, phase: _Phase) -> str:
        """Tokens that models wrote per second in a phase."""
        written = 0 if self.traffic is None else self.traffic.written - phase.written
        return f"{written / max(1.0, self.clock() - phase.started):,.0f} tokens/s"

    def __rich__(self) -> RenderableType:
        """Up to six lines, none wider than the terminal."""
        rows: list[RenderableType] = []
        if (phase := self.phase) is not None:
            elapsed = clock_time(max(0.0, self.clock() - phase.started))
            if self.traffic is not None and self.traffic.written > phase.written:
                elapsed += f"  {self._speed(phase)}"
            line = Table.grid(padding=(0, 2, 0, 0))
            line.add_row(
                Text(f"  {phase.label.ljust(_LABEL - 2)}", style="bold", no_wrap=True),
                ProgressBar(total=max(1, phase.rollouts), completed=phase.done, width=_BAR),
                Text(f"{phase.done:,}/{phase.rollouts:,} rollouts", no_wrap=True),
                Text(elapsed, style="dim", no_wrap=True),
            )
            rows += [line, _row("reward", phase.reward(self.clusters))]
        if self.groups:
            counts = self.groups.copy()
            parts = [
                Text(f"{words} {counts[kind]:,}", style=style)
                for kind, (words, style) in _KINDS.items()
                if counts[kind] or kind in _ALWAYS
            ]
            rows.append(_row("tasks", Text(" · ").join(parts).append(f"   of {counts.total():,}", style="dim")))
        if self.lessons is not None:
            ends = self._ends
            dropped, rejected = sum(ends.dropped.values()), sum(ends.rejected.values())
            proposals = proposal_words(ends.applied, ends.folded, dropped, rejected, sum(ends.quarantined.values()))
            rows.append(_row("lessons", Text().append(f"{self.lessons}", style="bold").append(f"   {proposals}")))
        if self.traffic is not None and phase is not None:
            rows += [_row("calls", self.traffic.calls()), _row("spent", self.traffic.spent())]
        return Lines(*rows)


def _row(label: str, words: Text) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    return line.append(f"  {label.ljust(_LABEL)}", style="dim").append_text(words)


EVERY_S = 30.0
"""Longest time without a printed line, in seconds."""
_LOOK_S = 1.0


class Heartbeat:
    """Prints the state of a run when nothing was printed for a while."""

    def __init__(
        self, words: Callable[[], str], say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """words: the state of the run; empty: nothing to say. say: prints it. clock: in seconds."""
        self._words, self._say, self._clock = words, say, clock
        self._last = clock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def printed(self) -> None:
        """Note that a line was printed."""
        self._last = self._clock()

    def beat(self) -> None:
        """Print the state if it is time."""
        if self._clock() - self._last < EVERY_S:
            return
        if words := self._words():
            self._say(words)
        self.printed()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Print no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        with suppress(OSError):  # nobody reads the output any more
            while not self._ended.wait(_LOOK_S):
                self.beat()


class RunDisplay:
    """Prints labelled lines about a run, with a live view on a terminal, and how to go on with one that stopped."""

    label_width: ClassVar[int] = 11

    def __init__(
        self, out: Console, live: Callable[[], Live | Progress], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """live: makes the live view, where `out` can show one."""
        self.out = out
        self.live = live() if out.is_terminal and not out.is_dumb_terminal else None
        self.heartbeat = Heartbeat(self.state_words, lambda words: self.line("so far", words), clock)
        self.call_context: CallContext | None = None

    def __enter__(self) -> Self:
        if self.live is not None:
            self.live.start()
        else:
            self.heartbeat.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_view()
        if error is not None and may_go_on(error) and (line := self.how_to_go_on()):
            error.add_note(line)

    def close_view(self) -> None:
        """Remove the live view and restore the terminal."""
        self.heartbeat.stop()
        if self.live is not None:
            self.live.stop()

    def state_words(self) -> str:
        """How far the run is, in one line."""
        raise NotImplementedError

    def how_to_go_on(self) -> str:
        """The line that says how to continue the run; empty when it has not started."""
        raise NotImplementedError

    def line(self, label: str, text: str) -> None:
        """Print one line; an empty label continues the line above."""
        self.out.print(self.labelled(label, text))
        self.heartbeat.printed()

    def labelled(self, label: str, text: str) -> str:
        """Return one line with its label."""
        return f"  {label.ljust(self.label_width)}{text}"

    def interrupt(self) -> bool:
        """Stop the run in good order. Return False when it is already stopping or has not started."""
        if self.call_context is not None and isinstance(self.call_context.stopped, ProcessLost):
            return True  # torchrun ends every process when one has ended, and the run is ending for the same reason
        if self.call_context is None or self.call_context.stopped is not None:
            return False
        self.call_context.stop(Interrupted("interrupted; what was finished is stored"))
        if calls := self.call_context.in_flight:
            self.line("stopping", f"waiting for {count_words(calls, 'model call')}; press Ctrl-C again to stop now")
        return True


class ProgressLines(RunDisplay):
    """Prints labelled lines about one run of `learn` or `train`."""

    command: ClassVar[str]
    """The command that resumes the run: learn or train."""

    def __init__(self, settings: RunSettings, out: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.view = view = LiveView(clock)
        super().__init__(
            out,
            lambda: Live(get_renderable=lambda: view, console=out, transient=True, refresh_per_second=4),
            clock,
        )
        self.store = settings.store
        self.finished = False
        """Whether the run is done and its report stored."""

    def state_words(self) -> str:
        return self.view.words()

    def rollout_done(self, phase: str, trajectory: Trajectory) -> None:
        """Show a finished rollout."""
        self.view.add_rollout(phase, trajectory)

    def group_stopped(self, phase: str, saved: int) -> None:
        """Expect fewer rollouts."""
        self.view.leave_out(phase, saved)

    def group_done(self, kind: GroupKind) -> None:
        """Show a finished task of a batch."""
        self.view.add_group(kind)

    def warned(self, warning: RunWarning) -> None:
        """Print a warning."""
        self.line("warning", warning.words)

    def how_to_go_on(self) -> str:
        """The line with the command that resumes the run; empty for a finished one."""
        if self.call_context is None or self.finished:
            return ""
        command = command_words(self.command, "--resume", self.call_context.run, store=self.store)
        return self.labelled("resume", command + self.raised())

    def raised(self) -> str:
        """Further options that the command needs, such as a higher limit."""
        return ""

    def service_changed(self, words: str, silent: bool) -> None:
        """Print that the run waits for a model service, or that it goes on."""
        more = ""
        if silent and self.call_context is not None:
            command = command_words(self.command, "--resume", self.call_context.run, store=self.store)
            more = f"; Ctrl-C stops, {command} goes on"
        self.line("service", f"{words}{more}")

    def measured(self, updates: int, score: HeldOutScore) -> None:
        """Print a score on held-out tasks during learning."""
        self.line("held out", f"{score_words(score.mean)} after {count_words(updates, 'update')}")

    def print_end(self, run: RunId, parts: Iterable[EndPart]) -> None:
        """Print the end of a run whose report is stored."""
        self.finished = True
        self.close_view()
        for part in (*parts, ("show", command_words("runs", "show", run, store=self.store))):
            if isinstance(part, tuple):
                self.line(*part)
            else:
                print_parts(self.out, (part,), label=self.label_width)
