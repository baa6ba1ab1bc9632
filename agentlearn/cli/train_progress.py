"""A training run as a person sees it: what it runs on, a line per few updates, the result."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console

from agentlearn.cli.output import ago
from agentlearn.cli.progress import change, count, number
from agentlearn.config import DEFAULT_STORE
from agentlearn.errors import Interrupted, only_stops
from agentlearn.learn.learner import Update
from agentlearn.learn.report import HeldOut, HeldOutScore
from agentlearn.learn.warnings import RunWarning
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.train.callbacks import TrainCallbacks
from agentlearn.train.report import TrainReport, UpdateLine
from agentlearn.train.settings import TrainSettings
from agentlearn.train.training_run import update_line
from agentlearn.types.task import Task

_LABEL = 14
LINES = 15
"""Lines of updates that a run prints at the most, each the mean of as many updates as follow from that."""


class TrainProgress(TrainCallbacks):
    """Prints as the run goes on."""

    def __init__(self, settings: TrainSettings, out: Console) -> None:
        self.settings = settings
        self.out = out
        self.call_context: CallContext | None = None
        self.updates = 0
        self.total = 0
        self.waiting: list[UpdateLine] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.call_context is not None and only_stops(error):
            store = "" if self.settings.store == DEFAULT_STORE else f" --store {self.settings.store}"
            self._line("resume", f"agentlearn train --resume {self.call_context.run}{store}")

    def interrupt(self) -> bool:
        """Stop the run in good order; False when it is stopping already, or not yet begun."""
        if self.call_context is None or self.call_context.stopped is not None:
            return False
        self.call_context.stop(Interrupted("interrupted; what was finished is stored"))
        return True

    def opened(
        self,
        call_context: CallContext,
        endpoint: Endpoint,
        reflector: Endpoint,
        train: tuple[Task, ...],
        test: tuple[Task, ...],
    ) -> None:
        settings, gradient = self.settings, self.settings.gradient
        self.call_context = call_context
        batches = -(-len(train) // settings.batch_size)
        self.total = settings.epochs * batches
        self.out.print(f"agentlearn train {settings.domain}")
        what = f"an adapter of rank {gradient.lora_rank}" if gradient.lora_rank else "all weights"
        self._line("model", f"{endpoint.name}, training {what}")
        self._line("update", f"{gradient.loss}, learning rate {gradient.learning_rate:g}, KL {gradient.kl}")
        if settings.library != "none":
            self._line("lessons", f"{settings.library}, in every prompt")
        held = f"{len(test)} held out" if test else "none held out"
        shape = f"{settings.group_size} rollouts each · {count(self.total, 'update')} of {settings.batch_size} tasks"
        self._line("tasks", f"{len(train)} to learn from, {held} · {shape}")
        self._line("run", call_context.run)

    def phase_started(self, phase: str, rollouts: int) -> None:
        if phase in {"before", "after"}:
            self._line("measuring", f"{phase} training: {rollouts} rollouts")

    def warned(self, warning: RunWarning) -> None:
        self._line("warning", warning.words)

    def updated(self, step: str, update: Update) -> None:
        for note in update.evidence.notes:
            self._line("note", note)
        self.updates += 1
        self.waiting.append(update_line(self.updates, update.evidence.metrics))
        each = max(1, -(-self.total // LINES))
        if self.updates % each == 0 or self.updates == self.total:
            self._line(f"update {self.updates}/{self.total}", _words(self.waiting))
            self.waiting = []

    def measured(self, updates: int, score: HeldOutScore) -> None:
        self._line("held out", f"{number(score.mean)} after {count(updates, 'update')}")

    def trained(self, report: TrainReport) -> None:
        if report.before and report.after and report.delta:
            p = "" if report.delta.p is None else f"   p {_p(report.delta.p)}"
            scores = f"{number(report.before.mean)} → {number(report.after.mean)}"
            told = f"{change(report.delta.mean, report.delta.ci)}{p}   {report.delta.n} tasks x {report.after.k}"
            self._line("held out", f"{scores}   {told}")
            for name, part in (("known", report.known_families), ("unseen", report.unseen_families)):
                if part is not None and report.unseen_families is not None:
                    self._line("", f"{name} families {_part(part)}")
        weights = report.weights
        self._line("weights", f"{weights.sha256_before[:12]} → {weights.sha256_after[:12]}      {weights.path}")
        self._line("use them", f"agentlearn solve {report.domain} PROBLEM --model local:{weights.path}")
        turns = report.turns
        self._line("turns", f"{turns['clean']:,} continued, {turns['forked']:,} forked; none encoded again")
        parts = ", ".join(f"{name} {ago(seconds)}" for name, seconds in report.seconds.items())
        self._line("time", f"{ago(report.wall_s)}, of which {parts}")
        for note in report.notes:
            self._line("note", note)

    def _line(self, label: str, text: str) -> None:
        self.out.print(f"  {label.ljust(_LABEL)}{text}")


def _words(lines: Sequence[UpdateLine]) -> str:
    reward = number(_mean([one.reward for one in lines]))
    mixed = _mean([one.mixed for one in lines]) or 0.0
    entropy, clipped = (_mean([getattr(one, name) for one in lines]) for name in ("entropy", "clipped"))
    parts = [f"reward {reward}", f"mixed groups {mixed:.0%}"]
    if entropy is not None:
        parts.append(f"entropy {entropy:.3f}")
    if clipped is not None:
        parts.append(f"clipped {clipped:.1%}")
    parts.append(f"{sum(one.tokens for one in lines):,} tokens")
    return "   ".join(parts)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return sum(known) / len(known) if known else None


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _part(part: HeldOut) -> str:
    scores = f"{number(part.before.mean)} → {number(part.after.mean)}"
    return f"{scores}   {change(part.delta.mean, part.delta.ci)}   {count(part.delta.n, 'task')}"
