"""The results of the real runs as typed values, and as a table."""

from collections.abc import Sequence

from agentlearn.pages.terminal import parts_of_table
from agentlearn.types.value import Value


class TrainingRun(Value):
    """One training with one seed."""

    task: str
    seed: int
    weights: str
    """Folder of the adapter."""
    curve: tuple[float, ...]
    """Mean reward of the rollouts of each update, as trained, in 0..1."""
    wall_s: float
    cpu_s: float
    """CPU time of the process and its children, in seconds."""
    sampling_s: float = 0.0
    updating_s: float = 0.0
    trainer: str = "agentlearn"
    """`agentlearn` or `trl`."""


class Change(Value):
    """A score before and after, and the difference with its 95 % interval; None where it cannot be computed."""

    name: str
    before: float
    after: float
    mean: float | None
    low: float | None
    high: float | None
    by_seed: tuple[float, ...] = ()
    """The score after training, of each seed."""
    wall_s: float = 0.0

    @property
    def words(self) -> str:
        """The difference in words, such as `+0.31 [+0.12, +0.50]`."""
        if self.mean is None:
            return "unknown"
        interval = "" if self.low is None or self.high is None else f" [{self.low:+.2f}, {self.high:+.2f}]"
        return f"{self.mean:+.2f}{interval}"

    @property
    def gains(self) -> bool:
        """Whether the whole interval is above 0."""
        return self.low is not None and self.low > 0


class TaskLine(Value):
    """What training on one kind of task changed."""

    task: str
    what: str
    gain: Change
    """On held-out tasks of this kind."""
    check: Change
    """On the tasks that no run trains."""
    trainer: str = "agentlearn"


class LessonsLine(Value):
    """What lessons, and weights that lessons were distilled into, changed."""

    task: str
    changes: tuple[Change, ...]
    notes: tuple[str, ...]


class OtherKind(Value):
    """What distilling lessons for one kind of task into weights did to the kind that they had learned before."""

    lessons_for: str
    task: str
    change: Change
    """On further held-out problems of the other kind."""
    margin: float
    verdict: str
    """Of the comparison, with non-inferiority by the margin."""

    @property
    def words(self) -> str:
        """One sentence."""
        change = self.change
        interval = "" if change.low is None or change.high is None else f" [{change.low:+.3f}, {change.high:+.3f}]"
        mean = "unknown" if change.mean is None else f"{change.mean:+.3f}"
        return (
            f"the person's lessons for {self.lessons_for}, distilled into weights that were trained on {self.task}:"
            f" {self.task} {change.before:.3f} → {change.after:.3f}, {mean}{interval},"
            f" {self.verdict.replace('_', ' ')} (margin {self.margin:g})"
        )


class RealResults(Value):
    """Everything that one call of `just real` measured."""

    model: str
    cores: int
    seeds: int
    k: int
    lines: tuple[TaskLine, ...]
    runs: tuple[TrainingRun, ...]
    lessons: LessonsLine | None
    other_kind: OtherKind | None
    wall_s: float

    def runs_of(self, line: TaskLine) -> list[TrainingRun]:
        """Return the trainings that a line of the table measures."""
        return [one for one in self.runs if (one.task, one.trainer) == (line.task, line.trainer)]


def as_text(found: RealResults) -> str:
    """Return the table."""
    head = (
        "task",
        "trainer",
        "updates",
        "before",
        "after",
        "gain",
        "check",
        "reward while training",
        "wall s",
        "CPU s",
    )
    rows = [head, *(_cells(line, found.runs_of(line)) for line in found.lines)]
    own = [line for line in found.lines if line.trainer == "agentlearn"]
    gains = sum(line.gain.gains for line in own)
    title = (
        f"{found.model}, {found.seeds} seeds, {found.k} rollouts per held-out task,"
        f" {found.cores} cores, {found.wall_s / 60:.0f} minutes"
    )
    said = [
        title,
        *next(parts_of_table(rows)),
        f"{gains} of {len(own)} kinds of tasks gain with an interval above 0",
    ]
    if found.lessons is not None:
        said += ["", f"lessons on {found.lessons.task}: {'; '.join(found.lessons.notes)}"]
    if found.lessons is not None and found.lessons.changes:
        changes = [(one.name, f"{one.before:.2f}", f"{one.after:.2f}", one.words) for one in found.lessons.changes]
        said += next(parts_of_table([("arm", "none", "with it", "difference"), *changes]))
    if found.other_kind is not None:
        said += ["", found.other_kind.words]
    return "\n".join(said)


def _cells(line: TaskLine, runs: Sequence[TrainingRun]) -> tuple[str, ...]:
    first = sum(run.curve[0] for run in runs) / len(runs)
    last = sum(run.curve[-1] for run in runs) / len(runs)
    return (
        line.task,
        line.trainer,
        str(len(runs[0].curve)),
        f"{line.gain.before:.2f}",
        f"{line.gain.after:.2f}",
        line.gain.words,
        line.check.words,
        f"{first:.2f} → {last:.2f}",
        f"{sum(run.wall_s for run in runs):.0f}",
        f"{sum(run.cpu_s for run in runs):.0f}",
    )
