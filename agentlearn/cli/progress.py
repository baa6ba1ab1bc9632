"""A learn run as a person sees it: what it runs on, a line per phase, the result."""

import shlex
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from agentlearn.cli.live import LiveView, Traffic
from agentlearn.cli.output import ago
from agentlearn.cli.stages import print_stages
from agentlearn.config import DEFAULT_STORE, LearnSettings, is_lab
from agentlearn.errors import BudgetExceeded, Interrupted, only_stops
from agentlearn.learn.callbacks import Callbacks
from agentlearn.learn.estimate import estimate
from agentlearn.learn.learner import Update
from agentlearn.learn.report import EpochLine, HeldOut, HeldOutScore, LearnReport, LibraryLine
from agentlearn.learn.warnings import RunWarning
from agentlearn.models.call_context import CallContext
from agentlearn.models.discover import found_models
from agentlearn.models.endpoint import Endpoint
from agentlearn.types.group import GroupKind
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory

_LABEL = 11


class LearnProgress(Callbacks):
    """Prints as the run goes on; below the lines, on a terminal only, a view that is drawn anew four times a second."""

    def __init__(self, settings: LearnSettings, out: Console) -> None:
        self.settings = settings
        self.out = out
        self.view = LiveView()
        self.live: Live | None = None
        if out.is_terminal and not out.is_dumb_terminal:
            self.live = Live(get_renderable=lambda: self.view, console=out, transient=True, refresh_per_second=4)
        self.call_context: CallContext | None = None

    def __enter__(self) -> Self:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_view()
        if self.call_context is not None and only_stops(error):
            more = self._more_words() if isinstance(error, BudgetExceeded) else ""
            self._line("resume", f"agentlearn learn --resume {self.call_context.run}{self._store_words()}{more}")

    def _store_words(self) -> str:
        return "" if self.settings.store == DEFAULT_STORE else f" --store {self.settings.store}"

    def _more_words(self) -> str:
        """The limit to raise; minutes are counted anew."""
        assert self.call_context is not None
        match self.call_context.budget.reached:
            case "max_tokens":
                return f" --max-tokens MORE   (more than {self.settings.max_tokens:,}, of all starts together)"
            case "max_cost_usd":
                return f" --max-cost-usd MORE   (more than {self.settings.max_cost_usd:g}, of all starts together)"
            case "max_minutes" | None:
                return ""

    def interrupt(self) -> bool:
        """Stop the run in good order; False when it is stopping already, or not yet begun."""
        if self.call_context is None or self.call_context.stopped is not None:
            return False
        self.call_context.stop(Interrupted("interrupted; what was finished is stored"))
        if calls := self.call_context.in_flight:
            self._line("stopping", f"{count(calls, 'call')} in flight will be stored; Ctrl-C again stops now")
        return True

    def opened(
        self,
        call_context: CallContext,
        endpoint: Endpoint,
        reflector: Endpoint,
        train: tuple[Task, ...],
        test: tuple[Task, ...],
    ) -> None:
        self.call_context = call_context
        endpoint_states = tuple({id(one.endpoint_state): one.endpoint_state for one in (endpoint, reflector)}.values())
        expected = estimate(self.settings, train=len(train), test=len(test))
        simulated = endpoint.simulated and reflector.simulated
        self.view.traffic = Traffic(call_context, endpoint_states, simulated, expected)
        self.out.print(command(self.settings))
        self._line("model", model_words(endpoint))
        if reflector is not endpoint:
            self._line("reflector", model_words(reflector))
        if endpoint.simulated or is_lab(endpoint.name):
            if self.settings.reward is not None:
                self._line("note", f"{endpoint.name} can solve the bundled problems only, not your own tasks")
            for found in found_models():
                self._hint(found.why, found.endpoint, len(train), len(test), paid=found.paid)
        known = {task.family for task in train}
        unseen = sum(task.family not in known for task in test)
        of_which = f" ({unseen} of them of unseen families)" if unseen else ""
        held = f"{len(test)} held out{of_which}" if test else "none held out"
        epochs = self.settings.as_pilot().epochs
        shape = f"{self.settings.group_size} rollouts each · {count(epochs, 'epoch')}"
        self._line("tasks", f"{len(train)} to learn from, {held} · {shape}")
        self._line("run", call_context.run)

    def _hint(self, why: str, endpoint: str, train: int, test: int, *, paid: bool) -> None:
        other = self.settings.model_copy(update={"model": endpoint, "reflector": None})
        price = f"   ({estimate(other, train=train, test=test).sentence()}; asks first)" if paid else ""
        self._line("", f"found {why}: {command(self.settings)} --model {endpoint}{price}")

    def phase_started(self, phase: str, rollouts: int) -> None:
        number = phase.removeprefix("epoch-")
        label = phase if number == phase else f"epoch {number}/{self.settings.as_pilot().epochs}"
        self.view.begin(phase, label, rollouts)

    def rollout_done(self, phase: str, trajectory: Trajectory) -> None:
        self.view.add_rollout(phase, trajectory)

    def group_done(self, kind: GroupKind) -> None:
        self.view.add_group(kind)

    def warned(self, warning: RunWarning) -> None:
        self._line("warning", warning.words)

    def updated(self, step: str, update: Update) -> None:
        self.view.add_update(update)
        for note in update.evidence.notes:
            self._line("note", note)

    def epoch_done(self, line: EpochLine) -> None:
        reward = "-" if line.reward is None else f"{line.reward:.2f}"
        mixed = line.groups.get("mixed", 0)
        self._line(
            f"epoch {line.epoch}/{self.settings.as_pilot().epochs}",
            f"reward {reward}   mixed groups {mixed}/{sum(line.groups.values())}   lessons {line.lessons}   "
            f"applied {line.applied} · folded {line.folded} · dropped {line.dropped} · rejected {line.rejected}   "
            f"{ago(line.seconds)}",
        )

    def measured(self, updates: int, score: HeldOutScore) -> None:
        self._line("held out", f"{number(score.mean)} after {count(updates, 'update')}")

    def done(self, report: LearnReport) -> None:
        self._close_view()
        if report.before and report.after and report.delta:
            self._line("held out", _held_out_words(report))
            for name, part in (("known", report.known_families), ("unseen", report.unseen_families)):
                if part is not None and report.unseen_families is not None:
                    self._line("", f"{name} families {_part_words(part)}")
        weights = report.weights
        self._line("weights", f"{weights.identity}: {weights.note}")
        if report.pilot is None:
            self._library(report.library)
        else:
            for label, words in zip(("pilot", "", ""), report.pilot.lines(), strict=True):
                self._line(label, words)
        cost = "nothing" if report.simulated else "an unknown price"
        if report.cost_usd:
            cost = f"${report.cost_usd:.4f}"
        calls = sum(stage.calls for stage in report.stages.values())
        self._line(
            "spent", f"{cost} for {calls:,} model calls in {ago(report.wall_s)}      agentlearn runs show {report.run}"
        )
        print_stages(report.stages, self.out, indent=2)
        for note in report.notes:
            self._line("note", note)

    def _library(self, library: LibraryLine) -> None:
        lessons = f"{count(library.lessons, 'lesson')}, {library.tokens} tokens (estimated)"
        show = f"agentlearn library show {library.name}"
        self._line("library", f"{library.name}@{library.version[:8]}  {lessons}      {show}")

    def _line(self, label: str, text: str) -> None:
        self.out.print(f"  {label.ljust(_LABEL)}{text}")

    def _close_view(self) -> None:
        """Take the view away and give the terminal back as it was."""
        if self.live is not None:
            self.live.stop()


def model_words(endpoint: Endpoint) -> str:
    """An endpoint in words, so that nobody takes a simulation or a lab model for more than it is."""
    if endpoint.simulated:
        return f"{endpoint.name}, a simulated model: it shows the mechanics, not a result"
    if is_lab(endpoint.name):
        return f"{endpoint.name}, a real but tiny transformer: it shows the machinery, not mathematical talent"
    return endpoint.name


def command(settings: LearnSettings) -> str:
    """The command that learns from the same tasks, judged in the same way."""
    if settings.reward is None or settings.data is None:
        given = [settings.domain, *(["--data", settings.data] if settings.data is not None else [])]
    else:
        given = [settings.data, "--reward", settings.reward]
        if settings.tools != "none":
            given += ["--tools", settings.tools]
    return shlex.join(["agentlearn", "learn", *given])


def _held_out_words(report: LearnReport) -> str:
    assert report.before is not None
    assert report.after is not None
    assert report.delta is not None
    p = "" if report.delta.p is None else f"   p {'< 0.001' if report.delta.p < 0.001 else f'= {report.delta.p:.3f}'}"
    scores = f"{number(report.before.mean)} → {number(report.after.mean)}"
    told = change(report.delta.mean, report.delta.ci)
    return f"{scores}   {told}{p}   {report.delta.n} tasks x {report.after.k}"


def _part_words(part: HeldOut) -> str:
    return (
        f"{number(part.before.mean)} → {number(part.after.mean)}   {change(part.delta.mean, part.delta.ci)}"
        f"   {count(part.delta.n, 'task')} of {count(part.families, 'family')}"
    )


def number(value: float | None) -> str:
    """A score as people read it."""
    return "-" if value is None else f"{value:.2f}"


def change(mean: float | None, ci: tuple[float, float] | None) -> str:
    """A difference with its interval."""
    interval = "" if ci is None else f" [{ci[0]:+.2f}, {ci[1]:+.2f}]"
    return ("-" if mean is None else f"{mean:+.2f}") + interval


def count(of: int, noun: str) -> str:
    """So many of a thing, in words."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{of} {noun if of == 1 else plural}"
