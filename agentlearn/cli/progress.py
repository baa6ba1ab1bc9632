"""A learn run as a person sees it: what it runs on, a line per phase, the result."""

import shlex
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from agentlearn.calls.account import Account
from agentlearn.calls.discover import found_models
from agentlearn.calls.endpoint import Endpoint
from agentlearn.cli.output import ago
from agentlearn.config import DEFAULT_STORE, LearnSettings
from agentlearn.errors import BudgetExceeded, EndpointGone, Interrupted
from agentlearn.learn.estimate import estimate
from agentlearn.learn.learner import Update
from agentlearn.learn.observer import Observer
from agentlearn.learn.report import EpochLine, HeldOut, LearnReport
from agentlearn.task import Task
from agentlearn.trajectory import Trajectory

_LABEL = 11
RESUMABLE = (KeyboardInterrupt, BudgetExceeded, EndpointGone, Interrupted)


class Progress(Observer):
    """Prints as the run goes on; bars only on a terminal."""

    def __init__(self, settings: LearnSettings, out: Console) -> None:
        self.settings = settings
        self.out = out
        columns = (TextColumn("  {task.description}"), BarColumn(bar_width=24), MofNCompleteColumn())
        extra = (TextColumn("reward {task.fields[reward]}"), TimeElapsedColumn())
        self.bars = Bars(*columns, *extra, console=out, transient=True, disable=not out.is_terminal)
        self.bar: TaskID | None = None
        self.rewards: list[float] = []
        self.account: Account | None = None

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()
        if self.account is not None and (isinstance(error, RESUMABLE)):
            self._line("resume", f"agentlearn learn --resume {self.account.run}{self._store_words()}")

    def _store_words(self) -> str:
        return "" if self.settings.store == DEFAULT_STORE else f" --store {self.settings.store}"

    def interrupt(self) -> bool:
        """Stop the run in good order; False when it is stopping already, or not yet begun."""
        if self.account is None or self.account.stopped is not None:
            return False
        self.account.stop(Interrupted("interrupted; what was finished is stored"))
        if calls := self.account.in_flight:
            self._line("stopping", f"{_count(calls, 'call')} in flight will be stored; Ctrl-C again stops now")
        return True

    def opened(self, account: Account, endpoint: Endpoint, train: tuple[Task, ...], test: tuple[Task, ...]) -> None:
        self.account = account
        self.out.print(command(self.settings))
        if endpoint.simulated:
            self._line("model", f"{endpoint.name}, a simulated model: it shows the mechanics, not a result")
            if self.settings.reward is not None:
                self._line("note", "the simulated model can solve the bundled problems only, not your own tasks")
            for found in found_models():
                self._hint(found.why, found.endpoint, len(train), len(test), paid=found.paid)
        else:
            self._line("model", endpoint.name)
        known = {task.family for task in train}
        unseen = sum(task.family not in known for task in test)
        of_which = f" ({unseen} of them of unseen families)" if unseen else ""
        held = f"{len(test)} held out{of_which}" if test else "none held out"
        shape = f"{self.settings.group_size} rollouts each · {_count(self.settings.epochs, 'epoch')}"
        self._line("tasks", f"{len(train)} to learn from, {held} · {shape}")
        self._line("run", account.run)

    def _hint(self, why: str, endpoint: str, train: int, test: int, *, paid: bool) -> None:
        other = self.settings.model_copy(update={"model": endpoint, "reflector": None})
        price = f"   ({estimate(other, train=train, test=test).sentence()}; asks first)" if paid else ""
        self._line("", f"found {why}: {command(self.settings)} --model {endpoint}{price}")

    def phase_started(self, phase: str, rollouts: int) -> None:
        self._close_bar()
        self.rewards = []
        self.bar = self.bars.add_task(phase.ljust(_LABEL), total=rollouts, reward="-")

    def rollout_done(self, phase: str, trajectory: Trajectory) -> None:
        if trajectory.reward is not None:
            self.rewards.append(trajectory.reward)
        if self.bar is not None:
            reward = f"{sum(self.rewards) / len(self.rewards):.2f}" if self.rewards else "-"
            self.bars.update(self.bar, advance=1, reward=reward)

    def updated(self, step: str, update: Update) -> None:
        for note in update.evidence.notes:
            self._line("note", note)

    def epoch_done(self, line: EpochLine) -> None:
        self._close_bar()
        reward = "-" if line.reward is None else f"{line.reward:.2f}"
        mixed = line.groups.get("mixed", 0)
        self._line(
            f"epoch {line.epoch}/{self.settings.epochs}",
            f"reward {reward}   mixed groups {mixed}/{sum(line.groups.values())}   lessons {line.lessons}   "
            f"applied {line.applied} · folded {line.folded} · dropped {line.dropped} · rejected {line.rejected}   "
            f"{ago(line.seconds)}",
        )

    def done(self, report: LearnReport) -> None:
        self._close_bar()
        if report.before and report.after and report.delta:
            self._line("held out", _held_out_words(report))
            for name, part in (("known", report.known_families), ("unseen", report.unseen_families)):
                if part is not None and report.unseen_families is not None:
                    self._line("", f"{name} families {_part_words(part)}")
        weights = report.weights
        self._line("weights", f"{weights.identity}: {weights.note}")
        name, version = report.library.name, report.library.version[:8]
        self._line(
            "library",
            f"{name}@{version}  {_count(report.library.lessons, 'lesson')}, {report.library.tokens} tokens (estimated)"
            f"      agentlearn library show {name}",
        )
        cost = "nothing" if report.simulated else "an unknown price"
        if report.cost_usd:
            cost = f"${report.cost_usd:.4f}"
        calls = sum(stage.calls for stage in report.stages.values())
        self._line(
            "spent", f"{cost} for {calls:,} model calls in {ago(report.wall_s)}      agentlearn runs show {report.run}"
        )
        for note in report.notes:
            self._line("note", note)

    def _line(self, label: str, text: str) -> None:
        self.out.print(f"  {label.ljust(_LABEL)}{text}")

    def _close_bar(self) -> None:
        if self.bar is not None:
            self.bars.remove_task(self.bar)
            self.bars.refresh()
            self.bar = None


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
    scores = f"{_number(report.before.mean)} → {_number(report.after.mean)}"
    change = _change(report.delta.mean, report.delta.ci)
    return f"{scores}   {change}{p}   {report.delta.n} tasks x {report.after.k}"


def _part_words(part: HeldOut) -> str:
    return (
        f"{_number(part.before.mean)} → {_number(part.after.mean)}   {_change(part.delta.mean, part.delta.ci)}"
        f"   {_count(part.delta.n, 'task')} of {_count(part.families, 'family')}"
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _change(mean: float | None, ci: tuple[float, float] | None) -> str:
    interval = "" if ci is None else f" [{ci[0]:+.2f}, {ci[1]:+.2f}]"
    return ("-" if mean is None else f"{mean:+.2f}") + interval


def _count(number: int, noun: str) -> str:
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number} {noun if number == 1 else plural}"
