"""The result of `hybrid`: the JSON of `hybrid --json`, which the printed lines are made from."""

from typing import Literal

from agentlearn.measure.contrast import ContrastVerdict
from agentlearn.types.ids import ExperienceId, LibraryVersion, RunId
from agentlearn.types.value import Value

RemovalState = Literal["proposed", "needed", "unclear"]
"""What is known of a lesson's removal. proposed: it is shown to be not worse than the margin. needed: it is shown to
be worse. unclear: neither."""
HybridEnd = Literal["", "done", "nothing_learned", "not_published"]
"""How a run ended: after all rounds, without new lessons, or without weights. Empty: not yet."""


class StageContrast(Value):
    """One arm compared with another: what the comparison of a stage found."""

    arm: str
    baseline: str
    run: RunId
    """The comparison."""
    mean: float | None
    """Arm minus baseline."""
    low: float | None
    """Lower end of the 95 % interval."""
    high: float | None
    """Upper end of the 95 % interval."""
    verdict: ContrastVerdict
    sentence: str
    """The verdict with its numbers and cautions, in words."""


class LearnedStage(Value):
    """What the stage learn made."""

    run: RunId
    reference: str
    """The library, as NAME@VERSION."""
    version: LibraryVersion
    lessons: int
    tokens: int
    """Estimated tokens of all lessons."""
    simulated: bool
    """Whether a simulated model wrote the lessons, or solved the tasks."""
    published: bool
    """Whether there are lessons to distil that the round did not start with."""
    reason: str
    """Why they were selected, or why not, in words."""


class TrainedStage(Value):
    """What the stage train made."""

    run: RunId
    weights: str
    """Folder of the weights; those of a checkpoint when they were not published."""
    sha256: str
    published: bool
    worse_on: str = "held-out tasks"
    """The tasks that got worse when they were not published, in words."""
    before: float | None
    """Mean score on held-out tasks before training, without lessons."""
    after: float | None
    """Mean score on held-out tasks after training, without lessons."""


class HybridArm(Value):
    """The results of one arm of a round."""

    arm: str
    score: float | None
    low: float | None
    """Lower end of the 95 % interval."""
    high: float | None
    """Upper end of the 95 % interval."""
    rollouts: int
    failed: int
    """Rollouts without a usable answer; they count as 0."""
    undecided: int
    """Rollouts of which nothing is known; they are left out."""
    calls: int
    """Model calls of all rollouts."""
    tokens_in_per_call: float | None
    tokens_out_per_call: float | None


class ComparedStage(Value):
    """What the stage compare found."""

    runs: tuple[RunId, ...]
    arms: tuple[HybridArm, ...]
    contrasts: tuple[StageContrast, ...]
    """Every arm against `none`, and `distilled` against `lessons`."""
    kept: float | None
    """Share of the lessons' gain that the weights keep without lessons: the gain of `distilled` over `none` divided by
    the gain of `lessons` over `none`. None when no gain of the lessons is shown. It has no interval of its own."""

    def arm(self, name: str) -> HybridArm | None:
        """Return the arm of that name."""
        return next((one for one in self.arms if one.arm == name), None)


class LessonRemoval(Value):
    """What the trained model loses without one lesson, while it reads the others."""

    lesson: ExperienceId
    text: str
    tokens: int
    """Estimated tokens that the lesson takes in every call."""
    state: RemovalState
    contrast: StageContrast
    caution: str = ""
    """Why the margin test that proposes the lesson is not a verdict; empty when it is one."""


class PruningStage(Value):
    """Which lessons the trained model no longer needs."""

    runs: tuple[RunId, ...]
    removals: tuple[LessonRemoval, ...]
    not_measured: int
    """Lessons whose removal was not measured."""
    tokens_saved: int
    """Estimated tokens that every call saves when all proposed lessons are parked."""
    together: StageContrast | None
    """All proposed lessons removed at once, against none of them removed. None without a proposal."""
    together_shown: bool
    """Whether removing all of them at once is shown to be not worse, by the same rule as for a single lesson."""
    together_caution: str = ""
    parked: bool = False
    """Whether the next round starts without them."""

    @property
    def proposed(self) -> tuple[LessonRemoval, ...]:
        """The lessons that are proposed for parking."""
        return tuple(one for one in self.removals if one.state == "proposed")


class HybridRound(Value):
    """One round. A stage that was not reached is None."""

    number: int
    model: str
    """The model at the start of the round: a folder, a fetched model or lab:NAME."""
    start: str | None
    """The library at the start of the round, as NAME@VERSION; None: the one that the recipe names, or none."""
    learned: LearnedStage | None = None
    trained: TrainedStage | None = None
    compared: ComparedStage | None = None
    pruning: PruningStage | None = None


class HybridReport(Value):
    """The result of a run, or of the stages that are done so far."""

    run: RunId
    domain: str
    model: str
    margin: float
    seed: int
    rounds: tuple[HybridRound, ...] = ()
    ended: HybridEnd = ""
    sentences: tuple[str, ...] = ()
    """What was found, and what to do next, in sentences."""
    wall_s: float = 0.0
    """Seconds that the stages took in the latest start of the run."""
