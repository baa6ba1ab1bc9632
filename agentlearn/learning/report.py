"""The report of a run that learned lessons; its fields are the JSON output of `learn --json`."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal

from pydantic import Field

from agentlearn.errors import ConfigError
from agentlearn.learning.plan import PilotReport
from agentlearn.library.curate import EndCounts
from agentlearn.measure.contrast import ContrastVerdict, Pass, Worst
from agentlearn.models.service_record import ServiceRecord
from agentlearn.types.experience import Library
from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId, RunId
from agentlearn.types.operation import Applied, Ended
from agentlearn.types.value import Value

FIRST_LESSONS = 5
"""Lessons that the end of a run and the top of its page show."""


class HeldOutScore(Value):
    """Mean reward over held-out tasks. Failed rollouts count as 0; undecided ones are left out, before and after."""

    mean: float | None
    ci: tuple[float, float] | None
    """95 % interval over families of tasks; None with fewer than two."""
    n: int
    """Number of held-out tasks that are counted."""
    k: int
    """Rollouts per task."""
    passes: tuple[Pass, ...] = ()
    """pass@k and pass^k; empty unless every reward is 0 or 1."""
    rollouts: int = 0
    """Number of rollouts, with failed and undecided ones."""
    failed: int = 0
    """Rollouts in which the agent gave no usable answer."""
    undecided: int = 0
    """Rollouts of which nothing is known, because the verifier, a service or a tool failed."""
    errors: dict[str, int] = Field(default_factory=dict[str, int])
    """Number of failed and undecided rollouts by error code."""


class CurvePoint(Value):
    """One measurement during a run."""

    updates: int
    """Number of updates before the measurement."""
    held_out: HeldOutScore


class Delta(Value):
    """Paired difference, after minus before, over the same tasks and seeds, as `compare` computes it."""

    mean: float | None
    ci: tuple[float, float] | None
    """95 % interval over families of tasks; None with fewer than two."""
    p: float | None
    """Two-sided p-value of a sign-flip permutation test over families."""
    p_mean: float | None = None
    """Two-sided p-value of the test of the mean. A verdict needs both tests."""
    n: int
    """Number of tasks."""
    clusters: int = 0
    """Number of families; a task without a family is its own."""
    only_family: str = ""
    """The family of all tasks. The result then holds for tasks of this family only. Empty when there are several."""
    worst: Worst | None = None
    """Bounds of the difference, whatever the undecided rollouts would have been."""
    verdict: ContrastVerdict = "cannot_tell"
    withheld: str = ""
    """Why there is no verdict although there are numbers; empty when nothing prevents one."""
    left_open: str = ""
    """What undecided rollouts leave open, when that is more than the interval shows; see `Contrast.left_open`."""
    caution: str = ""
    """Why the interval may be too narrow."""
    carried: str = ""
    """What the result hangs on; see `Contrast.carried`."""
    sentence: str = ""
    """The result in one sentence."""
    compared: bool = True
    """Whether two measurements were compared. False when learning changed nothing, so that there is only one."""

    @property
    def uncertain(self) -> bool:
        """Whether the interval leaves out 0 and the tests together do not suffice for a verdict."""
        return self.verdict == "cannot_tell" and self.ci is not None and (self.ci[0] > 0 or self.ci[1] < 0)


class HeldOut(Value):
    """Before against after on one set of held-out tasks."""

    name: str = ""
    """The test set, or which part of the held-out tasks it is; empty for all of them."""
    before: HeldOutScore
    after: HeldOutScore
    delta: Delta
    families: int
    """Number of task families."""


class LibraryLine(Value):
    """The resulting library."""

    name: str
    version: LibraryVersion
    parent: LibraryVersion | None
    lessons: int
    tokens: int
    current: LibraryVersion | None = None
    """The version that the name stands for at the end of the run; None when there is no library of that name. When it
    is not `version`, the run did not write its library."""
    document: str = Field(default="", exclude_if=lambda name: not name)
    """What the library is as a document; see `Library.document`. Empty for lessons."""

    @property
    def reference(self) -> str:
        """Reference for `LibraryStore.load`, `Experiences` and the command line: `NAME@VERSION`."""
        return f"{self.name}@{self.version[:12]}"


Role = Literal["start", "empty", "candidate", "finalist", "selected"]


class VersionLine(Value):
    """One version of the library during a run, with the evidence about it."""

    version: LibraryVersion
    parent: LibraryVersion | None
    updates: int
    """Number of updates before it; 0 for the library at the start and for the empty one."""
    lessons: int
    tokens: int
    rollouts: int = 0
    """Judged rollouts to learn from that were shown it."""
    reward: float | None = None
    """Their mean reward; None without rollouts. Versions met different tasks, so do not compare these means."""
    estimate: float | None = None
    """Estimated difference to the start on the same tasks; None when nothing is known."""
    ci: tuple[float, float] | None = None
    """95 % interval of the estimate."""
    validation: HeldOutScore | None = None
    """Its score on the validation tasks; None for a version that was not compared there."""
    role: Role = "candidate"


class LessonWorth(Value):
    """What one lesson of a version is worth by itself."""

    lesson: ExperienceId
    delta: Delta
    """The version with the lesson minus the same version without it, on the same tasks and seeds."""


class LearnedLesson(Value):
    """A lesson of the selected version, and how much of this run it rests on."""

    id: ExperienceId
    lesson: str
    rollouts: int
    """Number of the run's rollouts that the proposals for it were made from; 0 for a lesson that was there before."""

    @classmethod
    def of(cls, library: Library, ended: Iterable[Ended]) -> "tuple[LearnedLesson, ...]":
        """Return the lessons of a library, those that rest on the most rollouts first."""
        rests_on = defaultdict[ExperienceId, set[RolloutId]](set)
        for one in ended:
            if isinstance(one.end, Applied) and one.end.experience is not None:
                rests_on[one.end.experience].update(one.proposal.evidence)
        found = (cls(id=one.id, lesson=one.lesson, rollouts=len(rests_on[one.id])) for one in library.experiences)
        return tuple(sorted(found, key=lambda one: -one.rollouts))


class SelectedVersion(Value):
    """Which version a run selected, and whether it was published."""

    selected: LibraryVersion
    last: LibraryVersion
    """The last version that the updates made."""
    basis: Literal["validation", "rollouts", "last"]
    """validation: the finalists were compared on validation tasks; rollouts: the rollouts to learn from decided; last:
    the last version was taken, because only it could be, or by the setting `select`."""
    tasks: int = 0
    """Validation tasks."""
    learned_from: bool = False
    """Whether they are the tasks learned from, because there were no others."""
    rollouts: int = 0
    """Rollouts on validation tasks, of all finalists together."""
    delta: Delta | None = None
    """The selected version minus the start on the validation tasks; None when they were not compared."""
    alone: tuple[LessonWorth, ...] = ()
    """Lessons that strangers could have shaped, each measured by itself on validation tasks."""
    status: Literal["published", "pending", "unchanged"]
    """pending: the version is stored but has no name; a person decides. unchanged: the start was selected."""
    reason: str
    """Why, in one sentence."""
    command: str = ""
    """The command that publishes a pending version."""


class Allocated(Value):
    """Rollouts to learn from: how many were planned, and how many were made."""

    planned: int = 0
    """Tasks times G times epochs; 0 in a run over stored rollouts."""
    drawn: int = 0
    """Rollouts that were made: the planned ones without the saved ones and without G for each skipped visit."""
    stopped: int = 0
    """Groups that stopped early: their first rollouts differed, or were all right."""
    saved: int = 0
    """Rollouts that these groups did not need."""
    skipped: int = 0
    """Visits to tasks that were left out because the task was all right when last seen."""


class Taught(Value):
    """Groups by what the model that writes lessons learned from, summed over the epochs."""

    mixed: int = 0
    """Groups whose rewards differ: their attempts were compared."""
    all_wrong: int = 0
    """Groups without a right attempt where a reason or the expected answer said what was wanted."""
    single: int = 0
    """The same, with a single attempt."""
    skipped: dict[str, int] = Field(default_factory=dict[str, int])
    """Groups that taught nothing. all_right: every attempt was right; nothing: all were equally wrong, and nothing said
    what was wanted; not_wanted: all were wrong, and the settings leave such groups out; seldom_asked: persons refused
    most lessons of a source of theirs; undecided: none was judged; failed: the agent answered in none."""

    @classmethod
    def of(cls, uses: Mapping[str, int]) -> "Taught":
        """Return the counts of groups by `GroupUse`."""
        taught = {name: uses.get(name, 0) for name in ("mixed", "all_wrong", "single")}
        skipped = {name: number for name in _SKIPPED if (number := uses.get(name, 0))}
        return cls(**taught, skipped=skipped)

    @property
    def groups(self) -> int:
        """Number of groups that taught."""
        return self.mixed + self.all_wrong + self.single

    @property
    def words(self) -> str:
        """The counts as one line."""
        single = "single wrong attempt" if self.single == 1 else "single wrong attempts"
        counts = {"mixed": self.mixed, "always wrong": self.all_wrong, single: self.single}
        told = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
        rest = ", ".join(f"{number} {_SKIPPED[name]}" for name, number in self.skipped.items())
        return f"{told or 'nothing'}{f'; skipped: {rest}' if rest else ''}"


_SKIPPED = {
    "all_right": "always right",
    "nothing": "wrong with nothing to learn from",
    "not_wanted": "always wrong (--all-wrong skip)",
    "seldom_asked": "of a source whose lessons are mostly refused (--min-acceptance)",
    "undecided": "undecided",
    "failed": "without an answer",
}


class StageLine(Value):
    """Calls, tokens and cost of one stage."""

    calls: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    """Input tokens that the service had cached; they are part of `tokens_in`."""
    tokens_out: int = 0
    cost_usd: float | None = 0.0
    """None when the model's price is unknown."""
    seconds: float = 0.0
    """Sum of the durations of its calls."""
    retried: int = 0
    """Requests that were sent again."""
    replayed: int = 0
    """Calls that a resumed run took from the journal."""
    malformed: dict[str, int] = Field(default_factory=dict[str, int])
    """Malformed replies and failed units of work, by error code."""


class EpochLine(Value):
    """One pass over the tasks."""

    epoch: int
    """Number of the epoch, from 1."""
    reward: float | None
    """Mean reward; None when no rollout was judged."""
    groups: dict[str, int]
    """Groups by kind."""
    taught_wrong: int = 0
    """Groups without a right attempt that taught."""
    lessons: int
    """Lessons in the library at the end of the epoch."""
    applied: int
    folded: int
    dropped: int
    rejected: int
    quarantined: int = 0
    """Proposals that wait for a person."""
    seconds: float
    skipped: int = 0
    """Tasks that were left out because they were all right when last seen."""
    drawn: int = 0
    """Rollouts that were made; 0 in a run over stored rollouts."""


class WeightsRecord(Value):
    """Which model answered, and whether its weights changed."""

    identity: str
    """The endpoint, and the model names that its answers reported."""
    sha256_before: str | None = None
    sha256_after: str | None = None
    note: str = ""


class LearnReport(Value):
    """Report of a finished run."""

    run: RunId
    domain: str
    model: str
    reflector: str
    simulated: bool
    seed: int
    tasks: dict[str, int]
    before: HeldOutScore | None
    after: HeldOutScore | None
    delta: Delta | None
    known_families: HeldOut | None
    """New tasks of families that were learned from."""
    unseen_families: HeldOut | None
    """Tasks of families that were not learned from."""
    test_sets: tuple[HeldOut, ...] = ()
    """One entry per test set, when there are several."""
    library: LibraryLine
    proposals: EndCounts
    """What became of the proposals."""
    groups: dict[str, int]
    taught: Taught = Taught()
    rollouts: dict[str, int]
    stages: dict[str, StageLine]
    failed_requests: dict[str, int]
    """Requests that got no answer, by kind of failure; most succeeded when sent again."""
    services: tuple[ServiceRecord, ...] = ()
    """How each model service behaved: outages, cut-off replies, models that answered."""
    epochs: tuple[EpochLine, ...]
    lessons: tuple[LearnedLesson, ...] = ()
    """The lessons of the selected version, those that rest on the most rollouts first."""
    allocated: Allocated = Allocated()
    versions: tuple[VersionLine, ...] = ()
    """Every version of the library in this run, in the order in which they were made."""
    selection: SelectedVersion | None = None
    """Which version was selected; None in the report of a pilot."""
    curve: tuple[CurvePoint, ...] = ()
    """Held-out scores during learning; empty unless `eval_every` is set."""
    weights: WeightsRecord
    pilot: PilotReport | None = None
    """What a pilot measured, and the estimate for the whole run; None for a whole run."""
    cost_usd: float | None
    wall_s: float
    notes: tuple[str, ...]

    @cached_property
    def learned(self) -> Library:
        """The library itself, with its lessons. Raises ConfigError for a report read from a file or a store."""
        raise ConfigError(
            "this report was read from a file or a store, which hold no lessons; load them with"
            f" LibraryStore('.agentlearn/libraries').load({self.library.reference!r})"
        )

    def with_learned(self, library: Library) -> "LearnReport":
        """Return the report with the library as `learned`. It is not part of the JSON or of equality."""
        report = self.model_copy()
        vars(report)["learned"] = library
        return report

    def __str__(self) -> str:
        from agentlearn.pages.notebook import report_text

        return report_text(self)

    def __repr__(self) -> str:
        means = [None if one is None else one.mean for one in (self.before, self.after)]
        return (
            f"LearnReport(run={self.run!r}, domain={self.domain!r}, model={self.model!r}, before={means[0]},"
            f" after={means[1]}, library={self.library.reference!r})"
        )

    def _repr_html_(self) -> str:
        from agentlearn.pages.notebook import report_html

        return report_html(self)
