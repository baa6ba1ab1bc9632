"""Progress of a training run: what it runs on, a line per few updates, and the result."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from agentlearn.cli.live import ProgressLines, Traffic
from agentlearn.config import LAB
from agentlearn.config.defaults import command_words
from agentlearn.learning.callbacks import Update
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.pages.figure import count_words, score_words
from agentlearn.pages.runs import train_end
from agentlearn.train.report import TrainCallbacks, TrainReport, UpdateLine
from agentlearn.train.settings import TrainSettings
from agentlearn.train.weights.loading import is_adapter
from agentlearn.types.task import Task

LINES = 15
"""Largest number of update lines that a run prints; each line is the mean of equally many updates."""


class TrainProgress(ProgressLines, TrainCallbacks):
    """Prints lines as the run goes on."""

    command = "train"
    label_width = 14

    def __init__(self, settings: TrainSettings, out: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(settings, out, clock)
        self.settings = settings
        self.updates = 0
        self.total = 0
        self.waiting: list[UpdateLine] = []

    def state_words(self) -> str:
        made = f"{self.updates} of {count_words(self.total, 'update')} made   " if self.total else ""
        return made + super().state_words()

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
        self.view.traffic = Traffic(call_context, (endpoint.endpoint_state,), endpoint.simulated, None)
        self.view.clusters = {task.id: task.cluster for task in (*train, *test)}
        batches = -(-len(train) // settings.batch_size)
        self.total = settings.epochs * batches
        self.out.print(f"agentlearn train {settings.domain}")
        whole = "its adapter" if is_adapter(Path(settings.model)) else "all weights"
        trained = f"an adapter of rank {gradient.lora_rank}" if gradient.lora_rank else whole
        self.line("model", f"{endpoint.name}, training {trained}")
        self.line("update", f"{gradient.loss}, learning rate {gradient.learning_rate:g}, KL {gradient.kl}")
        if settings.library != "none":
            self.line("lessons", f"{settings.library}, in every prompt")
        if settings.distils:
            teacher = gradient.distillation.teacher
            self.line("lessons", f"{settings.distill}, distilled: only the teacher ({teacher}) reads them")
        held = f"{len(test)} held out" if test else "none held out"
        updates = f"{count_words(self.total, 'update')} of {settings.batch_size} tasks"
        self.line("tasks", f"{len(train)} to learn from, {held} · {settings.group_size} rollouts each · {updates}")
        self.line("answers", f"at most {settings.max_output_tokens:,} tokens each")
        self.line("run", call_context.run)

    def continued(self, updates: int) -> None:
        self.updates = updates
        self.line("resumed", f"after {count_words(updates, 'update')}")

    def phase_started(self, phase: str, rollouts: int) -> None:
        number = phase.removeprefix("epoch-")
        self.view.start_phase(phase, phase if number == phase else f"epoch {number}/{self.settings.epochs}", rollouts)
        if phase in {"before", "after"}:
            self.line("measuring", f"{phase} training, with {rollouts} rollouts")

    def updated(self, step: str, update: Update) -> None:
        for note in update.evidence.notes:
            self.line("note", note)
        self.updates += 1
        self.waiting.append(UpdateLine.of(self.updates, update.evidence.metrics))
        each = max(1, -(-self.total // LINES))
        if self.updates % each == 0 or self.updates == self.total:
            self.line(f"update {self.updates}/{self.total}", _update_words(self.waiting))
            self.waiting = []

    def saved_early(self, path: Path, updates: int) -> None:
        settings = self.settings
        self.line("checkpoint", f"{path}, after {count_words(updates, 'update')}")
        own = ("--reward", settings.reward) if settings.data and settings.reward else ()
        arms = (f"before=none,model=local:{settings.model}", f"trained=none,model=local:{path}")
        domain = settings.data or settings.domain
        if not settings.model.startswith(LAB):
            self.line("measure it", command_words("compare", *arms, "--domain", domain, *own, store=settings.store))

    def trained(self, report: TrainReport) -> None:
        self.print_end(report.run, train_end(report))


def _update_words(lines: Sequence[UpdateLine]) -> str:
    """The means of several updates."""
    mixed = _mean([one.mixed for one in lines]) or 0.0
    entropy, clipped = (_mean([getattr(one, name) for one in lines]) for name in ("entropy", "clipped"))
    parts = [
        f"reward {score_words(_mean([one.reward for one in lines]))}",
        f"{mixed:.0%} of tasks with different rewards",
    ]
    if entropy is not None:
        parts.append(f"entropy {entropy:.3f}")
    teacher, length = (_mean([getattr(one, name) for one in lines]) for name in ("teacher", "answer_tokens"))
    if teacher is not None:
        parts.append(f"{teacher:.3f} nats from the teacher")
    if length is not None:
        parts.append(f"answers of {length:.0f} tokens")
    if clipped is not None and teacher is None:
        parts.append(f"clipped {clipped:.1%}")
    parts.append(f"{sum(one.tokens for one in lines):,} tokens")
    return "   ".join(parts)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return sum(known) / len(known) if known else None
