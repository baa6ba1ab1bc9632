"""The results of the real runs as typed values, and as a table."""

from agentlearn.cli.table import aligned
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
    sampling_s: float
    updating_s: float


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


class LessonsLine(Value):
    """What lessons, and weights that lessons were distilled into, changed."""

    task: str
    changes: tuple[Change, ...]
    notes: tuple[str, ...]


class RealResults(Value):
    """Everything that one call of `just real` measured."""

    model: str
    cores: int
    seeds: int
    updates: int
    k: int
    lines: tuple[TaskLine, ...]
    runs: tuple[TrainingRun, ...]
    lessons: LessonsLine | None
    wall_s: float


def as_text(found: RealResults) -> str:
    """Return the table."""
    head = ("task", "before", "after", "gain", "check", "reward while training", "wall s", "CPU s")
    rows = [head, *(_cells(line, [run for run in found.runs if run.task == line.task]) for line in found.lines)]
    gains = sum(line.gain.gains for line in found.lines)
    title = (
        f"{found.model}, {found.seeds} seeds, {found.updates} updates each, {found.k} rollouts per held-out task,"
        f" {found.cores} cores, {found.wall_s / 60:.0f} minutes"
    )
    said = [
        title,
        *aligned(rows),
        f"{gains} of {len(found.lines)} kinds of tasks gain with an interval above 0",
    ]
    if found.lessons is not None:
        said += ["", f"lessons on {found.lessons.task}: {'; '.join(found.lessons.notes)}"]
    if found.lessons is not None and found.lessons.changes:
        said += list(
            aligned(
                [
                    ("arm", "none", "with it", "difference"),
                    *((one.name, f"{one.before:.2f}", f"{one.after:.2f}", one.words) for one in found.lessons.changes),
                ]
            )
        )
    return "\n".join(said)


def _cells(line: TaskLine, runs: list[TrainingRun]) -> tuple[str, ...]:
    first = sum(run.curve[0] for run in runs) / len(runs)
    last = sum(run.curve[-1] for run in runs) / len(runs)
    return (
        line.task,
        f"{line.gain.before:.2f}",
        f"{line.gain.after:.2f}",
        line.gain.words,
        line.check.words,
        f"{first:.2f} → {last:.2f}",
        f"{sum(run.wall_s for run in runs):.0f}",
        f"{sum(run.cpu_s for run in runs):.0f}",
    )
